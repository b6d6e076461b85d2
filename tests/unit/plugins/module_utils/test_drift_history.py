# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Since when a finding is there, what is forgotten, and a file that may be damaged."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.drift.findings import KINDS, Finding
from ansible_collections.pristine.vllm.plugins.module_utils.drift.history import Look, conclude, not_later, note, see
from ansible_collections.pristine.vllm.plugins.module_utils.drift.policy import (
    DAY,
    Decision,
    Remediation,
    Rules,
)
from ansible_collections.pristine.vllm.plugins.module_utils.drift.state import (
    Scan,
    State,
    StateError,
    load_state,
    parse_state,
    render_state,
    save_state,
)
from ansible_collections.pristine.vllm.plugins.module_utils.drift.tick import Ask, Plan, apply, locked, plan, read_hold
from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import BusyError, exclusive
from hypothesis import given
from hypothesis import strategies as st

NOW = 1_796_007_600.0
ENV = "/opt/vllm/current"
CODE = Finding("code", "vllm/a.py", "modified", "vllm", "size", "0" * 64, "1" * 64)
JUNK = Finding("artifacts", "/tmp/a.pt", "unexpected")
REPORTED = Decision("reported", "report", "because")


def looked(*findings: Finding, now: float = NOW, kinds: tuple[str, ...] = KINDS, **more: Any) -> Look:
    return Look(findings, kinds, Scan(now, 1.5, 1000, 10, 4), **more)


def seen(state: State) -> dict[str, tuple[float, float]]:
    return {one.finding.path: (one.first_seen, one.last_seen) for one in state.current}


def test_a_finding_keeps_the_time_it_was_first_seen() -> None:
    state = see(State(ENV, NOW), looked(CODE), NOW, None)
    state = see(state, looked(CODE, JUNK), NOW + 60, None)
    assert seen(state) == {"vllm/a.py": (NOW, NOW + 60), "/tmp/a.pt": (NOW + 60, NOW + 60)}


def test_words_about_it_may_change_and_its_content_may_not() -> None:
    state = see(State(ENV, NOW), looked(CODE), NOW, None)
    told = dataclasses.replace(CODE, detail="told in other words")
    state = see(state, looked(told), NOW + 60, None)
    assert seen(state) == {"vllm/a.py": (NOW, NOW + 60)}
    assert state.current[0].finding.detail == "told in other words"
    edited = dataclasses.replace(CODE, actual_sha256="2" * 64)
    assert seen(see(state, looked(edited), NOW + 120, None)) == {"vllm/a.py": (NOW + 120, NOW + 120)}


def test_what_comes_back_is_new() -> None:
    state = see(State(ENV, NOW), looked(CODE), NOW, None)
    state = see(state, looked(), NOW + 60, None)
    assert state.current == []
    assert seen(see(state, looked(CODE), NOW + 120, None)) == {"vllm/a.py": (NOW + 120, NOW + 120)}


def test_what_was_not_looked_at_is_not_gone() -> None:
    state = see(State(ENV, NOW), looked(CODE, JUNK), NOW, None)
    state = see(state, looked(kinds=("artifacts",)), NOW + 60, None)
    assert seen(state) == {"vllm/a.py": (NOW, NOW)}


def test_a_scan_that_failed_is_no_scan() -> None:
    state = see(State(ENV, NOW), looked(), NOW, None)
    state = see(state, looked(now=NOW + 60, kinds=("unit",), errors=["/x cannot be read"]), NOW + 60, None)
    assert state.scan is not None
    assert (state.scan.finished, state.attempted, state.errors) == (NOW, NOW + 60, ("/x cannot be read",))
    # A remediation that is noted without a look leaves that as it was.
    later = see(state, Look(), NOW + 120, None)
    assert (later.scan, later.attempted, later.errors) == (state.scan, state.attempted, state.errors)


