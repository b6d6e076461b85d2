# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import pathlib
import subprocess
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.modules import drift_archive, wheel_record_info
from ansible_collections.pristine.vllm.tests.unit.plugins.record_support import MEMBERS, SOURCE, Env
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import run_module

CORE = "demo/core.py"
EDITED = SOURCE.replace(b"hi", b"debug").rstrip(b"\n")


class Archive:
    """A dirty environment, its scan, and the module on them."""

    def __init__(self, capfd: pytest.CaptureFixture[str], env: Env, wheel: pathlib.Path, base: pathlib.Path) -> None:
        self.capfd, self.env, self.wheel = capfd, env, wheel
        self.quarantine = base / "quarantine/20261130T032512Z"
        (env.site / CORE).write_bytes(EDITED)
        (env.site / CORE).chmod(0o600)
        (env.site / "demo/dbg.py").write_bytes(b"x = 1\n")
        (env.site / "demo/lib.abi3.so").write_bytes(b"\x7fELF\0edited")
        (env.site / "demo/no_newline.txt").unlink()

    def scan(self) -> dict[str, Any]:
        params: dict[str, Any] = {"environment": str(self.env.root), "wheels": [str(self.wheel)]}
        result: dict[str, Any] = run_module(self.capfd, wheel_record_info.main, **params)
        return result

    def run(self, **params: Any) -> dict[str, Any]:
        given: dict[str, Any] = {
            "environment": str(self.env.root),
            "wheels": [str(self.wheel)],
            "quarantine": str(self.quarantine),
            **params,
        }
        if "findings" not in given:
            scanned = self.scan()
            given.update(findings=scanned["findings"], probes=scanned["probes"])
        result: dict[str, Any] = run_module(self.capfd, drift_archive.main, **given)
        assert not result.get("failed") or "findings" in params or "wheels" in params, result
        return result

    def files(self) -> list[str]:
        return sorted(
            os.path.relpath(os.path.join(root, name), self.quarantine)
            for root, _folders, names in os.walk(self.quarantine)
            for name in names
        )


@pytest.fixture
def archive(
    capfd: pytest.CaptureFixture[str], pip_env: Env, demo_wheel: pathlib.Path, tmp_path: pathlib.Path
) -> Archive:
    return Archive(capfd, pip_env, demo_wheel, tmp_path)


def test_check_real_check_real(archive: Archive) -> None:
    checked = archive.run(check=True, diff=True)
    assert not archive.quarantine.exists()
    real = archive.run(diff=True)
    again = archive.run(check=True, diff=True)
    files = archive.files()
    last = archive.run(diff=True)
    assert archive.files() == files
    for result in (checked, real, again, last):
        result.pop("invocation", None)  # ansible-core 2.21 leaves it out
    assert checked == real
    assert again == last
    assert (real["changed"], last["changed"]) == (True, False)
    assert real["archived"] == last["archived"]
    assert real["diff"]["before"] == ""
    assert real["diff"]["after"].count("\n") == 3
    assert last["diff"]["before"] == last["diff"]["after"] == real["diff"]["after"]


