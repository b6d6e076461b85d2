# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the record says of a run that ended well, went back, or never came to it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.run_record.phases import merge_phases, phase_seconds
from ansible_collections.pristine.vllm.tests.unit.plugins.run_record_support import (
    ARTIFACT,
    COMMIT,
    FINDING,
    JOURNAL,
    MARKS,
    START,
    VERSION,
    before,
    planned,
    recorded,
)


def answers(record: dict[str, Any]) -> dict[str, Any]:
    return {item["check"]: item["ok"] for item in record["checklist"]}


def test_the_record_of_a_good_run() -> None:
    record = recorded()
    assert (record["outcome"], record["failure"]) == ("reinstalled", "")
    assert (record["started"], record["finished"]) == ("2026-11-30T03:25:12Z", "2026-11-30T03:36:52Z")
    assert (record["downtime_seconds"], record["load_seconds"], record["drain_seconds"]) == (550.0, 542.0, 4.0)
    assert (record["before"]["release"], record["after"]["release"]) == ("/root/ml-env", "one-1")
    assert (record["before"]["version"], record["before"]["commit"]) == (VERSION, "662205d34")
    assert (record["after"]["version"], record["after"]["commit"]) == (VERSION, COMMIT)
    assert record["after"]["serving"] is True
    assert record["after"]["pristine"] is True
    assert record["after"]["artifacts_bytes"] == ARTIFACT["size"]
    assert set(answers(record).values()) == {True}


def test_phases_of_the_host_stand_in_their_place_with_their_own_length() -> None:
    assert [(phase["name"], phase["seconds"]) for phase in recorded()["phases"]] == [
        ("preflight", 10.0),
        ("evidence", 20.0),
        ("stage", 100.0),
        ("drain and stop", 12.0),
        ("switch", 0.4),
        ("start and prove", 542.0),
        ("verify", 5.6),
        ("record", 10.0),
    ]


def test_a_phase_that_the_play_marked_too_has_the_length_of_the_host() -> None:
    marks = [*MARKS[:3], {"name": "drain and stop", "started": START + 60}, {"name": "verify", "started": START + 100}]
    timed = [{"name": "drain and stop", "started": 5.0, "finished": 17.0}]
    assert [(phase["name"], phase["seconds"]) for phase in merge_phases(marks, timed, START + 103)][2:] == [
        ("stage", 30.0),
        ("drain and stop", 12.0),
        ("verify", 3.0),
    ]


def test_phases_of_the_host_keep_their_order_where_the_play_marked_some() -> None:
    marks = [*MARKS[:2], {"name": "go back", "started": START + 30}, {"name": "record", "started": START + 40}]
    timed = [{"name": "switch", "started": 5.0, "finished": 6.0}, {"name": "go back", "started": 6.0, "finished": 9.0}]
    assert [phase["name"] for phase in merge_phases(marks, timed, START + 50)] == [
        "preflight",
        "evidence",
        "switch",
        "go back",
        "record",
    ]


def test_a_phase_that_a_failure_cut_short_has_a_length_all_the_same() -> None:
    timed = [{"name": "switch", "started": 5.0, "finished": None}, {"name": "go back", "started": 7.0, "finished": 9.5}]
    assert merge_phases([], timed, 0.0) == [{"name": "switch", "seconds": 2.0}, {"name": "go back", "seconds": 2.5}]
    assert merge_phases([], timed[:1], 0.0) == [{"name": "switch", "seconds": 0.0}]


def test_a_phase_ends_where_the_next_begins() -> None:
    marks = [{"name": "preflight", "started": 10.0}, {"name": "evidence", "started": 12.5}]
    assert phase_seconds(marks, 20.0) == [{"name": "preflight", "seconds": 2.5}, {"name": "evidence", "seconds": 7.5}]
    assert phase_seconds([], 1.0) == []


def test_a_run_that_went_back_tells_what_is_live_again() -> None:
    journal = {**JOURNAL, "outcome": "rolled back", "failure": "ImportError", "scan": {"pristine": True, "summary": {}}}
    record = recorded(journal=journal)
    assert (record["outcome"], record["failure"]) == ("rolled back", "ImportError")
    assert record["after"]["release"] == "/root/ml-env"
    assert record["after"]["commit"] == "662205d34"
    assert record["after"]["serving"] is True
    assert record["after"]["pristine"] is False, "what was scanned is not what is live"
    found = answers(record)
    assert found["suspect_pristine"] is False
    assert found["distributions_verified"] is False
    assert found["way_back"] is True


