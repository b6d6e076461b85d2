# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Restoring environments that pip and uv made: each case is run in check mode and for real, twice."""

from __future__ import annotations

import hashlib
import os
import pathlib
import py_compile
import shutil
import subprocess
import sys
from typing import Any, Callable

import pytest
from ansible_collections.pristine.vllm.plugins.modules import wheel_record
from ansible_collections.pristine.vllm.tests.unit.plugins.record_support import (
    DATA,
    INFO,
    INSTALLERS,
    MEMBERS,
    NAME,
    SOURCE,
    VERSION,
    Env,
    Templates,
    build_wheel,
    encoded,
    record_text,
    sha256,
)
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import Ran, http_server, run_module

CORE = "demo/core.py"
EDITED = SOURCE.replace(b"return hidden\n", b"return hidden * 2\n")
Restore = Callable[..., Ran]


@pytest.fixture
def quarantine(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "quarantine"


# For what differs between installers; all else is tested with one of them.
every_installer = pytest.mark.parametrize("env", INSTALLERS, indirect=True)


@pytest.fixture
def env(request: pytest.FixtureRequest, templates: Templates, tmp_path: pathlib.Path) -> Env:
    return Env.copied(templates[getattr(request, "param", "pip")], tmp_path / "env")


@pytest.fixture
def once(capfd: pytest.CaptureFixture[str], env: Env, demo_wheel: pathlib.Path, quarantine: pathlib.Path) -> Restore:
    def call(**params: Any) -> Ran:
        given = {"environment": str(env.root), "wheels": [str(demo_wheel)], "quarantine": str(quarantine), "workers": 1}
        result = run_module(capfd, wheel_record.main, **{**given, **params})
        result.pop("invocation", None)
        return result

    return call


@pytest.fixture
def restore(once: Restore, env: Env, demo_wheel: pathlib.Path) -> Restore:
    """Check, real, check, real: equal results, then nothing; afterwards a scan is pristine. The first one's result."""

    def call(**params: Any) -> Ran:
        before = state(env.root)
        check = once(check=True, diff=True, **params)
        assert state(env.root) == before
        real = once(diff=True, **params)
        assert check == real
        assert not real.failed, real["msg"]
        for again in (once(check=True, diff=True, **params), once(diff=True, **params)):
            assert not again["changed"]
            assert again["restored"] == again["removed"] == again["diff"] == again["other_links"] == []
            assert again["left"] == real["left"]
            assert again["pristine"] is real["pristine"]
        assert not list(env.root.rglob(".pristine-*"))
        if "files" not in params:
            assert env.scan(wheel=demo_wheel).pristine is real["pristine"]
        return real

    return call


def state(root: pathlib.Path) -> dict[str, Any]:
    """All that matters of a tree: kinds, modes, owners, contents, links and times."""
    found = {}
    for path in sorted(root.rglob("*")):
        info = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        link = os.readlink(path) if path.is_symlink() else ""
        found[str(path)] = (info.st_mode, info.st_uid, info.st_ino, info.st_mtime_ns, content, link)
    return found


def paths(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["path"] for entry in entries]


@every_installer
def test_a_pristine_environment_is_left_alone(restore: Restore, env: Env, quarantine: pathlib.Path) -> None:
    before = state(env.root)
    result = restore()
    assert result["changed"] is False
    assert result["pristine"] is True
    assert result["counts"] == {"restored": 0, "removed": 0, "left": 0, "other_links": 0}
    assert state(env.root) == before
    assert not quarantine.exists()


@every_installer
def test_an_edited_source(restore: Restore, env: Env, demo_wheel: pathlib.Path, quarantine: pathlib.Path) -> None:
    path = env.site / CORE
    path.unlink()
    path.write_bytes(EDITED)
    path.chmod(0o640)
    os.chown(path, 1234, 1235)
    py_compile.compile(str(path), doraise=True)
    cached = f"demo/__pycache__/core.{sys.implementation.cache_tag}.pyc"
    bytecode = (env.site / cached).read_bytes()
    result = restore()
    assert path.read_bytes() == SOURCE
    assert (path.stat().st_mode & 0o7777, path.stat().st_uid, path.stat().st_gid) == (0o640, 1234, 1235)
    assert not (env.site / cached).exists()
    (change,) = result["restored"]
    assert change == {
        "path": CORE,
        "file": str(path),
        "distribution": "demo-pkg",
        "status": "modified",
        "kept": f"{quarantine}/files{path}",
        "patch": f"{quarantine}/patches{path}.patch",
        "sha256": sha256(SOURCE),
        "origin": demo_wheel.name,
        "verified_against": "wheel_record",
    }
    assert pathlib.Path(change["kept"]).read_bytes() == EDITED
    assert paths(result["removed"]) == [cached]
    assert pathlib.Path(result["removed"][0]["kept"]).read_bytes() == bytecode
    shown = result["diff"][0]["prepared"]
    assert shown.startswith(f"--- a/{CORE}\tinstalled\n+++ b/{CORE}\tpristine: {demo_wheel.name}\n")
    assert "-        return hidden * 2\n+        return hidden\n" in shown
    assert result["diff"][0]["before_header"] == f"{CORE} (installed)"
    # The patch in the quarantine leads back to what was found.
    subprocess.run(["patch", "-p1", "-s", "-i", change["patch"]], check=True, cwd=env.site)
    assert path.read_bytes() == EDITED
    assert (quarantine / "restored.json").stat().st_mode & 0o777 == 0o600


@every_installer
def test_every_member_can_be_edited_and_deleted(restore: Restore, env: Env) -> None:
    places = {member: next(path for path in installed(env, member) if path.exists()) for member in MEMBERS}
    before = {path: path.read_bytes() for path in places.values()}
    for path, data in before.items():
        mode = path.stat().st_mode
        path.unlink()
        path.write_bytes(data + b"# more\n")
        path.chmod(mode)
    assert {change["status"] for change in restore()["restored"]} == {"modified"}
    assert {path: path.read_bytes() for path in before} == before
    for path in before:
        path.unlink()
    assert {change["status"] for change in restore()["restored"]} == {"missing"}
    assert {path: path.read_bytes() for path in before} == before
    for member, path in places.items():
        assert path.stat().st_mode & 0o777 == (0o755 if "/scripts/" in member else 0o644)


def installed(env: Env, member: str) -> list[pathlib.Path]:
    if not member.startswith(DATA):
        return [env.site / member]
    kind, rest = member[len(DATA) + 1 :].split("/", 1)
    folders = {"scripts": "bin", "data": ".", "headers": "include", "purelib": str(env.site)}
    name = pathlib.PurePath(rest).name
    return sorted((env.root / folders[kind]).rglob(name)) if kind == "headers" else [env.root / folders[kind] / rest]


@every_installer
@pytest.mark.parametrize("script", ["demo-cli", "demo-sub"])
def test_scripts_that_an_installer_made(restore: Restore, env: Env, script: str) -> None:
    path = env.root / "bin" / script
    before = path.read_bytes()
    path.unlink()
    path.write_bytes(before.replace(b"import sys\n", b"import sys, evil\n"))
    path.chmod(0o755)
    assert paths(restore()["restored"]) == [f"bin/{script}"]
    assert path.read_bytes() == before
    path.unlink()
    assert restore()["restored"][0]["status"] == "missing"
    assert path.read_bytes() == before
    assert path.stat().st_mode & 0o777 == 0o755


@every_installer
@pytest.mark.parametrize("script", ["demo-cli", "demo-tool"])
@pytest.mark.parametrize("line", [b"", b"#!/tmp/evil/python\n"])
def test_a_script_whose_row_was_edited_too(restore: Restore, env: Env, script: str, line: bytes) -> None:
    path = env.root / "bin" / script
    before, record = path.read_bytes(), env.record().read_bytes()
    evil = before + b"import evil\n"
    if line:
        evil = line + before.split(b"\n", 1)[1]
    path.unlink()
    path.write_bytes(evil)
    edit_row(env, f"bin/{script}", f"{encoded(evil)},{len(evil)}")
    result = restore()
    assert paths(result["restored"]) == [f"bin/{script}", f"{INFO}/RECORD"]
    assert path.read_bytes() == before
    assert env.record().read_bytes() == record


@every_installer
def test_a_script_whose_row_is_gone_is_not_removed(restore: Restore, env: Env) -> None:
    record = env.record().read_bytes()
    edit_row(env, "bin/demo-cli", None)
    result = restore(remove_unexpected=True)
    assert paths(result["restored"]) == [f"{INFO}/RECORD"]
    assert result["removed"] == []
    assert (env.root / "bin/demo-cli").exists()
    assert sorted(env.record().read_bytes().splitlines()) == sorted(record.splitlines())


def edit_row(env: Env, end: str, rest: Any) -> None:
    """Give the row whose path ends so another hash and size, or take it out."""
    record = env.record()
    lines = []
    for line in record.read_bytes().decode().splitlines(keepends=True):
        path = line.rsplit(",", 2)[0]
        if not path.strip('"').endswith(end):
            lines.append(line)
        elif rest is not None:
            lines.append(f"{path},{rest}{line[len(line.rstrip()) :]}")
    record.unlink()
    record.write_bytes("".join(lines).encode())


@every_installer
@pytest.mark.parametrize(
    "edit",
    [
        lambda env: edit_row(env, CORE, f"{encoded(EDITED)},{len(EDITED)}"),
        lambda env: edit_row(env, CORE, None),
        lambda env: edit_row(env, "dtype=fp8.json", None),
        lambda env: edit_row(env, "demo.h", None),
        lambda env: edit_row(env, "readme.txt", f"{encoded(b'x')},1"),
    ],
)
def test_an_edited_record_gets_its_own_bytes_back(restore: Restore, env: Env, edit: Callable[[Env], None]) -> None:
    before = env.record().read_bytes()
    edit(env)
    assert env.record().read_bytes() != before
    result = restore()
    assert paths(result["restored"]) == [f"{INFO}/RECORD"]
    assert sorted(env.record().read_bytes().splitlines()) == sorted(before.splitlines())


@every_installer
@pytest.mark.parametrize("row", ["evil.py,,", "../../../../../etc/shadow,,", "/etc/passwd,,", "demo/more.json,,1"])
def test_rows_that_nobody_should_have_added(restore: Restore, env: Env, row: str) -> None:
    before = env.record().read_bytes()
    env.record().write_bytes(before + row.encode() + b"\n")
    assert paths(restore()["restored"]) == [f"{INFO}/RECORD"]
    assert env.record().read_bytes() == before


@every_installer
def test_a_record_that_is_gone(restore: Restore, env: Env) -> None:
    before = env.record().read_bytes()
    env.record().unlink()
    restore()
    rows = set(before.splitlines())
    # Which of the installed files an installer compiled, and which script it rewrote, only the old one told.
    for row in rows - set((env.site / INFO / "RECORD").read_bytes().splitlines()):
        assert b".pyc," in row or b"bin/demo-tool," in row


def test_an_edited_file_with_its_row_edited_too(restore: Restore, env: Env) -> None:
    path = env.site / CORE
    path.unlink()
    path.write_bytes(EDITED)
    before = env.record().read_bytes()
    edit_row(env, CORE, f"{encoded(EDITED)},{len(EDITED)}")
    assert sorted(paths(restore()["restored"])) == [CORE, f"{INFO}/RECORD"]
    assert env.record().read_bytes() == before


@pytest.mark.parametrize("target", ["{tmp}/elsewhere.py", "__init__.py", "{tmp}/absent"])
def test_a_link_is_replaced_and_what_it_leads_to_stays(
    restore: Restore, env: Env, tmp_path: pathlib.Path, target: str
) -> None:
    (tmp_path / "elsewhere.py").write_bytes(EDITED)
    path = env.site / CORE
    path.unlink()
    path.symlink_to(target.format(tmp=tmp_path))
    result = restore()
    assert path.is_file()
    assert not path.is_symlink()
    assert path.read_bytes() == SOURCE
    assert path.stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "elsewhere.py").read_bytes() == EDITED
    assert (env.site / "demo/__init__.py").read_bytes() == b""
    assert os.readlink(result["restored"][0]["kept"]) == target.format(tmp=tmp_path)


