# Copyright: Pristine vLLM maintainers (@pristine-vllm)
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Twelve dirty hosts, one of which cannot start the new release: a canary, then batches of 1, 3 and all."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

UNIT = "vllm-kimi-k25"
CANARY, BROKEN = "vllm07", "vllm03"
FIRST = {"vllm01"}
SAME_BATCH = {"vllm02", "vllm04"}
UNTOUCHED = {"vllm05", "vllm06", "vllm08", "vllm09", "vllm10", "vllm11", "vllm12"}
# What somebody left on one host: the unit starts from the release of that day, and from no other.
DROP_IN = f"/etc/systemd/system/{UNIT}.service.d/only-this-release.conf"
REFUSE = "[Service]\nExecStartPre=/usr/bin/test {live} -ef /opt/vllm/current\n"
# On a host, in one go.
LOOK = f"""
import glob, json, os, subprocess, sys, urllib.request
asked = {{"model": "kimi-k2.5", "prompt": "The", "max_tokens": 4, "temperature": 0}}
request = urllib.request.Request("http://127.0.0.1:8000/v1/completions", json.dumps(asked).encode())
with urllib.request.urlopen(request, timeout=60) as answer:
    text = json.load(answer)["choices"][0]["text"]
records = [json.load(open(path)) for path in sorted(glob.glob("/opt/vllm/records/*.json"))]
code = glob.glob("/opt/vllm/current/lib/python3*/site-packages/vllm/model_executor/models/deepseek_v2.py")[0]
print(json.dumps({{
    "text": text,
    "live": os.path.realpath("/opt/vllm/current"),
    "pid": subprocess.check_output(["systemctl", "show", "-P", "MainPID", "{UNIT}"], text=True).strip(),
    "dirty": "nomla" in open(code).read(),
    "releases": sorted(os.listdir("/opt/vllm/releases")),
    "outcomes": [record["outcome"] for record in records],
    "locked": os.path.exists("/run/pristine-vllm/run.json"),
}}))
"""


@dataclass(frozen=True)
class Fleet:
    """Its containers by name."""

    containers: dict[str, str]

    def run(self, host: str, *words: str, text: str = "") -> str:
        command = ["docker", "exec", "--interactive", self.containers[host], *words]
        return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout

    def look(self) -> dict[str, dict[str, Any]]:
        """Each host: what serves there, proven by a completion, and what a run left."""
        with ThreadPoolExecutor(4) as pool:
            told = pool.map(lambda host: self.run(host, "python3", "-I", "-c", LOOK), self.containers)
            return dict(zip(self.containers, map(json.loads, told)))


@pytest.fixture(scope="module")
def fleet(inventory: Path) -> Fleet:
    command = ["ansible-inventory", "-i", str(inventory), "--list"]
    listed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    hosts = listed["vllm_hosts"]["hosts"]
    return Fleet({host: listed["_meta"]["hostvars"][host]["ansible_host"] for host in hosts})


@pytest.fixture(scope="module")
def before(fleet: Fleet) -> dict[str, dict[str, Any]]:
    """Twelve hosts that serve and are dirty, one of them with the drop-in."""
    found = fleet.look()
    assert len(found) == 12
    assert all(told["text"] and told["dirty"] for told in found.values())
    fleet.run(BROKEN, "mkdir", "-p", str(Path(DROP_IN).parent))
    fleet.run(BROKEN, "tee", DROP_IN, text=REFUSE.format(live=found[BROKEN]["live"]))
    fleet.run(BROKEN, "systemctl", "daemon-reload")
    return found


@pytest.fixture(scope="module")
def stopped(playbook: Callable[..., Any], before: dict[str, dict[str, Any]]) -> Any:
    """The rollout that meets the broken host."""
    assert before
    return playbook("pristine.vllm.reinstall")


@pytest.fixture(scope="module")
def after(fleet: Fleet, stopped: Any) -> dict[str, dict[str, Any]]:
    assert stopped.code != 0
    return fleet.look()


def moved(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> set[str]:
    return {host for host, told in after.items() if told["live"] != before[host]["live"]}


def test_the_rollout_stops_where_it_is_set_to(stopped: Any) -> None:
    assert stopped.code == 2
    # Molecule has Ansible write in colours, line by line.
    plain = re.sub(r"\x1b\[[0-9;]*m", "", stopped.output)
    recap = dict(re.findall(r"^(vllm\d+) .*failed=(\d+)", plain, re.M))
    assert recap == {host: str(int(host == BROKEN)) for host in {CANARY, BROKEN} | FIRST | SAME_BATCH}
    said = re.sub(r"\s+", " ", plain)
    assert f"failed on {BROKEN}. The host is as it was" in said
    assert f"The rollout stops at {BROKEN}. Not begun, and as before: {', '.join(sorted(UNTOUCHED))}." in said


def test_all_twelve_serve(after: dict[str, dict[str, Any]]) -> None:
    assert len(after) == 12
    assert all(told["text"] for told in after.values())


def test_the_canary_and_what_came_before_have_the_new_release(
    before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]
) -> None:
    assert moved(before, after) == {CANARY} | FIRST | SAME_BATCH
    for host in moved(before, after):
        assert not after[host]["dirty"], host
        # A healthy host of the failed batch ends whole: recorded, and free for the next run.
        assert after[host]["outcomes"] == ["reinstalled"], host
        assert not after[host]["locked"], host


def test_the_broken_host_is_back_on_what_it_had(
    before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]
) -> None:
    assert after[BROKEN]["live"] == before[BROKEN]["live"]
    assert after[BROKEN]["pid"] != before[BROKEN]["pid"]
    assert after[BROKEN]["outcomes"] == ["rolled back"]
    assert not after[BROKEN]["locked"]


def test_nobody_came_to_the_others(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> None:
    assert {host for host in after if after[host] == before[host]} == UNTOUCHED


def test_the_next_run_takes_the_rest_and_leaves_alone_who_is_done(
    playbook: Callable[..., Any], fleet: Fleet, after: dict[str, dict[str, Any]]
) -> None:
    fleet.run(BROKEN, "rm", DROP_IN)
    fleet.run(BROKEN, "systemctl", "daemon-reload")
    run = playbook("pristine.vllm.reinstall", reinstall_serial="100%")
    assert run.code == 0
    final = fleet.look()
    done = {CANARY} | FIRST | SAME_BATCH
    assert {host for host in final if final[host] == after[host]} == done
    assert not any(told["dirty"] or told["locked"] for told in final.values())
    assert all(told["text"] for told in final.values())
    assert final[BROKEN]["outcomes"] == ["rolled back", "reinstalled"]
