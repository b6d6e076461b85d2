# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both ways out: what each costs and leaves, and which is taken."""

from __future__ import annotations

from typing import Any, Optional

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import STATUSES
from ansible_collections.pristine.vllm.plugins.module_utils.report import plan_lines
from ansible_collections.pristine.vllm.plugins.module_utils.run_record.history import forecast
from ansible_collections.pristine.vllm.tests.unit.plugins.run_record_support import (
    FINDING,
    PIN,
    RELEASES,
    SCAN,
    planned,
)

KNOWN = forecast(
    [{"run_id": "1", "phases": [{"name": "stage", "seconds": 41.0}], "downtime_seconds": 551.0, "load_seconds": 540.0}],
    {},
)


def ways(scan: Optional[dict[str, Any]] = None, **changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    restore, reinstall = planned(SCAN if scan is None else scan, estimates=KNOWN, **changes)["ways"]
    assert (restore["name"], restore["taken"]) == ("restore", False)
    assert (reinstall["name"], reinstall["taken"]) == ("reinstall", True)
    return restore, reinstall


def dirty(*findings: dict[str, Any]) -> dict[str, Any]:
    return {"pristine": False, "findings": [{**FINDING, **finding} for finding in findings]}


def test_changed_code_costs_the_same_downtime_either_way() -> None:
    restore, reinstall = ways()
    assert restore["possible"]
    assert restore["steps"] == ["put 1 file back from their wheels, in place", "restart the service"]
    assert restore["downtime_seconds"] == reinstall["downtime_seconds"] == 551.0
    assert "same downtime" in reinstall["why"]
    assert "about 41 s" in reinstall["steps"][0]
    assert reinstall["leaves"] == ["/root/ml-env as the way back"]


@pytest.mark.parametrize(
    "found", [{"path": "demo/data.json"}, {"path": "demo-1.dist-info/RECORD", "status": "record_edited"}]
)
def test_data_is_put_back_without_a_restart(found: dict[str, str]) -> None:
    restore, reinstall = ways(dirty(found))
    assert restore["downtime_seconds"] == 0
    assert restore["downtime"] == "none"
    assert reinstall["downtime_seconds"] == 551.0
    assert "needs no restart" in reinstall["why"]


@pytest.mark.parametrize("path", ["demo/x.py", "demo/x.so", "demo/lib/y.so.1.2", "bin/vllm", "../../bin/z", "a.pth"])
def test_what_the_process_may_have_read_needs_a_restart(path: str) -> None:
    assert ways(dirty({"path": path}))[0]["downtime_seconds"] == 551.0


@pytest.mark.parametrize("change", [{"config_differs": True}, {"unit_differs": True}, {"ready": False}])
def test_so_does_all_that_is_read_at_the_start(change: dict[str, bool]) -> None:
    assert "restart the service" in ways(dirty({"path": "demo/data.json"}), **change)[0]["steps"]


def test_restore_leaves_what_it_does_not_replace() -> None:
    scan = dirty({}, {"path": "vllm/dbg.py", "status": "unexpected"}, {"path": "~llm", "status": "leftover"})
    restore, _reinstall = ways(scan, package_changes=["torch 2.9.0 -> 2.9.1"])
    assert restore["leaves"][:3] == ["1 unexpected", "1 leftover", "1 package that is not the pin's"]


def test_restore_needs_a_wheel() -> None:
    restore, reinstall = ways(dirty({}, {"path": "b.py", "verified_against": "installed_record"}))
    assert not restore["possible"]
    assert restore["why"] == "no wheel is at hand for 1 of the 2 files, b.py for one"
    assert reinstall["why"] == "the only way to the pin here"


def test_restore_brings_no_other_version() -> None:
    other = {**RELEASES, "environment": {**RELEASES["environment"], "version": "0.15.0"}}
    restore, _reinstall = ways(SCAN, releases=other)
    assert restore["why"] == f"it keeps version 0.15.0, and only a build brings {PIN['version']}"


def test_there_is_no_choice_where_nothing_is_installed_or_nothing_is_built() -> None:
    bare = {**RELEASES, "environment": {"path": "/opt/vllm/current", "is_environment": False}}
    assert planned({}, bare, ready=False)["ways"] == []
    live = {"id": "one-1", "metadata": PIN}
    clean = {**RELEASES, "current": live}
    assert planned({"pristine": True, "findings": []}, clean, config_differs=True)["ways"] == []


def test_a_truncated_scan_is_counted_by_its_summary() -> None:
    summary = {**dict.fromkeys(STATUSES, 0), "truncated": 10, "modified": 11}
    restore, _reinstall = ways({**dirty({"path": "demo/data.json"}), "summary": summary})
    assert restore["steps"] == ["put 11 files back from their wheels, in place", "restart the service"]


def test_the_operator_reads_both_ways_and_what_changes() -> None:
    lines = plan_lines(planned(estimates=KNOWN), ["torch 2.9.0 -> 2.9.1"])
    told = "\n".join(lines)
    assert "downtime: about 551 s, 540 s of it the model's load, by the last run of this host" in lines
    assert "way out restore, not taken" in told
    assert "way out reinstall, taken" in told
    assert lines[-2:] == ["packages that change: 1", "  torch 2.9.0 -> 2.9.1"]