def test_a_fifo_is_replaced(restore: Restore, env: Env) -> None:
    (env.site / CORE).unlink()
    os.mkfifo(env.site / CORE)
    assert restore()["restored"][0]["kept"] is None
    assert (env.site / CORE).read_bytes() == SOURCE


def test_a_whole_package_that_is_gone(restore: Restore, env: Env) -> None:
    os.chown(env.site, 1234, 1235)
    shutil.rmtree(env.site / "demo")
    restore()
    for folder in (env.site / "demo", env.site / "demo/configs"):
        assert (folder.stat().st_mode & 0o777, folder.stat().st_uid) == (0o755, 1234)
    assert (env.site / CORE).stat().st_uid == 1234


def test_what_nobody_lists_stays_unless_it_shall_go(once: Restore, restore: Restore, env: Env) -> None:
    (env.site / "dbg").mkdir()
    for name in ("dbg/__init__.py", "demo/dbg.py", "evil.pth", "~demo_old.py"):
        (env.site / name).write_bytes(b"x = 1\n")
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(env.site / "dbg")], check=True)
    (env.site / "demo/linked.py").symlink_to("core.py")
    result = restore()
    assert result["changed"] is False
    assert result["pristine"] is False
    everything = ["dbg/__init__.py", "demo/dbg.py", "demo/linked.py", "evil.pth", "~demo_old.py"]
    assert sorted(paths(result["left"])) == everything
    assert {entry["reason"] for entry in result["left"]} == {"remove_unexpected is false"}
    result = restore(remove_unexpected=True)
    assert result["pristine"] is True
    cached = f"dbg/__pycache__/__init__.{sys.implementation.cache_tag}.pyc"
    assert sorted(paths(result["removed"])) == sorted([*everything, cached])
    assert all(os.path.lexists(entry["kept"]) for entry in result["removed"])
    assert not (env.site / "dbg").exists()
    assert (env.site / CORE).read_bytes() == SOURCE


