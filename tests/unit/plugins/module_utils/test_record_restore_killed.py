# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A restore in a process of its own that is killed: whatever the moment, each file is the old one or the new one."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.record.change import Plan
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import ScanError, ScanOptions
from ansible_collections.pristine.vllm.plugins.module_utils.record.restore import Request, apply, plan, writing
from ansible_collections.pristine.vllm.tests.unit.plugins.record_support import Env, build_wheel
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import COLLECTIONS

COUNT = 120
INFO = "many-1.0.dist-info"
NEW = {f"many/m{number:03}.py": f"x = {number}\n".encode() * 50 for number in range(COUNT)}
NEW |= {f"many/large{number}.bin": bytes([number]) * 4_000_000 for number in range(3)}
OLD = {name: data + b"edited = True\n" for name, data in NEW.items()}
PROGRAM = """
import sys
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import ScanOptions
from ansible_collections.pristine.vllm.plugins.module_utils.record.restore import Request, apply, plan, writing
environment, wheel, quarantine = sys.argv[1:]
with writing(environment), plan(Request(ScanOptions(environment, wheels=[wheel], workers=1), quarantine)) as decided:
    apply(decided, quarantine)
"""


@pytest.fixture
def wheel(tmp_path: pathlib.Path) -> pathlib.Path:
    members = {**NEW, f"{INFO}/METADATA": b"Name: many\nVersion: 1.0\n"}
    return build_wheel(tmp_path / "wheels", members, info=INFO)


@pytest.fixture
def edited(bare: Env) -> Env:
    bare.install("many", NEW)
    for name, data in OLD.items():
        (bare.site / name).write_bytes(data)
        (bare.site / name).chmod(0o640)
    return bare


def request(env: Env, wheel: pathlib.Path, quarantine: pathlib.Path) -> Request:
    return Request(ScanOptions(str(env.root), wheels=[str(wheel)], workers=1), str(quarantine))


def restored(env: Env) -> int:
    return sum((env.site / name).stat().st_size == len(data) for name, data in NEW.items())


def temporary(folder: pathlib.Path) -> Callable[[Env], bool]:
    return lambda env: any(name.startswith(".pristine-") for name in os.listdir(env.site / folder))


def after(count: int) -> Callable[[Env], bool]:
    return lambda env: restored(env) >= count


def kept(env: Env) -> bool:
    return bool(list((env.root.parent / "q").rglob("m0*.py")))


MOMENTS: dict[str, Callable[[Env], bool]] = {
    "at once": lambda _env: True,
    "while the first is kept": kept,
    "while something is written": temporary(pathlib.Path("many")),
    **{f"after {count} files": after(count) for count in (1, 2, 7, 60, COUNT)},
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed(moment: str, edited: Env, wheel: pathlib.Path, tmp_path: pathlib.Path) -> None:
    quarantine = tmp_path / "q"
    command = [sys.executable, "-c", PROGRAM, str(edited.root), str(wheel), str(quarantine)]
    environment = {**os.environ, "PYTHONPATH": str(COLLECTIONS)}
    with subprocess.Popen(command, env=environment) as process:
        deadline = time.monotonic() + 60
        while not MOMENTS[moment](edited):
            assert process.poll() is None, "it ended before the moment came"
            assert time.monotonic() < deadline
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    for name in NEW:
        path = edited.site / name
        assert path.read_bytes() in (OLD[name], NEW[name]), name
        assert path.stat().st_mode & 0o777 == 0o640
        assert path.read_bytes() == OLD[name] or (quarantine / "files" / str(path)[1:]).read_bytes() == OLD[name]
    again(edited, wheel, quarantine)
    assert edited.scan(wheel=wheel).findings == []
    assert not list(edited.root.rglob(".pristine-*"))
    for name in NEW:
        assert (quarantine / "files" / str(edited.site / name)[1:]).read_bytes() == OLD[name]


def again(env: Env, wheel: pathlib.Path, quarantine: pathlib.Path) -> Plan:
    """The next run, which need not wait: the killed one's lock went with it."""
    with writing(str(env.root), wait=0), plan(request(env, wheel, quarantine)) as decided:
        apply(decided, str(quarantine))
        return decided


def test_only_one_writes(edited: Env, wheel: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with writing(str(edited.root)), pytest.raises(ScanError, match="is being changed by"), writing(str(edited.root), 0):
        pass


def test_a_full_quarantine_changes_nothing(
    edited: Env, wheel: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quarantine = tmp_path / "q"
    with plan(request(edited, wheel, quarantine)) as decided:
        quarantine.write_bytes(b"a file where the directory should be")
        with pytest.raises(ScanError, match="The environment is as it was"):
            apply(decided, str(quarantine))
    assert restored(edited) == 0


def test_a_wheel_that_changes_meanwhile_lands_nowhere(edited: Env, wheel: pathlib.Path, tmp_path: pathlib.Path) -> None:
    data = bytearray(wheel.read_bytes())
    with plan(request(edited, wheel, tmp_path / "q")) as decided:
        # In the first member's bytes, after its header of 30 bytes and its name.
        data[46:50] = bytes(4)
        with wheel.open("r+b") as stream:
            stream.write(data)
        with pytest.raises(ScanError, match=r"could not be replaced|cannot be kept"):
            apply(decided, str(tmp_path / "q"))
    for name in NEW:
        assert (edited.site / name).read_bytes() in (OLD[name], NEW[name])
    assert not list(edited.root.rglob(".pristine-*"))
