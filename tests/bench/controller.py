# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processor seconds of Ansible for one drift scan of a host: on a controller with a fleet, against on the host itself.

Ours is the controller's, user and system, of the whole process tree, for each of twenty hosts. Theirs is what a host
that pulls spends on its own `ansible-playbook`, scan included; the controller spends nothing then. Both scan the same
tiny environment, so that both are what Ansible costs rather than the hashing, which a host pays in either mode.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from ansible_collections.pristine.vllm.tests.bench.support import ROOT, BenchError, Entry, entry

INVENTORY = ROOT / "molecule" / "inventory" / "watch"
RUNS = 3
#: Hosts that pull, one after the other: each is alone on its machine.
PULLING = 3
PLAYBOOK = "pristine.vllm.drift"
#: What a host needs to run ansible-playbook, beside the standard library.
DISTRIBUTIONS = ("ansible-core", "jinja2", "markupsafe", "pyyaml", "packaging", "resolvelib", "cryptography", "cffi")
_PULL = """
import json, os, resource, subprocess, sys
own = {"PYTHONPATH": "/opt/bench/site", "ANSIBLE_COLLECTIONS_PATH": "/opt/bench", "LC_ALL": "C.UTF-8"}
command = [sys.executable, "-m", "ansible", "playbook", "-i", "/opt/bench/hosts.json", "pristine.vllm.drift"]
done = subprocess.run(command, env={**os.environ, **own}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"seconds": used.ru_utime + used.ru_stime, "code": done.returncode, "said": done.stdout[-2000:]}))
"""


def run(*words: str, **environment: str) -> str:
    """
    :raises BenchError: it failed.
    """
    done = subprocess.run(
        words,
        cwd=ROOT,
        env={**os.environ, **environment},
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise BenchError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


@contextmanager
def fleet() -> Iterator[dict[str, Any]]:
    """Twenty hosts that serve and are dirty, by name, each with its variables; removed at the end, whatever that is."""
    play = ("ansible-playbook", "-i", str(INVENTORY))
    run(*play, "molecule/shared/destroy.yml")
    try:
        run(*play, "molecule/shared/copies.yml")
        command = ["ansible-inventory", "-i", str(INVENTORY), "--list"]
        listed = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
        yield {name: listed["_meta"]["hostvars"][name] for name in listed["vllm_hosts"]["hosts"]}
    finally:
        run(*play, "molecule/shared/destroy.yml")


def controller_seconds() -> float:
    """Of one scan of the whole fleet: ansible-playbook and every process that it waited for.

    :raises BenchError: a scan found no drift, or failed.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Instead of the callback of this checkout that keeps payloads: a controller has none.
    said = run(
        *("ansible-playbook", "-i", str(INVENTORY), "-e", "{drift_watch_fail_on: [scan_failed]}", PLAYBOOK),
        # Has no effect beside another that writes to the screen.
        ANSIBLE_CALLBACKS_ENABLED="ansible.builtin.minimal",
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if "deepseek_v2.py" not in said:
        raise BenchError(f"the scan did not find the drift:\n{said[-3000:]}")
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


def bring_ansible(container: str, variables: dict[str, Any]) -> None:
    """Put onto a host what it needs to pull: the controller's own Ansible, which is no other there, and the collection.

    :raises BenchError: it has another Python than the controller.
    """
    mine = f"{sys.version_info[0]}.{sys.version_info[1]}"
    own = run("docker", "exec", container, "python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
    if own != mine:
        raise BenchError(f"the hosts have Python {own} and this is {mine}: its packages do not run there")
    listed = {**variables, "ansible_connection": "local", "drift_watch_fail_on": ["scan_failed"]}
    with tempfile.TemporaryDirectory() as folder:
        bring_packages(Path(folder, "site"))
        collection = Path(folder, "ansible_collections/pristine/vllm")
        for part in ("plugins", "roles", "meta", "playbooks"):
            shutil.copytree(ROOT / part, collection / part)
        shutil.copy(ROOT / "galaxy.yml", collection)
        hosts = {"vllm_hosts": {"hosts": {variables["inventory_name"]: listed}}}
        Path(folder, "hosts.json").write_text(json.dumps(hosts), encoding="utf-8")
        run("docker", "exec", container, "mkdir", "-p", "/opt/bench")
        run("docker", "cp", f"{folder}/.", f"{container}:/opt/bench")


def bring_packages(site: Path) -> None:
    """Copy the distributions as they are installed beside this Python, without scripts."""
    for name in DISTRIBUTIONS:
        for file in metadata.files(name) or []:
            if ".." not in file.parts:
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(file.locate()), site / file)


def host_seconds(container: str) -> float:
    """Of one scan by the host itself.

    :raises BenchError: a scan found no drift, or failed.
    """
    told = json.loads(run("docker", "exec", container, "python3", "-c", _PULL))
    if told["code"] or "deepseek_v2.py" not in told["said"]:
        raise BenchError(f"the scan of {container} by itself ended with {told['code']}:\n{told['said']}")
    return float(told["seconds"])


def measure() -> list[Entry]:
    """The row of this bench.

    :raises BenchError: a scan failed.
    """
    with fleet() as hosts:
        pulling = list(hosts.items())[:PULLING]
        for name, variables in pulling:
            bring_ansible(variables["ansible_host"], {**variables, "inventory_name": name})
        # The first scan of a host has no cache and begins a history.
        controller_seconds()
        controlled, pulled = list[float](), list[float]()
        for number in range(RUNS):
            print(f"  run {number + 1} of {RUNS}", file=sys.stderr, flush=True)
            controlled.append(controller_seconds() / len(hosts))
            pulled += [host_seconds(variables["ansible_host"]) for _name, variables in pulling]
    told = f"{len(hosts)} hosts from one controller; when they pull, the controller spends 0 and each host this"
    return [
        {
            **entry("controller_seconds_per_host", statistics.median(controlled), statistics.median(pulled), "s", RUNS),
            "comparator": "a host that scans itself (pull)",
            "of": told,
        }
    ]
