# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ten thousand findings give a small result; the verdict, the counts and the archive are of all of them."""

from __future__ import annotations

import json
import pathlib
from collections import Counter
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.record.diff import TOTAL_CHARACTERS
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import Finding, Probe, ScanOptions
from ansible_collections.pristine.vllm.plugins.module_utils.record.result import chosen, foremost, result_of
from ansible_collections.pristine.vllm.plugins.module_utils.record.scan import scan
from ansible_collections.pristine.vllm.plugins.modules import drift_archive, wheel_record_info
from ansible_collections.pristine.vllm.tests.unit.plugins.record_support import Env, build_wheel
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import run_module


@pytest.fixture
def wrecked(bare: Env, tmp_path: pathlib.Path) -> pathlib.Path:
    """An environment with 5,000 modified sources and 5,000 that nobody lists; its wheel."""
    files = {f"big/sub{number % 50}/module_{number}.py": b"x = %d\n" % number for number in range(5000)}
    info = bare.install("big", files)
    members = {**files, f"{info.name}/METADATA": (info / "METADATA").read_bytes()}
    wheel = build_wheel(tmp_path / "wheels", members, info=info.name)
    for number, path in enumerate(files):
        (bare.site / path).write_bytes(
            b"x = %d\nprint(x)\nimport torch\ntorch.save(x, '/tmp/dump%d.pt')\n" % (number, number)
        )
        (bare.site / path.replace("module_", "stray_")).write_bytes(b"")
    return wheel


def test_ten_thousand_findings(bare: Env, wrecked: pathlib.Path) -> None:
    done = scan(ScanOptions(environment=str(bare.root), wheels=[str(wrecked)]))
    result = result_of(done, diff=True)
    done.close()
    assert len(done.result.findings) == 10000
    assert (len(result["findings"]), result["summary"]["truncated"]) == (1000, 9000)
    assert (result["summary"]["modified"], result["summary"]["unexpected"]) == (5000, 5000)
    assert not result["pristine"]
    assert [finding["path"] for finding in result["findings"]] == sorted(
        finding["path"] for finding in result["findings"]
    )
    # Those of the 500 sources among the findings that are shown, and the import of each left out.
    assert Counter(probe["kind"] for probe in result["probes"]) == {"tensor_dump": 500, "print": 500}
    assert len(json.dumps(result["diff"])) < 2 * TOTAL_CHARACTERS
    assert "more files" in result["diff"][-1]["prepared"]
    assert len(json.dumps(result)) < 1500000


def test_the_archive_keeps_what_no_result_shows(
    capfd: pytest.CaptureFixture[str], bare: Env, wrecked: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    for stray in bare.site.glob("big/sub*/stray_*.py"):
        stray.unlink()
    for number in range(300, 5000):
        (bare.site / f"big/sub{number % 50}/module_{number}.py").write_bytes(b"x = %d\n" % number)
    common: dict[str, Any] = {"environment": str(bare.root), "wheels": [str(wrecked)], "max_findings": 10}
    shown = run_module(capfd, wheel_record_info.main, **common)
    assert (len(shown["findings"]), shown["summary"]["truncated"], shown["summary"]["modified"]) == (10, 290, 300)
    quarantine = tmp_path / "quarantine"
    for check in (True, False):
        kept = run_module(capfd, drift_archive.main, check=check, diff=True, quarantine=str(quarantine), **common)
        assert kept["diff"]["after"].count("\n") == 11
        assert kept["diff"]["after"].endswith("... and 290 more\n")
        assert (kept["changed"], len(kept["archived"]), kept["truncated"]) == (True, 10, 290)
    assert len(list(quarantine.glob("files/**/module_*.py"))) == 300
    assert len(list(quarantine.glob("patches/**/module_*.py.patch"))) == 300
    assert len(json.loads((quarantine / "findings.json").read_text())["findings"]) == 300
    again = run_module(capfd, drift_archive.main, quarantine=str(quarantine), **common)
    assert not again["changed"]
    everything = run_module(capfd, wheel_record_info.main, **{**common, "max_findings": 0})
    assert (len(everything["findings"]), everything["summary"]["truncated"]) == (300, 0)
    refused = run_module(capfd, wheel_record_info.main, **{**common, "max_findings": -1})
    assert "less than none" in refused["msg"]


def test_what_counts_is_shown_first() -> None:
    findings = [Finding(str(number), "", "declared" if number % 2 else "modified", "") for number in range(10)]
    assert [finding.path for finding in chosen(findings, 6)] == ["0", "1", "2", "4", "6", "8"]
    assert chosen(findings, 10) is chosen(findings, 0) is findings


def test_dumps_are_shown_first() -> None:
    kinds = ["other", "print", "tensor_dump", "other", "tensor_dump", "counter"]
    probes = [Probe("a.py", number, kind, "") for number, kind in enumerate(kinds)]
    assert [probe.line for probe in foremost(probes, 2)] == [2, 4]
    assert [probe.line for probe in foremost(probes, 4)] == [1, 2, 4, 5]
    assert foremost(probes, 0) is probes