def test_remains_of_an_interrupted_installation(restore: Restore, env: Env) -> None:
    for name in ("~emo/core.py", "~emo/sub/x.py", "~emo/sub/data"):
        (env.site / name).parent.mkdir(parents=True, exist_ok=True)
        (env.site / name).write_bytes(b"x = 1\n")
    (env.site / "~emo/empty/er").mkdir(parents=True)
    (env.site / "~nother").mkdir()
    assert sorted(paths(restore()["left"])) == ["~emo", "~nother"]
    result = restore(remove_unexpected=True)
    assert result["pristine"] is True
    assert len(result["removed"]) == 5
    assert not list(env.site.glob("~*"))


def test_a_dist_info_that_lost_all_but_its_name(restore: Restore, env: Env) -> None:
    """It looks like a leftover; with the wheel it is put back."""
    before = {name: (env.site / INFO / name).read_bytes() for name in ("METADATA", "WHEEL", "entry_points.txt")}
    for path in (env.site / INFO).iterdir():
        path.unlink()
    restore(remove_unexpected=True)
    assert {name: (env.site / INFO / name).read_bytes() for name in before} == before


def test_what_holds_the_environment_up_is_not_removed(once: Restore, env: Env, tmp_path: pathlib.Path) -> None:
    shutil.move(env.root / "bin", tmp_path / "bin")
    (env.root / "bin").symlink_to(tmp_path / "bin")
    other = env.install("other", {"other.py": b"x = 1\n"})
    shutil.move(other, tmp_path / "other.dist-info")
    other.symlink_to(tmp_path / "other.dist-info")
    before = state(env.root)
    result = once(remove_unexpected=True, distributions=["other"])
    assert result["removed"] == []
    assert "build the environment anew" in str(result["left"])
    assert once(remove_unexpected=True).failed
    assert state(env.root) == before