def test_since_when_it_is_held() -> None:
    state = see(State(ENV, NOW), looked(), NOW, "x")
    state = see(state, looked(), NOW + 60, "another reason")
    assert (state.hold, state.held_since) == ("another reason", NOW)
    state = see(state, looked(), NOW + 120, None)
    assert (state.hold, state.held_since) == (None, None)
    assert see(state, looked(), NOW + 180, "").held_since == NOW + 180


def test_what_is_old_is_forgotten() -> None:
    state = see(State(ENV, NOW), looked(CODE), NOW, None)
    state = note(state, Remediation(NOW, "restore", False))
    state = note(state, Remediation(NOW + 1, "restore", True))
    state = conclude(see(state, looked(JUNK), NOW + 60, None), REPORTED, NOW + 60, 10 * DAY)
    assert len(state.known) == len(state.remediations) == 2
    late = NOW + 20 * DAY
    state = conclude(see(state, looked(JUNK), late, None), REPORTED, late, 10 * DAY)
    # What is still there stays however old it is, and so does the last remediation. Counters never fall.
    assert seen(state) == {"/tmp/a.pt": (NOW + 60, late)}
    assert len(state.known) == 1
    assert [one.time for one in state.remediations] == [NOW + 1]
    assert state.totals == {"restore failed": 1, "restore succeeded": 1}
    assert [tick.time for tick in state.ticks] == [late]


def test_the_history_stays_small() -> None:
    state = State(ENV, NOW)
    for minute in range(2500):
        state = conclude(state, REPORTED, NOW + minute, 90 * DAY)
    assert len(state.ticks) == 2000
    assert state.ticks[-1].time == NOW + 2499


def test_a_clock_that_was_set_back() -> None:
    """Times to come would block remediations, and hide scans that are missed, until they have come."""
    year = 365 * DAY
    state = see(State(ENV, NOW + year), looked(CODE, now=NOW + year), NOW + year, "x")
    state = not_later(note(state, Remediation(NOW + year, "restore", False)), NOW)
    assert state.scan is not None
    times = (state.began, state.scan.finished, state.attempted, state.held_since, state.remediations[0].time)
    assert times == (NOW,) * 5
    assert seen(state) == {"vllm/a.py": (NOW, NOW)}


FINDINGS = st.lists(
    st.builds(Finding, st.sampled_from(KINDS), st.sampled_from("abc"), st.sampled_from(["modified", "declared"])),
    max_size=6,
)
LOOKS = st.lists(st.tuples(FINDINGS, st.lists(st.sampled_from(KINDS), unique=True), st.booleans()), max_size=6)


@given(LOOKS)
def test_twice_is_once_and_the_file_holds_all(looks: list[tuple[list[Finding], list[str], bool]]) -> None:
    state = State(ENV, NOW)
    for number, (findings, kinds, failed) in enumerate(looks):
        now = NOW + number * 60
        look = looked(*findings, now=now, kinds=tuple(kinds), errors=["x"] if failed else [])
        before, state = state, conclude(see(state, look, now, None), REPORTED, now, DAY)
        assert conclude(see(state, look, now, None), REPORTED, now, DAY) == state
        assert parse_state(render_state(state)) == state
        assert {one.finding.key for one in state.current} >= {one.key for one in findings}
        for one in state.current:
            earlier = [old.first_seen for old in before.current if old.finding.key == one.finding.key]
            assert one.first_seen == (earlier[0] if earlier else now)


def ask(path: pathlib.Path, look: Look, **more: Any) -> Ask:
    options: dict[str, Any] = {"rules": Rules({"code": "restore"}), "retention": DAY, **more}
    return Ask(path=str(path), environment=ENV, look=look, **options)


