# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

"""What a scan finds with nothing but the environment itself: installed RECORDs as the reference."""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import STATUSES, ScanError
from ansible_collections.pristine.vllm.tests.unit.plugins.record_support import (
    INFO,
    MEMBERS,
    NAME,
    SOURCE,
    Env,
    Templates,
    encoded,
    sha256,
)

CORE = "demo/core.py"


def test_what_an_installer_made_is_pristine(env: Env) -> None:
    result = env.scan()
    assert result.findings == []
    assert result.pristine
    summary = result.summary.to_dict()
    # Members, two generated scripts, INSTALLER and what else the installer added.
    assert summary["files"] >= len(MEMBERS) + 3
    assert summary["bytes_hashed"] >= sum(map(len, MEMBERS.values()))
    assert summary["distributions"] == 1
    assert summary["verified_against"] == "installed_record"
    assert summary["from_cache"] == 0
    assert summary["seconds"] > 0
    assert all(summary[status] == 0 for status in STATUSES)


def test_bytecode_that_python_makes_is_no_finding(env: Env) -> None:
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(env.site), str(env.root / "bin")], check=True)
    assert list(env.site.glob("demo/__pycache__/*.pyc"))
    assert env.found() == {}


def test_pip_writes_carriage_returns_and_uv_does_not(templates: Templates) -> None:
    records = {name: Env(templates[name]).record().read_bytes() for name in ("pip", "uv-copy")}
    assert b"\r\n" in records["pip"]
    assert b"\r\n" not in records["uv-copy"]
    for data in records.values():
        assert b'"demo/configs/E=8,N=1024,device_name=RTX[PRO],dtype=fp8.json"' in data


@pytest.mark.parametrize("member", [name for name in MEMBERS if "/" in name and ".data/" not in name])
def test_every_edited_file_is_found(pip_env: Env, member: str) -> None:
    old = (pip_env.site / member).read_bytes()
    (pip_env.site / member).write_bytes(old + b"#")
    finding = pip_env.one()
    assert (finding.path, finding.status, finding.distribution) == (member, "modified", "demo-pkg")
    assert (finding.expected_sha256, finding.actual_sha256) == (sha256(old), sha256(old + b"#"))
    assert finding.file == str(pip_env.site / member)
    assert f"size is {len(old) + 1} bytes, recorded {len(old)}" in finding.detail


