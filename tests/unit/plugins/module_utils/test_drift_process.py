# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a process runs what is on disk: with real processes, files and links."""

from __future__ import annotations

import contextlib
import importlib.machinery
import os
import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.drift.findings import Finding
from ansible_collections.pristine.vllm.plugins.module_utils.drift.process import (
    Mapping,
    Running,
    Stamp,
    is_replaced,
    parse_maps,
    parse_start,
    stale,
)
from ansible_collections.pristine.vllm.plugins.module_utils.drift.process_reader import (
    look_at_process,
    read_mappings,
    start_time,
)
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import fake_environment

UNIT = "vllm-kimi-k25.service"
# Maps a library for execution as an import does, and lives until its input ends.
PROGRAM = "import ctypes, sys; library = ctypes.PyDLL(sys.argv[1]); print('ready', flush=True); sys.stdin.read()"


class Service:
    """A Python that runs from an environment and has one of its libraries mapped."""

    def __init__(self, environment: pathlib.Path) -> None:
        self.environment = environment
        self.packages = environment / "lib/python3.11/site-packages"
        self.source = self.packages / "model.py"
        self.source.write_text("a = 1\n")
        self.library = self.packages / "_ext.so"
        shutil.copy(a_library(), self.library)
        argv = [str(environment / "bin/python"), "-c", PROGRAM, str(self.library)]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def look(self, environment: pathlib.Path | None = None) -> list[Finding]:
        looked = look_at_process(UNIT, self.process.pid, "", str(environment or self.environment))
        assert looked.problems == ()
        assert looked.running is not None
        return stale(looked.running)

    def statuses(self, environment: pathlib.Path | None = None) -> list[str]:
        return [finding.status for finding in self.look(environment)]


def a_library() -> str:
    """A small shared library of this Python's own."""
    folders = [pathlib.Path(entry) for entry in sys.path if entry.endswith("lib-dynload")]
    found = [
        path for folder in folders for path in folder.glob("_bisect*" + importlib.machinery.EXTENSION_SUFFIXES[-1])
    ]
    return str((found or list(folders[0].glob("*.so")))[0])


@pytest.fixture
def service(tmp_path: pathlib.Path) -> Iterator[Service]:
    running = Service(fake_environment(tmp_path / "env"))
    try:
        yield running
    finally:
        running.process.communicate("")


def after(moment: float, path: pathlib.Path) -> None:
    """Wait until the file system's clock has passed what a process's start is known to, by writing to a file beside."""
    probe = path.with_name("probe.txt")
    deadline = time.monotonic() + 10
    while True:
        probe.write_text("x")
        if probe.stat().st_ctime > moment + 0.02:
            return
        assert time.monotonic() < deadline


def test_a_process_that_runs_what_is_there(service: Service) -> None:
    assert service.look() == []
    # Bytecode that it wrote itself, and data that it does not import.
    (service.packages / "__pycache__").mkdir()
    (service.packages / "__pycache__/model.cpython-311.py").write_text("x")
    (service.packages / "data.json").write_text("x")
    assert service.look() == []


def test_its_start_is_known(service: Service) -> None:
    started = start_time(service.process.pid)
    assert started is not None
    assert service.source.stat().st_ctime - 0.02 <= started <= time.time()
    assert start_time(0) is None
    # The highest pid that Linux can give is 4194303.
    assert start_time(4194304) is None


def test_a_source_that_was_edited(service: Service) -> None:
    after(start_time(service.process.pid) or 0, service.source)
    service.source.write_text("a = 2\n")
    (finding,) = service.look()
    assert (finding.kind, finding.path, finding.status) == ("process", UNIT, "changed")
    assert "1 file that it may have loaded changed since" in finding.detail
    assert str(service.source) in finding.detail


