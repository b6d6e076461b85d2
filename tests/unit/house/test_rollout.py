# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the playbooks go over a fleet: their own keywords and last tasks, on hosts that do nothing else."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from .house import ROOT, load

KEYWORDS = ("hosts", "serial", "max_fail_percentage")
# Fails as the phases do: what is tried is undone, noted, and told at the end.
TASKS: list[dict[str, Any]] = [
    {"ansible.builtin.import_tasks": str(ROOT / "playbooks/phases/batch.yml")},
    {"ansible.builtin.debug": {"msg": "begun"}},
    {"ansible.builtin.ping": {}, "when": "inventory_hostname in lost | default([])"},
    {
        "block": [{"ansible.builtin.fail": {"msg": "no"}, "when": "inventory_hostname in failing | default([])"}],
        "rescue": [{"ansible.builtin.set_fact": {"reinstall_failure": "went back"}}],
    },
    {"ansible.builtin.debug": {"msg": "recorded"}, "when": "reinstall_failure is not defined"},
]


def plays() -> list[dict[str, Any]]:
    """The first play as it is, and one with the keywords and the end of the reinstall."""
    reinstall = next(play for play in load(ROOT / "playbooks/reinstall.yml") if "hosts" in play)
    end = load(ROOT / "playbooks/phases/end.yml")[-1]
    keywords = {name: reinstall[name] for name in KEYWORDS}
    return [
        *load(ROOT / "playbooks/phases/rollout.yml"),
        {"name": "Batch", **keywords, "gather_facts": False, "tasks": [*TASKS, end]},
    ]


@pytest.fixture
def go(tmp_path: Path) -> Any:
    """Run over the hosts a to f with these variables of their group; which batches began what, and how it ended."""

    def run(
        *flags: str, hosts: Any = None, **variables: Any
    ) -> tuple[list[list[str]], subprocess.CompletedProcess[str]]:
        own = hosts or {}
        listed = {name: {"ansible_connection": "local", **own.get(name, {})} for name in "abcdef"}
        for name in variables.get("lost", []):
            listed[name] = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
        inventory = {"vllm_hosts": {"hosts": listed, "vars": variables}, "others": {"hosts": {"z": None}}}
        (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
        (tmp_path / "play.yml").write_text(yaml.safe_dump(plays(), sort_keys=False), encoding="utf-8")
        done = subprocess.run(
            ["ansible-playbook", "-i", str(tmp_path / "hosts.yml"), str(tmp_path / "play.yml"), *flags],
            cwd=ROOT,
            env={**os.environ, "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1", "ANSIBLE_STDOUT_CALLBACK": "default"},
            check=False,
            capture_output=True,
            text=True,
        )
        text = done.stdout
        batches = [
            sorted(re.findall(r"^ok: \[(\w)\]", part.split("TASK [", 3)[2], re.M))
            for part in text.split("PLAY [Batch]")[1:]
        ]
        return batches, done

    return run


def recorded(done: subprocess.CompletedProcess[str]) -> set[str]:
    return set(re.findall(r"^ok: \[(\w)\] =>\s+msg: recorded", done.stdout, re.M))


def test_without_a_word_it_is_one_host_at_a_time_in_the_order_of_the_inventory(go: Any) -> None:
    batches, done = go()
    assert batches == [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]
    assert done.returncode == 0, done.stdout


def test_canaries_go_first_one_by_one_whatever_the_order_of_the_inventory(go: Any) -> None:
    batches, _done = go(reinstall_canary=["e", "b"], reinstall_serial=[1, "50%", "100%"])
    assert batches == [["e"], ["b"], ["a"], ["c", "d", "f"]]


def test_a_canary_outside_the_limit_is_left_out_and_extra_variables_win(go: Any) -> None:
    extra = json.dumps({"reinstall_serial": "100%"})
    batches, _done = go("--limit", "a,c,d", "-e", extra, reinstall_canary=["e", "d"], reinstall_serial=1)
    assert batches == [["d"], ["a", "c"]]


def test_a_failure_stops_the_rollout_and_the_rest_of_its_batch_ends_whole(go: Any) -> None:
    batches, done = go(reinstall_serial=3, failing=["a"])
    assert batches == [["a", "b", "c"]]
    assert recorded(done) == {"b", "c"}
    assert re.search(r"^b .*failed=0", done.stdout, re.M)
    assert re.search(r"^a .*failed=1", done.stdout, re.M)
    assert "The rollout stops at a. Not begun, and as before: d, e, f." in re.sub(r"\s+", " ", done.stdout)
    assert done.returncode == 2


def test_a_canary_that_fails_stops_it_whatever_share_may_fail(go: Any) -> None:
    batches, done = go(reinstall_canary="d", reinstall_serial=3, reinstall_max_fail_percentage=99, failing=["d"])
    assert batches == [["d"]]
    assert done.returncode == 2


def test_a_share_of_a_batch_may_fail(go: Any) -> None:
    batches, done = go(reinstall_serial=3, reinstall_max_fail_percentage="34%", failing=["a", "d", "e"])
    assert batches == [["a", "b", "c"], ["d", "e", "f"]]
    assert recorded(done) == {"b", "c", "f"}
    assert go(reinstall_serial=2, reinstall_max_fail_percentage=34, failing=["a"])[0] == [["a", "b"]]


def test_a_host_that_cannot_be_reached_counts_as_one_that_failed(go: Any) -> None:
    batches, done = go(reinstall_serial=3, lost=["b"])
    assert batches == [["a", "b", "c"]]
    assert recorded(done) == {"a", "c"}
    assert done.returncode == 4
    assert "The rollout stops at b." in re.sub(r"\s+", " ", done.stdout)
    assert go(reinstall_serial=3, reinstall_max_fail_percentage=40, lost=["b"])[0] == [["a", "b", "c"], ["d", "e", "f"]]


def test_what_means_nothing_is_refused_in_one_message_before_anything_begins(go: Any) -> None:
    batches, done = go(reinstall_serial=0, reinstall_canary="z")
    assert batches == []
    assert done.stdout.count("fatal: [") == 1
    said = re.sub(r"\s+", " ", done.stdout)
    assert "The run cannot begin. Nothing was changed. reinstall_canary names z" in said
    assert "reinstall_serial is 0." in said
    assert done.returncode == 2


@pytest.mark.parametrize("name", ["reinstall", "rollback", "provision"])
def test_every_playbook_that_changes_hosts_goes_by_it(name: str) -> None:
    found = load(ROOT / f"playbooks/{name}.yml")
    assert found[0]["ansible.builtin.import_playbook"] == "phases/rollout.yml"
    reinstall = next(play for play in load(ROOT / "playbooks/reinstall.yml") if "hosts" in play)
    changing = next(play for play in found if "hosts" in play)
    assert changing["max_fail_percentage"] == reinstall["max_fail_percentage"]
    if name != "provision":
        assert [changing[keyword] for keyword in KEYWORDS] == [reinstall[keyword] for keyword in KEYWORDS]