def test_the_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "drift/state.json"
    assert load_state(str(path), ENV, NOW) == (State(ENV, NOW), None)
    wanted = ask(path, looked(CODE))
    planned = plan(wanted, NOW)
    assert not path.parent.exists()
    apply(wanted, planned)
    assert load_state(str(path), ENV, NOW + 1) == (planned.state, None)
    assert (path.stat().st_mode & 0o7777, path.parent.stat().st_mode & 0o7777) == (0o640, 0o750)
    assert not plan(wanted, NOW).changed


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "JSONDecodeError"),
        (b"[]", "TypeError"),
        (b"null", "TypeError"),
        (b'{"schema": 2}', "its schema is 2"),
        (b'{"schema": 1}', "KeyError"),
        (b"\xff", "UnicodeDecodeError"),
        (b"[" * 100_000, "RecursionError"),
        (b'{"schema": 1, "environment": "/opt/vllm/current", "began": NaN}', "nan is no number"),
    ],
)
def test_a_damaged_file_begins_anew_and_is_kept(tmp_path: pathlib.Path, content: bytes, says: str) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(content)
    wanted = ask(path, looked(CODE))
    planned = plan(wanted, NOW)
    assert planned.damage is not None
    assert "begins anew" in planned.damage
    assert says in planned.damage
    assert path.read_bytes() == content
    apply(wanted, planned)
    assert (tmp_path / "state.json.damaged").read_bytes() == content
    # How often this host was remediated is lost with it: not at once again.
    assert planned.decision.verdict == "reported"
    assert "how often it was remediated is lost" in planned.decision.reason
    assert plan(wanted, NOW + 1).damage is None
    assert plan(wanted, NOW + 1).decision.verdict == "due"


@pytest.mark.parametrize(
    "edit",
    [
        {
            "remediations": [
                {"time": NOW, "action": "pray", "succeeded": True, "downtime_seconds": 0, "run_id": "", "begun": False}
            ]
        },
        {
            "remediations": [
                {"time": NOW, "action": "restore", "succeeded": 0, "downtime_seconds": 0, "run_id": "", "begun": False}
            ]
        },
        {
            "remediations": [
                {
                    "time": True,
                    "action": "restore",
                    "succeeded": True,
                    "downtime_seconds": 0,
                    "run_id": "",
                    "begun": False,
                }
            ]
        },
        {"remediations": [{**dataclasses.asdict(Remediation(NOW, "restore", False)), "begun": None}]},
        {"remediations": [dataclasses.asdict(Remediation(NOW, "restore", True, begun=True))]},
        {"remediations": None},
        {"known": [{"finding": {}, "first_seen": 0, "last_seen": 0, "gone": None}]},
        {"began": 1e300},
        {"interval": "hourly"},
        {"scan": {**dataclasses.asdict(Scan(NOW)), "unlisted": {"modified": "many"}}},
        {"hold": 1},
        {"totals": []},
    ],
)
def test_a_file_that_was_edited_is_not_trusted(tmp_path: pathlib.Path, edit: dict[str, Any]) -> None:
    path = tmp_path / "state.json"
    path.write_text(json.dumps({**json.loads(render_state(State(ENV, NOW))), **edit}))
    assert load_state(str(path), ENV, NOW)[1] is not None


