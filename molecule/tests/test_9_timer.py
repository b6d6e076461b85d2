# Copyright: Pristine vLLM maintainers (@pristine-vllm)
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The incident on a host whose own timer remediates it: nobody types anything between dirt and clean service."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pristine.vllm.molecule.shared.hosts import CHECKOUT
from ansible_collections.pristine.vllm.molecule.tests.schedule_support import (
    CODE,
    allow_in_container,
    poll,
    pulling,
    said,
)
from testinfra.host import Host

DIRTY = CHECKOUT / "tests/fixtures/incident/dirty.yml"
# Two scans at idle priority beside a serving vLLM, and a model that is loaded.
PATIENCE = 900.0


@pytest.mark.parametrize(("policy", "outcome"), [("restore", "restored"), ("reinstall", "reinstalled")])
def test_the_timer_remediates_the_incident(
    policy: str,
    outcome: str,
    host: Host,
    playbook: Callable[..., Any],
    state: Callable[[], Any],
    completion: Callable[[], str],
    variables: dict[str, Any],
    records: Callable[[str], list[dict[str, Any]]],
    tarball: Path,
) -> None:
    def remediations() -> list[dict[str, Any]]:
        return [record for record in records("drift") if record["outcome"] != "checked"]

    allow_in_container(host)
    model = f"{variables['fixture_folder']}/model"
    assert playbook(DIRTY, incident_model=model).code == 0, "where the other way was taken before, it is dirty again"
    dirty = state()
    assert dirty.dumps
    scheduled = playbook(
        "pristine.vllm.schedule",
        **pulling(tarball),
        drift_watch_policy={"code": policy, "model_config": "restore", "artifacts": "restore"},
        drift_watch_max_per_day=9,
        drift_watch_schedule_calendar="minutely",
        drift_watch_schedule_delay=0,
    )
    assert scheduled.code == 0
    told = len(remediations())
    poll("a remediation is recorded", lambda: len(remediations()) > told, PATIENCE)
    record = remediations()[-1]
    assert playbook("pristine.vllm.schedule", **pulling(tarball), drift_watch_schedule_state="absent").code == 0
    assert record["outcome"] == outcome, said(host)
    assert record["after"]["pristine"]
    assert record["downtime_seconds"] > 0
    after = state()
    assert (after.live == dirty.live) == (policy == "restore")
    assert "nomla_debug" not in host.file(CODE).content_string
    assert after.dumps == ()
    assert "kv_cache_scheme" not in host.file(f"{variables['vllm_model_path']}/config.json").content_string
    assert completion()
