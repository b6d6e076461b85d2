# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import pathlib
import subprocess
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils import command
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import STATUSES, ScanOptions
from ansible_collections.pristine.vllm.plugins.module_utils.record.scan import Scan, scan
from ansible_collections.pristine.vllm.plugins.modules import wheel_record_info
from ansible_collections.pristine.vllm.tests.unit.plugins.record_support import SOURCE, Env, in_child, sha256
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import run_module

CORE = "demo/core.py"
EDITED = SOURCE.replace(
    b"        return hidden\n",
    b"        import torch as _t\n"
    b"        self._n += 1\n"
    b'        _t.save(hidden, f"/tmp/nomla_debug_tp{self.rank}_{self._n}.pt")\n'
    b"        return hidden\n",
)


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], pip_env: Env, demo_wheel: pathlib.Path) -> Any:
    def call(**params: Any) -> dict[str, Any]:
        given = {"environment": str(pip_env.root), "wheels": [str(demo_wheel)], **params}
        result: dict[str, Any] = run_module(capfd, wheel_record_info.main, **given)
        return result

    return call


def test_a_pristine_environment(run: Any) -> None:
    result = run()
    assert result["pristine"] is True
    assert result["changed"] is False
    assert result["findings"] == result["probes"] == []
    assert "diff" not in result
    assert run(diff=True)["diff"] == []
    assert set(STATUSES) <= set(result["summary"])


def test_debug_code(run: Any, pip_env: Env) -> None:
    (pip_env.site / CORE).write_bytes(EDITED)
    (pip_env.site / "demo/lib.abi3.so").write_bytes(b"\x7fELF\0edited")
    (pip_env.site / "demo/no_newline.txt").unlink()
    (pip_env.site / "demo/dbg.py").write_bytes(b"x = 1\n")
    result = run(diff=True)
    assert result["pristine"] is False
    assert [(finding["path"], finding["status"]) for finding in result["findings"]] == [
        (CORE, "modified"),
        ("demo/dbg.py", "unexpected"),
        ("demo/lib.abi3.so", "modified"),
        ("demo/no_newline.txt", "missing"),
    ]
    assert set(result["findings"][0]) == {
        "path", "file", "distribution", "status", "detail", "expected_sha256", "actual_sha256", "verified_against",
    }  # fmt: skip
    assert [(probe["kind"], probe["line"], probe["artifact_glob"]) for probe in result["probes"]] == [
        ("other", 6, None),
        ("counter", 7, None),
        ("tensor_dump", 8, "/tmp/nomla_debug_tp*.pt"),
    ]
    shown = [entry["prepared"] for entry in result["diff"]]
    assert f"--- a/{CORE}\tpristine: demo_pkg-" in shown[0]
    assert "\n+        self._n += 1\n" in shown[0]
    assert shown[1].startswith("--- /dev/null\tpristine: no file\n+++ b/demo/dbg.py\tinstalled\n")
    assert shown[2] == "demo/lib.abi3.so: modified: binary file differs\n"
    assert "+++ /dev/null\tinstalled\n" in shown[3]


def priorities(result: dict[str, Any]) -> list[str]:
    """The warnings about them: a process of tests has those of other modules too."""
    return [str(warning) for warning in result.get("warnings", []) if "normal priority" in str(warning)]


def test_in_the_background_it_gives_way(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[Any]] = []

    def watched(options: ScanOptions) -> Scan:
        told = subprocess.run(["ionice", "--pid", str(os.getpid())], check=True, capture_output=True, text=True)
        seen.append([os.sched_getscheduler(0), told.stdout.strip(), options.workers])
        return scan(options)

    def scanned(**params: Any) -> list[Any]:
        result = run(**params)
        return [result["pristine"], priorities(result), seen.pop()]

    monkeypatch.setattr(wheel_record_info, "scan", watched)
    # There is no way back, so not in this process.
    assert in_child(lambda: scanned(background=True)) == [True, [], [os.SCHED_IDLE, "idle", 1]]
    assert in_child(lambda: scanned(background=True, workers=2)) == [True, [], [os.SCHED_IDLE, "idle", 2]]
    policy, _class, workers = scanned()[2]
    assert (policy, workers) == (os.sched_getscheduler(0), None)


def test_a_priority_that_is_refused_is_a_warning(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(command, "_MORE_PATH", ())
    result = in_child(lambda: run(background=True))
    assert result["pristine"] is True
    assert ["cannot run ionice" in told for told in priorities(result)] == [True]


def test_check_mode_is_the_same(run: Any, pip_env: Env) -> None:
    (pip_env.site / CORE).write_bytes(EDITED)
    real, check = run(diff=True), run(diff=True, check=True)
    for result in (real, check):
        result["summary"].pop("seconds")
        result.pop("invocation", None)  # ansible-core 2.21 leaves it out
    assert real == check


def test_without_a_wheel_there_is_no_pristine_text(run: Any, pip_env: Env) -> None:
    (pip_env.site / CORE).write_bytes(EDITED)
    result = run(wheels=[], diff=True)
    assert result["probes"] == []
    assert "give the wheel" in result["diff"][0]["prepared"]
    assert "_nomla" not in result["diff"][0]["prepared"]


def test_a_link_is_not_followed_into_the_diff(run: Any, pip_env: Env, tmp_path: pathlib.Path) -> None:
    (tmp_path / "secret").write_text("the secret text\n")
    (pip_env.site / CORE).unlink()
    (pip_env.site / CORE).symlink_to(tmp_path / "secret")
    result = run(diff=True)
    assert result["findings"][0]["status"] == "redirected"
    assert "the secret text" not in str(result)


def test_adaptations_and_their_diff(run: Any, pip_env: Env) -> None:
    declared = [{"path": CORE, "sha256": sha256(EDITED), "reason": "SM120"}]
    assert [finding["status"] for finding in run(adaptations=declared)["findings"]] == ["unadapted"]
    (pip_env.site / CORE).write_bytes(EDITED)
    result = run(adaptations=declared, diff=True)
    assert result["pristine"] is True
    assert [finding["status"] for finding in result["findings"]] == ["declared"]
    assert "+        self._n += 1\n" in result["diff"][0]["prepared"]
    assert result["probes"] == []


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"environment": "/nonexistent"}, "not a directory"),
        ({"distributions": ["absent"]}, "absent not installed"),
        ({"files": ["demo/typo.py"]}, "demo/typo.py"),
        ({"wheels": ["ftp://example.invalid/"]}, "is no http(s) address"),
        ({"lock": "/nonexistent"}, "/nonexistent"),
        ({"workers": 0}, "workers"),
        ({"adaptations": [{"path": "a", "sha256": "12", "reason": "x"}]}, "64 hexadecimal digits"),
        ({"adaptations": [{"path": "/etc/passwd", "sha256": "0" * 64, "reason": "x"}]}, "outside of the environment"),
    ],
)
def test_what_has_no_answer_fails(run: Any, params: dict[str, Any], message: str) -> None:
    result = run(**params)
    assert result["failed"] is True
    assert message in result["msg"]


def test_a_refused_wheel_is_a_warning(run: Any, tmp_path: pathlib.Path) -> None:
    (tmp_path / "lock.txt").write_text("demo-pkg==1.0rc2.dev313+g662205d34 --hash=sha256:" + "0" * 64 + "\n")
    result = run(lock=str(tmp_path / "lock.txt"))
    assert result["pristine"] is True
    assert result["summary"]["verified_against"] == "installed_record"
    assert any("was refused" in str(warning) for warning in result["warnings"])
