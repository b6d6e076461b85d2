# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds with the real uv: from small wheels, killed, and with everything that can be wrong."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils import release_build
from ansible_collections.pristine.vllm.plugins.module_utils.lock import LockError
from ansible_collections.pristine.vllm.plugins.module_utils.process import Completed
from ansible_collections.pristine.vllm.plugins.module_utils.release import Layout, ReleaseError, read_mark
from ansible_collections.pristine.vllm.plugins.module_utils.release_build import Built, Request, build
from ansible_collections.pristine.vllm.plugins.module_utils.release_wheels import Need, check_disk, need_of
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import (
    BUILDER,
    COLLECTIONS,
    PYTHON,
    fake_release,
    lock_text,
    make_wheel,
    uv_wheel,
)

ID = "0.16.0.g1-1"
CLI = "import sys, vllm\ndef main():\n    print(vllm.__file__, sys.executable, sys.argv[1])\n"


class Yard:
    """A wheelhouse, a lock and a root to build in."""

    def __init__(self, base: pathlib.Path) -> None:
        self.base = base
        self.layout = Layout(str(base / "root"))
        self.releases = base / "root" / "releases"
        self.path = self.releases / ID
        self.wheels = base / "wheels"
        self.lock = base / "lock.txt"
        self.wheels.mkdir()
        self.uv = self.wheels / uv_wheel().name
        os.link(uv_wheel(), self.uv)
        self.provide("")

    def provide(self, source: str, **changes: Any) -> pathlib.Path:
        """Put a vllm whose package runs this source into the wheelhouse and the lock."""
        files = {"vllm/__init__.py": source, "vllm/cli.py": CLI, **changes}
        wheel = make_wheel(self.wheels, "vllm", "0.16.0+g1", files, {"vllm": "vllm.cli:main"}, ("absent>=1",))
        self.lock.write_text(lock_text(wheel))
        return wheel

    def request(self, **changes: Any) -> Request:
        given = {"release": ID, "python": PYTHON, "lock": str(self.lock), "wheels": str(self.wheels)}
        return Request(**{**given, "builder": BUILDER.read_text(), "spare": 0, **changes})

    def build(self, **changes: Any) -> Built:
        return build(self.layout, self.request(**changes))

    def entries(self) -> list[str]:
        return sorted(os.listdir(self.releases))


@pytest.fixture
def yard(tmp_path: pathlib.Path) -> Yard:
    return Yard(tmp_path)


def test_nothing_of_the_host_gets_in(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "UV_LINK_MODE": "symlink",
        "UV_CONFIG_FILE": "/nonexistent",
        "UV_PYTHON": "/nonexistent",
        "UV_CACHE_DIR": str(yard.base / "cache"),
        "UV_COMPILE_BYTECODE": "0",
        "VIRTUAL_ENV": "/nonexistent",
        "PYTHONPATH": "/nonexistent",
        "PYTHONHOME": "/nonexistent",
        "PIP_NO_BINARY": ":all:",
        "HOME": str(yard.base / "home"),
    }.items():
        monkeypatch.setenv(name, value)
    before = os.umask(0o077)
    try:
        built = yard.build(metadata={"version": "0.16.0+g1", "run_id": "20261130T032512Z"})
    finally:
        os.umask(before)
    assert yard.entries() == [ID]
    assert sorted(os.listdir(yard.base)) == ["lock.txt", "root", "wheels"], "no cache, no home"
    assert built.metadata == read_mark(str(yard.path))
    assert set(built.metadata or {}) == {
        *("version", "run_id", "lock_sha256", "python", "python_version", "created_at", "conflicts"),
    }
    assert built.conflicts == ["The package `vllm` requires `absent>=1`, but it's not installed"]
    package = yard.path / "lib" / f"python3.{sys.version_info.minor}" / "site-packages" / "vllm"
    compiled = sorted(path.name.split(".")[0] for path in (package / "__pycache__").iterdir())
    assert compiled == ["__init__", "cli"], "a service that cannot write must not compile at every start"
    for folder, _names, files in os.walk(yard.path):
        assert os.lstat(folder).st_mode & 0o005 == 0o005
        for name in files:
            info = os.lstat(os.path.join(folder, name))
            assert info.st_nlink == 1, "nothing is shared with a cache"
            assert info.st_mode & 0o004
            assert os.path.islink(os.path.join(folder, name)) or not info.st_mode & 0o002
    script = yard.path / "bin" / "vllm"
    assert script.read_text().startswith(f"#!{yard.path}/bin/python\n")
    (yard.base / "root" / "current").symlink_to(f"releases/{ID}")
    ran = subprocess.run(
        [yard.base / "root" / "current" / "bin" / "vllm", "serve"], env={}, check=True, capture_output=True, text=True
    )
    assert ran.stdout.split() == [f"{package}/__init__.py", f"{yard.path}/bin/python", "serve"]


