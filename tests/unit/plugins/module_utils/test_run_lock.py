# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import threading
import time
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.run_lock import (
    CONFIRM,
    REFUSE,
    TAKE,
    WAIT,
    Found,
    Holder,
    boot_id,
    hold,
    look,
    now,
    plan,
    predict,
    release,
)
from ansible_collections.pristine.vllm.tests.unit.plugins.service_support import UNIT, FakeSystemd

ANNA = Holder(
    process="control:100:1",
    mark="a",
    who="anna@control",
    playbook="reinstall.yml",
    run_id="20261130T032512Z",
    acquired="2026-11-30 03:25:12 UTC",
    lease=60.0,
    boot="",
)
BERT = dataclasses.replace(
    ANNA, process="laptop:200:2", mark="b", who="bert@laptop", acquired="2026-11-30 03:26:00 UTC"
)


@pytest.fixture
def lock(tmp_path: pathlib.Path) -> str:
    return str(tmp_path / "folder" / "run.json")


def renewed(lock: str, ago: float) -> None:
    """Let the last renewal be so many seconds ago."""
    os.utime(lock, (now() - ago, now() - ago))


def test_a_free_host_is_taken(lock: str) -> None:
    before = now()
    outcome = hold(lock, ANNA, "")
    assert (outcome.held, outcome.holder, outcome.in_the_way, outcome.note) == (True, ANNA, [], "")
    found = look(lock)
    assert found.holder == dataclasses.replace(ANNA, boot=boot_id())
    assert 0 <= found.age <= now() - before
    assert os.listdir(os.path.dirname(lock)) == ["run.json"]
    assert os.stat(lock).st_mode & 0o777 == 0o644


def test_one_that_was_gone_meanwhile_is_not_confirmed(lock: str) -> None:
    assert not hold(lock, ANNA, "").confirmed
    os.unlink(lock)
    outcome = hold(lock, ANNA, "")
    assert (outcome.held, outcome.confirmed) == (True, False)


def test_the_same_run_confirms(lock: str) -> None:
    hold(lock, ANNA, "")
    renewed(lock, 100)
    again = dataclasses.replace(ANNA, mark="a2", acquired="later")
    outcome = hold(lock, again, "")
    assert (outcome.held, outcome.confirmed) == (True, True)
    found = look(lock)
    assert found.age < 10
    assert found.holder is not None
    assert (found.holder.mark, found.holder.acquired) == ("a2", ANNA.acquired)


def test_another_run_is_refused_and_told_all(lock: str) -> None:
    hold(lock, ANNA, "")
    before = (pathlib.Path(lock).read_bytes(), os.stat(lock).st_mtime_ns)
    outcome = hold(lock, BERT, "")
    assert not outcome.held
    (blocker,) = outcome.in_the_way
    assert blocker["where"] == lock
    for told in (ANNA.who, ANNA.playbook, ANNA.run_id, ANNA.process, ANNA.acquired):
        assert told in blocker["what"]
    assert "run again" in blocker["next"]
    assert (pathlib.Path(lock).read_bytes(), os.stat(lock).st_mtime_ns) == before


def test_a_check_run_looks_only(lock: str) -> None:
    assert predict(lock, BERT, "").in_the_way == []
    assert not os.path.exists(os.path.dirname(lock))
    hold(lock, ANNA, "")
    before = os.stat(lock).st_mtime_ns
    outcome = predict(lock, BERT, "")
    assert not outcome.held
    assert ANNA.who in outcome.in_the_way[0]["what"]
    renewed(lock, 61)
    assert predict(lock, BERT, "").in_the_way == []
    assert os.stat(lock).st_mtime_ns != before
    assert look(lock).holder == dataclasses.replace(ANNA, boot=boot_id())


@pytest.mark.parametrize(
    ("changes", "age", "verb"),
    [
        ({}, 0.0, REFUSE),
        ({}, 14.9, REFUSE),
        ({}, 15.1, WAIT),
        ({}, 59.9, WAIT),
        ({}, 60.0, TAKE),
        # Somebody touched it: the clock of the boot never gets there by itself.
        ({}, -1e9, TAKE),
        ({"boot": "another"}, 0.0, TAKE),
        ({"process": BERT.process}, 0.0, CONFIRM),
        ({"process": BERT.process}, 1000.0, CONFIRM),
        ({"lease": 600.0}, 100.0, REFUSE),
    ],
)
def test_whose_the_host_is(changes: dict[str, Any], age: float, verb: str) -> None:
    holder = dataclasses.replace(ANNA, **{"boot": "this", **changes})
    decision = plan(Found(holder, age), BERT, "this")
    assert decision.verb == verb
    assert (ANNA.who in decision.note) == (verb == TAKE)


def test_a_lapsed_lock_is_taken_over_with_a_note(lock: str) -> None:
    hold(lock, ANNA, "")
    renewed(lock, 61)
    outcome = hold(lock, BERT, "")
    assert outcome.held
    assert outcome.note.startswith(f"taken over from {ANNA.who}")
    assert look(lock).holder == dataclasses.replace(BERT, boot=boot_id())


