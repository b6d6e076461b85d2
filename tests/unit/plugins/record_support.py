# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real parts for the tests of the RECORD engine: wheels with awkward members, environments that pip and uv make."""

from __future__ import annotations

import base64
import csv
import fcntl
import hashlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.record.model import (
    Adaptation,
    Finding,
    ScanOptions,
    ScanResult,
)
from ansible_collections.pristine.vllm.plugins.module_utils.record.scan import scan

INSTALLERS = ("pip", "uv-copy", "uv-hardlink")
NAME, VERSION = "demo_pkg", "1.0rc2.dev313+g662205d34"
INFO = f"{NAME}-{VERSION}.dist-info"
DATA = f"{NAME}-{VERSION}.data"
SOURCE = b"""\
import torch


class Model:
    def forward(self, hidden):
        return hidden


def main():
    print("hi")
"""
MEMBERS: dict[str, bytes] = {
    "demo/__init__.py": b"",
    "demo/core.py": SOURCE,
    "demo/configs/E=8,N=1024,device_name=RTX[PRO],dtype=fp8.json": b'{"a": 1}\n',
    'demo/configs/a "quoted", name.json': b"{}\n",
    "demo/lib.abi3.so": b"\x7fELF\0binary",
    "demo/\xfcml\xe4ut.py": "# \xfc\n".encode(),
    "demo/no_newline.txt": b"one\ntwo",
    "nested/deep/er/mod.py": b"x = 1\n",
    f"{DATA}/scripts/demo-tool": b"#!python\nprint('tool')\n",
    f"{DATA}/scripts/demo-sh": b"#!/bin/sh\necho hi\n",
    f"{DATA}/data/share/demo/readme.txt": b"read me\n",
    f"{DATA}/headers/demo/demo.h": b"int x;\n",
    f"{DATA}/purelib/demo_extra/__init__.py": b"y = 2\n",
    f"{INFO}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n".encode(),
    f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    f"{INFO}/entry_points.txt": b"[console_scripts]\ndemo-cli = demo.core:main\ndemo-sub = demo.core:Model.run [x]\n",
}


def encoded(data: bytes, algorithm: str = "sha256") -> str:
    """A digest as RECORD has it."""
    digest = base64.urlsafe_b64encode(hashlib.new(algorithm, data).digest()).rstrip(b"=").decode()
    return f"{algorithm}={digest}"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def record_text(members: dict[str, bytes], end: str = "\n") -> str:
    """A RECORD of these members, as a wheel builder writes it."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=end)
    for path, data in members.items():
        writer.writerow([path, encoded(data), len(data)])
    return text.getvalue()


def build_wheel(
    folder: pathlib.Path,
    members: Optional[dict[str, bytes]] = None,
    record: Optional[str] = None,
    info: str = INFO,
    tag: str = "py3-none-any",
) -> pathlib.Path:
    """Write a wheel; with ``record``, that is its RECORD whatever the members are."""
    members = MEMBERS if members is None else members
    if record is None:
        record = record_text(members) + f"{info}/RECORD,,\n"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{info[: -len('.dist-info')]}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.writestr(f"{info}/RECORD", record)
    return path


def make_environment(path: pathlib.Path, installer: str, *wheels: pathlib.Path) -> pathlib.Path:
    """A virtual environment with these wheels in it; ``installer`` is pip, or uv and its link mode."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(path)], check=True)
    install(path, installer, "--no-deps", *wheels)
    return path


def install(path: pathlib.Path, installer: str, *what: object) -> None:
    """Install into a virtual environment; ``what`` are arguments that pip and uv both understand."""
    python = str(path / "bin" / "python")
    if installer == "pip":
        command = [sys.executable, "-m", "pip", "--python", python, "install", "--no-index"]
    else:
        uv = os.path.join(os.path.dirname(sys.executable), "uv")
        cache = str(path.parent / "uv-cache")
        command = [uv, "pip", "install", "--offline", "--no-index", "--python", python, "--cache-dir", cache]
        command += ["--link-mode", installer.partition("-")[2]]
    subprocess.run([*command, "--quiet", *map(str, what)], check=True, env=quiet_environment())


