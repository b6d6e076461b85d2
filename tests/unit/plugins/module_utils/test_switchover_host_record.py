# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record that the host writes when nobody is there to write it."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.background import carry_out
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.journal import DONE
from ansible_collections.pristine.vllm.tests.unit.plugins.run_record_support import ABOUT, MARKS, before, planned
from ansible_collections.pristine.vllm.tests.unit.plugins.switchover_support import RUN, Host, host_in


@pytest.fixture
def host(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    with host_in(tmp_path, monkeypatch) as made:
        yield made


def known() -> dict[str, Any]:
    about = {name: value for name, value in ABOUT.items() if name != "finished"}
    return {"about": {**about, "run_id": RUN}, "marks": MARKS[:3], "plan": planned(), "before": before()}


def test_it_tells_how_the_run_ended(host: Host) -> None:
    host.save(record=known())
    journal = carry_out(str(host.directory))
    assert journal is not None
    assert journal.outcome == DONE
    record = json.loads((host.root / "records" / f"{RUN}.json").read_text())
    assert record["outcome"] == "reinstalled"
    assert record["downtime_seconds"] > 0
    assert "start and prove" in [phase["name"] for phase in record["phases"]]
    assert (host.root / "records" / f"{RUN}.md").is_file()


def test_one_that_cannot_be_written_changes_nothing(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    (host.root / "records").write_text("in the way")
    host.save(record=known())
    journal = carry_out(str(host.directory))
    assert journal is not None
    assert journal.outcome == DONE
    assert "the record of run" in capsys.readouterr().err
    assert not os.path.lexists(host.directory / "order.json")