def test_contradictions_are_told_of_what_an_earlier_run_built(yard: Yard) -> None:
    told = ["The package `vllm` requires `absent>=1`, but it's not installed"]
    assert yard.build().conflicts == told
    again = yard.build()
    assert not again.decision.changed
    assert again.conflicts == told


def test_a_check_that_cannot_be_made_is_a_failure(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    real = release_build._Steps._run

    def fails(steps: release_build._Steps, argv: list[str]) -> Completed:
        return Completed(2, "", "error: no interpreter\n", 0.0) if "check" in argv else real(steps, argv)

    monkeypatch.setattr(release_build._Steps, "_run", fails)
    with pytest.raises(ReleaseError, match="uv pip check ended with 2: error: no interpreter"):
        yard.build()
    assert yard.entries() == []


def test_built_again_when_it_is_not_what_is_asked_for(yard: Yard) -> None:
    first = yard.build(metadata={"version": "1", "run_id": "a"})
    assert first.decision.changed
    assert not yard.build(metadata={"version": "1", "run_id": "b"}).decision.changed
    (yard.path / "left-over").touch()
    assert yard.build(metadata={"version": "2"}).decision.changed
    assert not (yard.path / "left-over").exists()
    (yard.path / "pyvenv.cfg").unlink()
    assert yard.build(metadata={"version": "2"}).decision.changed, "the mark alone is no proof"
    for link in ("current", "previous"):
        (yard.base / "root" / link).symlink_to(f"releases/{ID}")
        assert not yard.build(metadata={"version": "2"}).decision.changed
        with pytest.raises(ReleaseError, match=f"is not removed: {yard.base}/root/{link} leads to it"):
            yard.build(metadata={"version": "3"})
        assert read_mark(str(yard.path))
        (yard.base / "root" / link).unlink()


def poison(yard: Yard) -> dict[str, Any]:
    wheel = yard.provide("")
    wheel.write_bytes(make_wheel(yard.base, "vllm", "0.16.0+g1", {"vllm/__init__.py": "evil"}).read_bytes())
    return {}


def truncate(yard: Yard) -> dict[str, Any]:
    wheel = yard.provide("")
    wheel.write_bytes(wheel.read_bytes()[:-30])
    return {}


def lack(yard: Yard) -> dict[str, Any]:
    with yard.lock.open("a") as lock:
        lock.write(f"torch==2.9.1 --hash=sha256:{'a' * 64}\n")
    return {}


def other_uv(yard: Yard) -> dict[str, Any]:
    return {"builder": f"uv==0.13.9 --hash=sha256:{'a' * 64}"}


def no_uv(yard: Yard) -> dict[str, Any]:
    yard.uv.unlink()
    return {"builder": ""}


def two_uvs(yard: Yard) -> dict[str, Any]:
    os.link(yard.uv, yard.wheels / yard.uv.name.replace("0.13.9", "0.13.8"))
    return {"builder": ""}


def uv_without_program(yard: Yard) -> dict[str, Any]:
    yard.uv.unlink()
    make_wheel(yard.wheels, "uv", "0.13.9", {"uv.py": ""})
    return {"builder": ""}


def raises(yard: Yard) -> dict[str, Any]:
    yard.provide("import vllm.missing")
    return {}


def crashes(yard: Yard) -> dict[str, Any]:
    yard.provide("import os; os.abort()")
    return {}


def hangs(yard: Yard) -> dict[str, Any]:
    yard.provide("import sys, time; print('loading', file=sys.stderr, flush=True); time.sleep(600)")
    return {"import_timeout": 1.0}


def wrong_python(yard: Yard) -> dict[str, Any]:
    (yard.base / "pyvenv.cfg").touch()
    (yard.base / "python").symlink_to(PYTHON)
    return {"python": str(yard.base / "python")}


def wrong_tag(yard: Yard) -> dict[str, Any]:
    yard.provide("").unlink()
    wheel = make_wheel(yard.wheels, "vllm", "0.16.0+g1", {"vllm/__init__.py": ""}, tag="cp27-cp27m-win32")
    yard.lock.write_text(lock_text(wheel))
    return {}


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (poison, r"uv pip install ended with \d+: (?s:.*)[Hh]ash mismatch for `vllm==0.16.0\+g1"),
        (truncate, r"wheel .*vllm-0.16.0\+g1-py3-none-any.whl cannot be read: File is not a zip file. Fill it with"),
        (lack, r"wheelhouse .*/wheels has no wheel for torch==2.9.1 that fits Python 3\.\d+ on .*\. Fill it with"),
        (other_uv, r"does not hold uv==0.13.9 with the pinned digest for .*; it holds uv-0.13.9-"),
        (no_uv, r"does not hold exactly one uv for .*; it holds none"),
        (two_uvs, r"does not hold exactly one uv"),
        (uv_without_program, r"holds no uv program"),
        (raises, r"import vllm failed: (?s:.*)ModuleNotFoundError: No module named 'vllm.missing'"),
        (crashes, r"import vllm ended by SIGABRT: (?s:.*)Current thread"),
        (hangs, r"import vllm failed: .*/bin/python had not ended after 1 s and was killed. loading"),
        (wrong_python, r"python .*/python belongs to the environment .*, which may have been edited"),
        (wrong_tag, r"wheelhouse .*/wheels has no wheel for vllm==0.16.0\+g1 that fits Python 3\.\d+ on "),
        (lambda _yard: {"spare": 10**18}, r"the disk of .*/releases is too small: building the release takes \d+"),
        (lambda _yard: {"release": "../x"}, r"release '../x' is no id"),
    ],
)
def test_what_fails_says_why_and_leaves_nothing(
    yard: Yard, fault: Callable[[Yard], dict[str, Any]], reason: str
) -> None:
    with pytest.raises(ReleaseError, match=reason):
        yard.build(**fault(yard))
    assert yard.entries() == []