def test_files_and_patches(archive: Archive, tmp_path: pathlib.Path) -> None:
    scanned = archive.scan()
    result = archive.run()
    by_path = {entry["path"]: entry for entry in result["archived"]}
    assert list(by_path) == [CORE, "demo/dbg.py", "demo/lib.abi3.so", "demo/no_newline.txt"]
    core = by_path[CORE]
    assert core["kept"] == f"{archive.quarantine}/files{archive.env.site}/{CORE}"
    assert core["patch"] == f"{archive.quarantine}/patches{archive.env.site}/{CORE}.patch"
    kept = pathlib.Path(core["kept"])
    assert kept.read_bytes() == EDITED
    assert kept.stat().st_mode & 0o7777 == 0o600
    assert by_path["demo/dbg.py"]["patch"] is None
    assert by_path["demo/lib.abi3.so"]["patch"] is None
    assert by_path["demo/lib.abi3.so"]["kept"]
    gone = by_path["demo/no_newline.txt"]
    assert (gone["kept"], gone["note"]) == (None, "not kept: it is not there")
    assert archive.quarantine.stat().st_mode & 0o7777 == 0o700
    note = json.loads((archive.quarantine / "findings.json").read_text())
    assert note == {"findings": scanned["findings"], "probes": scanned["probes"]}
    # The patches lead from what the wheel holds to what was found.
    tree = tmp_path / "tree"
    for name in (CORE, "demo/no_newline.txt"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(MEMBERS[name])
        text = pathlib.Path(by_path[name]["patch"]).read_bytes()
        subprocess.run(["patch", "-p1", "--silent"], input=text, cwd=tree, check=True)
    assert (tree / CORE).read_bytes() == EDITED
    assert not (tree / "demo/no_newline.txt").exists()


def test_without_wheels_the_files_are_kept_all_the_same(archive: Archive) -> None:
    result = archive.run(wheels=[])
    assert [entry["patch"] for entry in result["archived"]] == [None] * 4
    assert len([entry for entry in result["archived"] if entry["kept"]]) == 3


def test_a_second_state_is_kept_beside_the_first(archive: Archive) -> None:
    first = archive.run()["archived"][0]
    (archive.env.site / CORE).write_bytes(EDITED + b"# more\n")
    second = archive.run()
    assert second["changed"] is True
    assert second["archived"][0]["kept"] == first["kept"] + ".1"
    assert pathlib.Path(first["kept"]).read_bytes() == EDITED


def test_links_are_kept_as_links_and_not_followed(archive: Archive, tmp_path: pathlib.Path) -> None:
    (tmp_path / "secret").write_text("the secret text")
    (archive.env.site / CORE).unlink()
    (archive.env.site / CORE).symlink_to(tmp_path / "secret")
    result = archive.run()
    assert os.readlink(result["archived"][0]["kept"]) == str(tmp_path / "secret")
    files = [archive.quarantine / name for name in archive.files()]
    assert not any("secret text" in path.read_text("latin-1") for path in files if not path.is_symlink())


def test_names_that_are_no_utf8(
    capfd: pytest.CaptureFixture[str], bare: Env, demo_wheel: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    names = [os.fsdecode(name) for name in (b"demo/\xff[1],\\x41.py", b"demo/\xfe[2].py", b"demo/[3]\\x42.py")]
    bare.install("demo", {**dict.fromkeys(names, b"x"), "demo/no_newline.txt": b""})
    archive = Archive(capfd, bare, demo_wheel, tmp_path)
    (bare.site / names[0]).write_bytes(b"first")
    (bare.site / names[1]).unlink()
    (bare.site / names[2]).write_bytes(b"third")
    result = archive.run()
    assert {entry["path"]: bool(entry["kept"]) for entry in result["archived"] if "[" in entry["path"]} == {
        "demo/\\xff[1],\\x41.py": True,
        "demo/\\xfe[2].py": False,
        "demo/[3]\\x42.py": True,
    }
    kept = [archive.quarantine / f"files{bare.site}" / name for name in names]
    assert [path.read_bytes() for path in kept if path.exists()] == [b"first", b"third"]


def test_nothing_to_keep_makes_nothing(archive: Archive) -> None:
    result = archive.run(findings=[])
    assert result["changed"] is False
    assert result["archived"] == []
    assert not archive.quarantine.exists()


def test_what_is_no_finding_of_this_environment_is_refused(archive: Archive) -> None:
    finding = archive.scan()["findings"][0]
    for wrong, message in (
        ({}, "not a finding"),
        ({**finding, "status": "odd"}, "not a finding"),
        ({**finding, "file": "/etc/passwd"}, "is not in the environment"),
        ({**finding, "file": f"{archive.env.root}/../x"}, "is not in the environment"),
    ):
        result = archive.run(findings=[wrong])
        assert result["failed"] is True
        assert message in result["msg"]
    assert not archive.quarantine.exists()


def test_a_quarantine_that_cannot_be_written(archive: Archive) -> None:
    archive.quarantine.parent.parent.mkdir(exist_ok=True)
    archive.quarantine.parent.write_text("a file where the folder should be")
    findings = archive.scan()["findings"]
    result = archive.run(findings=findings)
    assert result["failed"] is True
    assert "cannot be kept in the quarantine" in result["msg"]
