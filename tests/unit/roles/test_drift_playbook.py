# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook drift on a host that nobody provisioned: given an environment, it scans, reports and keeps a record."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
import yaml
from ansible_collections.pristine.vllm.tests.unit.roles import test_drift_watch
from ansible_collections.pristine.vllm.tests.unit.roles.test_drift_watch import Watched, watched

__all__ = ["watched"]

ROOT = pathlib.Path(__file__).resolve().parents[3]
PLAY = """
- name: Watch
  ansible.builtin.import_playbook: pristine.vllm.drift
"""


def tick(host: Watched, **more: Any) -> tuple[int, str]:
    records = str(host.folder / "controller")
    return host.run(drift_hosts="all", ansible_connection="local", run_record_controller_path=records, **more)


def test_a_remediation_is_in_the_history_before_the_host_has_it() -> None:
    """And after the policy was asked once more: what is begun would count against itself."""
    tasks = yaml.safe_load((ROOT / "playbooks/phases/drain.yml").read_text())
    asked = [json.dumps(task) for task in tasks]
    places = [
        next(n for n, task in enumerate(asked) if what in task)
        for what in ("still_due.yml", "begun.yml", "hand_over.yml")
    ]
    assert places == sorted(places)
    assert tasks[places[1]]["when"] == "drift_action is defined"


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
    # Long after that, in both places.
    for path in watched.folder.rglob("records/*.json"), watched.folder.glob("controller/localhost/*.json"):
        (now,) = path
        old = {**record, "run_id": "20200101T000000Z", "finished_epoch": 1577836800}
        now.with_name("20200101T000000Z.json").write_text(json.dumps(old))
    next(watched.environment.rglob("demo.py")).write_text("other = 1\n")
    tick(watched)
    first, second = (one["run_id"] for one in records(watched))
    assert first == record["run_id"] < second
    assert len(list(watched.folder.glob("controller/localhost/*.json"))) == 2


def test_one_that_is_only_watched_is_never_touched_and_none_is_remediated_after_it(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_drift_watch, "PLAY", PLAY)
    demo = next(watched.environment.rglob("demo.py"))
    demo.write_text("dirt = 1\n")
    state = f"{watched.folder}/{{{{ inventory_hostname }}}}/state.json"
    policy = {"code": "restore"}
    records = str(watched.folder / "controller")
    code, said = watched.run(
        *("--inventory", "second,"),
        drift_hosts="all",
        ansible_connection="local",
        run_record_controller_path=records,
        drift_watch_policy=policy,
        drift_watch_state=state,
    )
    assert code == 2
    assert "localhost: remediation failed" in said
    assert "this host is only watched" in said
    assert demo.read_text() == "dirt = 1\n"
    assert "second: drifted, remediation is due" in said, "it is scanned and told of, and not touched"
    assert "second: remediation failed" not in said
