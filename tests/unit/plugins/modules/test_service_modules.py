# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.modules import gpu_info, host_preflight_info, vllm_ready
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import Ran, run_module
from ansible_collections.pristine.vllm.tests.unit.plugins.service_support import (
    MODEL,
    ROOT,
    UNIT,
    FakeSystemd,
    FakeVllm,
    closed_port,
    fake_vllm,
)


@pytest.fixture
def systemd(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> FakeSystemd:
    return FakeSystemd(tmp_path / "systemd", monkeypatch.setenv)


@pytest.fixture
def server() -> Iterator[FakeVllm]:
    with fake_vllm() as running:
        yield running


def without_times(ran: Ran) -> dict[str, Any]:
    result = {key: value for key, value in ran.items() if key not in ("seconds", "invocation")}
    return {**result, "steps": [step["name"] for step in ran["steps"]]}


def ready(capfd: pytest.CaptureFixture[str], check: bool = False, **more: Any) -> Ran:
    options = {"unit": UNIT, "model": MODEL, "timeout": 10, "interval": 0.05, **more}
    return run_module(capfd, vllm_ready.main, check=check, **options)


def test_gpu_info(capfd: pytest.CaptureFixture[str]) -> None:
    fixtures = ROOT / "tests/fixtures"
    options: dict[str, Any] = {"command": str(fixtures / "nvidia-smi"), "driver_file": str(fixtures / "driver-version")}
    would, did = (run_module(capfd, gpu_info.main, check=check, **options) for check in (True, False))
    assert did["gpus"][0]["memory_total_mib"] == 97887
    assert did["driver"] == {"version": "580.95.05", "open_kernel_module": True}
    assert did["problem"] is None
    assert not did["changed"]
    assert would["gpus"] == did["gpus"]


def test_host_preflight_info(capfd: pytest.CaptureFixture[str], systemd: FakeSystemd, tmp_path: pathlib.Path) -> None:
    systemd.set(LoadState="not-found")
    options: dict[str, Any] = {
        "root": str(tmp_path),
        "python": sys.executable,
        "model_path": str(tmp_path),
        "unit": UNIT,
        "unit_required": True,
        "environment": str(tmp_path),
        "gpu_count": 8,
        "gpu_command": "/nonexistent/nvidia-smi",
        "driver_file": "/nonexistent/version",
    }
    would, did = (run_module(capfd, host_preflight_info.main, check=check, **options) for check in (True, False))
    assert [blocker["check"] for blocker in did["blockers"]] == ["gpus", "weights", "unit", "environment"]
    assert set(did["blockers"][0]) == {"check", "where", "what", "next"}
    assert would["blockers"] == did["blockers"]
    assert would["cautions"] == did["cautions"]
    assert not did["changed"]


def test_ready(capfd: pytest.CaptureFixture[str], systemd: FakeSystemd, server: FakeVllm) -> None:
    would = ready(capfd, check=True, url=server.url)
    server.tokens = 100
    did = ready(capfd, url=server.url)
    assert without_times(would) == without_times(did)
    assert did["ready"]
    assert not did["changed"]
    assert did["completion"] == " Paris"
    assert did["reason"] is None
    assert did["enabled"] is True


def test_what_the_main_process_is(capfd: pytest.CaptureFixture[str], systemd: FakeSystemd) -> None:
    options: dict[str, Any] = {"url": closed_port(), "timeout": 0, "required": False, "patient": True}
    home = str(pathlib.Path(sys.executable).parent.parent)
    argv = [sys.executable, "-c", "input()", "--port", "8001"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as process:
        systemd.set(MainPID=str(process.pid), UnitFileState="disabled")
        other, right = (ready(capfd, environment=path, **options) for path in ("/nonexistent", home))
        process.communicate(b"\n")
    assert (other["ready"], other["step"], other["enabled"]) == (False, "unit", False)
    assert "it should run from /nonexistent" in other["reason"]
    assert other["serves"] == {"host": None, "port": 8001, "model": None}
    assert right["step"] == "release"


def test_not_ready_fails_with_the_reason(capfd: pytest.CaptureFixture[str], systemd: FakeSystemd) -> None:
    systemd.set(ActiveState="failed", SubState="failed", MainPID="0", Result="exit-code", ExecMainStatus="1")
    systemd.journal("Traceback (most recent call last):", "ImportError: no such thing")
    ran = ready(capfd, url=closed_port())
    assert ran.failed
    assert "Traceback (most recent call last):" in ran["msg"]
    assert "ImportError: no such thing" in ran["msg"]
    assert "journal" not in ran, "Ansible shows all that a failed task returns: once is enough"
    assert ran["step"] is None
    assert ran["steps"] == []


def test_not_ready_where_it_need_not_be(capfd: pytest.CaptureFixture[str], systemd: FakeSystemd) -> None:
    ran = ready(capfd, url=closed_port(), timeout=0, required=False)
    assert not ran.failed
    assert not ran["ready"]
    assert "Connection refused" in ran["reason"]
    assert ran["step"] == "unit"


def test_no_key_in_a_result(capfd: pytest.CaptureFixture[str], systemd: FakeSystemd, server: FakeVllm) -> None:
    server.api_key = "geheim-1"
    systemd.journal("ERROR non-default args: {'api_key': ['geheim-1']}")
    ran = ready(capfd, url=server.url, api_key="geheim-2", required=False)
    assert not ran["ready"]
    assert "geheim" not in str(ran)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"url": "127.0.0.1:8000"}, "is not the URL of a server"),
        ({"fatal_patterns": ["("]}, "'(' is no regular expression"),
        ({"unit": "vllm*"}, "is no name of a systemd unit"),
    ],
)
def test_options_that_make_no_sense(
    capfd: pytest.CaptureFixture[str], systemd: FakeSystemd, options: dict[str, Any], wanted: str
) -> None:
    assert wanted in ready(capfd, **options)["msg"]
