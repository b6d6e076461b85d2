# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drift scan costs those whom the service serves: completions while the host scans, against while it does not.

The host of the `incident` scenario: a real vLLM that computes on the very cores that the scan uses. Rounds alternate;
in each, clients ask for completions one after the other. The scan is the one of the drift watch, every file against
its wheel, in the background as the role has it and under what the unit of its timer says of priority. It starts anew as
soon as it ends.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ansible_collections.pristine.vllm.tests.bench.downtime import Host, incident_host
from ansible_collections.pristine.vllm.tests.bench.support import ROOT, BenchError, Entry, entry

ROUNDS = 6
SECONDS = 40.0
CLIENTS = 2
MAX_TOKENS = 16
UNIT = "pristine-vllm-bench-scan"
UNIT_FILE = ROOT / "roles" / "drift_watch" / "templates" / "drift.service.j2"
PRIORITY = tuple(re.findall(r"^(?:Nice|CPU\w+|IO\w+)=.*", UNIT_FILE.read_text(), re.MULTILINE))
_FOLDER = "/opt/bench"
_PACKAGE = f"{_FOLDER}/ansible_collections/pristine/vllm/plugins"
_COUNT = "/run/pristine-vllm-bench-scans"
_SCAN = f"""
import sys
sys.path.insert(0, {_FOLDER!r})
from ansible_collections.pristine.vllm.plugins.module_utils.priority import give_way
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import ScanOptions
from ansible_collections.pristine.vllm.plugins.module_utils.record.scan import scan
assert not give_way()
while True:
    scan(ScanOptions("/opt/vllm/current", wheels=["/opt/vllm/wheels"], lock="/opt/vllm/lock.txt", workers=1))
    with open({_COUNT!r}, "a") as stream:
        stream.write(".")
"""


@dataclass
class Round:
    """What the clients of one round saw."""

    seconds: list[float] = field(default_factory=list)
    """Of each completion, from the request to its end."""
    lasted: float = 0.0

    @property
    def p99(self) -> float:
        return statistics.quantiles(self.seconds, n=100)[98]

    @property
    def per_completion(self) -> float:
        """The throughput, the smaller the better."""
        return self.lasted / len(self.seconds)


def drive(host: Host) -> Round:
    """One round of completions.

    :raises BenchError: one failed.
    """
    seen, failed, began = Round(), list[str](), time.monotonic()

    def client() -> None:
        while not failed and time.monotonic() - began < SECONDS:
            asked = time.monotonic()
            try:
                host.complete(max_tokens=MAX_TOKENS)
            except OSError as error:
                failed.append(str(error))
            else:
                seen.seconds.append(time.monotonic() - asked)

    threads = [threading.Thread(target=client) for _number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen.lasted = time.monotonic() - began
    if failed:
        raise BenchError(f"a completion failed: {failed[0]}")
    return seen


def bring_scan(host: Host) -> None:
    """Put the collection's code on the host, and read every file once: what is measured is not a cold disk."""
    host.run("mkdir", "-p", _PACKAGE)
    source = ROOT / "plugins" / "module_utils"
    subprocess.run(["docker", "cp", str(source), f"{host.container}:{_PACKAGE}/"], check=True, capture_output=True)
    with scanning(host):
        scans(host, at_least=1)


@contextmanager
def scanning(host: Host) -> Iterator[None]:
    """The host scans, again and again."""
    properties = [word for name in PRIORITY for word in ("--property", name)]
    host.run("systemd-run", "--quiet", "--collect", "--unit", UNIT, *properties, "python3", "-c", _SCAN)
    try:
        yield
        # A scan that died would make for good numbers.
        host.run("systemctl", "is-active", UNIT)
    finally:
        subprocess.run(["docker", "exec", host.container, "systemctl", "stop", UNIT], check=False, capture_output=True)


def scans(host: Host, at_least: int = 0, patience: float = 300.0) -> int:
    """How many scans have ended so far, once there are that many.

    :raises BenchError: there are not.
    """
    until = time.monotonic() + patience
    while True:
        count = int(host.run("sh", "-c", f"touch {_COUNT}; stat -c %s {_COUNT}"))
        if count >= at_least:
            return count
        if time.monotonic() > until:
            raise BenchError(f"no scan ended in {patience:.0f} s: `docker exec {host.container} journalctl -u {UNIT}`")
        time.sleep(0.5)


def measure() -> list[Entry]:
    """The rows of this bench.

    :raises BenchError: a completion or a scan failed.
    """
    quiet, busy = list[Round](), list[Round]()
    with incident_host() as host:
        bring_scan(host)
        drive(host)
        before = scans(host)
        for number in range(ROUNDS):
            print(f"  round {number + 1} of {ROUNDS}", file=sys.stderr, flush=True)
            # Whichever comes first has no advantage.
            for scan in (False, True) if number % 2 else (True, False):
                if scan:
                    with scanning(host):
                        busy.append(drive(host))
                else:
                    quiet.append(drive(host))
        count = scans(host) - before
    if not count:
        raise BenchError(f"no scan ended in {ROUNDS} rounds of {SECONDS:.0f} s: there was nothing to measure")
    asked = sum(len(one.seconds) for one in busy + quiet)
    told = f"{asked} completions of {CLIENTS} clients, {count} whole scans meanwhile, {' '.join(PRIORITY)}"

    def row(name: str, value: str, runs: int = ROUNDS) -> Entry:
        ours, theirs = (statistics.median(getattr(one, value) for one in rounds) for rounds in (busy, quiet))
        return {**entry(name, ours, theirs, "s", runs), "comparator": "not scanning"}

    return [
        {**row("scan_effect_p99", "p99"), "of": told},
        {**row("scan_effect_throughput", "per_completion"), "of": "seconds per completion"},
    ]
