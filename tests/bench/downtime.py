# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The downtime that a reinstall costs beyond the model's own load, against reinstalling in place.

The host of the `incident` scenario: a real systemd and a real vLLM. Both start from the same dirty, serving state, in
turn. In place: stop, uv reinstalls every row of the lock from the local wheelhouse into the environment that served
(no download, which the operator of the incident also waited for), the keys that SM120 cannot take leave the model's
configuration, start. Both end with a completion.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ansible_collections.pristine.vllm.tests.bench.support import ROOT, BenchError, Entry, entry

INVENTORY = ROOT / "molecule" / "inventory" / "incident"
RUNS = 3
#: The most seconds beyond the model's load that a reinstall may cost.
LIMIT_SECONDS = 3.0
IN_FLIGHT = 8
_UNPACK_UV = """
import glob, os, zipfile
wheel = zipfile.ZipFile(glob.glob("/opt/vllm/wheels/uv-*.whl")[0])
name = next(name for name in wheel.namelist() if name.endswith(".data/scripts/uv"))
open("/tmp/uv", "wb").write(wheel.read(name))
os.chmod("/tmp/uv", 0o755)
"""
# No cache: what lies in uv's cache is what the drift was written into (uv hard-links), and would come back.
_IN_PLACE = (
    "/tmp/uv pip install --quiet --offline --no-index --no-cache --no-config --no-deps --reinstall --link-mode copy "
    "--python /opt/vllm/current/bin/python --find-links /opt/vllm/wheels --require-hashes -r /opt/vllm/lock.txt"
)
_EDIT_MODEL = (ROOT / "tests/fixtures/incident/edit_model.py").read_text(encoding="utf-8")


@dataclass
class Host:
    """The container and the service in it."""

    container: str
    url: str
    model: str
    model_path: str
    unit: str

    def run(self, *words: str) -> str:
        """Run a command in the container.

        :raises BenchError: it failed.
        """
        done = subprocess.run(["docker", "exec", self.container, *words], check=False, capture_output=True, text=True)
        if done.returncode:
            raise BenchError(f"{' '.join(words)} ended with {done.returncode}: {done.stderr[-1000:]}")
        return done.stdout

    def complete(self, max_tokens: int = 4, timeout: float = 120.0) -> str:
        """A completion.

        :raises OSError: there is none.
        """
        asked = {"model": self.model, "prompt": "The", "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True}
        request = urllib.request.Request(
            f"{self.url}/v1/completions", json.dumps(asked).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            text: str = json.load(answer)["choices"][0]["text"]
        return text

    def wait_for_completion(self, patience: float = 600.0) -> None:
        """
        :raises BenchError: none came, or the service ended.
        """
        until = time.monotonic() + patience
        while time.monotonic() < until and self.run("systemctl", "show", "-P", "NRestarts", self.unit).strip() == "0":
            try:
                self.complete()
            except OSError:
                time.sleep(0.1)
            else:
                return
        told = self.run("journalctl", "--no-pager", "-n", "40", "-o", "cat", "-u", self.unit)
        raise BenchError(f"{self.url} answers no completion, and {self.unit} has said:\n{told}")


@dataclass
class Burst:
    """Requests that are in flight when the drain begins, and how many of them were answered."""

    host: Host
    answered: int = 0
    failed: list[str] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    def send(self) -> None:
        self._threads = [threading.Thread(target=self._one) for _number in range(IN_FLIGHT)]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _one(self) -> None:
        try:
            self.host.complete(max_tokens=100)
            self.answered += 1
        except OSError as error:
            self.failed.append(str(error))


def play(*words: str) -> Iterator[str]:
    """Run a playbook on the incident's inventory; its lines as they come.

    :raises BenchError: it failed.
    """
    command = ["ansible-playbook", "-i", str(INVENTORY), *words]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []
    for line in process.stdout or ():
        lines.append(line)
        yield line
    if process.wait():
        raise BenchError(f"{' '.join(command)} failed:\n{''.join(lines[-40:])}")


def run_play(*words: str) -> None:
    """
    :raises BenchError: it failed.
    """
    for _line in play(*words):
        pass


@contextmanager
def incident_host() -> Iterator[Host]:
    """The host as the incident found it; removed at the end, whatever that is."""
    run_play("molecule/shared/destroy.yml")
    try:
        yield _made()
    finally:
        run_play("molecule/shared/destroy.yml")


def _made() -> Host:
    for playbook in ("molecule/shared/create.yml", "molecule/incident/prepare.yml"):
        run_play(playbook)
    listed = subprocess.run(
        ["ansible-inventory", "-i", str(INVENTORY), "--list"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    inventory = json.loads(listed.stdout)
    facts = inventory["_meta"]["hostvars"][inventory["vllm_hosts"]["hosts"][0]]
    host = Host(
        container=facts["ansible_host"],
        url=f"http://{facts['container_ip']}:{facts.get('vllm_port', 8000)}",
        model=facts["vllm_served_model_name"],
        model_path=facts["vllm_model_path"],
        unit=facts.get("vllm_unit", "vllm-kimi-k25"),
    )
    host.run("python3", "-c", _UNPACK_UV)
    return host


def make_dirty() -> None:
    """The same start state for both: dirty and serving."""
    model = ROOT / ".cache" / "real" / "model"
    run_play("tests/fixtures/incident/dirty.yml", "-e", json.dumps({"incident_model": str(model)}))


def in_place(host: Host) -> tuple[float, float]:
    """The incident's way: seconds of downtime beyond the load, and of the load."""
    began = time.monotonic()
    host.run("systemctl", "stop", host.unit)
    host.run("sh", "-c", _IN_PLACE)
    host.run("python3", "-c", _EDIT_MODEL, host.model_path)
    started = time.monotonic()
    host.run("systemctl", "start", host.unit)
    host.wait_for_completion()
    return started - began, time.monotonic() - started


def reinstall(host: Host) -> tuple[float, float, Burst]:
    """Ours: the same two, as the host's journal of the switchover has them, and what became of requests in flight."""
    burst = Burst(host)
    for line in play("pristine.vllm.reinstall"):
        if "Report phase 4" in line:
            burst.send()
    burst.join()
    newest = host.run("sh", "-c", "cat $(ls -td /opt/vllm/switchover/*/ | head -1)journal.json")
    journal = json.loads(newest)
    return journal["downtime_seconds"] - journal["load_seconds"], journal["load_seconds"], burst


def measure() -> list[Entry]:
    """The rows of this bench.

    :raises BenchError: a run failed, or a request in flight was lost.
    """
    theirs, ours, loads, answered = [], [], [], 0
    with incident_host() as host:
        for number in range(RUNS):
            print(f"  run {number + 1} of {RUNS}", file=sys.stderr, flush=True)
            if number:
                make_dirty()
            beyond, load, burst = reinstall(host)
            if burst.failed:
                raise BenchError(f"{len(burst.failed)} of {IN_FLIGHT} requests in flight were lost: {burst.failed[0]}")
            answered += burst.answered
            ours.append(beyond)
            loads.append(load)
            make_dirty()
            theirs.append(in_place(host)[0])
    mine = statistics.median(ours)
    told = f"the model's load ({statistics.median(loads):.1f} s) left out; "
    told += f"{answered} of {RUNS * IN_FLIGHT} requests in flight answered"
    return [
        {
            **entry("downtime_vs_in_place", mine, statistics.median(theirs), "s", RUNS),
            "comparator": "stop, uv pip install --reinstall in place, start",
            "of": told,
        },
        {**entry("downtime_beyond_load", mine, LIMIT_SECONDS, "s", RUNS), "comparator": "the limit"},
    ]
