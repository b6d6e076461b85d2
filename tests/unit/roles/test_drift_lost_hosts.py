# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook drift where hosts are away: it tells of all others, and remediates none after one that was lost."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from ansible_collections.pristine.vllm.tests.unit.plugins.service_support import closed_port
from ansible_collections.pristine.vllm.tests.unit.roles import test_drift_watch
from ansible_collections.pristine.vllm.tests.unit.roles.test_drift_playbook import PLAY
from ansible_collections.pristine.vllm.tests.unit.roles.test_drift_watch import Watched, watched

__all__ = ["watched"]


def fleet(host: Watched, **connections: str) -> tuple[str, str]:
    """An inventory of hosts that all have this dirty environment and are to be restored, each with its connection."""
    next(host.environment.rglob("demo.py")).write_text("dirt = 1\n")
    common = {
        "ansible_host": "127.0.0.1",
        "ansible_port": int(closed_port().rpartition(":")[2]),
        "drift_watch_policy": {"code": "restore"},
        "drift_watch_state": f"{host.folder}/{{{{ inventory_hostname }}}}/state.json",
        "run_record_controller_path": str(host.folder / "controller"),
    }
    hosts = {name: {**common, "ansible_connection": connection} for name, connection in connections.items()}
    path = pathlib.Path(host.folder / "fleet.json")
    path.write_text(json.dumps({"all": {"hosts": {**hosts, "localhost": {"ansible_connection": "local"}}}}))
    return "--inventory", str(path)


# Reached by the scan, and not any more once something is due.
LOST = "{{ 'local' if drift_action is not defined else 'ssh' }}"


@pytest.fixture(autouse=True)
def plays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_drift_watch, "PLAY", PLAY)


def run(host: Watched, inventory: tuple[str, str], **more: Any) -> tuple[int, str]:
    return host.run(*inventory, drift_hosts="all:!localhost", **more)


def test_one_that_cannot_be_reached_is_told_and_hides_nobody(watched: Watched) -> None:
    inventory = fleet(watched, away="ssh", there="local")
    code, said = run(watched, inventory, drift_serial=1, drift_watch_hold_file=str(watched.folder / "fleet.json"))
    assert code == 2, said
    assert "away: not reached, not looked at: " in said
    assert "there: held" in said


def test_a_batch_that_is_lost_keeps_the_next_from_being_remediated(watched: Watched) -> None:
    inventory = fleet(watched, first=LOST, second=LOST, third="local")
    code, said = run(watched, inventory, drift_hosts_at_once=2)
    assert code != 0, said
    assert "first, second: lost on the way" in said, said
    assert "third: drifted, remediation is due" in said
    assert "third: remediation failed" not in said
