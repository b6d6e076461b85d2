# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real playbooks on one lock: who gets it, and what is left of it when they end in all the ways there are."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.run_lock import look
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import ansible_environment

LEASE = 6
HOLD = """
- hosts: all
  gather_facts: false
  tasks:
    - pristine.vllm.run_lock: {path: "{{ lock }}", run_id: "{{ run_id | default('first') }}", lease: %d}
      register: taken
    - ansible.builtin.copy: {content: "{{ taken | to_json }}", dest: "{{ said }}"}
      check_mode: false
    - ansible.builtin.fail: {msg: "{{ taken.blockers | pristine.vllm.blockers_text(inventory_hostname) }}"}
      when: taken.blockers | length > 0
    - ansible.builtin.wait_for: {path: "{{ go_on }}", sleep: 1, timeout: 300}
      when: not ansible_check_mode
    - pristine.vllm.run_lock: {path: "{{ lock }}", lease: %d}
      register: confirmed
    - ansible.builtin.assert: {that: [confirmed.held or ansible_check_mode, not confirmed.changed]}
    - ansible.builtin.assert: {that: [not taken.confirmed, confirmed.confirmed != ansible_check_mode]}
    - pristine.vllm.run_lock: {path: "{{ lock }}", state: absent}
      when: release | default(true) | bool
""" % (LEASE, LEASE)  # noqa: UP031 (the braces are YAML's and Jinja's)


def wait_for(condition: Callable[[], bool], what: str, patience: float = 60.0) -> None:
    until = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.05)