def test_what_is_wrong_with_the_wheel_itself_stays(once: Restore, env: Env, tmp_path: pathlib.Path) -> None:
    rows = record_text(MEMBERS) + f"../../../../../outside.txt,{encoded(b'x')},1\n{INFO}/RECORD,,\n"
    wheel = build_wheel(tmp_path / "wheels", MEMBERS, rows)
    with env.record().open("ab") as stream:
        stream.write(f"../../../../../outside.txt,{encoded(b'x')},1\n".encode())
    for _run in range(2):
        result = once(wheels=[str(wheel)])
        assert not result.failed, result["msg"]
        assert result["changed"] is False
        assert [(entry["status"], entry["reason"]) for entry in result["left"]] == [
            ("outside", "the wheel itself has it there")
        ]


def test_what_is_no_drift_is_not_removed(restore: Restore, env: Env) -> None:
    (env.site / "demo/E=256,N=512.json").write_bytes(b"{}")
    (env.root / "release.json").write_bytes(b"{}")
    assert restore(remove_unexpected=True)["changed"] is False


def test_bytecode_that_is_not_its_sources(restore: Restore, env: Env, tmp_path: pathlib.Path) -> None:
    forged = tmp_path / "core.py"
    forged.write_bytes(EDITED)
    cached = env.site / f"demo/__pycache__/core.{sys.implementation.cache_tag}.pyc"
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(forged), cfile=str(cached), doraise=True, invalidation_mode=mode)
    result = restore(files=[CORE])
    assert result["restored"] == []
    assert [(entry["path"], entry["status"]) for entry in result["removed"]] == [
        (f"demo/__pycache__/{cached.name}", "bytecode")
    ]
    assert not cached.exists()


