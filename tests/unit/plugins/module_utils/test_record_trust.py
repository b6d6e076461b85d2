# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whoever edits files and their installed RECORD alike is found out by the wheel, and damaged wheels are said."""

from __future__ import annotations

import pathlib
from typing import Optional

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.record import sources
from ansible_collections.pristine.vllm.plugins.module_utils.record.scripts import interpreter
from ansible_collections.pristine.vllm.plugins.module_utils.record.wheel import Wheel
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
    record_text,
    sha256,
)

CORE = "demo/core.py"
RECORD = f"{INFO}/RECORD"


def _rewrite(env: Env, path: pathlib.Path, data: bytes) -> None:
    """Edit a file, and its row too."""
    old = path.read_bytes()
    path.write_bytes(data)
    text = env.record().read_bytes()
    row = f"{encoded(old)},{len(old)}".encode()
    assert row in text
    env.record().write_bytes(text.replace(row, f"{encoded(data)},{len(data)}".encode()))


def test_a_second_row_for_an_edited_file(env: Env, demo_wheel: pathlib.Path) -> None:
    """Either row may match where only the installed RECORD speaks; the wheel has one."""
    (env.site / CORE).write_bytes(b"edited")
    with env.record().open("a") as stream:
        stream.write(f"{CORE},{encoded(b'edited')},6\n")
    assert env.found() == {}
    findings = env.scan(wheel=demo_wheel).findings
    assert [(finding.path, finding.status) for finding in findings] == [(CORE, "modified"), (RECORD, "record_edited")]
    assert "demo/core.py is in it more than once" in findings[1].detail


def test_a_hash_taken_out_of_the_record(env: Env, demo_wheel: pathlib.Path) -> None:
    row = f"{encoded(SOURCE)},{len(SOURCE)}".encode()
    env.record().write_bytes(env.record().read_bytes().replace(row, b","))
    assert env.found() == {CORE: "unverifiable"}
    assert env.found(wheel=demo_wheel) == {RECORD: "record_edited"}


def test_bytecode_without_a_source_in_the_record(env: Env, demo_wheel: pathlib.Path) -> None:
    (env.site / "demo/evil.pyc").write_bytes(b"x")
    with env.record().open("a") as stream:
        stream.write("demo/evil.pyc,,\n")
    assert env.found() == {"demo/evil.pyc": "unverifiable"}
    found = env.scan(wheel=demo_wheel).findings
    assert [finding.path for finding in found if finding.counts] == ["demo/evil.pyc", RECORD]


@pytest.mark.parametrize("script", ["demo-cli", "demo-tool"])
@pytest.mark.parametrize(
    "start",
    [
        b"#!/tmp/evil/python\n",
        b"#!/usr/bin/env python3\n",
        b"#!/bin/sh\n'''exec' \"/tmp/evil/python\" \"$0\" \"$@\"\n' '''\n",
        b"#!/bin/sh\n'''exec' \"$(dirname -- \"/tmp/evil/x\")\"/'python' \"$0\" \"$@\"\n' '''\n",
        b"",
    ],
)
def test_scripts_that_start_another_interpreter(env: Env, demo_wheel: pathlib.Path, script: str, start: bytes) -> None:
    path = env.root / "bin" / script
    _rewrite(env, path, start + path.read_bytes().split(b"\n", 1)[1])
    assert env.found() == {}
    finding = env.one(wheel=demo_wheel)
    assert (finding.path, finding.status, finding.verified_against) == (f"bin/{script}", "modified", "wheel_record")
    assert "interpreter" in finding.detail


@pytest.mark.parametrize("script", ["demo-cli", "demo-tool"])
def test_scripts_that_start_this_interpreter_by_another_name(
    env: Env, demo_wheel: pathlib.Path, script: str, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "current").symlink_to("env")
    path = env.root / "bin" / script
    body = path.read_bytes().split(b"\n", 1)[1]
    for start in (
        f"#!{tmp_path}/current/bin/python3.11\n",
        f"#!/bin/sh\n'''exec' \"{env.root}/bin/python\" \"$0\" \"$@\"\n' '''\n",
        f"#!/bin/sh\n'''exec' '{env.root}/bin/python3' \"$0\" \"$@\"\n' '''\n",
        "#!/bin/sh\n'''exec' \"$(dirname -- \"$(realpath -- \"$0\")\")\"/'python' \"$0\" \"$@\"\n' '''\n",
    ):
        _rewrite(env, path, start.encode() + body)
        assert env.found(wheel=demo_wheel) == {}


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (b"#!/env/bin/python -E\n", "/env/bin/python"),
        (b"#! /env/bin/python\r\n", "/env/bin/python"),
        (b"#!python\n", None),
        (b"#!\n", None),
        (b"import os\n", None),
        (b"", None),
        (b"#!/bin/sh\n'''exec' \"/a b/python\" \"$0\" \"$@\"\n' '''\n", "/a b/python"),
        (b"#!/bin/sh\n'''exec' \"/a/$(evil)/python\" \"$0\" \"$@\"\n' '''\n", "/bin/sh"),
    ],
)
def test_the_interpreters_of_scripts(data: bytes, path: str) -> None:
    assert interpreter(data) == path