def test_a_host_that_may_not_serve_is_told() -> None:
    record = recorded(journal={**JOURNAL, "outcome": "going back failed", "failure": "x", "completion": ""})
    assert record["after"]["serving"] is False
    assert answers(record)["completion"] is False
    assert answers(record)["way_back"] is False


def test_a_run_whose_stage_failed_verified_no_release() -> None:
    record = recorded(journal={}, marks=MARKS[:3], failure="no space left")
    assert (record["outcome"], record["failure"]) == ("nothing was stopped", "no space left")
    assert record["downtime_seconds"] == 0
    assert record["after"]["release"] == "/root/ml-env"
    assert answers(record)["release_verified_first"] is False
    assert answers(record)["artifacts_moved"] is False


def test_a_run_that_was_refused_has_a_record_too() -> None:
    record = recorded(journal={}, marks=MARKS[:1], plan={}, before={}, failure="2 things stand in the way")
    assert record["outcome"] == "nothing was stopped"
    assert record["after"]["serving"] is None
    found = answers(record)
    assert found.pop("record_written") is True
    assert True not in found.values(), "nothing was looked at"


def test_what_the_play_knows_goes_before_the_journal() -> None:
    given = {
        "release": "one-9",
        "version": "1.0+gabc",
        "commit": "abc",
        "serving": True,
        "pristine": True,
        "summary": {"files": 3},
        "artifacts": [],
    }
    record = recorded(journal={}, after=given, outcome="remediated", downtime_seconds=12.34)
    assert (record["outcome"], record["downtime_seconds"]) == ("remediated", 12.3)
    after = record["after"]
    assert (after["release"], after["version"], after["commit"]) == ("one-9", "1.0+gabc", "abc")
    assert record["after"]["summary"] == {"files": 3}


def test_a_service_that_did_not_serve_had_no_downtime() -> None:
    assert recorded(before=before(serving=False))["downtime_seconds"] == 0


def test_weak_evidence_is_not_called_pinned() -> None:
    weak = {"pristine": True, "summary": {"files": 1, "distributions": 1, "verified_against": "installed_record"}}
    record = recorded(journal={**JOURNAL, "scan": weak})
    assert answers(record)["wheel_kept"] is None


@pytest.mark.parametrize(("findings", "answer"), [([], True), ([FINDING], False)])
def test_the_suspect_is_told_apart_from_the_rest(findings: list[Any], answer: bool) -> None:
    other = {**FINDING, "path": "vllm/other.py"}
    scan = {"pristine": False, "summary": {"files": 2}}
    record = recorded(
        before=before(findings=[other, *findings]), journal={**JOURNAL, "outcome": "rolled back", "scan": scan}
    )
    assert answers(record)["suspect_pristine"] is answer


def test_long_lists_are_cut_and_counted() -> None:
    many = [{**FINDING, "path": f"vllm/{number}.py"} for number in range(201)]
    record = recorded(
        before=before(findings=many, summary={"truncated": 1000}, package_changes=["x"] * 300),
        journal={**JOURNAL, "artifacts": [ARTIFACT] * 250},
    )
    assert (len(record["before"]["findings"]), record["before"]["findings_count"]) == (200, 1201)
    assert (len(record["before"]["package_changes"]), record["before"]["package_changes_count"]) == (200, 300)
    assert (len(record["after"]["artifacts"]), record["after"]["artifacts_count"]) == (200, 250)
    assert record["after"]["artifacts_bytes"] == 250 * ARTIFACT["size"]


def test_artifacts_that_were_found_and_not_moved_are_told() -> None:
    record = recorded(journal={**JOURNAL, "artifacts": []})
    assert answers(record)["artifacts_moved"] is False


def test_a_run_without_a_build_keeps_its_release() -> None:
    live = {"id": "one-1", "metadata": planned()["pin"]}
    releases = {"environment": {"path": "/opt/vllm/current", "is_environment": True}, "current": live}
    record = recorded(
        plan=planned({"pristine": True, "findings": []}, releases, config_differs=True),
        before=before(
            release="one-1", metadata=live["metadata"], findings=[], pristine=True, model_config_differs=True
        ),
    )
    assert record["outcome"] == "remediated"
    assert answers(record)["release_verified_first"] is None
    assert answers(record)["adaptations"] is True
    assert (record["before"]["commit"], record["after"]["commit"]) == (COMMIT, COMMIT)
