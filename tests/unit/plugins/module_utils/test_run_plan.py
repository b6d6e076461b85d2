# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which findings lead to which decisions, and which of them cost downtime."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import STATUSES
from ansible_collections.pristine.vllm.plugins.module_utils.run_plan import Plan, plan, reusable

PIN = {
    "version": "0.16.0rc2.dev313+g662205d34",
    "commit": "662205d34eb1bb42228768d7a69a1ac4abf38c89",
    "variant": "",
    "wheel_sha256": "a" * 64,
    "lock_sha256": "b" * 64,
    "python": "/usr/bin/python3",
}
PRISTINE: dict[str, Any] = {"pristine": True, "findings": []}


def host(**changes: Any) -> dict[str, Any]:
    """A host that serves the pinned release."""
    live = {"id": "one-1", "path": "/opt/vllm/releases/one-1", "metadata": dict(PIN)}
    return {
        "environment": {"path": "/opt/vllm/current", "exists": True, "is_environment": True},
        "current": live,
        "previous": None,
        "releases": [live],
        "next_id": "one-2",
        **changes,
    }


def decide(releases: dict[str, Any], **changes: Any) -> Plan:
    found: dict[str, Any] = {
        "pin": PIN,
        "scan": PRISTINE,
        "config_differs": False,
        "unit_differs": False,
        "ready": True,
        **changes,
    }
    return plan(releases, **found)


def test_a_pristine_serving_host_is_left_alone() -> None:
    decided = decide(host())
    assert decided == Plan(
        build=False,
        adapt=False,
        install_unit=False,
        clean=False,
        stop=False,
        restart=False,
        change=False,
        release="one-1",
        wipe_caches=False,
        reasons=[],
    )


def test_a_bare_host_is_built_and_started() -> None:
    bare = host(
        environment={"path": "/opt/vllm/current", "exists": False, "is_environment": False}, current=None, releases=[]
    )
    decided = decide(bare, scan={}, ready=False, unit_differs=True)
    assert (decided.build, decided.restart, decided.install_unit, decided.release) == (True, True, True, "one-2")
    assert not decided.stop
    assert not decided.wipe_caches


def test_drift_is_a_reason_to_build_the_same_pin_again() -> None:
    scan = {"pristine": False, "findings": [{"status": "modified"}] * 4 + [{"status": "declared"}]}
    decided = decide(host(), scan=scan)
    assert (decided.build, decided.restart, decided.release) == (True, True, "one-2")
    assert decided.reasons == ["the live environment is not pristine: 4 modified"]
    assert not decided.wipe_caches, "kernels of the same version are good"


@pytest.mark.parametrize("key", sorted(PIN))
def test_any_part_of_the_pin_that_differs_is_a_reason_to_build(key: str) -> None:
    decided = decide(host(), pin={**PIN, key: "other"})
    assert decided.build
    assert f"{key} {PIN[key] or 'none'} -> other" in decided.reasons[0]


def test_compiled_kernels_go_only_with_their_version() -> None:
    assert decide(host(), pin={**PIN, "version": "0.17.0"}).wipe_caches
    assert not decide(host(), pin={**PIN, "lock_sha256": "c" * 64}).wipe_caches


def test_an_environment_that_we_did_not_build_is_replaced() -> None:
    adopted = host(current=None, releases=[])
    assert decide(adopted).build
    assert "was not built by this collection" in decide(adopted).reasons[0]
    live = {"id": "adopted-ml-env-1", "metadata": {"version": PIN["version"], "adopted_from": "/root/ml-env"}}
    moved = decide(host(current=live, releases=[live]))
    assert (moved.build, moved.release, moved.wipe_caches) == (True, "one-2", False)
    assert "was not built by this collection" in moved.reasons[0]


@pytest.mark.parametrize(
    ("found", "decision"), [({"config_differs": True}, "adapt"), ({"unit_differs": True}, "install_unit")]
)
def test_configuration_alone_restarts_without_a_build(found: dict[str, bool], decision: str) -> None:
    decided = decide(host(), **found)
    assert getattr(decided, decision)
    assert decided.restart
    assert not decided.build
    assert decided.release == "one-1"


def test_a_dead_service_is_started_without_a_build() -> None:
    decided = decide(host(), ready=False, not_ready_reason="the unit is inactive")
    assert decided.restart
    assert not decided.build
    assert decided.reasons == ["the service does not serve: the unit is inactive"]


def test_debug_artifacts_alone_cost_no_downtime() -> None:
    decided = decide(host(), artifacts=35)
    assert (decided.change, decided.clean, decided.restart) == (True, True, False)


def test_a_damaged_release_is_replaced_and_stopped() -> None:
    damaged = host()
    damaged["environment"].update(is_environment=False, problem="/opt/vllm/current has no pyvenv.cfg")
    decided = decide(damaged)
    assert (decided.build, decided.stop, decided.restart, decided.release) == (True, True, True, "one-2")
    (reason,) = decided.reasons
    assert reason.startswith(
        "the live release one-1 is damaged: /opt/vllm/current has no pyvenv.cfg; should the new one"
    )
    without = decide(damaged, scan={"problem": "it holds no distribution"}, ready=False, not_ready_reason="it died")
    assert without.reasons[1:] == [
        "what is left of it was not compared with its wheels, and nothing of it archived: it holds no distribution",
        "the service does not serve: it died",
    ]


def test_a_forced_run_builds_a_new_release() -> None:
    decided = decide(host(), force=True)
    assert (decided.build, decided.release) == (True, "one-2")


def test_a_release_that_a_killed_run_left_is_taken_up() -> None:
    staged = {"id": "one-2", "metadata": dict(PIN)}
    scan = {"pristine": False, "findings": [{"status": "modified"}]}
    waiting = host(next_id="one-3")
    waiting["releases"] = [*waiting["releases"], staged]
    assert decide(waiting, scan=scan).release == "one-2"
    assert decide(waiting, scan=scan, force=True).release == "one-3", "forced is new, whatever lies there"


def test_neither_the_live_nor_the_previous_release_is_taken_up() -> None:
    releases = [{"id": name, "metadata": dict(PIN)} for name in ("one-1", "one-2")]
    assert reusable(releases, PIN, {"one-1", "one-2"}) is None
    assert reusable([{"id": "one-3", "metadata": None}], PIN, set()) is None


def test_the_reason_counts_what_a_truncated_result_leaves_out() -> None:
    scan = {
        "pristine": False,
        "findings": [{"status": "modified"}],
        "summary": {**dict.fromkeys(STATUSES, 0), "modified": 7, "missing": 2, "declared": 3, "truncated": 11},
    }
    assert decide(host(), scan=scan).reasons == ["the live environment is not pristine: 2 missing, 7 modified"]