def _damaged(folder: pathlib.Path, member: str, record: Optional[str] = None) -> pathlib.Path:
    """A wheel with one member whose bytes are not what was packed."""
    wheel = build_wheel(folder, record=record)
    data = bytearray(wheel.read_bytes())
    # The first occurrence is the local header, the member's bytes follow its name.
    position = data.index(member.encode()) + len(member)
    data[position + 2] ^= 0xFF
    wheel.write_bytes(data)
    return wheel


def test_a_damaged_script_in_the_wheel(pip_env: Env, tmp_path: pathlib.Path) -> None:
    wheel = _damaged(tmp_path, f"{DATA}/scripts/demo-tool")
    result = pip_env.scan(wheel=wheel)
    (finding,) = result.findings
    assert (finding.path, finding.status) == ("bin/demo-tool", "unverifiable")
    assert finding.verified_against == result.summary.verified_against == "installed_record"
    assert "cannot be read" in finding.detail
    (pip_env.root / "bin/demo-tool").write_bytes(b"edited")
    (pip_env.site / CORE).write_bytes(b"edited")
    assert pip_env.found(wheel=wheel) == {CORE: "modified", "bin/demo-tool": "modified"}
    (pip_env.root / "bin/demo-tool").unlink()
    assert pip_env.found(wheel=wheel)["bin/demo-tool"] == "missing"


def test_damaged_entry_points_in_the_wheel(pip_env: Env, tmp_path: pathlib.Path) -> None:
    wheel = _damaged(tmp_path, f"{INFO}/entry_points.txt")
    result = pip_env.scan(wheel=wheel)
    assert {finding.path: finding.status for finding in result.findings} == {RECORD: "unverifiable"}
    assert "compared with the installed RECORD only" in result.findings[0].detail
    assert result.summary.verified_against == "installed_record"
    (pip_env.site / CORE).write_bytes(b"edited")
    assert pip_env.found(wheel=wheel)[CORE] == "modified"


def test_a_damaged_member_that_the_record_of_the_wheel_has_no_hash_of(pip_env: Env, tmp_path: pathlib.Path) -> None:
    record = record_text(MEMBERS).replace(f"{CORE},{encoded(SOURCE)},{len(SOURCE)}", f"{CORE},,")
    wheel = _damaged(tmp_path, CORE, record)
    finding = pip_env.one(wheel=wheel)
    assert (finding.path, finding.status, finding.verified_against) == (CORE, "unverifiable", "installed_record")
    (pip_env.site / CORE).write_bytes(b"edited")
    assert pip_env.found(wheel=wheel) == {CORE: "modified"}
    (pip_env.site / CORE).unlink()
    assert pip_env.found(wheel=wheel) == {CORE: "missing"}


def test_a_wheel_is_not_even_opened_before_its_digest_is_checked(
    pip_env: Env, demo_wheel: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = build_wheel(tmp_path / "evil", {**MEMBERS, CORE: b"edited"})
    (pip_env.site / CORE).write_bytes(b"edited")
    opened: list[str] = []

    def recorded(path: str, *arguments: object) -> Wheel:
        opened.append(path)
        return Wheel(path)

    monkeypatch.setattr(sources, "Wheel", recorded)
    lock = tmp_path / "lock.txt"
    lock.write_text(f"{NAME}=={VERSION} --hash=sha256:{sha256(demo_wheel.read_bytes())}\n")
    result = pip_env.scan(wheels=[str(evil), str(demo_wheel)], lock=str(lock))
    assert opened == [str(demo_wheel)]
    assert [(finding.path, finding.status) for finding in result.findings] == [(CORE, "modified")]
    assert result.findings[0].verified_against == "pinned_wheel"
    assert len(result.warnings) == 1
    assert "was refused" in result.warnings[0]
