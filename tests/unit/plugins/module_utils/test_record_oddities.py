# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Environments with the oddities of the field: nothing crashes, hangs, leaves the environment or cries drift."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import socket
import stat
from collections.abc import Callable

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.record import environment
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import ScanError
from ansible_collections.pristine.vllm.tests.unit.plugins.record_support import (
    MEMBERS,
    NAME,
    VERSION,
    Env,
    as_nobody,
    build_wheel,
    encoded,
    install,
    record_text,
)

DEMO_INFO = "demo-1.0.dist-info"


@pytest.fixture
def demo(bare: Env) -> Env:
    """An environment with one small distribution."""
    bare.install("demo", {"demo/__init__.py": b"", "demo/core.py": b"x = 1\n", "demo/sub/mod.py": b"y = 2\n"})
    return bare


# Links


def test_rows_through_a_link_to_lib(demo: Env) -> None:
    (demo.root / "lib64").symlink_to("lib")
    (demo.site / "more.py").write_bytes(b"x")
    row = f"../../../lib64/python3.11/site-packages/more.py,{encoded(b'x')},1\n"
    with (demo.site / DEMO_INFO / "RECORD").open("a") as stream:
        stream.write(row)
    assert demo.found() == {}
    (demo.site / "more.py").write_bytes(b"y")
    assert demo.found() == {"more.py": "modified"}


def test_a_lib64_of_its_own(demo: Env) -> None:
    other = demo.root / "lib64/python3.11/site-packages"
    (other / "native").mkdir(parents=True)
    (other / "native/x.so").write_bytes(b"x")
    with (demo.site / DEMO_INFO / "RECORD").open("a") as stream:
        stream.write(f"../../../lib64/python3.11/site-packages/native/x.so,{encoded(b'x')},1\n")
    assert demo.found() == {}
    (other / "native/evil.py").write_bytes(b"")
    assert demo.found() == {"native/evil.py": "unexpected"}


def test_a_site_packages_that_is_a_link_within_the_environment(demo: Env) -> None:
    demo.install("tool", {"../../../bin/tool": b"#!/bin/sh\n"})
    demo.site.rename(demo.root / "packages")
    demo.site.symlink_to("../../packages")
    (demo.root / "lib/python3").symlink_to("python3.11")
    assert demo.found() == {}
    assert demo.scan().summary.distributions == 2
    (demo.root / "bin/tool").write_bytes(b"edited")
    assert demo.found() == {"bin/tool": "modified"}


def test_absolute_rows_by_another_name_of_the_environment(demo: Env, tmp_path: pathlib.Path) -> None:
    (tmp_path / "current").symlink_to(demo.root)
    target = demo.site / "named.py"
    target.write_bytes(b"x")
    row = str(tmp_path / "current" / target.relative_to(demo.root))
    with (demo.site / DEMO_INFO / "RECORD").open("a") as stream:
        stream.write(f"{row},{encoded(b'x')},1\n")
    assert demo.found() == {}
    (tmp_path / "current").unlink()
    (tmp_path / "current").symlink_to(tmp_path / "nowhere")
    assert demo.found() == {row: "outside", "named.py": "unexpected"}


def test_a_bin_that_leads_out(demo: Env, tmp_path: pathlib.Path) -> None:
    (demo.root / "bin").rmdir()
    (tmp_path / "elsewhere").mkdir()
    (demo.root / "bin").symlink_to(tmp_path / "elsewhere")
    assert demo.found() == {"bin": "redirected"}


def test_links_in_a_circle(demo: Env) -> None:
    (demo.site / "round").symlink_to("round")
    (demo.site / "demo/up").symlink_to("..")
    (demo.site / "demo/core.py").unlink()
    (demo.site / "demo/core.py").symlink_to("core.py")
    assert demo.found() == {"demo/core.py": "modified", "demo/up": "unexpected"}


# Depth and length


def test_a_row_that_is_deeper_than_calls_can_be_nested(demo: Env) -> None:
    row = "a/" * 1500 + "x.py"
    with (demo.site / DEMO_INFO / "RECORD").open("a") as stream:
        stream.write(f"{row},,\n{'b' * 5000}/y.py,,\n")
    assert set(demo.found().values()) == {"missing"}


