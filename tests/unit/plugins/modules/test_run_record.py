# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record lands whole or not at all, and a second time changes nothing."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
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