def test_what_killed_builds_left_makes_room(yard: Yard) -> None:
    root = yard.base / "root"
    for name in ("old-1", "old-2", "live-1", "back-1"):
        fake_release(root, name)
    fake_release(root, "done-1", "2026-11-01T00:00:00Z")
    (fake_release(root, "torn-1") / "release.json").write_text("{")
    (root / "current").symlink_to("releases/live-1")
    (root / "previous").symlink_to("releases/back-1")
    command = [str(root / "releases" / "old-2" / "bin" / "python"), "-S", "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        with pytest.raises(ReleaseError, match="is too small"):
            yard.build(spare=10**18)
        assert yard.entries() == ["back-1", "done-1", "live-1", "old-2", "torn-1"], "before the disk is found too small"
        process.kill()
    built = yard.build()
    assert [place.id for place in built.removed] == ["old-2"]
    assert yard.entries() == [ID, "back-1", "done-1", "live-1", "torn-1"], "what was whole once may have been adopted"
    fake_release(root, "old-3")
    assert yard.build().removed == [], "nothing is built, and no room wanted"


def test_a_lock_that_is_not_complete_is_found_before_anything(yard: Yard) -> None:
    yard.lock.write_text("vllm==1")
    with pytest.raises(LockError, match="has no --hash"):
        yard.build()
    assert not yard.releases.exists()


def test_disk_need(yard: Yard) -> None:
    wheel = make_wheel(yard.base, "big", "1", {"big.py": "#" * 1000, "big.so": "x" * 100_000})
    need = need_of([str(wheel)])
    assert 203_000 < need.size < 206_000
    assert need.files >= 2 * 4 + 1
    check_disk(str(yard.base), need, 0)
    with pytest.raises(ReleaseError, match=r"takes 1000.0 GB and 5 bytes must stay free, .* are there"):
        check_disk("/dev/shm", Need(10**12, 0), 5)
    with pytest.raises(
        ReleaseError, match=r"has inodes for \d+ more files and building the release takes 1000000000000"
    ):
        check_disk("/dev/shm", Need(0, 10**12), 0)


BUILD = """
import sys
from ansible_collections.pristine.vllm.plugins.module_utils.release import Layout
from ansible_collections.pristine.vllm.plugins.module_utils.release_build import Request, build
root, release, python, lock, wheels = sys.argv[1:]
build(Layout(root), Request(release, python, lock, wheels, spare=0))
"""


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.mark.parametrize("moment", ["scratch", "environment", "package", "import"])
def test_killed_at_any_moment_the_next_call_finishes(yard: Yard, moment: str) -> None:
    block = yard.base / "block"
    yard.provide(f"import os, time\nwhile os.path.exists({str(block)!r}): time.sleep(0.01)\n")
    block.touch()
    reached: dict[str, Callable[[], object]] = {
        "scratch": lambda: list(yard.releases.glob(".tmp-*")),
        "environment": (yard.path / "pyvenv.cfg").exists,
        "package": lambda: list(yard.path.glob("lib/*/site-packages/vllm")),
        "import": lambda: list(yard.path.glob("lib/*/site-packages/vllm/__pycache__/cli*")),
    }
    arguments = [str(yard.base / "root"), ID, PYTHON, str(yard.lock), str(yard.wheels)]
    environment = {**os.environ, "PYTHONPATH": str(COLLECTIONS)}
    with subprocess.Popen([sys.executable, "-c", BUILD, *arguments], env=environment) as process:
        wait_for(reached[moment])
        process.send_signal(signal.SIGKILL)
    assert read_mark(str(yard.path)) is None
    assert [place.metadata for place in yard.layout.releases()] in ([], [None])
    assert yard.layout.next_id("0.16.0+g1") == ID, "what was never finished is built over"
    block.unlink()
    assert yard.build().decision.changed
    assert yard.entries() == [ID]


def test_several_modules_or_none_are_imported(yard: Yard) -> None:
    yard.provide("import os; os.abort()")
    assert yard.build(import_check=[]).decision.changed
    (yard.path / "release.json").unlink()
    with pytest.raises(ReleaseError, match="import json, vllm ended by SIGABRT"):
        yard.build(import_check=["json", "vllm"])


def test_another_build_of_a_version_is_no_wheel_for_it(yard: Yard) -> None:
    wheel = yard.provide("")
    plain = make_wheel(yard.wheels, "torch", "2.9.1", {"torch.py": "built = ''\n"})
    make_wheel(yard.wheels, "torch", "2.9.1+cu130", {"torch.py": "built = 'cu130'\n"})
    yard.lock.write_text(lock_text(wheel, plain))
    yard.build()
    [installed] = yard.path.glob("lib/python3*/site-packages/torch.py")
    assert installed.read_text() == "built = ''\n"