def test_a_tree_that_is_deeper_than_calls_can_be_nested(demo: Env) -> None:
    path = demo.site / "demo" / "/".join("d" * 800)
    path.mkdir(parents=True)
    (path / "evil.py").write_bytes(b"")
    assert list(demo.found().values()) == ["unexpected"]


# What is no regular file


def _special(path: pathlib.Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "socket":
        monkeypatch.chdir(path.parent)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    else:
        # Number 0, 0 is the one that every user may make.
        os.mknod(path, stat.S_IFCHR | 0o644, os.makedev(0, 0))


KINDS = ("FIFO", "socket", "device")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("demo/core.py", {"demo/core.py": "modified"}),
        (f"{DEMO_INFO}/METADATA", {f"{DEMO_INFO}/METADATA": "modified"}),
        (f"{DEMO_INFO}/direct_url.json", {}),
        (f"{DEMO_INFO}/top_level.txt", {}),
        ("demo/notes", {}),
        ("demo/sub/stray.py", {"demo/sub/stray.py": "unexpected"}),
        ("stray.pth", {"stray.pth": "unexpected"}),
        ("../../../bin/stray", {}),
        ("../../../pyvenv.cfg", {}),
        ("x-1.0.dist-info", {"x-1.0.dist-info": "unverifiable", "x-1.0.dist-info/RECORD": "unreadable"}),
        ("x-1.0-py3.11.egg-info", {"x-1.0-py3.11.egg-info": "unverifiable"}),
    ],
)
def test_special_files(demo: Env, kind: str, name: str, found: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    _special(pathlib.Path(os.path.normpath(demo.site / name)), kind, monkeypatch)
    assert demo.found() == found


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_that_is_no_regular_file(demo: Env, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _special(demo.site / DEMO_INFO / "RECORD", kind, monkeypatch)
    expected = {DEMO_INFO: "unverifiable", f"{DEMO_INFO}/RECORD": "unreadable"}
    assert demo.found() == expected
    assert demo.found(distributions=["demo"]) == expected


def test_a_record_that_is_a_link(demo: Env, tmp_path: pathlib.Path) -> None:
    record = demo.site / DEMO_INFO / "RECORD"
    record.rename(demo.site / DEMO_INFO / "REAL")
    record.symlink_to("REAL")
    assert demo.found() == {DEMO_INFO: "unverifiable", f"{DEMO_INFO}/RECORD": "unreadable"}
    record.unlink()
    (demo.site / DEMO_INFO / "REAL").rename(tmp_path / "RECORD")
    record.symlink_to(tmp_path / "RECORD")
    for asked in ([], ["demo"]):
        found = demo.found(distributions=asked)
        assert found == {DEMO_INFO: "unverifiable", f"{DEMO_INFO}/RECORD": "redirected"}


# .dist-info of every name and content


@pytest.mark.parametrize(
    "name",
    [b"\xff\xfe-1.0.dist-info", b"a\nb-1.dist-info", b".dist-info", b"-1.0.dist-info", b"x.dist-info", b"-.dist-info"],
)
def test_dist_infos_of_every_name(demo: Env, name: bytes) -> None:
    folder = os.fsencode(demo.site) + b"/" + name
    os.mkdir(folder)
    for file, data in ((b"RECORD", b"x/y.py,,\n"), (b"METADATA", b"")):
        with open(folder + b"/" + file, "wb") as stream:
            stream.write(data)
    result = demo.scan()
    assert {finding.path: finding.status for finding in result.findings} == {"x/y.py": "missing"}
    json.dumps([finding.to_dict() for finding in result.findings], ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"", "leftover"),
        (b"\r\n\n ", "leftover"),
        (b"\0" * 5000, "unverifiable"),
        (bytes(range(1, 256)) * 20, "missing"),
        (b'"' * 3001, "unverifiable"),
    ],
)
def test_records_of_every_content(demo: Env, data: bytes, status: str) -> None:
    (demo.site / DEMO_INFO / "RECORD").write_bytes(data)
    result = demo.scan()
    assert status in {finding.status for finding in result.findings}
    assert not any(finding.status == "modified" for finding in result.findings)