class Stage:
    """A folder with a lock, playbooks that take it, and every process that they started."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.lock = folder / "lock" / "run.json"
        self.go_on = folder / "go-on"
        self.started: list[subprocess.Popen[str]] = []
        (folder / "hold.yml").write_text(HOLD, encoding="utf-8")

    def start(self, name: str, *arguments: str, **variables: Any) -> subprocess.Popen[str]:
        values = {
            "lock": str(self.lock),
            "said": str(self.folder / f"{name}.json"),
            "go_on": str(self.go_on),
            **variables,
        }
        environment = ansible_environment(
            self.folder / ".ansible",
            ANSIBLE_LOCAL_TEMP=str(self.folder / ".ansible" / "tmp"),
            ANSIBLE_LOG_PATH=str(self.folder / "log"),
            # What tells every process that comes of this test, however far it went away.
            STAGE=str(self.folder),
        )
        ansible = [sys.executable, "-m", "ansible", "playbook"]
        options = ["--inventory", "localhost,", "--connection", "local", "--extra-vars", json.dumps(values)]
        options += ["--extra-vars", json.dumps({"ansible_python_interpreter": sys.executable, "run_id": name})]
        process = subprocess.Popen(
            [*ansible, *options, *arguments, "hold.yml"],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def said(self, name: str) -> dict[str, Any]:
        """What the module returned to a playbook, as soon as that has it."""
        path = self.folder / f"{name}.json"
        wait_for(path.exists, f"playbook {name} has its answer")
        loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return loaded

    def processes(self) -> list[str]:
        """The command lines of all that is left of the playbooks, keepers among them."""
        left = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                mine = f"STAGE={self.folder}".encode() in (entry / "environ").read_bytes().split(b"\0")
                if entry.name.isdigit() and mine:
                    left.append(f"{entry.name} {(entry / 'cmdline').read_bytes()!r}")
            except OSError:
                continue
        return left

    def renewed(self) -> int:
        return self.lock.stat().st_mtime_ns

    def kill(self, process: subprocess.Popen[str]) -> None:
        """SIGKILL for a playbook and its workers, which are in sessions of their own; not for the keeper."""
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split()
        for pid in (process.pid, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def stage(tmp_path: pathlib.Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    stage.go_on.touch()
    for process in stage.started:
        with process:
            process.communicate(timeout=120)
    wait_for(lambda: not stage.processes(), "no process is left")


def test_the_second_run_is_told_who_has_the_host(stage: Stage) -> None:
    stage.start("first")
    first = stage.said("first")
    assert first["held"]
    second = stage.start("second")
    output = second.communicate(timeout=120)[0]
    assert second.returncode == 2
    for told in (f"{getpass.getuser()}@{socket.gethostname()}", "hold.yml run first", first["holder"]["acquired"]):
        assert told in output.replace("\n", " ")
    assert str(stage.lock) in output
    assert not stage.said("second")["held"]
    assert stage.started[0].poll() is None


def test_a_check_run_is_told_and_goes_on(stage: Stage) -> None:
    stage.start("first")
    stage.said("first")
    checked = stage.start("checked", "--check")
    output = checked.communicate(timeout=120)[0]
    assert checked.returncode == 0, output
    said = stage.said("checked")
    assert (said["held"], said["blockers"]) == (False, [])
    assert "run first" in said["cautions"][0]["what"]
    assert json.loads(stage.lock.read_text(encoding="utf-8"))["run_id"] == "first"


def test_the_keeper_renews_and_a_kill_frees_the_host_at_once(stage: Stage) -> None:
    first = stage.start("first", "-vvvv")
    stage.said("first")
    before = stage.renewed()
    # Longer than the lease: without a keeper it would have lapsed.
    wait_for(lambda: stage.renewed() > before + (LEASE + 1) * 10**9, "the lock is renewed")
    stage.kill(first)
    killed = time.monotonic()
    wait_for(lambda: not stage.lock.exists(), "the lock is given back")
    assert time.monotonic() - killed < LEASE
    # Reads to the end: it would not come while a keeper held the terminal.
    output = first.communicate(timeout=10)[0]
    assert "st_ino" not in output
    assert "samestat" not in (stage.folder / "log").read_text(encoding="utf-8")
    stage.go_on.touch()
    second = stage.start("second")
    second.communicate(timeout=120)
    assert second.returncode == 0
    assert stage.said("second")["note"] == ""


def test_a_keeper_that_was_killed_too_leaves_a_lease_that_lapses(stage: Stage) -> None:
    stage.start("first")
    stage.said("first")
    # All are stopped before one is killed: none may end by itself meanwhile, and the keeper not give back the lock.
    for sign in (signal.SIGSTOP, signal.SIGKILL):
        for line in stage.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(line.split()[0]), sign)
    # One that renewed a moment ago is taken to be alive.
    wait_for(lambda: look(str(stage.lock)).age > LEASE / 2, "the lock looks abandoned")
    stage.go_on.touch()
    second = stage.start("second")
    output = second.communicate(timeout=120)[0]
    assert second.returncode == 0, output
    assert "run first" in stage.said("second")["note"]


@pytest.mark.parametrize("release", [True, False], ids=["released", "left to the keeper"])
def test_nothing_is_left_of_a_run_that_ended(stage: Stage, release: bool) -> None:
    stage.go_on.touch()
    first = stage.start("first", release=release)
    output = first.communicate(timeout=120)[0]
    assert first.returncode == 0, output
    wait_for(lambda: not stage.processes(), "the keeper ends", patience=LEASE)
    assert list(stage.lock.parent.iterdir()) == []


def test_a_lock_that_somebody_else_took_is_left_alone(stage: Stage) -> None:
    """As after a cut connection: the keeper comes back and finds another's."""
    first = stage.start("first", release=False)
    stage.said("first")
    theirs = {**json.loads(stage.lock.read_text(encoding="utf-8")), "mark": "theirs", "process": "theirs"}
    new = stage.lock.with_name("new")
    new.write_text(json.dumps(theirs), encoding="utf-8")
    os.utime(new, (1, 1))
    new.rename(stage.lock)
    stage.kill(first)
    wait_for(lambda: not stage.processes(), "the keeper ends")
    assert (json.loads(stage.lock.read_text(encoding="utf-8")), stage.renewed()) == (theirs, 10**9)