def test_bytecode_behind_a_link_stays_and_the_link_goes(restore: Restore, env: Env, tmp_path: pathlib.Path) -> None:
    shutil.move(env.site / "demo/__pycache__", tmp_path / "cached")
    (env.site / "demo/__pycache__").symlink_to(tmp_path / "cached")
    (env.site / CORE).write_bytes(EDITED)
    before = state(tmp_path / "cached")
    result = restore(files=[CORE])
    assert (paths(result["restored"]), paths(result["removed"])) == ([CORE], ["demo/__pycache__"])
    assert before == state(tmp_path / "cached") != {}
    assert not (env.site / "demo/__pycache__").exists()


def test_bytes_from_a_server(restore: Restore, env: Env, demo_wheel: pathlib.Path) -> None:
    with http_server() as server:
        index = server.serve_simple(demo_wheel.parent)
        (env.site / CORE).write_bytes(EDITED)
        (change,) = restore(wheels=[f"{index}/"])["restored"]
    assert (change["path"], change["origin"]) == (CORE, demo_wheel.name)
    assert (env.site / CORE).read_bytes() == SOURCE


def test_refuses_as_a_whole(once: Restore, env: Env, quarantine: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """One file that can be restored, and one of a distribution whose wheel nobody gave."""
    env.install("other", {"other/x.py": b"x = 1\n"})
    (env.site / "other/x.py").write_bytes(b"x = 2\n")
    (env.site / "other-1.0.dist-info/METADATA").unlink()
    (env.site / CORE).unlink()
    before = state(env.root)
    for check in (True, False):
        result = once(check=check)
        assert result.failed
        assert "nothing was changed, because 2 file(s) cannot be put right" in result["msg"]
        assert sorted(paths(result["refused"])) == ["other-1.0.dist-info/METADATA", "other/x.py"]
        assert all("give the wheel it was installed from" in entry["reason"] for entry in result["refused"])
    assert state(env.root) == before
    assert not quarantine.exists()
    result = once(distributions=["demo_pkg"])
    assert paths(result["restored"]) == [CORE]


def test_refuses_what_is_behind_a_link_or_a_directory(once: Restore, env: Env, tmp_path: pathlib.Path) -> None:
    shutil.move(env.site / "demo", tmp_path / "demo")
    (env.site / "demo").symlink_to(tmp_path / "demo")
    (tmp_path / "demo/core.py").unlink()
    before = state(tmp_path / "demo")
    result = once()
    assert result.failed
    assert "out of the environment, where nothing is written" in result["msg"]
    assert state(tmp_path / "demo") == before
    (env.site / "demo").unlink()
    shutil.move(tmp_path / "demo", env.site / "demo")
    (env.site / CORE).mkdir()
    assert "it is a directory now" in once()["msg"]
    (env.site / CORE).rmdir()
    shutil.rmtree(env.site / "nested/deep")
    (env.site / "nested/deep").write_bytes(b"")
    assert "nested/deep is no directory any more" in once()["msg"]


def test_refuses_a_wheel_that_contradicts_itself_unless_it_is_pinned(
    once: Restore, env: Env, tmp_path: pathlib.Path
) -> None:
    members = {**MEMBERS, CORE: EDITED}
    wheel = build_wheel(tmp_path / "wheels", members, record_text(MEMBERS) + f"{INFO}/RECORD,,\n")
    (env.site / CORE).unlink()
    result = once(wheels=[str(wheel)])
    assert result.failed
    assert "holds other bytes for it than its own RECORD says" in result["msg"]
    (tmp_path / "lock.txt").write_text(f"{NAME}=={VERSION} --hash=sha256:{sha256(wheel.read_bytes())}\n")
    result = once(wheels=[str(wheel)], lock=str(tmp_path / "lock.txt"))
    assert result["restored"][0]["verified_against"] == "pinned_wheel"
    assert (env.site / CORE).read_bytes() == EDITED


@every_installer
def test_refuses_what_an_installer_alone_knew(once: Restore, restore: Restore, env: Env) -> None:
    (env.site / INFO / "INSTALLER").unlink()
    assert paths(restore()["restored"]) == [f"{INFO}/INSTALLER"]
    (env.site / INFO / "direct_url.json").unlink()
    result = once()
    assert result.failed
    assert "direct_url.json" in result["msg"]
    assert once(ignore=[f"{INFO}/direct_url.json"])["changed"] is False


def test_a_quarantine_in_the_environment_is_refused(once: Restore, env: Env) -> None:
    assert "lies in the environment" in once(quarantine=str(env.root / "q"))["msg"]
    assert "absolute path" in once(quarantine="relative/q")["msg"]
    assert "cannot be opened" in once(environment="/nonexistent")["msg"]


def test_adapted_files_stay_and_others_are_put_back(restore: Restore, once: Restore, env: Env) -> None:
    declared = [{"path": CORE, "sha256": sha256(EDITED), "reason": "SM120"}]
    path = env.site / CORE
    path.unlink()
    path.write_bytes(EDITED)
    assert once(adaptations=declared)["changed"] is False
    path.write_bytes(EDITED + b"# more\n")
    check, real = once(adaptations=declared, check=True), once(adaptations=declared)
    assert check == real
    assert path.read_bytes() == SOURCE
    assert real["pristine"] is False
    assert [(entry["path"], entry["status"], entry["reason"]) for entry in real["left"]] == [
        (CORE, "unadapted", "apply the declared adaptation")
    ]


def test_temporary_files_of_a_killed_run_go(restore: Restore, env: Env) -> None:
    (env.site / CORE).unlink()
    for place in ("demo/.pristine-abcdefgh", ".pristine-abcdefgh"):
        (env.site / place).write_bytes(SOURCE[:20])
    result = restore()
    assert ".pristine-abcdefgh" in paths(result["removed"])
    assert not list(env.site.rglob(".pristine-*"))


def test_hard_links_keep_what_they_had_and_are_named(restore: Restore, env: Env, tmp_path: pathlib.Path) -> None:
    cache, other = tmp_path / "cache/archive/x", tmp_path / "other.py"
    cache.mkdir(parents=True)
    path = env.site / CORE
    path.unlink()
    path.write_bytes(EDITED)
    os.link(path, cache / "core.py")
    os.link(path, other)
    result = restore(caches=[str(tmp_path / "cache"), "/nonexistent"])
    assert path.read_bytes() == SOURCE
    assert (cache / "core.py").read_bytes() == other.read_bytes() == EDITED
    assert result["other_links"] == [{"path": CORE, "file": str(path), "count": 2, "found": [str(cache / "core.py")]}]


def test_lists_are_cut_and_counted(once: Restore, env: Env, quarantine: pathlib.Path) -> None:
    for number in range(250):
        (env.site / f"demo/dbg{number}.py").write_bytes(b"")
    result = once(remove_unexpected=True, diff=True)
    assert (len(result["removed"]), result["counts"]["removed"]) == (200, 250)
    assert (quarantine / "restored.json").read_text().count('"demo/dbg') == 250


def test_uv_with_symlinks_becomes_an_environment_of_its_own(
    capfd: pytest.CaptureFixture[str], templates: Templates, demo_wheel: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    env = Env.copied(templates["uv-symlink"], tmp_path / "env")
    before = hashlib.sha256(repr(state(templates["uv-copy"].parent / "uv-cache")).encode()).digest()
    given: dict[str, Any] = {"environment": str(env.root), "quarantine": str(tmp_path / "q")}
    result = run_module(capfd, wheel_record.main, wheels=[str(demo_wheel)], **given)
    assert not result.failed, result["msg"]
    assert (env.site / CORE).is_file()
    assert not (env.site / CORE).is_symlink()
    assert env.scan(wheel=demo_wheel).findings == []
    assert hashlib.sha256(repr(state(templates["uv-copy"].parent / "uv-cache")).encode()).digest() == before
