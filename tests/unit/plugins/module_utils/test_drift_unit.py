# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A unit, its drop-ins and the link to the live release, against what they should be."""

from __future__ import annotations

import hashlib
import pathlib
from typing import Optional

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.drift.findings import Finding
from ansible_collections.pristine.vllm.plugins.module_utils.drift.link import link_findings
from ansible_collections.pristine.vllm.plugins.module_utils.drift.unit_drift import unit_findings, waiting_dropins
from ansible_collections.pristine.vllm.plugins.module_utils.unit import unit_state
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import fake_environment, fake_release
from ansible_collections.pristine.vllm.tests.unit.plugins.service_support import UNIT, FakeSystemd

CONTENT = b"[Service]\nExecStart=/bin/true\n"
SHA = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def systemd(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> FakeSystemd:
    return FakeSystemd(tmp_path / "systemd", monkeypatch.setenv)


@pytest.fixture
def unit(systemd: FakeSystemd, tmp_path: pathlib.Path) -> pathlib.Path:
    """The unit's file, as it should be."""
    path = tmp_path / "unit.service"
    path.write_bytes(CONTENT)
    systemd.set(FragmentPath=str(path))
    return path


def look(expected: Optional[dict[str, str]]) -> list[Finding]:
    return unit_findings(unit_state(UNIT), expected)


def told(expected: Optional[dict[str, str]]) -> list[tuple[str, str]]:
    return [(finding.path, finding.status) for finding in look(expected)]


def test_as_it_should_be(unit: pathlib.Path) -> None:
    assert look({str(unit): SHA}) == []
    assert look({str(unit): SHA.upper()}) == []
    assert look({str(unit): ""}) == []


def test_another_content(unit: pathlib.Path) -> None:
    unit.write_bytes(CONTENT + b"Environment=VLLM_API_KEY=secret\n")
    (finding,) = look({str(unit): SHA})
    assert (finding.status, finding.expected_sha256) == ("modified", SHA)
    assert finding.actual_sha256 == hashlib.sha256(unit.read_bytes()).hexdigest()
    assert "secret" not in str(finding)


def test_drop_ins(unit: pathlib.Path, systemd: FakeSystemd, tmp_path: pathlib.Path) -> None:
    mine, other = tmp_path / "mine.conf", tmp_path / "override.conf"
    mine.write_bytes(b"[Service]\n")
    other.write_bytes(b"[Service]\n")
    vendor = "/usr/lib/systemd/system/service.d/10-timeout-abort.conf"
    systemd.set(DropInPaths=f"{vendor} {mine} {other}")
    expected = {str(unit): SHA, str(mine): ""}
    assert told(expected) == [(vendor, "unverifiable"), (str(other), "unexpected")]
    assert [finding.counts for finding in look(expected)] == [False, True]
    # One that is declared and was lost, and one that systemd does not take.
    mine.unlink()
    assert (str(mine), "missing") in told(expected)
    systemd.set(DropInPaths="")
    mine.write_bytes(b"")
    assert told(expected) == [(str(mine), "unused")]


def test_drop_ins_that_wait_for_a_reload(unit: pathlib.Path, systemd: FakeSystemd, tmp_path: pathlib.Path) -> None:
    """systemd 252 does not tell of them: neither in DropInPaths nor in NeedDaemonReload, when their folder is new."""
    etc, lib = tmp_path / "etc", tmp_path / "lib"
    (tmp_path / "alias").symlink_to(lib)
    for folder, name in (
        (etc, f"{UNIT}.service.d"),
        (etc, "vllm-.service.d"),
        (lib, "service.d"),
        (etc, "vllm-k.service.d"),
    ):
        (folder / name).mkdir(parents=True)
        (folder / name / "a.conf").write_text("[Service]\n")
    (etc / "vllm-.service.d/readme.txt").touch()
    folders = [str(etc), str(lib), str(tmp_path / "alias")]
    mine, all_mine, every = (
        str(etc / f"{UNIT}.service.d/a.conf"),
        str(etc / "vllm-.service.d/a.conf"),
        str(lib / "service.d/a.conf"),
    )
    assert waiting_dropins(f"{UNIT}.service", [], folders) == sorted([mine, all_mine, every])
    assert waiting_dropins(f"{UNIT}.service", [mine, every], folders) == [all_mine]
    found = unit_findings(unit_state(UNIT), {str(unit): SHA, mine: ""}, folders)
    assert [(one.path, one.status) for one in found] == [
        (all_mine, "unexpected"),
        (every, "unexpected"),
        (mine, "unused"),
    ]
    assert "systemd will read it at its next reload" in found[0].detail


def test_another_file_is_taken_in_its_place(unit: pathlib.Path, systemd: FakeSystemd, tmp_path: pathlib.Path) -> None:
    other = tmp_path / "other.service"
    other.write_bytes(CONTENT)
    systemd.set(FragmentPath=str(other))
    assert told({str(unit): SHA}) == [(str(other), "unexpected"), (str(unit), "unused")]


def test_a_link_in_place_of_the_file(unit: pathlib.Path, tmp_path: pathlib.Path) -> None:
    unit.rename(tmp_path / "moved")
    unit.symlink_to(tmp_path / "moved")
    assert told({str(unit): SHA}) == [(str(unit), "redirected")]


def test_what_systemd_says(unit: pathlib.Path, systemd: FakeSystemd) -> None:
    name = f"{UNIT}.service"
    systemd.set(NeedDaemonReload="yes")
    assert told({str(unit): SHA}) == [(name, "reload_needed")]
    systemd.set(NeedDaemonReload="no", LoadState="masked", FragmentPath="/dev/null")
    assert told({str(unit): SHA}) == [(name, "masked")]
    systemd.set(LoadState="not-found", FragmentPath="")
    unit.unlink()
    assert told({str(unit): SHA}) == [(name, "missing"), (str(unit), "missing")]


def test_of_a_unit_that_nobody_declared_only_what_is_broken_counts(unit: pathlib.Path, systemd: FakeSystemd) -> None:
    systemd.set(DropInPaths="/etc/systemd/system/x.service.d/y.conf", NeedDaemonReload="yes")
    assert [(finding.status, finding.counts) for finding in look(None)] == [
        ("reload_needed", True),
        ("unverifiable", False),
        ("unverifiable", False),
    ]


def link(root: pathlib.Path, expected: Optional[str] = None) -> list[str]:
    return [finding.status for finding in link_findings(str(root), expected)]


def test_the_link(tmp_path: pathlib.Path) -> None:
    assert link(tmp_path) == ["missing"]
    current = tmp_path / "current"
    current.symlink_to("releases/a-1")
    assert link(tmp_path) == ["dangling"]
    fake_release(tmp_path, "a-1", "2026")
    assert link(tmp_path) == []
    assert link(tmp_path, "a-1") == []
    assert link(tmp_path, "b-1") == ["redirected"]
    (tmp_path / "releases/a-1/release.json").unlink()
    assert link(tmp_path) == ["redirected"]


def test_a_link_to_an_environment_elsewhere(tmp_path: pathlib.Path) -> None:
    adopted = fake_environment(tmp_path / "ml-env")
    (tmp_path / "current").symlink_to(adopted)
    assert link(tmp_path) == []
    assert link(tmp_path, str(adopted)) == []
    (adopted / "pyvenv.cfg").unlink()
    assert link(tmp_path) == ["redirected"]


def test_no_link_at_all(tmp_path: pathlib.Path) -> None:
    (tmp_path / "current").mkdir()
    assert link(tmp_path) == ["modified"]