def test_one_that_looks_dead_is_waited_for_until_it_has_lapsed(lock: str) -> None:
    hold(lock, dataclasses.replace(ANNA, lease=2.0), "")
    renewed(lock, 1.0)
    begun = time.monotonic()
    assert hold(lock, BERT, "").held
    assert 0.8 <= time.monotonic() - begun < 30


def test_one_that_looks_dead_and_is_renewed_meanwhile_stays(lock: str) -> None:
    hold(lock, ANNA, "")
    renewed(lock, 30)
    outcomes: list[bool] = []
    waiting = threading.Thread(target=lambda: outcomes.append(hold(lock, BERT, "").held))
    waiting.start()
    renewed(lock, 0)
    waiting.join(timeout=30)
    assert outcomes == [False]


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"process": "x"}', '{"lease": "soon"}', "\ud83d"])
def test_what_is_no_lock_is_thrown_away(lock: str, content: str) -> None:
    os.mkdir(os.path.dirname(lock))
    pathlib.Path(lock).write_text(content, encoding="utf-8", errors="surrogatepass")
    outcome = hold(lock, BERT, "")
    assert outcome.held
    assert "no lock" in outcome.note
    assert look(lock).holder == dataclasses.replace(BERT, boot=boot_id())


def test_numbers_that_are_none_are_no_lock(lock: str) -> None:
    hold(lock, ANNA, "")
    values = json.loads(pathlib.Path(lock).read_text(encoding="utf-8"))
    pathlib.Path(lock).write_text(json.dumps({**values, "lease": "soon"}), encoding="utf-8")
    assert "no lock" in look(lock).problem


def test_what_cannot_be_read_is_an_error(lock: str) -> None:
    os.makedirs(lock)
    with pytest.raises(OSError, match="not a regular file"):
        hold(lock, ANNA, "")


def test_only_the_holder_releases(lock: str) -> None:
    assert release(lock, ANNA.process) is None
    hold(lock, ANNA, "")
    assert release(lock, BERT.process) == dataclasses.replace(ANNA, boot=boot_id())
    assert os.path.exists(lock)
    release(lock, ANNA.process)
    assert os.listdir(os.path.dirname(lock)) == []
    assert release(lock, ANNA.process) is None


def test_of_many_at_once_one_gets_it(lock: str) -> None:
    runs = [dataclasses.replace(ANNA, process=f"control:{number}", mark=str(number)) for number in range(8)]
    held: list[str] = []

    def take(run: Holder) -> None:
        if hold(lock, run, "").held:
            held.append(run.process)

    threads = [threading.Thread(target=take, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    found = look(lock).holder
    assert found is not None
    assert held == [found.process]


class TestSwitchover:
    """One that goes on by itself on the host."""

    @pytest.fixture
    def systemd(self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> FakeSystemd:
        systemd = FakeSystemd(tmp_path / "systemd", monkeypatch.setenv)
        systemd.set(Id=f"{UNIT}-switchover.service")
        return systemd

    @pytest.mark.parametrize("unit", [UNIT, f"{UNIT}.service"])
    def test_it_is_in_the_way_of_the_next_run(self, systemd: FakeSystemd, lock: str, unit: str) -> None:
        outcome = hold(lock, ANNA, unit)
        assert not outcome.held
        (blocker,) = outcome.in_the_way
        assert blocker["where"] == f"{UNIT}-switchover.service"
        assert "2026-11-30 03:25:12 UTC" in blocker["what"]
        assert systemd.calls()[0].endswith(f"-- {UNIT}-switchover.service")
        assert not os.path.exists(lock)
        assert len(predict(lock, ANNA, unit).in_the_way) == 1

    def test_it_is_told_beside_the_run_that_waits_for_it(self, systemd: FakeSystemd, lock: str) -> None:
        hold(lock, ANNA, "")
        assert [blocker["where"] for blocker in hold(lock, BERT, UNIT).in_the_way] == [
            lock,
            f"{UNIT}-switchover.service",
        ]

    def test_our_own_is_not(self, systemd: FakeSystemd, lock: str) -> None:
        hold(lock, ANNA, "")
        assert hold(lock, ANNA, UNIT).held

    @pytest.mark.parametrize(
        "changes",
        [
            {"ActiveState": "inactive", "SubState": "dead"},
            {"ActiveState": "failed", "SubState": "failed"},
            {"ActiveState": "active", "SubState": "exited"},
            {"LoadState": "not-found", "ActiveState": "inactive", "SubState": "dead"},
        ],
    )
    def test_one_that_has_ended_is_not(self, systemd: FakeSystemd, lock: str, changes: dict[str, str]) -> None:
        systemd.set(**changes)
        assert hold(lock, ANNA, UNIT).held

    def test_one_that_is_going_to_be_started_again_is(self, systemd: FakeSystemd, lock: str) -> None:
        systemd.set(ActiveState="activating", SubState="auto-restart", ActiveEnterTimestamp="")
        assert len(hold(lock, ANNA, UNIT).in_the_way) == 1

    def test_without_systemd_there_is_none(self, systemd: FakeSystemd, lock: str) -> None:
        systemd.program("systemctl", "exit 1\n")
        assert hold(lock, ANNA, UNIT).held
