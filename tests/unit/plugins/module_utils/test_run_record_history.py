# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the last runs say of the next one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible_collections.pristine.vllm.plugins.module_utils.run_record.history import forecast, read_records
from ansible_collections.pristine.vllm.plugins.module_utils.run_record.ways import expected_seconds, expected_text


def run(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "run_id": f"2026113{number}T000000Z",
        "outcome": "reinstalled",
        "failure": "",
        "phases": [{"name": "stage", "seconds": 40.0 + number}, {"name": "switch", "seconds": 0.0}],
        "downtime_seconds": 550.0 + number,
        "load_seconds": 540.0,
        **changes,
    }


def keep(folder: Path, host: str, *records: dict[str, Any]) -> None:
    (folder / host).mkdir(parents=True, exist_ok=True)
    for record in records:
        (folder / host / f"{record['run_id']}.json").write_text(json.dumps(record))


def test_one_slow_run_does_not_move_the_forecast(tmp_path: Path) -> None:
    keep(tmp_path, "gpu-1", *(run(number) for number in range(3)), run(3, downtime_seconds=5000.0))
    told = forecast(read_records(str(tmp_path), "gpu-1"), {})
    assert (told["downtime_seconds"], told["load_seconds"], told["overhead_seconds"]) == (551.5, 540.0, 11.5)
    assert told["phases"] == {"stage": 41.5}
    assert told["source"] == "the median of the last 4 runs of this host"
    assert expected_seconds(told) == 551.5


def test_only_the_last_five_good_runs_count(tmp_path: Path) -> None:
    keep(tmp_path, "gpu-1", *(run(number) for number in range(8)))
    keep(tmp_path, "gpu-1", run(8, outcome="rolled back"), run(9, failure="x"))
    assert [record["run_id"][:8] for record in read_records(str(tmp_path), "gpu-1")] == [
        f"2026113{number}" for number in (7, 6, 5, 4, 3)
    ]


def test_a_broken_record_keeps_no_run_from_starting(tmp_path: Path) -> None:
    keep(tmp_path, "gpu-1", run(0))
    (tmp_path / "gpu-1/20261131T000000Z.json").write_text('{"outcome": "reinst')
    (tmp_path / "gpu-1/20261132T000000Z.json").write_bytes(b"\xff\xfe")
    (tmp_path / "gpu-1/20261133T000000Z.json").write_text("[]")
    (tmp_path / "gpu-1/20261134T000000Z.json").mkdir()
    odd = run(
        5, phases=[1, {"seconds": 3}, {"name": "stage", "seconds": "x"}], downtime_seconds=None, load_seconds=True
    )
    keep(tmp_path, "gpu-1", odd)
    told = forecast(read_records(str(tmp_path), "gpu-1"), {})
    assert (told["runs"], told["downtime_seconds"], told["load_seconds"]) == (2, 550.0, 540.0)


def test_a_host_without_runs_is_told_by_its_neighbours() -> None:
    told = forecast([], {"gpu-3": [run(2)], "gpu-2": [run(4), run(0)], "gpu-4": []})
    assert told["hosts"] == ["gpu-2", "gpu-3"]
    assert told["downtime_seconds"] == 552.0
    assert told["source"] == "the median of the last 3 runs of gpu-2, gpu-3, as this host has none"


def test_nothing_known_is_said(tmp_path: Path) -> None:
    told = forecast(read_records(str(tmp_path), "gpu-1"), {})
    assert (told["downtime_seconds"], told["runs"], told["phases"]) == (None, 0, {})
    assert "no run" in told["source"]
    assert expected_text(told) == "one model load, not measured on this host yet"


def test_a_host_that_was_only_provisioned_has_a_load() -> None:
    provisioned = run(0, downtime_seconds=0, load_seconds=None, phases=[{"name": "start and prove", "seconds": 530.0}])
    told = forecast([provisioned], {})
    assert (told["downtime_seconds"], told["load_seconds"], told["overhead_seconds"]) == (None, 530.0, None)
    assert expected_text(told).startswith("one model load, about 530 s by the last run of this host")