def test_an_edit_whose_mtime_was_put_back(service: Service) -> None:
    """As ``touch -r`` does."""
    before = service.source.stat()
    after(start_time(service.process.pid) or 0, service.source)
    service.source.write_text("a = 2\n")
    os.utime(service.source, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert service.statuses() == ["touched"]


def test_a_file_that_is_newer_by_its_mtime_alone(service: Service) -> None:
    """A wheel may hold times to come; what counts is when the file was changed here."""
    running = look_at_process(UNIT, service.process.pid, "", str(service.environment)).running
    assert running is not None
    stamp = Stamp(f"{running.root}/x.py", (1, 1), 7, running.started - 5, running.started + 5)
    assert stale(Running(**{**vars(running), "stamps": [stamp]})) == []


def test_a_library_that_was_replaced(service: Service) -> None:
    after(start_time(service.process.pid) or 0, service.source)
    fresh = service.library.with_name("fresh")
    # Its mtime is that of the copy.
    shutil.copy(service.library, fresh)
    fresh.rename(service.library)
    assert service.statuses() == ["replaced", "changed"]
    assert str(service.library) in service.look()[0].detail


def test_a_library_that_was_removed(service: Service) -> None:
    service.library.unlink()
    assert service.statuses() == ["replaced"]


def test_a_link_that_was_switched(service: Service, tmp_path: pathlib.Path) -> None:
    current = tmp_path / "current"
    current.symlink_to(service.environment)
    assert service.look(current) == []
    other = fake_environment(tmp_path / "next")
    (other / "lib/python3.11/site-packages/new.py").write_text("x")
    current.unlink()
    current.symlink_to(other)
    # What is newer in an environment that it does not run from says nothing.
    assert service.statuses(current) == ["other_environment"]


def test_no_process(tmp_path: pathlib.Path) -> None:
    assert look_at_process(UNIT, 0, "", str(tmp_path)).running is None
    assert look_at_process(UNIT, 4194304, "", str(tmp_path)).running is None


def test_an_environment_without_code_is_a_problem(service: Service, tmp_path: pathlib.Path) -> None:
    """Whoever looks at the wrong folder must not be told that all is well."""
    looked = look_at_process(UNIT, service.process.pid, "", str(tmp_path / "none"))
    assert "there is no Python code in" in looked.problems[0]


def test_workers_count_and_those_that_may_not_be_looked_into_are_told(tmp_path: pathlib.Path) -> None:
    """A worker of the group has a library mapped that is gone; the main process has not."""
    environment = fake_environment(tmp_path / "env")
    (environment / "lib/python3.11/site-packages/a.py").write_text("x")
    gone = f"{environment.resolve()}/lib/python3.11/site-packages/gone.so"
    for pid, maps in ((10, ""), (11, f"7f-80 r-xp 00000000 fe:00 99 {gone} (deleted)\n")):
        folder = tmp_path / f"proc/{pid}"
        (folder / "task").mkdir(parents=True)
        (folder / "maps").write_text(maps)
        (folder / "cgroup").write_text("0::/system.slice/x.service\n")
        (folder / "stat").write_text(f"{pid} (python (x)) S {' '.join(['0'] * 18)} 100 0\n")
        (folder / "cmdline").write_bytes(f"{environment}/bin/python\0".encode())
    looked = look_at_process(UNIT, 10, "/system.slice/x.service", str(environment), str(tmp_path / "proc"), time.time())
    assert looked.running is not None
    assert [finding.status for finding in stale(looked.running)] == ["replaced"]


def test_a_process_of_somebody_else(service: Service) -> None:
    with somebody_else():
        found, unread = read_mappings([service.process.pid if os.getuid() == 0 else 1], "/proc")
    assert (found, len(unread)) == ([], 1)


@contextlib.contextmanager
def somebody_else() -> Iterator[None]:
    """As root, become nobody for a while; anybody else is somebody else to process 1 already."""
    if os.getuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


MAPS = """\
562e3b572000-562e3b573000 r--p 00000000 fe:00 26723                      /usr/bin/python3.11
562e3b573000-562e3b574000 r-xp 00001000 fe:00 26723                      /usr/bin/python3.11
562e4ed7f000-562e4ef0e000 rw-p 00000000 00:00 0                          [heap]
7fa4e9b00000-7fa4e9c33000 rw-p 00000000 00:00 0
7fa4e9c45000-7fa4e9c48000 r--p 00000000 fd:1a 29755                      /opt/a b/x.so (deleted)
7fa4e9c48000-7fa4e9c49000 r--p 00000000 fd:1a 3                          /opt/line\\012feed.so
7fa4e9c49000-7fa4e9c4a000 rw-s 00000000 00:01 5                          /memfd:x (deleted)
7fa4e9c4a000-7fa4e9c4b000 rw-s 00000000 00:05 0                          /dev/zero (deleted)
"""


def test_maps() -> None:
    assert parse_maps(MAPS) == [
        Mapping("/usr/bin/python3.11", (0xFE, 0), 26723, True, False),
        Mapping("/opt/a b/x.so", (0xFD, 0x1A), 29755, False, True),
        Mapping("/opt/line\nfeed.so", (0xFD, 0x1A), 3, False, False),
        Mapping("/memfd:x", (0, 1), 5, False, True),
    ]


def test_inodes_are_compared_within_one_file_system_only() -> None:
    mapped = Mapping("/x.so", (0xFE, 0), 7, True, False)
    assert not is_replaced(mapped, None)
    assert not is_replaced(mapped, Stamp("/x.so", (0xFE, 0), 7, 0, 0))
    assert is_replaced(mapped, Stamp("/x.so", (0xFE, 0), 8, 0, 0))
    # An overlay shows other numbers than what lies below it.
    assert not is_replaced(mapped, Stamp("/x.so", (0, 44), 8, 0, 0))


@pytest.mark.parametrize(
    ("text", "start"),
    [
        (f"7 (a) b) c) S {' '.join(['0'] * 18)} 250 0", 1002.5),
        (f"7 (a) S {' '.join(['0'] * 18)} x 0", None),
        ("7 (a) S 1", None),
        ("", None),
    ],
)
def test_start(text: str, start: float | None) -> None:
    assert parse_start(text, 100, 1000.0) == start
