# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The trust chain: the wheel as the reference, its digest pinned by a lock."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import ScanError
from ansible_collections.pristine.vllm.plugins.module_utils.record.scripts import is_generated, without_interpreter
from ansible_collections.pristine.vllm.tests.unit.plugins.record_support import (
    DATA,
    INFO,
    MEMBERS,
    NAME,
    SOURCE,
    VERSION,
    Env,
    build_wheel,
    encoded,
    make_environment,
    quiet_environment,
    record_text,
    sha256,
)

CORE = "demo/core.py"
RECORD = f"{INFO}/RECORD"


def _lock(folder: pathlib.Path, *wheels: pathlib.Path, digest: str = "") -> str:
    lines = [
        "{}=={} --hash=sha256:{}".format(*wheel.name.split("-")[:2], digest or sha256(wheel.read_bytes()))
        for wheel in wheels
    ]
    (folder / "lock.txt").write_text("\n".join(lines) + "\n")
    return str(folder / "lock.txt")


def _edit_record(env: Env, path: str, old: bytes, new: bytes) -> None:
    """Make the installed RECORD agree with an edited file."""
    text = env.record().read_bytes()
    row = f"{encoded(old)},{len(old)}".encode()
    assert row in text, path
    env.record().write_bytes(text.replace(row, f"{encoded(new)},{len(new)}".encode()))