def test_an_edit_that_keeps_size_and_time(env: Env) -> None:
    path = env.site / CORE
    before = path.stat()
    path.write_bytes(SOURCE.replace(b"hi", b"ho"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    finding = env.one()
    assert (finding.path, finding.status) == (CORE, "modified")
    assert finding.detail == "content differs, size is as recorded"


def test_deleted_files_and_folders_are_missing(env: Env) -> None:
    for path in (env.site / CORE, env.root / "bin/demo-sh"):
        path.unlink()
    (env.site / "nested/deep").rename(env.root / "away")
    (env.site / "demo/configs").rename(env.root / "configs")
    (env.site / "demo/configs").write_bytes(b"a file where a folder was")
    assert env.found() == {
        CORE: "missing",
        "bin/demo-sh": "missing",
        "nested/deep/er/mod.py": "missing",
        **{name: "missing" for name in MEMBERS if name.startswith("demo/configs/")},
    }


def _socket(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # By its name alone: the path of a test's folder is longer than a socket's may be.
    monkeypatch.chdir(path.parent)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(path.name)


@pytest.mark.parametrize("kind", ["FIFO", "directory", "symlink", "socket"])
def test_what_is_no_regular_file_any_more(pip_env: Env, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pip_env.site / CORE
    path.unlink()
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "symlink":
        path.symlink_to("__init__.py")
    else:
        _socket(path, monkeypatch)
    finding = pip_env.one()
    assert (finding.path, finding.status) == (CORE, "modified")
    assert kind in finding.detail


@pytest.mark.parametrize(
    "name",
    [
        "demo/dbg.py",
        "demo/configs/x.py",
        "demo/m.abi3.so",
        "demo/m.cpython-312-x86_64-linux-gnu.so",
        "demo/libfoo.so.12.1",
        "demo/old.pyc",
        "demo/__pycache__/x.py",
        "stray.py",
        "straypkg/__init__.py",
        "json/__init__.py",
        "sitecustomize.py",
        "usercustomize.py",
        "evil.pth",
        f"{INFO}/hidden.py",
        "../../../bin/json.py",
        "../../../bin/json/__init__.py",
    ],
)
def test_files_that_nobody_lists_and_that_could_run(pip_env: Env, name: str) -> None:
    path = pathlib.Path(os.path.normpath(pip_env.site / name))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    finding = pip_env.one()
    assert (finding.path, finding.status) == (name.replace("../", ""), "unexpected")
    assert finding.actual_sha256 == sha256(b"x")
    assert finding.counts


@pytest.mark.parametrize(
    "name",
    [
        "demo/configs/E=256,N=512,device_name=RTX[PRO].json",
        "demo/core.py.bak",
        "demo/core.py.orig",
        "demo/notes.pth",
        "demo/__pycache__/core.cpython-311.pyc",
        "demo/__pycache__/core.cpython-311.pyc.140",
        "../../../release.json",
        "../../../share/x.py",
        "../../../bin/notes.txt",
        "../../../bin/activate.nu",
    ],
)
def test_files_that_nobody_lists_and_that_cannot_run(pip_env: Env, name: str) -> None:
    path = pathlib.Path(os.path.normpath(pip_env.site / name))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    path.chmod(0o755)
    assert pip_env.found() == {}


def test_programs_that_nobody_lists(pip_env: Env) -> None:
    for name, content in (
        ("demo/tool", b"#!/bin/sh\n"),
        ("demo/elf", b"\x7fELF"),
        ("../../../bin/run", b"#!/bin/sh\n"),
    ):
        path = pathlib.Path(os.path.normpath(pip_env.site / name))
        path.write_bytes(content)
        assert pip_env.found() == {}
        path.chmod(0o755)
        assert pip_env.one().status == "unexpected"
        path.unlink()


def test_links_out_of_the_environment_are_not_followed(pip_env: Env, tmp_path: pathlib.Path) -> None:
    secret = tmp_path / "secret"
    (secret / "er").mkdir(parents=True)
    (secret / "er/mod.py").write_bytes(MEMBERS["nested/deep/er/mod.py"])
    (secret / "core.py").write_bytes(SOURCE)
    (pip_env.site / CORE).unlink()
    (pip_env.site / CORE).symlink_to(secret / "core.py")
    (pip_env.site / "nested/deep").rename(tmp_path / "away")
    (pip_env.site / "nested/deep").symlink_to(secret)
    (pip_env.site / "more").symlink_to(secret)
    (pip_env.site / "data.json").symlink_to(secret / "core.py")
    findings = pip_env.scan().findings
    assert {finding.path: finding.status for finding in findings} == {
        CORE: "redirected",
        "more": "redirected",
        "nested/deep": "redirected",
        "nested/deep/er/mod.py": "redirected",
    }
    assert all(finding.actual_sha256 is None for finding in findings)


def test_links_within_the_environment(pip_env: Env) -> None:
    (pip_env.root / "lib64").unlink(missing_ok=True)
    (pip_env.root / "lib64").symlink_to("lib")
    assert pip_env.found() == {}
    (pip_env.site / "alias").symlink_to("demo")
    (pip_env.site / "alias.py").symlink_to("demo/core.py")
    assert pip_env.found() == {"alias": "unexpected", "alias.py": "unexpected"}


def test_uv_symlink_mode_is_said_to_lead_out(templates: Templates) -> None:
    result = Env(templates["uv-symlink"]).scan()
    assert not result.pristine
    assert result.summary.counts["redirected"] > 8
    assert {finding.status for finding in result.findings} == {"redirected"}


def test_an_environment_behind_a_link(pip_env: Env, tmp_path: pathlib.Path) -> None:
    (tmp_path / "current").symlink_to("env")
    assert Env(tmp_path / "current").scan().pristine


def test_rows_that_lead_out_are_never_opened(bare: Env, tmp_path: pathlib.Path) -> None:
    target = tmp_path / "outside.py"
    os.mkfifo(target)
    rows = ["../../../../outside.py", str(target), "demo/../../../../../outside.py"]
    bare.install("demo", {"demo/__init__.py": b""}, "".join(f"{row},{encoded(b'x')},1\n" for row in rows))
    findings = bare.scan().findings
    assert [(finding.path, finding.status) for finding in findings] == [(row, "outside") for row in sorted(rows)]
    assert all(finding.counts and finding.actual_sha256 is None for finding in findings)


def test_rows_that_stay_inside_by_detours(bare: Env) -> None:
    files = {"demo/a.py": b"a", "demo/b.py": b"b", "demo/c.py": b"c", "../../../bin/tool": b"t"}
    record = "".join(
        f"{path},{encoded(data)},1\n"
        for path, data in (
            ("./demo/a.py", b"a"),
            ("demo/../demo/b.py", b"b"),
            (str(bare.site / "demo/c.py"), b"c"),
            ("../../../bin/tool", b"t"),
        )
    )
    bare.install("demo", files, "=" + record)
    assert bare.scan().summary.files == 4
    assert bare.found() == {}
    for path in ("demo/a.py", "demo/b.py", "demo/c.py", "../../../bin/tool"):
        (bare.site / path).write_bytes(b"z")
    assert set(bare.found().values()) == {"modified"}
    assert len(bare.found()) == 4


@pytest.mark.parametrize(
    ("row", "status"),
    [
        ("demo/x.py,,\n", "unverifiable"),
        ("demo/x.py,md5=XrY7u-Ae7tCTyyK7j1rNww,5\n", "unverifiable"),
        ("demo/x.py,sha256=%%%,5\n", "unverifiable"),
        ("demo/x.py,,\ndemo/x.py," + encoded(b"hello") + ",5\n", None),
        ("demo/x.py," + encoded(b"other") + ",5\ndemo/x.py," + encoded(b"hello") + ",5\n", None),
        ("demo/x.py," + encoded(b"hello", "sha384") + ",5\n", None),
        ("demo/x.py," + encoded(b"hello", "sha512") + ",\n", None),
        ("demo/x.py," + encoded(b"other", "sha512") + ",5\n", "modified"),
        ("demo/x.py," + encoded(b"hello") + "==,5\n", None),
        ("demo/x.py,sha256=" + sha256(b"hello") + ",5\n", None),
        ("demo/x.py,sha256=" + sha256(b"other") + ",5\n", "modified"),
        ("demo/x.py," + encoded(b"hello") + ",6\n", "modified"),
        ("demo/x.py," + encoded(b"hello") + ",5\ndemo/,,\n", None),
        ("demo/x.py," + encoded(b"hello") + ",5\ndemo/__pycache__/x.cpython-311.pyc,,\n", None),
    ],
)
def test_rows_of_every_kind(bare: Env, row: str, status: str) -> None:
    bare.install("demo", {}, row)
    (bare.site / "demo").mkdir()
    (bare.site / "demo/x.py").write_bytes(b"hello")
    result = bare.scan()
    assert {finding.path: finding.status for finding in result.findings} == ({"demo/x.py": status} if status else {})
    assert result.pristine is (status != "modified")
    if status == "modified":
        assert result.findings[0].actual_sha256 == sha256(b"hello")
    (bare.site / "demo/x.py").unlink()
    assert bare.found() == {"demo/x.py": "missing"}


def test_bytecode_that_a_wheel_records_is_written_anew_by_python(bare: Env) -> None:
    cached, beside = "demo/__pycache__/x.cpython-311.pyc", "demo/y.pyc"
    bare.install("demo", {"demo/x.py": b"", cached: b"as shipped", beside: b"as shipped"})
    (bare.site / cached).write_bytes(b"for this mtime")
    assert bare.found() == {}
    (bare.site / cached).unlink()
    assert bare.found() == {}
    (bare.site / beside).write_bytes(b"edited")
    assert bare.found() == {beside: "modified"}


def test_unquoted_commas_are_read_and_said(bare: Env) -> None:
    bare.install("demo", {"demo/E=8,N=1.json": b"{}"}, f"=demo/E=8,N=1.json,{encoded(b'{}')},2\n")
    finding = bare.one()
    assert (finding.path, finding.status) == ("demo-1.0.dist-info/RECORD", "unverifiable")
    assert "malformed in 1 row(s)" in finding.detail
    (bare.site / "demo/E=8,N=1.json").write_bytes(b"[]")
    assert bare.found()["demo/E=8,N=1.json"] == "modified"


def test_names_that_are_no_utf8_and_names_in_two_cases(bare: Env) -> None:
    name = os.fsdecode(b"demo/\xff\xfe.py")
    bare.install("demo", {name: b"x", "demo/Case.py": b"1", "demo/case.py": b"2"})
    assert bare.found() == {}
    (bare.site / name).write_bytes(b"y")
    finding = bare.one()
    assert (finding.path, finding.status) == (name, "modified")
    assert finding.to_dict()["path"] == "demo/\\xff\\xfe.py"


def test_a_file_with_several_owners(bare: Env) -> None:
    bare.install("one", {"nsp/__init__.py": b"from one", "nsp/one.py": b""})
    bare.install("two", {"nsp/__init__.py": b"from two!", "nsp/two.py": b""})
    assert bare.found() == {}
    (bare.site / "nsp/__init__.py").write_bytes(b"from one")
    assert bare.found() == {}
    assert bare.found(distributions=["two"]) == {}
    (bare.site / "nsp/__init__.py").write_bytes(b"from xxx")
    assert bare.found() == {"nsp/__init__.py": "modified"}


def test_two_dist_infos_of_one_distribution(bare: Env) -> None:
    bare.install("demo_pkg", {"demo/__init__.py": b""}, version="1.0")
    bare.install("Demo.Pkg", {"demo/__init__.py": b""}, version="2.0")
    finding = bare.one()
    assert (finding.status, finding.distribution) == ("duplicate", "demo-pkg")
    assert "Demo.Pkg-2.0.dist-info" in finding.detail
    assert "demo_pkg-1.0.dist-info" in finding.detail


def test_remains_of_interrupted_installations(pip_env: Env) -> None:
    (pip_env.site / "~emo").mkdir()
    (pip_env.site / "~emo/core.py").write_bytes(b"x")
    (pip_env.site / ".tmpAb3dE9").write_bytes(b"x")
    (pip_env.site / "half-1.0.dist-info").mkdir()
    found = [(finding.path, finding.status) for finding in pip_env.scan().findings]
    assert found == [
        (".tmpAb3dE9", "leftover"),
        ("half-1.0.dist-info", "leftover"),
        ("half-1.0.dist-info", "unverifiable"),
        ("~emo", "leftover"),
    ]


def test_distributions_without_a_record(bare: Env) -> None:
    bare.install("demo", {"demo/__init__.py": b""})
    info = bare.install("system", {"system/mod.py": b"x", "_sys.cpython-311-x86_64-linux-gnu.so": b"x", "sys2.py": b""})
    (info / "RECORD").unlink()
    (info / "top_level.txt").write_text("_sys\nsystem\nsys2\n")
    (bare.site / "old_tool-1.2-py3.11.egg-info").write_text("Name: old-tool\n")
    (bare.site / "old_tool.py").write_bytes(b"x")
    (bare.site / "egg-3.0-py3.11.egg").mkdir()
    (bare.site / "egg-3.0-py3.11.egg/egg.py").write_bytes(b"x")
    result = bare.scan()
    assert {finding.path: finding.status for finding in result.findings} == {
        "system-1.0.dist-info": "unverifiable",
        "old_tool-1.2-py3.11.egg-info": "unverifiable",
        "egg-3.0-py3.11.egg": "unverifiable",
    }
    assert result.pristine
    assert result.summary.counts["unverifiable"] == 3


def test_an_editable_install_is_never_called_clean(bare: Env) -> None:
    info = bare.install("demo", {"__editable__.demo-1.0.pth": b"/src/demo\n"})
    (info / "direct_url.json").write_text('{"url": "file:///src/demo", "dir_info": {"editable": true}}')
    finding = bare.one()
    assert (finding.path, finding.status, finding.distribution) == ("demo-1.0.dist-info", "unverifiable", "demo")
    assert "file:///src/demo" in finding.detail


def test_what_virtualenv_puts_in_place(bare: Env) -> None:
    bare.install("demo", {"demo/__init__.py": b""})
    (bare.site / "_virtualenv.py").write_bytes(b"x = 1\n")
    (bare.site / "_virtualenv.pth").write_bytes(b"import _virtualenv")
    assert set(bare.found().values()) == {"unverifiable"}
    (bare.site / "_virtualenv.pth").write_bytes(b"import _virtualenv, os; os.system('x')")
    assert bare.found()["_virtualenv.pth"] == "unexpected"


@pytest.fixture
def public_env(templates: Templates) -> Iterator[Env]:
    """An environment that other users can reach; pytest's folders are for one user only."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder).chmod(0o755)
        env = Env.copied(templates["pip"], pathlib.Path(folder, "env"))
        yield env
        for path in (env.site, env.site / "demo/configs"):
            path.chmod(0o755)


PROGRAM = """
import os, sys
from ansible_collections.pristine.vllm.plugins.module_utils.record.scan import scan
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import ScanError, ScanOptions
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    findings = scan(ScanOptions(environment=sys.argv[1])).result.findings
    print(*sorted(f"{one.path}={one.status}" for one in findings))
except ScanError as error:
    print("ERROR", error)
"""


def _as_nobody(env: Env) -> str:
    """What a scan says to a user whom permissions stop: they do not stop root."""
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", PROGRAM, str(env.root)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=variables).stdout.strip()


def test_what_cannot_be_read_is_said_and_the_scan_goes_on(public_env: Env) -> None:
    (public_env.site / "demo/dbg.py").write_bytes(b"")
    (public_env.site / CORE).chmod(0)
    (public_env.site / "demo/configs").chmod(0)
    names = [name for name in MEMBERS if name.startswith("demo/configs")]
    expected = [f"{CORE}=unreadable", "demo/configs=unreadable", "demo/dbg.py=unexpected"]
    assert _as_nobody(public_env) == " ".join(sorted([*expected, *(f"{name}=unreadable" for name in names)]))


def test_an_environment_that_cannot_be_read_is_an_error(public_env: Env) -> None:
    public_env.site.chmod(0)
    answer = _as_nobody(public_env)
    assert answer.startswith("ERROR ")
    assert "cannot be read" in answer


def test_no_answer_is_an_error_and_never_pristine(bare: Env, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ScanError, match="holds no distribution"):
        bare.scan()
    for path, message in ((tmp_path / "absent", "not a directory"), (tmp_path, "no lib/python3")):
        with pytest.raises(ScanError, match=message):
            _scan_path(path)
    (bare.site).rename(tmp_path / "elsewhere")
    (bare.site).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ScanError, match="holds no distribution"):
        bare.scan()


def _scan_path(path: pathlib.Path) -> None:
    env = object.__new__(Env)
    env.root = path
    env.scan()


def test_only_some_distributions(bare: Env) -> None:
    bare.install("One.Pkg", {"one/__init__.py": b"1", "nsp/one.py": b""})
    bare.install("two", {"two/__init__.py": b"2", "nsp/two.py": b""})
    for name in ("one", "two", "nsp"):
        (bare.site / name / "dbg.py").write_bytes(b"")
    for name in ("one", "two"):
        (bare.site / name / "__init__.py").write_bytes(b"edited")
    (bare.site / "stray.py").write_bytes(b"")
    assert bare.found(distributions=["one_pkg"]) == {
        "nsp/dbg.py": "unexpected", "one/__init__.py": "modified", "one/dbg.py": "unexpected",
    }  # fmt: skip
    assert len(bare.found()) == 6
    assert bare.scan(distributions=["ONE-pkg"]).summary.distributions == 1
    with pytest.raises(ScanError, match="three not installed"):
        bare.scan(distributions=["two", "three"])


def test_only_some_files(pip_env: Env) -> None:
    (pip_env.site / CORE).write_bytes(b"edited")
    (pip_env.site / "demo/__init__.py").write_bytes(b"edited")
    (pip_env.site / "stray.py").write_bytes(b"")
    assert pip_env.found(files=[CORE]) == {CORE: "modified"}
    assert pip_env.scan(files=[CORE, "bin/demo-sh"]).summary.files == 2
    assert pip_env.found(files=["bin/demo-cli", "../../../bin/demo-sh"]) == {}
    name = "demo/configs/E=8,N=1024,device_name=RTX[PRO],dtype=fp8.json"
    assert pip_env.scan(files=[name, 'demo/configs/a "quoted", name.json']).summary.files == 2
    assert pip_env.found(files=["stray.py"]) == {"stray.py": "unexpected"}
    (pip_env.site / CORE).unlink()
    assert pip_env.found(files=[CORE]) == {CORE: "missing"}
    with pytest.raises(ScanError, match=r"no RECORD .* lists 'demo/typo.py'"):
        pip_env.scan(files=[CORE, "demo/typo.py"])
    with pytest.raises(ScanError, match="outside of the environment"):
        pip_env.scan(files=["/etc/passwd"])


def test_ignored_paths_are_counted_and_not_reported(pip_env: Env) -> None:
    names = ["demo/configs/E=8,N=1024,device_name=RTX[PRO],dtype=fp8.json", CORE]
    for name in names:
        (pip_env.site / name).write_bytes(b"edited")
    result = pip_env.scan(ignore=[names[0]])
    assert [finding.path for finding in result.findings] == [CORE]
    assert result.summary.ignored == 1
    assert pip_env.found(ignore=["demo/configs/E=8,*[[]PRO],*"]) == {CORE: "modified"}
    assert pip_env.found(ignore=["demo/*"]) == {names[0]: "modified"}
    result = pip_env.scan(ignore=["demo/**"])
    assert result.pristine
    assert result.summary.ignored == 2


def test_adaptations(pip_env: Env) -> None:
    adapted = SOURCE + b"# SM120\n"
    declared = [(CORE, sha256(adapted).upper(), "SM120 needs it")]
    finding = pip_env.one(adaptations=declared)
    assert (finding.path, finding.status, finding.counts) == (CORE, "unadapted", True)
    assert finding.detail == "the file is without it: SM120 needs it"
    assert (finding.expected_sha256, finding.actual_sha256) == (sha256(adapted), sha256(SOURCE))
    (pip_env.site / CORE).write_bytes(adapted)
    finding = pip_env.one(adaptations=declared)
    assert (finding.status, finding.detail, finding.counts) == ("declared", "SM120 needs it", False)
    assert finding.expected_sha256 == finding.actual_sha256 == sha256(adapted)
    assert pip_env.scan(adaptations=declared).pristine
    assert pip_env.found() == {CORE: "modified"}
    (pip_env.site / CORE).write_bytes(adapted + b"# and debug code\n")
    finding = pip_env.one(adaptations=declared)
    assert finding.status == "modified"
    assert "nor is it the declared adaptation (SM120 needs it)" in finding.detail


def test_adaptations_of_files_that_no_wheel_has(pip_env: Env) -> None:
    for name in ("demo/patch.py", "demo/configs/E=1.json"):
        declared = [(name, sha256(b"added"), "tuned")]
        assert pip_env.one(adaptations=declared).status == "unadapted"
        (pip_env.site / name).write_bytes(b"added")
        assert pip_env.one(adaptations=declared).status == "declared"
        (pip_env.site / name).write_bytes(b"other")
        assert not pip_env.scan(adaptations=declared).pristine
        (pip_env.site / name).unlink()
    with pytest.raises(ScanError, match="outside of the environment"):
        pip_env.scan(adaptations=[("../../../../model/config.json", sha256(b""), "x")])


def test_adaptations_outside_of_what_is_asked_for(bare: Env) -> None:
    bare.install("one", {"one/__init__.py": b"1"})
    bare.install("two", {"two/__init__.py": b"2"})
    declared = [("two/__init__.py", sha256(b"x"), "x")]
    assert bare.found(distributions=["one"], adaptations=declared) == {}
    assert bare.found(files=["one/__init__.py"], adaptations=declared) == {}
    assert bare.found(distributions=["two"], adaptations=declared) == {"two/__init__.py": "unadapted"}


def test_findings_are_sorted(pip_env: Env) -> None:
    for name in ("demo/z.py", "demo/a.py", "aaa.py"):
        (pip_env.site / name).write_bytes(b"")
    (pip_env.site / CORE).unlink()
    assert [finding.path for finding in pip_env.scan().findings] == ["aaa.py", "demo/a.py", CORE, "demo/z.py"]


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_the_number_of_workers_changes_nothing(bare: Env, workers: int) -> None:
    files = {f"demo/m{number}.py": b"x" * (number * 977) for number in range(300)}
    files["demo/big.bin"] = os.urandom(9 << 20) + b"?"
    bare.install("demo", files)
    for number in range(0, 300, 7):
        (bare.site / f"demo/m{number}.py").write_bytes(b"edited")
    (bare.site / "demo/big.bin").write_bytes(files["demo/big.bin"][:-1] + b"!")
    result = bare.scan(workers=workers)
    assert result.summary.counts["modified"] == 44
    assert (
        result.summary.bytes_hashed
        == sum(path.stat().st_size for path in bare.site.rglob("*") if path.is_file())
        - (bare.site / "demo-1.0.dist-info/RECORD").stat().st_size
    )
    assert result.summary.distributions == 1
    assert NAME not in {finding.distribution for finding in result.findings}
