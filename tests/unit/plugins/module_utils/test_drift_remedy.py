# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a restore does about findings, and whether the running process needs a restart for it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.filter.drift_remedy import drift_remedy
from ansible_collections.pristine.vllm.plugins.module_utils.drift.remedy import Host, Remedy, plan_of, remedy

UNIT = "/etc/systemd/system/vllm.service"
DROPIN = "/etc/systemd/system/vllm.service.d/debug.conf"
LIVE = {"current": {"id": "v-1", "path": "/opt/vllm/releases/v-1", "metadata": {"version": "0.16.0"}}}
HOST = Host(True, LIVE, UNIT, main_pid=42, started=1000.0)


def found(kind: str, path: str, status: str, counts: bool = True) -> dict[str, Any]:
    return {"kind": kind, "path": path, "status": status, "counts": counts}


def decided(*findings: dict[str, Any], host: Host = HOST, kinds: tuple[str, ...] = ()) -> Remedy:
    return remedy(findings, kinds or sorted({one["kind"] for one in findings}), host)


@pytest.mark.parametrize(
    ("finding", "restart"),
    [
        (found("code", "vllm/a.py", "modified"), True),
        (found("code", "vllm/a.abi3.so", "missing"), True),
        (found("code", "bin/vllm", "modified"), True),
        (found("code", "vllm/a.json", "modified"), False),
        (found("code", "vllm-1.dist-info/RECORD", "record_edited"), False),
        (found("code", "vllm/a.py", "declared", counts=False), False),
        (found("process", "vllm.service", "changed"), True),
        (found("unit", UNIT, "modified"), True),
        (found("unit", "vllm.service", "reload_needed"), False),
        (found("artifacts", "/tmp/x.pt", "leftover"), False),
        (found("model_config", "/m/config.json", "unadapted"), True),
    ],
)
def test_only_what_the_process_may_have_read_costs_a_restart(finding: dict[str, Any], restart: bool) -> None:
    assert decided(finding).restart == restart
    assert not decided(finding, host=dataclasses.replace(HOST, main_pid=None)).restart, "nothing runs"


@pytest.mark.parametrize(("changed", "restart"), [(999.0, True), (1000.0, True), (1001.0, False)])
def test_a_model_that_was_refreshed_after_the_start_is_not_what_is_served(changed: float, restart: bool) -> None:
    host = dataclasses.replace(HOST, changed_at={"/m/config.json": changed})
    done = decided(found("model_config", "/m/config.json", "unadapted"), host=host)
    assert (done.adapt, done.restart) == (True, restart)


def test_what_the_policy_only_reports_is_left_alone() -> None:
    done = decided(
        found("code", "vllm/a.json", "modified"),
        found("unit", DROPIN, "unexpected"),
        found("process", "vllm.service", "changed"),
        kinds=("code",),
    )
    assert (done.code, done.unit, done.remove, done.restart) == (True, False, [], False)


def test_the_dumps_go_with_the_code_that_tells_of_them() -> None:
    assert decided(found("code", "vllm/a.py", "modified")).clean
    assert not decided(found("unit", UNIT, "modified")).clean


def test_drop_ins_that_nobody_declared_go_and_the_unit_is_written() -> None:
    done = decided(found("unit", DROPIN, "unexpected"), found("unit", "/run/systemd/system/vllm.service", "unexpected"))
    assert (done.unit, done.remove, done.refused) == (True, [{"path": DROPIN}], [])


@pytest.mark.parametrize(
    ("finding", "host", "reason"),
    [
        (found("unit", "vllm.service", "masked"), HOST, "systemctl unmask"),
        (found("unit", DROPIN, "modified"), HOST, "put it back by hand"),
        (found("unit", UNIT, "modified"), dataclasses.replace(HOST, releases={}), "before a reinstall has adopted"),
        (found("link", "/opt/vllm/current", "redirected"), HOST, "drift_watch_release"),
        (found("code", "a.py", "modified"), dataclasses.replace(HOST, provisioned=False), "only watched"),
    ],
)
def test_what_cannot_be_put_right_in_place(finding: dict[str, Any], host: Host, reason: str) -> None:
    (refused,) = decided(finding, host=host).refused
    assert reason in refused


def test_the_link_is_led_back_where_somebody_said_where_to() -> None:
    host = dataclasses.replace(HOST, expected="v-2")
    done = decided(found("link", "/opt/vllm/current", "redirected"), host=host)
    assert (done.release, done.restart, done.refused) == ("v-2", True, [])
    plan = plan_of(done, ["link"], host)
    assert (plan["release"], plan["wipe_caches"], plan["build"]) == ("v-2", True, False)


def test_the_filter_tells_the_plan_too() -> None:
    told = drift_remedy([found("code", "a.py", "modified")], ["code"], True, UNIT, releases=LIVE, main_pid=42)
    assert told["code"]
    assert told["restart"]
    assert told["plan"]["stop"]
    assert told["plan"]["restore"]
    assert told["plan"]["pin"] == {"version": "0.16.0"}
    assert told["plan"]["expected"]["downtime"].startswith("one model load")