def quiet_environment() -> dict[str, str]:
    """This process's variables, less those that would steer pip or uv."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))},
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
    }


def as_nobody(call: Callable[[], Any]) -> Any:
    """What a call returns (as JSON can carry it) to a user whom permissions stop: they do not stop root."""

    def dropped() -> Any:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        return call()

    return in_child(dropped)


def in_child(call: Callable[[], Any]) -> Any:
    """What a call returns (as JSON can carry it) in a process whose state may be changed for good."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            with os.fdopen(writer, "w") as stream:
                json.dump(call(), stream)
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as stream:
        answer = stream.read()
    assert os.waitpid(pid, 0)[1] == 0
    return json.loads(answer)


class Kept:
    """Folders that are made once and kept, for as long as they would be made of the same.

    They lie in the checkout's cache and not in pytest's folders: ansible-test runs each test in a process of its own,
    and making them takes longer than all the tests.
    """

    def __init__(self, *made_of: str) -> None:
        key = sha256("\0".join([sys.version, sys.prefix, *made_of]).encode("utf-8"))[:16]
        self.folder = pathlib.Path(__file__).resolve().parents[3] / ".cache" / "record" / key
        self.folder.mkdir(parents=True, exist_ok=True)

    def get(self, name: str, make: Callable[[pathlib.Path], object]) -> pathlib.Path:
        """The folder of this name; ``make`` fills it when it is not there."""
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = self.folder / f"{name}.done"
            if not done.exists():
                shutil.rmtree(self.folder / name, ignore_errors=True)
                make(self.folder / name)
                done.touch()
        return self.folder / name


class Templates:
    """The demo wheel, and an environment for each installer, made when first asked for."""

    def __init__(self) -> None:
        self._kept = Kept(repr(MEMBERS), pathlib.Path(__file__).read_text(encoding="utf-8"))
        self.wheel = self._kept.get("wheel", build_wheel) / f"{NAME}-{VERSION}-py3-none-any.whl"

    def __getitem__(self, name: str) -> pathlib.Path:
        return self._kept.get(name, lambda folder: make_environment(folder, name, self.wheel))


class Env:
    """An environment under test: a copy of one that an installer made, or one made by hand."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.site = next(root.glob("lib/python3*/site-packages"))

    @classmethod
    def copied(cls, template: pathlib.Path, to: pathlib.Path) -> Env:
        shutil.copytree(template, to, symlinks=True)
        return cls(to)

    @classmethod
    def bare(cls, root: pathlib.Path) -> Env:
        """No installer and no interpreter: only what a scan looks at."""
        (root / "lib/python3.11/site-packages").mkdir(parents=True)
        (root / "bin").mkdir()
        (root / "pyvenv.cfg").write_text("home = /usr/bin\n")
        return cls(root)

    def install(
        self, name: str, files: dict[str, bytes], record: Optional[str] = None, version: str = "1.0"
    ) -> pathlib.Path:
        """Put files and a .dist-info in place; ``record`` is added to, or with a leading ``=`` instead of, the rows."""
        info = f"{name}-{version}.dist-info"
        members = {**files, f"{info}/METADATA": f"Name: {name}\nVersion: {version}\n".encode()}
        for path, data in members.items():
            target = pathlib.Path(os.path.normpath(self.site / path))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        text = record_text(members) + f"{info}/RECORD,,\n" + (record or "")
        if record is not None and record.startswith("="):
            text = record[1:]
        (self.site / info / "RECORD").write_bytes(os.fsencode(text))
        return self.site / info

    def record(self) -> pathlib.Path:
        return next(self.site.glob("*.dist-info/RECORD"))

    def scan(self, **options: Any) -> ScanResult:
        """A scan's result; ``wheel`` is short for one source."""
        wheel = options.pop("wheel", None)
        if wheel is not None:
            options["wheels"] = [str(wheel)]
        options["adaptations"] = [Adaptation(*entry) for entry in options.get("adaptations", [])]
        done = scan(ScanOptions(environment=str(self.root), **options))
        done.close()
        return done.result

    def found(self, **options: Any) -> dict[str, str]:
        """Path -> status of each finding."""
        return {finding.path: finding.status for finding in self.scan(**options).findings}

    def one(self, **options: Any) -> Finding:
        """The only finding."""
        findings = self.scan(**options).findings
        assert len(findings) == 1, findings
        return findings[0]
