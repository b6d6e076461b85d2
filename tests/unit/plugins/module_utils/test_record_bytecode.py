# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wheels that record their bytecode, as numpy's does for a part of it."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.pristine.vllm.tests.unit.plugins.record_support import Env, build_wheel

CACHED = "legacy/__pycache__/core.cpython-311.pyc"
FILES = {"legacy/core.py": b"x = 1\n", CACHED: b"bytecode of the build machine", "legacy/only.pyc": b"no source"}


@pytest.fixture
def recorded(bare: Env) -> Env:
    bare.install("legacy", FILES)
    return bare


@pytest.mark.parametrize("with_wheel", [False, True])
def test_bytecode_that_python_writes_anew_is_no_drift(recorded: Env, tmp_path: pathlib.Path, with_wheel: bool) -> None:
    info = "legacy-1.0.dist-info"
    members = {**FILES, f"{info}/METADATA": b"Name: legacy\nVersion: 1.0\n"}
    wheel = build_wheel(tmp_path / "wheels", members, info=info) if with_wheel else None
    assert recorded.found(wheel=wheel) == {}
    (recorded.site / CACHED).write_bytes(b"compiled on this host")
    assert recorded.found(wheel=wheel) == {}
    (recorded.site / CACHED).unlink()
    assert recorded.found(wheel=wheel) == {}


def test_bytecode_without_a_source_is_compared(recorded: Env) -> None:
    (recorded.site / "legacy/only.pyc").write_bytes(b"something else")
    assert recorded.found() == {"legacy/only.pyc": "modified"}
