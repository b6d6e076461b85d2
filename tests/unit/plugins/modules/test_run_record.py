# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record lands whole or not at all, and a second time changes nothing."""

from __future__ import annotations

import json
import pathlib
import time
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.run_record.place import apply, plan
from ansible_collections.pristine.vllm.plugins.modules import run_record
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import run_module
from ansible_collections.pristine.vllm.tests.unit.plugins.run_record_support import recorded


class Keeper:
    """The module with one folder."""

    def __init__(self, capfd: pytest.CaptureFixture[str], folder: pathlib.Path) -> None:
        self.capfd, self.folder = capfd, folder

    def __call__(self, record: dict[str, Any], **params: Any) -> dict[str, Any]:
        result: dict[str, Any] = run_module(self.capfd, run_record.main, path=str(self.folder), record=record, **params)
        return result


@pytest.fixture
def keep(capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> Keeper:
    return Keeper(capfd, tmp_path / "records/gpu-01")


def test_check_run_check_again(keep: Keeper) -> None:
    record = recorded()
    told = keep(record, check=True, diff=True)
    assert told["changed"]
    assert not keep.folder.exists()
    done = keep(record, diff=True)
    assert (done["changed"], done["diff"], done["files"]) == (True, told["diff"], told["files"])
    assert json.loads((keep.folder / "20261130T032512Z.json").read_text()) == json.loads(json.dumps(record))
    assert (keep.folder / "20261130T032512Z.md").read_text().startswith("# reinstall of gpu-01")
    assert sorted(path.name for path in keep.folder.iterdir()) == ["20261130T032512Z.json", "20261130T032512Z.md"]
    for check in (False, True):
        again = keep(record, check=check, diff=True)
        assert (again["changed"], again["diff"]) == (False, [])


def test_it_is_written_in_utf_8(keep: Keeper) -> None:
    keep(recorded(failure="café"))
    assert "café" in (keep.folder / "20261130T032512Z.md").read_text(encoding="utf-8")


def test_an_id_leads_nowhere_else(keep: Keeper) -> None:
    told = keep({**recorded(), "run_id": "../../x"})
    assert told["failed"]
    assert "'../../x'" in told["msg"]


def test_what_is_no_record_is_said(keep: Keeper) -> None:
    told = keep({"run_id": "x"})
    assert told["failed"]
    assert "not a run record" in told["msg"]
    assert not keep.folder.exists()


def test_a_folder_that_cannot_be_written_to_is_named(keep: Keeper) -> None:
    keep.folder.parent.write_text("a file where the folder should be")
    told = keep(recorded())
    assert told["failed"]
    assert str(keep.folder) in told["msg"]
    assert "Next:" in told["msg"]


def scanned(folder: pathlib.Path, days: float, **more: Any) -> str:
    """The record of a scan so many days ago, written as a run writes it; its id."""
    ended = time.time() - days * 86400
    name = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(ended - 60))
    record = {**recorded(), "run_id": name, "playbook": "drift", "outcome": "checked", "finished_epoch": ended, **more}
    apply(plan(str(folder), record))
    return name


def test_records_of_old_scans_go_and_all_others_stay(capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    old = [scanned(tmp_path, 91), scanned(tmp_path, 400)]
    scanned(tmp_path, 89)
    for days, outcome in enumerate(("remediated", "rolled back", "nothing was stopped", "restored")):
        scanned(tmp_path, 200 + days, outcome=outcome)
    scanned(tmp_path, 210, playbook="reinstall")
    scanned(tmp_path, 211, finished_epoch=None)
    # What is no record, or one of something else.
    copied = scanned(tmp_path, 212)
    (tmp_path / f"{copied}.json").rename(tmp_path / "20200101T000000Z.json")
    for name, text in (("20200102T000000Z", "{"), ("20200103T000000Z", "[]"), ("20200104T000000Z", "\xff")):
        (tmp_path / f"{name}.json").write_text(text, encoding="latin-1")
    (tmp_path / "20200105T000000Z.json").symlink_to(tmp_path / f"{old[0]}.json")
    (tmp_path / "20200106T000000Z.json").mkdir()
    (tmp_path / "notes.json").write_text('{"playbook": "drift", "outcome": "checked", "finished_epoch": 1}')
    before = {path.name for path in tmp_path.iterdir()}
    asked: dict[str, Any] = {"path": str(tmp_path), "state": "pruned", "retention_days": 90}
    told = run_module(capfd, run_record.main, check=True, diff=True, **asked)
    assert {path.name for path in tmp_path.iterdir()} == before
    done = run_module(capfd, run_record.main, diff=True, **asked)
    assert (done["changed"], done["files"], done["diff"]) == (True, told["files"], told["diff"])
    gone = {f"{name}.{kind}" for name in old for kind in ("md", "json")}
    assert before - {path.name for path in tmp_path.iterdir()} == gone
    for check in (True, False):
        again = run_module(capfd, run_record.main, check=check, **asked)
        assert (again["changed"], again["files"]) == (False, [])


def test_a_folder_without_records(capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        told = run_module(capfd, run_record.main, path=str(folder), state="pruned", retention_days=90)
        assert (told["changed"], told["files"]) == (False, [])
    (tmp_path / "file").touch()
    told = run_module(capfd, run_record.main, path=str(tmp_path / "file"), state="pruned", retention_days=90)
    assert "cannot be looked for, and stay: Not a directory" in json.dumps(told["warnings"])
    told = run_module(capfd, run_record.main, path=str(tmp_path), state="pruned", retention_days=-1)
    assert "retention_days is -1" in told["msg"]


def test_what_cannot_be_removed_is_told(capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    name = scanned(tmp_path, 91)
    (tmp_path / f"{name}.md").unlink()
    (tmp_path / f"{name}.md").mkdir()
    told = run_module(capfd, run_record.main, path=str(tmp_path), state="pruned", retention_days=90)
    assert f"2 of 2 files of old records cannot be removed, such as {tmp_path}/{name}.md" in json.dumps(
        told["warnings"]
    )
    assert (told["changed"], told["files"], (tmp_path / f"{name}.json").exists()) == (False, [], True)
