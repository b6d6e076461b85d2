# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook drift on a host that nobody provisioned: given an environment, it scans, reports and keeps a record."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from ansible_collections.pristine.vllm.tests.unit.roles import test_drift_watch
from ansible_collections.pristine.vllm.tests.unit.roles.test_drift_watch import Watched, watched

__all__ = ["watched"]

PLAY = """
- name: Watch
  ansible.builtin.import_playbook: pristine.vllm.drift
"""


def tick(host: Watched, **more: Any) -> tuple[int, str]:
    records = str(host.folder / "controller")
    return host.run(drift_hosts="all", ansible_connection="local", run_record_controller_path=records, **more)


def records(host: Watched) -> list[dict[str, Any]]:
    places = sorted(pathlib.Path(host.folder).glob("history/records/*.json"))
    return [json.loads(path.read_text()) for path in places]


def test_only_what_is_new_leaves_a_record(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_drift_watch, "PLAY", PLAY)
    code, said = tick(watched)
    assert code == 0, said
    assert "localhost: pristine: " in said
    assert records(watched) == []
    next(watched.environment.rglob("demo.py")).write_text("dirt = 1\n")
    code, said = tick(watched)
    assert code == 2
    assert "localhost: drifted and reported (1 finding, 1 new" in said
    (record,) = records(watched)
    assert (record["outcome"], record["playbook"], record["before"]["pristine"]) == ("checked", "drift", False)
    assert [one["path"] for one in record["before"]["findings"]] == ["demo.py"]
    assert list(watched.folder.glob("controller/localhost/*.md"))


def test_a_host_that_is_only_watched_is_never_touched(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_drift_watch, "PLAY", PLAY)
    demo = next(watched.environment.rglob("demo.py"))
    demo.write_text("dirt = 1\n")
    code, said = tick(watched, drift_watch_policy={"code": "restore"})
    assert code == 2
    assert "localhost: remediation failed" in said
    assert "this host is only watched" in said
    assert demo.read_text() == "dirt = 1\n"