def test_a_record_that_fills_the_memory(demo: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_RECORD_LIMIT", 100)
    finding = demo.one()
    assert (finding.path, finding.status) == (DEMO_INFO, "unverifiable")
    assert "larger than any can be" in finding.detail


@pytest.mark.parametrize("text", ["[" * 60000, "{", "null", '{"dir_info": []}', '{"dir_info": {"editable": true}}'])
def test_direct_urls_of_every_content(demo: Env, text: str) -> None:
    (demo.site / DEMO_INFO / "direct_url.json").write_text(text)
    assert demo.found() == ({DEMO_INFO: "unverifiable"} if "true" in text else {})


# Interrupted installations


@pytest.mark.parametrize(
    "name",
    [
        "~emo/core.py",
        "~~emo/core.py",
        "~%mo-1.0.dist-info/RECORD",
        "demo/~ub/mod.py",
        "namespace/~emo/x.py",
        ".tmpAb3dE9",
        "demo/.tmpAb3dE9",
        "demo/sub/.tmpAb3dE9",
        "../../../bin/.tmpAb3dE9",
        f"{DEMO_INFO}/RECORDq1w2e3r4.tmp",
        f"{DEMO_INFO}/direct_url.jsonq1w2e3_4.tmp",
        "demo/.pristine-abcd1234",
        "half-2.0.dist-info/INSTALLER",
    ],
)
def test_what_interrupted_installations_leave(demo: Env, name: str) -> None:
    path = pathlib.Path(os.path.normpath(demo.site / name))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    result = demo.scan()
    counted = [finding for finding in result.findings if finding.counts]
    assert [finding.status for finding in counted] == ["leftover"]
    assert str(path).startswith(counted[0].file)


def test_names_like_leftovers_that_a_record_lists(bare: Env) -> None:
    bare.install("demo", {"demo/~data/x.txt": b"", "demo/.tmpAb3dE9": b"", "demo/~x/y.py": b""})
    assert bare.found() == {}


def test_uv_killed_before_it_wrote_its_record(bare: Env) -> None:
    """The wheel's own RECORD is in place then, with rows of what was to be moved."""
    bare.install("demo", {"demo/__init__.py": b""}, f"demo-1.0.data/scripts/run,{encoded(b'x')},1\n")
    assert bare.found() == {"demo-1.0.data/scripts/run": "missing"}


# Caches of compilers


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("demo/__pycache__/core.f-1.py311.nbi", None),
        ("demo/__pycache__/core.f-1.py311.1.nbc", None),
        ("demo/cache/kernel.cubin", None),
        ("demo/cache/kernel.ttir", None),
        ("demo/cache/__triton_launcher.c", None),
        ("../../../.cache/flashinfer/ops.so", None),
        ("../../../.triton/cache/x/launcher.so", None),
        ("demo/cache/__triton_launcher.so", "unexpected"),
        ("demo/__pycache__/_cffi__x.cpython-311-x86_64-linux-gnu.so", "unexpected"),
    ],
)
def test_jit_caches(demo: Env, name: str, status: str) -> None:
    path = pathlib.Path(os.path.normpath(demo.site / name))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF")
    assert demo.found() == ({name: status} if status else {})


# Editable installs and those without RECORD

BACKEND = """
import base64, hashlib, zipfile
INFO = "demo_pkg-{version}.dist-info"
def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "demo_pkg-{version}-py3-none-any.whl"
    members = {{
        "__editable__.demo_pkg.pth": "{source}",
        INFO + "/METADATA": "Metadata-Version: 2.1\\nName: demo_pkg\\nVersion: {version}\\n",
        INFO + "/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }}
    rows = ""
    with zipfile.ZipFile(folder + "/" + name, "w") as archive:
        for path, text in members.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            rows += f"{{path}},sha256={{digest}},{{len(text)}}\\n"
            archive.writestr(path, text)
        archive.writestr(INFO + "/RECORD", rows + INFO + "/RECORD,,\\n")
    return name
def build_wheel(*arguments):
    raise NotImplementedError
"""


@pytest.mark.parametrize("installer", ["pip", "uv-copy"])
def test_editable_installs(templates: object, demo_wheel: pathlib.Path, tmp_path: pathlib.Path, installer: str) -> None:
    source = tmp_path / "source"
    (source / "demo").mkdir(parents=True)
    (source / "demo/__init__.py").write_bytes(b"edited every day\n")
    (source / "backend.py").write_text(BACKEND.format(version=VERSION, source=source))
    (source / "pyproject.toml").write_text(
        f'[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        f'[project]\nname = "demo_pkg"\nversion = "{VERSION}"\n'
    )
    env = Env.copied(templates[installer], tmp_path / "env")  # type: ignore[index]
    install(env.root, installer, "--no-deps", "-e", source)
    for wheel in (None, demo_wheel):
        finding = env.one(wheel=wheel)
        assert (finding.status, finding.distribution, finding.counts) == ("unverifiable", "demo-pkg", False)
        assert str(source) in finding.detail
        assert env.scan(wheel=wheel).summary.verified_against == "installed_record"


