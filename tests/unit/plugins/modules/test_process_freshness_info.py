# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import pathlib
import subprocess
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.modules import process_freshness_info
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import Ran, fake_release, run_module
from ansible_collections.pristine.vllm.tests.unit.plugins.service_support import UNIT, FakeSystemd


@pytest.fixture
def systemd(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> FakeSystemd:
    return FakeSystemd(tmp_path / "systemd", monkeypatch.setenv)


def look(capfd: pytest.CaptureFixture[str], check: bool = False, **options: Any) -> Ran:
    return run_module(capfd, process_freshness_info.main, check=check, **options)


def test_a_service_as_it_should_be_until_it_is_not(
    capfd: pytest.CaptureFixture[str], systemd: FakeSystemd, tmp_path: pathlib.Path
) -> None:
    release = fake_release(tmp_path, "a-1", "2026")
    source = release / "lib/python3.11/site-packages/a.py"
    source.write_text("a = 1\n")
    (tmp_path / "current").symlink_to("releases/a-1")
    unit = tmp_path / "x.service"
    unit.write_bytes(b"[Service]\n")
    options: dict[str, Any] = {
        "unit": UNIT,
        "unit_files": {str(unit): hashlib.sha256(b"[Service]\n").hexdigest()},
        "environment": str(tmp_path / "current"),
        "root": str(tmp_path),
        "release": "a-1",
    }
    argv = [str(release / "bin/python"), "-c", "import sys; print(1, flush=True); sys.stdin.read()"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        systemd.set(MainPID=str(process.pid), FragmentPath=str(unit))
        would, did = (look(capfd, check, **options) for check in (True, False))
        # It is reckoned from the two clocks of the host, and each look has microseconds of its own.
        assert would.pop("started") == pytest.approx(did.pop("started"), abs=0.01)
        assert would == did
        assert (did["findings"], did["errors"], did["kinds"]) == ([], [], ["unit", "process", "link"])
        assert (did["restart_needed"], did["main_pid"], did["changed"]) == (False, process.pid, False)

        # Until the file's clock is past the start.
        while not (dirty := look(capfd, **options))["restart_needed"]:
            source.write_text("a = 2\n")
        assert [(one["kind"], one["status"]) for one in dirty["findings"]] == [("process", "changed")]

        (tmp_path / "current").unlink()
        fake_release(tmp_path, "b-1", "2026")
        (tmp_path / "current").symlink_to("releases/b-1")
        unit.write_bytes(b"[Unit]\n")
        dirty = look(capfd, **options)
        assert [(one["kind"], one["status"]) for one in dirty["findings"]] == [
            ("unit", "modified"),
            ("link", "redirected"),
            ("process", "other_environment"),
        ]
        process.communicate("")
    stopped = look(capfd, **{**options, "environment": str(release)})
    assert (stopped["main_pid"], stopped["restart_needed"]) == (None, False)


def test_what_is_not_asked_for_is_not_looked_at(capfd: pytest.CaptureFixture[str], systemd: FakeSystemd) -> None:
    ran = look(capfd)
    assert (ran["findings"], ran["kinds"], ran["errors"], ran["restart_needed"]) == ([], [], [], None)
    assert not (systemd.directory / "calls").exists()


def test_a_host_without_systemd(capfd: pytest.CaptureFixture[str], systemd: FakeSystemd) -> None:
    """An answer, so that the rest of the scan is told as well, and not one that reads as clean."""
    systemd.program("systemctl", "echo 'System has not been booted with systemd' >&2\nexit 1\n")
    ran = look(capfd, unit=UNIT, environment="/nonexistent")
    assert (ran["kinds"], ran["restart_needed"]) == ([], None)
    assert "System has not been booted with systemd" in ran["errors"][0]
