# Copyright: Pristine vLLM maintainers (@pristine-vllm)
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input: one clear message, before anything changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from testinfra.host import Host

# A wheel that the host keeps needs no index. No wheel has this digest.
NOT_KEPT = {"vllm_wheel_sha256": "0" * 64}
# Each is a host of its own to Ansible, and all of them are the one host that there is.
CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "unreachable-index": ({"vllm_index_url": "http://index:9", **NOT_KEPT}, ["http://index:9", "refused"]),
    "page-that-is-not-html": ({"vllm_index_url": "http://index/portal", **NOT_KEPT}, ["http://index/portal", "HTML"]),
    "version-not-in-the-index": (
        {"vllm_version": "0.16.0rc2.dev999+g662205d34"},
        ["0.16.0rc2.dev999+g662205d34", "0.16.0rc2.dev313+g662205d34"],
    ),
    "no-environment": ({"vllm_environment": "/srv"}, ["/srv", "environment"]),
    "model-without-config": ({"vllm_model_path": "/opt"}, ["/opt/config.json"]),
    "unknown-unit": ({"vllm_unit": "vllm-kimi-k52"}, ["vllm-kimi-k52"]),
}
MANY = {"vllm_unit": "vllm-kimi-k52", "vllm_model_path": "/opt", "vllm_index_url": "http://index:9", **NOT_KEPT}
BEGINS = "stands in the way on "


@pytest.fixture(scope="module")
def refused(host: Host, playbook: Callable[..., Any], variables: dict[str, Any], tmp_path_factory: Any) -> Any:
    """One run with all of it. What it says of each case begins with BEGINS and its name."""
    hosts = {case: {**variables, **given} for case, (given, _told) in CASES.items()}
    inventory: Path = tmp_path_factory.mktemp("inventory") / "hosts.json"
    group = {"hosts": {**hosts, "many": {**variables, **MANY}}}
    inventory.write_text(json.dumps({"all": {"children": {"vllm_hosts": group}}}), encoding="utf-8")
    before = taken(host)
    run = playbook(
        "pristine.vllm.reinstall", "-i", str(inventory), "--limit", ",".join(group["hosts"]), reinstall_serial="100%"
    )
    assert taken(host) == before
    return run


def taken(host: Host) -> str:
    """All that a run could change, but for what passes: temporary files of Ansible, and the lock."""
    files = "find /etc /opt /srv /usr/local -xdev -type f -printf '%p %T@ %s\\n' | sort"
    return str(host.check_output(f"{files}; systemctl show -P MainPID,NRestarts vllm-kimi-k25"))


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused_before_anything_changed(case: str, refused: Any) -> None:
    assert refused.code != 0
    assert refused.changed == 0
    told = refused.said.partition(f"1 thing {BEGINS}{case}. Nothing was changed")[2].partition(BEGINS)[0]
    for words in CASES[case][1]:
        assert words in told


def test_all_blockers_are_told_at_once(refused: Any) -> None:
    assert "3 things stand in the way on many" in refused.said


def test_phases_that_belong_together_cannot_be_taken_apart(
    playbook: Callable[..., Any], state: Callable[[], Any]
) -> None:
    before = state()
    for name, *flags in (
        ("reinstall", "--tags", "start,record"),
        ("reinstall", "--skip-tags", "stage"),
        ("rollback", "--skip-tags", "verify"),
        ("rollback", "--tags", "drain"),
    ):
        run = playbook(f"pristine.vllm.{name}", *flags)
        assert run.code != 0
        assert "belong together" in run.said
    assert state() == before


def test_a_failure_while_it_builds_leaves_a_record_and_the_service_alone(
    playbook: Callable[..., Any], state: Callable[[], Any], records: Callable[[str], list[dict[str, Any]]]
) -> None:
    before = state()
    run = playbook("pristine.vllm.reinstall", nightly_wheel_force=True, nightly_wheel_import_check=["no_such_module"])
    assert run.code != 0
    assert "Phase stage of the reinstall failed on vllm01. Nothing was stopped." in run.said
    record = records("reinstall")[-1]
    assert record["outcome"] == "nothing was stopped"
    assert "no_such_module" in record["failure"]
    assert [phase["name"] for phase in record["phases"]] == ["preflight", "evidence", "stage"]
    assert record["before"]["pristine"]
    assert state() == before