def test_a_claim_to_be_editable_keeps_no_edit_from_being_found(pip_env: Env, demo_wheel: pathlib.Path) -> None:
    info = pip_env.site / f"{NAME}-{VERSION}.dist-info"
    (info / "direct_url.json").write_text('{"url": "file:///x", "dir_info": {"editable": true}}')
    (pip_env.site / "demo/core.py").write_bytes(b"edited")
    assert pip_env.found(wheel=demo_wheel)["demo/core.py"] == "modified"


def test_editable_installs_of_old(demo: Env) -> None:
    (demo.site / "old.egg-link").write_text("/src/old\n.")
    (demo.site / "easy-install.pth").write_text("/src/old\n")
    assert demo.found() == {"easy-install.pth": "unverifiable", "old.egg-link": "unverifiable"}
    for line in ("/src/other", "import os"):
        (demo.site / "easy-install.pth").write_text(f"/src/old\n{line}\n")
        assert demo.found()["easy-install.pth"] == "unexpected"


def test_a_distribution_without_record_hides_nothing_of_others(demo: Env) -> None:
    info = demo.install("system", {"system/mod.py": b"x", "system_nspkg.pth": b""})
    (info / "RECORD").unlink()
    (info / "top_level.txt").write_text("system\nsystem_nspkg\ndemo\nsitecustomize\nevil\n")
    base = {info.name: "unverifiable", "system_nspkg.pth": "unverifiable"}
    assert demo.found() == base
    (demo.site / "demo/dbg.py").write_bytes(b"")
    (demo.site / "sitecustomize.py").write_bytes(b"")
    assert demo.found() == {**base, "demo/dbg.py": "unexpected", "sitecustomize.py": "unexpected"}


def test_distributions_of_two_kinds_and_of_two_places(demo: Env) -> None:
    (demo.site / "demo-0.9-py3.11.egg-info").write_text("Name: demo\n")
    other = demo.root / "lib/python3.12/site-packages/demo-2.0.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_bytes(b"")
    (other / "RECORD").write_text(record_text({"demo-2.0.dist-info/METADATA": b""}))
    found = demo.scan().findings
    assert [finding.status for finding in found if finding.counts] == ["duplicate"]
    assert all(name in "".join(finding.detail for finding in found) for name in ("demo-0.9", "demo-1.0", "demo-2.0"))


# What cannot be read


def _public(env: Env, tmp_path_factory: pytest.TempPathFactory) -> None:
    for folder in (tmp_path_factory.getbasetemp().parent, *env.root.parents):
        if folder.stat().st_uid == os.geteuid() and folder != pathlib.Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)


