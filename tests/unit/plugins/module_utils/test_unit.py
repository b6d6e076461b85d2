# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.unit import (
    UnitError,
    journal_tail,
    unit_problem,
    unit_state,
)
from ansible_collections.pristine.vllm.tests.unit.plugins.service_support import UNIT, FakeSystemd


@pytest.fixture
def systemd(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> FakeSystemd:
    return FakeSystemd(tmp_path / "systemd", monkeypatch.setenv)


def test_a_running_unit(systemd: FakeSystemd) -> None:
    state = unit_state(UNIT)
    assert (state.unit, state.load_state, state.active_state) == (f"{UNIT}.service", "loaded", "active")
    assert (state.main_pid, state.n_restarts, state.exec_main_status) == (4242, 0, 0)
    assert not state.stopped
    assert not state.down
    assert not state.need_daemon_reload
    assert unit_problem(state) is None
    assert state.describe() == f"{UNIT}.service is active (running), main pid 4242"
    assert systemd.calls()[0].endswith(f"-- {UNIT}")


@pytest.mark.parametrize(
    ("changes", "stopped", "down"),
    [
        ({"ActiveState": "failed", "SubState": "failed"}, True, True),
        ({"ActiveState": "inactive", "SubState": "dead"}, True, True),
        ({"ActiveState": "activating", "SubState": "auto-restart"}, False, True),
        ({"ActiveState": "activating", "SubState": "auto-restart-queued"}, False, True),
        ({"ActiveState": "deactivating", "SubState": "stop-sigterm"}, False, True),
        ({"ActiveState": "activating", "SubState": "start-pre"}, False, False),
    ],
)
def test_states(systemd: FakeSystemd, changes: dict[str, str], stopped: bool, down: bool) -> None:
    systemd.set(**changes)
    state = unit_state(UNIT)
    assert (state.stopped, state.down) == (stopped, down)


def test_how_it_ended_is_described(systemd: FakeSystemd) -> None:
    systemd.set(
        ActiveState="failed", SubState="failed", MainPID="0", NRestarts="3", Result="exit-code", ExecMainStatus="1"
    )
    wanted = "is failed (failed), main pid 0, restarted 3 times, result exit-code, exit status 1"
    assert unit_state(UNIT).describe().endswith(wanted)


@pytest.mark.parametrize(
    ("load_state", "error", "wanted"),
    [
        ("not-found", '""', "systemd knows no unit of that name"),
        ("masked", "", "it is masked, so nothing can start it"),
        (
            "bad-setting",
            '"Unit has a bad setting."',
            "systemd could not load it (bad-setting): Unit has a bad setting.",
        ),
    ],
)
def test_why_a_unit_cannot_be_started(systemd: FakeSystemd, load_state: str, error: str, wanted: str) -> None:
    systemd.set(LoadState=load_state, LoadError=error)
    assert unit_problem(unit_state(UNIT)) == wanted


@pytest.mark.parametrize("name", ["", "*", "vllm*", "-x", "a b", "x;y", "[a]"])
def test_what_is_no_name(systemd: FakeSystemd, name: str) -> None:
    with pytest.raises(UnitError, match="is no name of a systemd unit"):
        unit_state(name)
    assert systemd.calls() == []


def test_a_host_without_systemd(systemd: FakeSystemd) -> None:
    systemd.program("systemctl", "echo 'System has not been booted with systemd' >&2; exit 1\n")
    with pytest.raises(UnitError, match=r"System has not been booted with systemd.*must have been booted with systemd"):
        unit_state(UNIT)


def test_an_old_systemd_lacks_properties(systemd: FakeSystemd) -> None:
    systemd.program("systemctl", "printf 'LoadState=loaded\\nActiveState=active\\nMainPID=[not set]\\n'\n")
    state = unit_state(UNIT)
    assert (state.unit, state.main_pid, state.n_restarts, state.invocation_id) == (UNIT, 0, 0, "")


def test_the_journal_of_this_start(systemd: FakeSystemd) -> None:
    systemd.journal("\x1b[31mERROR\x1b[0m started with --api-key geheim", "key is plain-secret")
    lines, problem = journal_tail(unit_state(UNIT), secrets=["plain-secret"])
    assert problem is None
    assert lines == ["ERROR started with --api-key ********", "key is ********"]
    invocation = systemd.properties["InvocationID"]
    wanted = f"_SYSTEMD_INVOCATION_ID={invocation} + INVOCATION_ID={invocation}"
    assert systemd.calls("journal-calls")[-1].endswith(wanted)


def test_the_journal_by_time(systemd: FakeSystemd) -> None:
    journal_tail(unit_state(UNIT), since="@1764473112")
    assert systemd.calls("journal-calls")[-1].endswith(f"--since=@1764473112 --unit={UNIT}.service")
    systemd.set(InvocationID="")
    journal_tail(unit_state(UNIT))
    assert systemd.calls("journal-calls")[-1].endswith(f"--unit={UNIT}.service --since=2026-11-30 03:25:12 UTC")


def test_a_journal_that_cannot_be_read(systemd: FakeSystemd) -> None:
    systemd.program("journalctl", "echo 'No journal files were opened' >&2; exit 1\n")
    lines, problem = journal_tail(unit_state(UNIT))
    assert lines == []
    assert problem is not None
    assert "No journal files were opened" in problem