def test_what_an_installer_made_is_what_the_wheel_holds(
    env: Env, demo_wheel: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    for source in (demo_wheel, demo_wheel.parent):
        result = env.scan(wheel=source)
        assert result.findings == []
        assert result.summary.verified_against == "wheel_record"
        assert result.warnings == []
    result = env.scan(wheel=demo_wheel.parent, lock=_lock(tmp_path, demo_wheel))
    assert result.findings == []
    assert result.summary.verified_against == "pinned_wheel"


def test_an_edited_file_with_an_edited_record(env: Env, demo_wheel: pathlib.Path, tmp_path: pathlib.Path) -> None:
    edited = SOURCE.replace(b"hi", b"HI there")
    (env.site / CORE).write_bytes(edited)
    _edit_record(env, CORE, SOURCE, edited)
    assert env.found() == {}
    result = env.scan(wheel=demo_wheel, lock=_lock(tmp_path, demo_wheel))
    assert [(finding.path, finding.status) for finding in result.findings] == [
        (CORE, "modified"),
        (RECORD, "record_edited"),
    ]
    assert "demo/core.py has another hash" in result.findings[1].detail
    assert {finding.verified_against for finding in result.findings} == {"pinned_wheel"}
    assert result.findings[0].expected_sha256 == sha256(SOURCE)
    assert env.found(wheel=demo_wheel, files=[CORE]) == {CORE: "modified"}


def test_a_row_taken_out_of_the_record(env: Env, demo_wheel: pathlib.Path) -> None:
    (env.site / CORE).unlink()
    lines = env.record().read_bytes().splitlines(keepends=True)
    env.record().write_bytes(b"".join(line for line in lines if not line.startswith(CORE.encode())))
    assert env.found() == {}
    assert env.found(wheel=demo_wheel) == {CORE: "missing", RECORD: "record_edited"}
    assert env.found(wheel=demo_wheel, files=[CORE]) == {CORE: "missing"}


def test_a_row_put_into_the_record(env: Env, demo_wheel: pathlib.Path) -> None:
    (env.site / "demo/dbg.py").write_bytes(b"x")
    env.record().write_bytes(env.record().read_bytes() + f"demo/dbg.py,{encoded(b'x')},1\n".encode())
    assert env.found() == {}
    assert env.found(wheel=demo_wheel) == {"demo/dbg.py": "unexpected", RECORD: "record_edited"}


def test_a_record_that_is_gone(env: Env, demo_wheel: pathlib.Path) -> None:
    (env.site / CORE).write_bytes(b"edited")
    env.record().unlink()
    assert env.found()[INFO] == "unverifiable"
    found = env.found(wheel=demo_wheel)
    assert found == {CORE: "modified", RECORD: "record_edited"}


@pytest.mark.parametrize("script", ["demo-cli", "demo-sub", "demo-tool", "demo-sh"])
def test_edited_scripts(env: Env, demo_wheel: pathlib.Path, script: str) -> None:
    path = env.root / "bin" / script
    old = path.read_bytes()
    new = old + b"import os\n"
    path.write_bytes(new)
    assert env.found() == {f"bin/{script}": "modified"}
    assert env.found(wheel=demo_wheel) == {f"bin/{script}": "modified"}
    _edit_record(env, script, old, new)
    assert env.found() == {}
    finding = env.one(wheel=demo_wheel) if script != "demo-sh" else env.scan(wheel=demo_wheel).findings[0]
    assert (finding.path, finding.status, finding.verified_against) == (f"bin/{script}", "modified", "wheel_record")
    assert finding.actual_sha256 == sha256(new)


def test_scripts_of_an_installer_that_is_not_known(pip_env: Env, demo_wheel: pathlib.Path) -> None:
    """In no wheel, and of no known kind: only RECORD vouches for it, and that is what the result says."""
    (pip_env.site / INFO / "INSTALLER").write_bytes(b"other\n")
    _edit_record(pip_env, "INSTALLER", b"pip\n", b"other\n")
    path = pip_env.root / "bin/demo-cli"
    old = path.read_bytes()
    path.write_bytes(old + b"import os\n")
    _edit_record(pip_env, "demo-cli", old, old + b"import os\n")
    result = pip_env.scan(wheel=demo_wheel)
    (finding,) = result.findings
    assert (finding.path, finding.status) == ("bin/demo-cli", "unverifiable")
    assert finding.verified_against == result.summary.verified_against == "installed_record"


def test_members_outside_of_site_packages(pip_env: Env, demo_wheel: pathlib.Path) -> None:
    header = next((pip_env.root / "include").rglob("demo.h"))
    for path in (header, pip_env.root / "share/demo/readme.txt", pip_env.site / "demo_extra/__init__.py"):
        path.write_bytes(b"edited")
    statuses = pip_env.found(wheel=demo_wheel)
    assert set(statuses.values()) == {"modified"}
    assert len(statuses) == 3


def test_a_wheel_that_the_lock_does_not_name_is_refused(
    pip_env: Env, demo_wheel: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    result = pip_env.scan(wheel=demo_wheel, lock=_lock(tmp_path, demo_wheel, digest="0" * 64))
    assert result.summary.verified_against == "installed_record"
    assert len(result.warnings) == 1
    assert "was refused" in result.warnings[0]
    assert sha256(demo_wheel.read_bytes()) in result.warnings[0]
    other = build_wheel(tmp_path / "other", {**MEMBERS, CORE: b"another build of the same version"})
    result = pip_env.scan(wheels=[str(other), str(demo_wheel)], lock=_lock(tmp_path, demo_wheel))
    assert result.findings == []
    assert result.summary.verified_against == "pinned_wheel"


def test_locks_that_say_nothing_of_a_wheel(pip_env: Env, demo_wheel: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "lock.txt").write_text(f"other==1 --hash=sha256:{'0' * 64}\n")
    result = pip_env.scan(wheel=demo_wheel, lock=str(tmp_path / "lock.txt"))
    assert result.summary.verified_against == "wheel_record"
    for text in ("no lock at all", ""):
        (tmp_path / "lock.txt").write_text(text)
        with pytest.raises(ScanError, match="lock"):
            pip_env.scan(lock=str(tmp_path / "lock.txt"))
    with pytest.raises(ScanError, match="lock"):
        pip_env.scan(lock=str(tmp_path / "absent"))


def test_wheels_that_are_none_of_this(pip_env: Env, demo_wheel: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for source, message in (
        ("ftp://me:secret@example.invalid/simple/", "'ftp://example.invalid/simple/' is no http"),
        (str(tmp_path / "absent"), "cannot be read"),
        (__file__, "not named like a wheel"),
    ):
        with pytest.raises(ScanError, match=message):
            pip_env.scan(wheels=[source])
    folder = tmp_path / "wheels"
    build_wheel(folder, {"demo/core.py": b"old"}, info=f"{NAME}-0.9.dist-info")
    (folder / "not-a-wheel.whl").write_bytes(b"x")
    (folder / "readme.txt").write_bytes(b"x")
    result = pip_env.scan(wheels=[str(folder)])
    assert (result.findings, result.warnings) == ([], [])
    assert result.summary.verified_against == "installed_record"
    for damage in (b"no zip file", demo_wheel.read_bytes()[: demo_wheel.stat().st_size // 2], b""):
        (folder / demo_wheel.name).write_bytes(damage)
        result = pip_env.scan(wheels=[str(folder)])
        assert result.findings == []
        assert len(result.warnings) == 1
        assert "cannot be read" in result.warnings[0]
    shutil.copy(build_wheel(tmp_path / "x", {"a.py": b""}, info="other-1.dist-info"), folder / demo_wheel.name)
    assert "it holds other-1.dist-info" in pip_env.scan(wheels=[str(folder)]).warnings[0]


def test_the_wheel_for_this_machine_among_several(
    pip_env: Env, demo_wheel: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    other = dict(MEMBERS)
    other["demo/lib.abi3.so"] = b"for another machine"
    other[f"{INFO}/WHEEL"] = MEMBERS[f"{INFO}/WHEEL"].replace(b"none-any", b"none-other")
    build_wheel(tmp_path, other, tag="cp38-abi3-linux_other")
    shutil.copy(demo_wheel, tmp_path)
    assert pip_env.scan(wheel=tmp_path).findings == []


def test_a_damaged_member_is_said(pip_env: Env, tmp_path: pathlib.Path) -> None:
    """RECORD can be read and says the file is fine; only what needs the member's bytes suffers."""
    wheel = build_wheel(tmp_path)
    data = bytearray(wheel.read_bytes())
    position = data.index(b"demo/core.py") + len("demo/core.py")
    data[position + 4] ^= 0xFF
    wheel.write_bytes(data)
    assert pip_env.scan(wheel=wheel).findings == []
    (pip_env.site / CORE).write_bytes(b"edited")
    assert pip_env.found(wheel=wheel) == {CORE: "modified"}


@pytest.mark.parametrize("installer", ["pip", "uv-copy"])
def test_a_wheel_whose_own_record_is_wrong(tmp_path: pathlib.Path, installer: str) -> None:
    """Neither pip nor uv looks at the hashes; published wheels have such rows."""
    record = record_text({**MEMBERS, CORE: b"before it was rewritten"}) + f"{INFO}/RECORD,,\n"
    wheel = build_wheel(tmp_path / "wheels", record=record)
    env = Env(make_environment(tmp_path / "env", installer, wheel))
    assert env.found() == {CORE: "modified"}
    finding = env.one(wheel=wheel)
    assert (finding.path, finding.status, finding.counts) == (CORE, "unverifiable", False)
    assert "the wheel's own RECORD says otherwise" in finding.detail
    (env.site / CORE).write_bytes(b"edited")
    assert env.found(wheel=wheel) == {CORE: "modified"}


def test_a_wheel_with_members_that_its_record_does_not_list(tmp_path: pathlib.Path) -> None:
    record = record_text({name: data for name, data in MEMBERS.items() if name != CORE}) + f"{INFO}/RECORD,,\n"
    wheel = build_wheel(tmp_path / "wheels", record=record)
    env = Env(make_environment(tmp_path / "env", "pip", wheel))
    assert env.found() == {CORE: "unverifiable"}
    finding = env.one(wheel=wheel)
    assert (finding.path, finding.status, finding.actual_sha256) == (CORE, "unverifiable", sha256(SOURCE))
    assert "the wheel's own RECORD does not list it" in finding.detail
    (env.site / CORE).write_bytes(b"edited")
    assert env.found() == {CORE: "unverifiable"}
    assert env.found(wheel=wheel) == {CORE: "modified"}


def test_a_wheel_that_lists_what_it_does_not_hold(bare: Env, tmp_path: pathlib.Path) -> None:
    members = {"demo/__init__.py": b"", "demo-1.0.dist-info/METADATA": b"Name: demo\nVersion: 1.0\n"}
    record = record_text({**members, "demo/ghost.py": b"x"})
    wheel = build_wheel(tmp_path, members, record, info="demo-1.0.dist-info")
    bare.install("demo", {"demo/__init__.py": b""}, f"demo/ghost.py,{encoded(b'x')},1\n")
    assert bare.found() == {"demo/ghost.py": "missing"}
    finding = bare.one(wheel=wheel)
    assert (finding.path, finding.status) == ("demo/ghost.py", "unverifiable")
    assert "does not hold it" in finding.detail


def test_a_wheel_with_members_that_lead_out(bare: Env, tmp_path: pathlib.Path) -> None:
    members = {"demo/__init__.py": b"", "demo-1.0.dist-info/METADATA": b"Name: demo\nVersion: 1.0\n"}
    evil = {**members, "../../../../escaped.py": b"x", "demo-1.0.data/data/../../escaped.py": b"y"}
    wheel = build_wheel(tmp_path, evil, info="demo-1.0.dist-info")
    bare.install("demo", {"demo/__init__.py": b""})
    assert set(bare.found(wheel=wheel).values()) == {"outside"}


def test_the_contamination_of_a_shared_cache(demo_wheel: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """uv hard-links from its cache: an edit in place comes back with every reinstall. The wheel knows better."""
    env = Env(make_environment(tmp_path / "env", "uv-hardlink", demo_wheel))
    with (env.site / CORE).open("ab") as stream:
        stream.write(b"# debug\n")
    uv = os.path.join(os.path.dirname(sys.executable), "uv")
    command = [uv, "pip", "install", "--offline", "--no-index", "--quiet", "--no-deps", "--reinstall", str(demo_wheel)]
    where = ["--python", str(env.root / "bin/python"), "--cache-dir", str(tmp_path / "uv-cache"), "--link-mode", "copy"]
    subprocess.run([*command, *where], check=True, env=quiet_environment())
    assert (env.site / CORE).read_bytes().endswith(b"# debug\n")
    assert env.found(wheel=demo_wheel) == {CORE: "modified"}


@pytest.mark.parametrize("shell", [False, True])
def test_scripts_of_entry_points(shell: bool) -> None:
    start = (
        b"#!/bin/sh\n'''exec' \"/a long path/bin/python\" \"$0\" \"$@\"\n' '''\n" if shell else b"#!/env/bin/python\n"
    )
    body = (
        b'# -*- coding: utf-8 -*-\nimport re\nimport sys\nfrom a.b import c\nif __name__ == "__main__":\n'
        b"    sys.argv[0] = re.sub(r'(-script\\.pyw|\\.exe)?$', '', sys.argv[0])\n    sys.exit(c.d())\n"
    )
    assert without_interpreter(start + body) == body
    assert is_generated(start + body, "a.b:c.d")
    assert not is_generated(start + body, "a.b:c.e")
    assert not is_generated(start + body, "a.x:c.d")
    assert not is_generated(start + body.replace(b"import re", b"import os; import re"), "a.b:c.d")
    assert not is_generated(start + b"not python (", "a.b:c.d")
    assert not is_generated(start + body, "nonsense")


def test_the_layout_of_this_test(demo_wheel: pathlib.Path) -> None:
    assert demo_wheel.name == f"{NAME}-{VERSION}-py3-none-any.whl"
    assert sum(name.startswith(DATA) for name in MEMBERS) == 5
