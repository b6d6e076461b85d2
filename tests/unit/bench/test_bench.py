# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make bench` prints and writes; the measuring itself is not run here."""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import sys
from typing import Any

import pytest
from ansible_collections.pristine.vllm.tests.bench import memory, run, scan_effect, support
from ansible_collections.pristine.vllm.tests.unit.plugins.record_support import Env


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> list[str]:
    """Benches that measure at once; the names of the modules that did."""
    asked: list[str] = []

    class Module:
        def __init__(self, name: str) -> None:
            self.name = name.rpartition(".")[2]

        def measure(self) -> list[dict[str, Any]]:
            asked.append(self.name)
            return [support.entry(name, 1.0, 2.0, "s") for name in run.BENCHES[self.name]]

    monkeypatch.setattr(importlib, "import_module", Module)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    return asked


def test_every_bench(
    measured: list[str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "--only", ""])
    assert run.main() == 0
    assert measured == list(run.BENCHES)
    rows = json.loads((tmp_path / "build/bench.json").read_text())
    assert [row["name"] for row in rows] == list(run.LIMITS)
    assert all({"name", "ours", "theirs", "ratio", "unit", "runs"} <= set(row) for row in rows)
    told = capsys.readouterr().out
    assert all(name in told for name in run.LIMITS)


def test_one_bench(measured: list[str]) -> None:
    assert [row["name"] for row in run.run("rescan_vs_full_scan")] == ["rescan_vs_full_scan"]
    assert measured == ["full_scan"]


def test_a_bench_that_is_none(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "--only", "fullscan"])
    assert run.main() == 2
    assert "no bench fullscan; there are full_scan_vs_openssl" in capsys.readouterr().err


def test_a_ratio_beyond_its_limit_is_marked() -> None:
    good, bad = (support.entry("full_scan_vs_openssl", ours, 1.0, "s") for ours in (1.25, 1.26))
    lines = run.table([good, {**bad, "of": "some files"}])
    assert "1.25  " in lines[1]
    assert "1.25! " in lines[2]
    assert lines[3].strip() == "some files"


def test_runs_alternate_and_the_first_round_does_not_count() -> None:
    calls: list[str] = []
    times = iter([100.0, 100.0, 1.0, 4.0, 3.0, 6.0, 2.0, 5.0])

    def measure(name: str) -> float:
        calls.append(name)
        return next(times)

    assert support.alternating(lambda: measure("a"), lambda: measure("b"), runs=3) == [2.0, 5.0]
    assert calls == ["a", "b"] * 4


def test_a_scan_in_a_process_of_its_own(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = Env.bare(tmp_path / "env")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    bare.install("pkg", {"pkg/a.py": b"a", "pkg/gone.py": b"b"})
    (bare.site / "pkg/gone.py").unlink()
    summary = support.scanned(bare.root, paths=str(tmp_path / "paths"))
    assert (summary["files"], summary["missing"]) == (3, 1)
    paths = (tmp_path / "paths").read_bytes().split(b"\0")
    assert sorted(os.path.basename(path) for path in paths) == [b"", b"METADATA", b"a.py"]
    with pytest.raises(support.BenchError, match="no distribution"):
        support.scanned(tmp_path)
    assert memory._peak(bare.root) > 1
    with pytest.raises(support.BenchError, match="failed"):
        memory._peak(tmp_path)


def test_a_command_that_fails_is_no_measurement() -> None:
    assert support.timed(["true"]) > 0
    with pytest.raises(support.BenchError, match="ended with 1"):
        support.timed(["false"])


def test_what_a_round_of_completions_comes_to() -> None:
    seen = scan_effect.Round([0.1] * 99 + [9.0] * 2, lasted=50.5)
    assert seen.p99 == 9.0
    assert seen.per_completion == 0.5