def test_the_history_of_another_environment(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "state.json"
    save_state(str(path), State("/root/ml-env", NOW), False)
    damage = load_state(str(path), ENV, NOW)[1]
    assert damage is not None
    assert "it is of /root/ml-env, not of /opt/vllm/current" in damage


def test_a_link_or_a_pipe_in_place_of_the_file_is_not_followed(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "state.json"
    path.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_bytes(render_state(State(ENV, NOW)))
    wanted = ask(path, looked())
    apply(wanted, plan(wanted, NOW + 1))
    assert not path.is_symlink()
    assert (tmp_path / "elsewhere").read_bytes() == render_state(State(ENV, NOW))
    path.unlink()
    os.mkfifo(path)
    assert plan(wanted, NOW).damage is not None


def test_a_folder_that_cannot_be(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    wanted = ask(tmp_path / "file/state.json", looked())
    with pytest.raises(StateError, match=r"file/state.json: the history of .* cannot be written: .*name another path"):
        apply(wanted, plan(wanted, NOW))
    with pytest.raises(StateError, match="where the history is kept"), locked(wanted.path):
        pass
    wanted = ask(tmp_path / "state.json", looked(), textfile=str(tmp_path / "none/x.prom"))
    with pytest.raises(StateError, match=r"none/x.prom: the metrics of .*The history is written"):
        apply(wanted, plan(wanted, NOW))
    assert (tmp_path / "state.json").exists()


def test_two_at_once(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with exclusive(str(tmp_path)), pytest.raises(BusyError), exclusive(str(tmp_path), wait=0.1):
        pass


def test_an_edit_while_it_is_restored_counts_as_failed(tmp_path: pathlib.Path) -> None:
    """It ended well and the scan after it finds the same: it must not be tried at every tick."""
    path = tmp_path / "state.json"
    tried = Remediation(NOW + 60, "restore", True, 9.5, "run")
    for now, remediation, verdict in (
        (NOW, None, "due"),
        (NOW + 60, tried, "remediation_failed"),
        (NOW + 120, None, "reported"),
    ):
        wanted = ask(
            path, looked(CODE, now=now), remediation=remediation, rules=Rules({"code": "restore"}, max_per_day=9)
        )
        planned = plan(wanted, now)
        assert planned.decision.verdict == verdict
        apply(wanted, planned)
        assert plan(wanted, now) == dataclasses.replace(planned, state_differs=False)
    assert planned.state.remediations == (dataclasses.replace(tried, succeeded=False),)
    assert "the last one failed and the host cools down" in planned.decision.reason


BEGUN = Remediation(NOW, "restore", False, 0.0, "run", begun=True)


def plan_of(path: pathlib.Path, now: float, *findings: Finding, **more: Any) -> Plan:
    """A scan at that time, written down."""
    rules = Rules({"code": "restore"}, max_per_day=9, cool_down=6 * 3600)
    wanted = ask(path, looked(*findings, now=now), rules=rules, textfile=str(path.parent / "x.prom"), **more)
    planned = plan(wanted, now)
    apply(wanted, planned)
    return planned


def hand_over(path: pathlib.Path) -> Plan:
    wanted = ask(path, Look(), remediation=BEGUN, textfile=str(path.parent / "x.prom"))
    planned = plan(wanted, NOW)
    apply(wanted, planned)
    assert not plan(wanted, NOW + 1).state_differs
    return planned


def test_a_remediation_whose_play_is_lost_counts_as_failed(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "state.json"
    assert plan_of(path, NOW - 60, CODE, run_id="run").decision.verdict == "due"
    planned = hand_over(path)
    assert (planned.state.remediations, planned.state.totals) == ((BEGUN,), {})
    assert len(planned.state.ticks) == 1
    assert "remediation_last" not in planned.metrics_after, "nobody knows yet"
    # Somebody who looks without the lock cannot tell whether it is under way; it is not tried again for all that.
    planned = plan_of(path, NOW + 3600, CODE)
    assert planned.state.remediations == (BEGUN,)
    assert (planned.decision.verdict, planned.decision.next_possible) == ("reported", NOW + 6 * 3600)
    assert "the last one was begun and nobody told how it ended" in planned.decision.reason
    assert "remediation_last" not in planned.metrics_after
    # The next run that has the host to itself.
    planned = plan_of(path, NOW + 7200, CODE, run_id="next")
    assert planned.state.remediations == (dataclasses.replace(BEGUN, begun=False),)
    assert planned.state.totals == {"restore failed": 1}
    assert "the last one failed and the host cools down" in planned.decision.reason
    assert 'pristine_vllm_remediation_last_success{environment="/opt/vllm/current",action="restore"} 0\n' in (
        planned.metrics_after
    )


def test_nothing_is_under_way_for_ever(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "state.json"
    hand_over(path)
    assert plan_of(path, NOW + 4 * 3600 - 1, CODE).state.remediations[0].begun
    assert not plan_of(path, NOW + 4 * 3600, CODE).state.remediations[0].begun


def test_the_end_takes_the_place_of_the_beginning(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "state.json"
    hand_over(path)
    # Begun and ended within one tick of a coarse clock, too.
    for ended in (NOW, NOW + 60):
        done = Remediation(ended, "restore", True, 9.5, "run")
        planned = plan(ask(path, looked(now=ended), remediation=done, run_id="run"), ended)
        assert planned.decision.verdict == "remediated"
        assert planned.state.remediations == (done,)
        assert planned.state.totals == {"restore succeeded": 1}
    # Of another run it is not the end.
    other = dataclasses.replace(done, run_id="other")
    planned = plan(ask(path, looked(now=NOW + 60), remediation=other, run_id="other"), NOW + 60)
    assert planned.state.remediations == (dataclasses.replace(BEGUN, begun=False), other)


def test_a_debug_file_is_there_until_it_is_gone_from_the_disk(tmp_path: pathlib.Path) -> None:
    """Which files to look for the debug code says, and that was put right by hand."""
    path = tmp_path / "state.json"
    dump = tmp_path / "dump.pt"
    dump.touch()
    left = Finding("artifacts", str(dump), "leftover", actual_sha256="1" * 64)
    plan_of(path, NOW, CODE, left)
    planned = plan_of(path, NOW + 60)
    assert seen(planned.state) == {str(dump): (NOW, NOW)}
    assert planned.decision.verdict == "reported"
    written = dataclasses.replace(left, actual_sha256="2" * 64)
    planned = plan_of(path, NOW + 120, written)
    assert [one.finding for one in planned.state.current] == [written]
    dump.unlink()
    planned = plan_of(path, NOW + 180)
    assert (planned.decision.verdict, planned.gone()) == ("pristine", [written])


def test_how_often_a_scan_is_due_is_known_until_it_is_said_otherwise(tmp_path: pathlib.Path) -> None:
    """A run by hand neither makes a daily scan an hourly one, nor has a host missed that nobody scheduled."""
    path = tmp_path / "state.json"
    for now, asked, known in ((0, None, None), (60, 86400, 86400), (120, None, 86400), (180, 5, 5), (240, 0, None)):
        planned = plan_of(path, NOW + now, interval=asked)
        assert planned.state.interval == known
        told = f'pristine_vllm_scan_interval_seconds{{environment="{ENV}"}} {known}\n' in planned.metrics_after
        assert told == (known is not None)
        assert ("scan_interval" in planned.metrics_after) == told


def test_a_remediation_after_which_nobody_could_look_did_not_help(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "state.json"
    plan_of(path, NOW, CODE)
    tried = Remediation(NOW + 60, "restore", True, 9.5, "run")
    wanted = ask(path, looked(now=NOW + 60, errors=["/opt/vllm cannot be read"]), remediation=tried)
    planned = plan(wanted, NOW + 60)
    assert planned.decision.verdict == "scan_failed"
    assert planned.state.remediations == (dataclasses.replace(tried, succeeded=False),)
    assert planned.state.totals == {"restore failed": 1}
    apply(wanted, planned)
    later = plan_of(path, NOW + 3600, CODE)
    assert (later.decision.verdict, later.decision.next_possible) == ("reported", NOW + 60 + 6 * 3600)


def test_a_remediation_that_helped(tmp_path: pathlib.Path) -> None:
    tried = Remediation(NOW, "reinstall", True)
    planned = plan(ask(tmp_path / "state.json", looked(JUNK), remediation=tried), NOW)
    assert (planned.decision.verdict, planned.decision.kinds) == ("remediated", ("artifacts",))
    assert planned.state.remediations == (tried,)


def test_the_hold_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "hold"
    assert read_hold("") is None
    assert read_hold(str(path)) is None
    assert read_hold(str(path / "below")) is None
    path.write_text("benchmark\n  until Friday, --api-key sk-0123456789abcdefghij\n")
    assert read_hold(str(path)) == "benchmark until Friday, --api-key ********"
    path.write_text("")
    assert read_hold(str(path)) == ""
    # What cannot be read holds: an operator wanted something there.
    path.unlink()
    path.mkdir()
    assert "counts as held" in (read_hold(str(path)) or "")
    path.rmdir()
    path.symlink_to("nowhere")
    assert "counts as held" in (read_hold(str(path)) or "")