@pytest.mark.parametrize(
    ("closed", "found"),
    [
        (f"{DEMO_INFO}/RECORD", {DEMO_INFO: "unverifiable", f"{DEMO_INFO}/RECORD": "unreadable"}),
        (DEMO_INFO, {DEMO_INFO: "unverifiable", f"{DEMO_INFO}/RECORD": "unreadable"}),
        (f"{DEMO_INFO}/METADATA", {f"{DEMO_INFO}/METADATA": "unreadable"}),
        ("demo/core.py", {"demo/core.py": "unreadable"}),
        ("demo/sub", {"demo/sub": "unreadable", "demo/sub/mod.py": "unreadable"}),
        ("../../../bin", {"bin": "unreadable"}),
    ],
)
def test_what_may_not_be_read(
    demo: Env, closed: str, found: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    _public(demo, tmp_path_factory)
    path = pathlib.Path(os.path.normpath(demo.site / closed))
    mode = path.stat().st_mode
    path.chmod(0)
    try:
        if closed == DEMO_INFO:
            # Nothing in it can be looked at, so that it cannot be told from a remainder.
            found = {**found, DEMO_INFO: "unverifiable"}
        assert as_nobody(demo.found) == found
        if "RECORD" in closed:
            assert as_nobody(lambda: demo.found(distributions=["demo"])) == found
            wheel = build_wheel(demo.root.parent, _demo_members(), info=DEMO_INFO)
            assert as_nobody(lambda: demo.found(wheel=wheel)) == {f"{DEMO_INFO}/RECORD": "unreadable"}
    finally:
        path.chmod(mode)


def _demo_members() -> dict[str, bytes]:
    metadata = b"Name: demo\nVersion: 1.0\n"
    files = {"demo/__init__.py": b"", "demo/core.py": b"x = 1\n", "demo/sub/mod.py": b"y = 2\n"}
    return {**files, f"{DEMO_INFO}/METADATA": metadata}


def test_a_site_packages_that_may_not_be_looked_at_is_not_passed_over(
    demo: Env, tmp_path_factory: pytest.TempPathFactory
) -> None:
    _public(demo, tmp_path_factory)
    closed = demo.root / "lib/python3.12"
    (closed / "site-packages").mkdir(parents=True)
    closed.chmod(0)

    def scan() -> str:
        try:
            return str(demo.found())
        except ScanError as error:
            return str(error)

    try:
        assert "cannot be read" in as_nobody(scan)
    finally:
        closed.chmod(0o755)


# What changes during the scan


def _at(monkeypatch: pytest.MonkeyPatch, function: str, path: pathlib.Path, change: Callable[[], object]) -> None:
    """Make a change at the moment when the scan calls a function of ``os`` with a path, for the first time."""
    real = getattr(os, function)
    waiting = [change]

    def called(*arguments: object, **named: object) -> object:
        if waiting and arguments[:1] == (str(path),):
            waiting.pop()()
        return real(*arguments, **named)

    monkeypatch.setattr(os, function, called)


@pytest.mark.parametrize(
    ("becomes", "status"),
    [("FIFO", "unreadable"), ("link", "modified"), ("gone", "missing"), ("longer", "modified"), ("empty", "modified")],
)
def test_files_that_change_between_the_look_and_the_reading(
    demo: Env, becomes: str, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = demo.site / "demo/core.py"

    def change() -> None:
        data = path.read_bytes()
        path.unlink()
        if becomes == "FIFO":
            os.mkfifo(path)
        elif becomes == "link":
            path.symlink_to("__init__.py")
        elif becomes != "gone":
            path.write_bytes(b"" if becomes == "empty" else data * 2)

    _at(monkeypatch, "open", path, change)
    assert demo.found(workers=1) == {"demo/core.py": status}


@pytest.mark.parametrize("to_the_end", [False, True])
def test_a_file_that_is_cut_off_while_it_is_read(bare: Env, to_the_end: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"x" * (3 << 20)
    bare.install("demo", {"demo/large.bin": data})
    path = bare.site / "demo/large.bin"
    real = os.readv

    def readv(descriptor: int, buffers: list[bytearray]) -> int:
        os.truncate(path, 0 if to_the_end else 2 << 20)
        return real(descriptor, buffers)

    monkeypatch.setattr(os, "readv", readv)
    assert bare.found(workers=1) == {"demo/large.bin": "modified"}


def test_a_directory_that_vanishes_during_the_walk(demo: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    (demo.site / "demo/cache").mkdir()
    _at(monkeypatch, "scandir", demo.site / "demo/cache", lambda: shutil.rmtree(demo.site / "demo/cache"))
    assert demo.found(workers=1) == {}


def test_a_site_packages_that_vanishes_during_the_walk(demo: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    _at(monkeypatch, "scandir", demo.site, lambda: shutil.rmtree(demo.site))
    found = demo.found()
    assert set(found.values()) <= {"missing"}


def test_a_dist_info_that_vanishes_before_it_is_read(demo: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    info = demo.install("other", {"other/__init__.py": b""})
    _at(monkeypatch, "open", info / "RECORD", lambda: shutil.rmtree(info))
    assert demo.found(workers=1) == {info.name: "unverifiable"}


def test_a_link_that_vanishes_before_it_is_read(demo: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    link = demo.site / "demo/alias.py"
    link.symlink_to("core.py")
    _at(monkeypatch, "readlink", link, link.unlink)
    assert demo.found(workers=1) == {}


def test_the_layout_of_these_tests() -> None:
    assert "demo/core.py" in MEMBERS
