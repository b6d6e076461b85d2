# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A runner is made by the real venv and pip, of a stand-in for ansible-core; what was damaged is seen and replaced."""

from __future__ import annotations

import hashlib
import io
import json
import pathlib
import subprocess
import sys
import tarfile
import zipfile
from typing import Any, Optional

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.runner.tick import REFUSED
from ansible_collections.pristine.vllm.plugins.modules import drift_runner
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import run_module

# What ansible-galaxy and ansible-playbook of the stand-in do.
STAND_IN = """
import os, sys, tarfile

def galaxy():
    target = os.path.join(sys.argv[-1], "ansible_collections/pristine/vllm")
    os.makedirs(target)
    tarfile.open(sys.argv[-3]).extractall(target)

def playbook():
    print("ran", *sys.argv[1:])
    sys.exit(2)
"""
SCRIPTS = "[console_scripts]\nansible-galaxy = ansible_core:galaxy\nansible-playbook = ansible_core:playbook\n"
FILES = {"roles/r/tasks/main.yml": b"[]\n", "plugins/modules/m.py": b"1\n"}


def wheel(folder: pathlib.Path) -> str:
    """The stand-in's wheel; its digest."""
    info = "ansible_core-1.0.dist-info"
    members = {
        "ansible_core.py": STAND_IN,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: ansible-core\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": SCRIPTS,
    }
    members[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*members, f"{info}/RECORD"])
    path = folder / "ansible_core-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def tarball(path: pathlib.Path, files: dict[str, bytes]) -> None:
    """A collection as ansible-galaxy builds it."""
    rows = [
        {"name": name, "ftype": "file", "chksum_sha256": hashlib.sha256(data).hexdigest()}
        for name, data in files.items()
    ]
    listing = json.dumps({"files": [{"name": ".", "ftype": "dir", "chksum_sha256": None}, *rows]}).encode()
    manifest = {"file_manifest_file": {"name": "FILES.json", "chksum_sha256": hashlib.sha256(listing).hexdigest()}}
    members = {**files, "FILES.json": listing, "MANIFEST.json": json.dumps(manifest).encode()}
    with tarfile.open(path, "w:gz") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


class Host:
    """The folder of the runners, and what they are made of."""

    def __init__(self, capfd: pytest.CaptureFixture[str], folder: pathlib.Path) -> None:
        self.capfd, self.folder, self.path = capfd, folder, folder / "pull"
        self.tarball = folder / "collection.tar.gz"
        self.lock = f"ansible-core==1.0 --hash=sha256:{wheel(folder)}\n"
        tarball(self.tarball, FILES)

    def run(self, check: bool = False, **params: Any) -> dict[str, Any]:
        asked = {
            "path": str(self.path),
            "lock": self.lock,
            "collection": str(self.tarball),
            "sha256": hashlib.sha256(self.tarball.read_bytes()).hexdigest(),
            "find_links": [str(self.folder)],
            "python": sys.executable,
            **params,
        }
        result: dict[str, Any] = run_module(self.capfd, drift_runner.main, check=check, diff=True, **asked)
        return result

    def tick(self, made: dict[str, Any], manifest: Optional[str] = None) -> subprocess.CompletedProcess[str]:
        folder = pathlib.Path(made["folder"])
        collection = folder / "collections/ansible_collections/pristine/vllm"
        words = [str(folder / "tick.py"), str(collection), manifest or made["manifest_sha256"]]
        words += [str(folder / "venv/bin/ansible-playbook"), "a b"]
        return subprocess.run([sys.executable, "-ISB", *words], capture_output=True, text=True, check=False)


@pytest.fixture
def there(capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> Host:
    return Host(capfd, tmp_path)


def test_check_run_check_again_damage_and_prune(there: Host) -> None:
    told = there.run(check=True)
    assert (told["changed"], there.path.exists()) == (True, False)
    made = there.run()
    assert {**told, "invocation": 0} == {**made, "invocation": 0}
    for check in (True, False):
        again = there.run(check=check)
        assert (again["changed"], again["folder"], again["reasons"]) == (False, made["folder"], [])

    ran = there.tick(made)
    assert (ran.returncode, ran.stdout) == (2, "ran a b\n")
    collection = pathlib.Path(made["folder"]) / "collections/ansible_collections/pristine/vllm"
    for damage, undo, why in (
        ((collection / "x.py").touch, (collection / "x.py").unlink, "x.py is not of it"),
        (lambda: (collection / "x").symlink_to("/"), (collection / "x").unlink, "x is not of it"),
        (lambda: (collection / "FILES.json").write_bytes(b"{}"), None, "FILES.json is not what MANIFEST.json says"),
    ):
        damage()
        refused = there.tick(made)
        assert (refused.returncode, refused.stdout) == (REFUSED, "")
        assert why in refused.stderr
        if undo:
            undo()
    assert "MANIFEST.json is not that of the tarball" in there.tick(made, manifest="0" * 64).stderr

    mended = there.run()
    assert (mended["changed"], mended["folder"] != made["folder"]) == (True, True)
    assert there.tick(mended).returncode == 2
    told = there.run(state="pruned", keep=[mended["folder"]], check=True)
    pruned = there.run(state="pruned", keep=[mended["folder"]])
    assert told["removed"] == pruned["removed"] == [made["folder"]]
    assert told["diff"] == pruned["diff"]
    assert not there.run(state="pruned", keep=[mended["folder"]])["changed"]
    assert there.tick(mended).returncode == 2


def test_what_differs_from_its_pin_is_not_installed(there: Host) -> None:
    told = there.run(sha256="0" * 64)
    assert told["failed"]
    assert f"it must be {'0' * 64}" in told["msg"]
    assert there.run(sha256="0" * 64, check=True)["changed"]
    there.lock = f"ansible-core==1.0 --hash=sha256:{'0' * 64}\n"
    told = there.run()
    assert told["failed"]
    assert "installing ansible-core failed" in told["msg"]
    # What could not be made whole is not left behind.
    assert list((there.path / "runners").iterdir()) == []


def test_a_python_that_cannot_is_named(there: Host) -> None:
    told = there.run(python="/nowhere/python3")
    assert told["failed"]
    assert "/nowhere/python3 cannot make an environment" in told["msg"]
