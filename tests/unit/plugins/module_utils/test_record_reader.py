# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading in workers: every job done once, however many there are, and no worker, file or error lost."""

from __future__ import annotations

import hashlib
import os
import pathlib
from collections.abc import Callable
from typing import Any, Optional

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.record import pool, reader, work
from ansible_collections.pristine.vllm.plugins.module_utils.record.hashing import Hasher, Job, Outcome
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import ScanError
from ansible_collections.pristine.vllm.plugins.module_utils.record.pool import Pool
from ansible_collections.pristine.vllm.plugins.module_utils.record.reader import Checked, Reader
from ansible_collections.pristine.vllm.plugins.module_utils.record.walk import Links
from ansible_collections.pristine.vllm.tests.unit.plugins.record_support import Env, build_wheel, sha256


def _jobs(folder: pathlib.Path, count: int) -> list[Job]:
    jobs: list[Job] = []
    for number in range(count):
        data = b"x" * (number % 50) + b"%d" % number
        (folder / str(number)).write_bytes(data)
        jobs.append((str(folder / str(number)), [("sha256", hashlib.sha256(data).digest(), len(data))]))
    return jobs


def _nothing() -> None:
    """What a scan does meanwhile."""


def check(jobs: list[Job], workers: Optional[int], meanwhile: Callable[[], None] = _nothing) -> Checked:
    with Reader("/env", workers) as reading:
        return reading.check(jobs, Links("/"), meanwhile)


@pytest.mark.parametrize("workers", [None, 1, 2, 5, 40])
def test_every_job_is_done_once(tmp_path: pathlib.Path, workers: Optional[int]) -> None:
    jobs = _jobs(tmp_path, 500)
    called: list[int] = []
    checked = check(jobs, workers, lambda: called.append(os.getpid()))
    assert checked == Checked({}, sum(os.path.getsize(path) for path, _claims in jobs), 0)
    assert called == [os.getpid()]
    os.unlink(jobs[7][0])
    pathlib.Path(jobs[123][0]).write_bytes(b"edited")
    assert check(jobs, workers).outcomes == {
        7: Outcome("missing", None, ""),
        123: Outcome("differs", hashlib.sha256(b"edited").hexdigest(), "size is 6 bytes, recorded 26"),
    }


def test_no_jobs() -> None:
    assert check([], 2).outcomes == {}


def test_more_results_than_a_pipe_holds(tmp_path: pathlib.Path) -> None:
    jobs: list[Job] = [(str(tmp_path / f"absent{number}"), []) for number in range(20000)]
    assert len(check(jobs, 2).outcomes) == 20000


def test_more_tasks_than_a_pipe_holds(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "_BATCH_FILES", 1)
    jobs: list[Job] = [(str(tmp_path / f"absent{number}"), []) for number in range(20000)]
    assert len(check(jobs, 2).outcomes) == 20000


def test_without_a_file_in_memory(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    assert check(_jobs(tmp_path, 300), 2).outcomes == {}


def test_a_dead_worker_is_an_error(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = os.getpid()

    def die(self: Hasher, job: Job) -> None:
        if os.getpid() != parent:
            os.kill(os.getpid(), 9)

    monkeypatch.setattr(Hasher, "check", die)
    with pytest.raises(ScanError, match="worker that hashed files died"):
        check(_jobs(tmp_path, 300), 2)
    _no_children_left()


def test_a_worker_that_raises_is_an_error(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Hasher, job: Job) -> None:
        raise MemoryError

    monkeypatch.setattr(Hasher, "check", fail)
    with pytest.raises(ScanError, match="worker that hashed files died"):
        check(_jobs(tmp_path, 300), 2)
    _no_children_left()


def test_an_error_meanwhile_ends_the_workers(tmp_path: pathlib.Path) -> None:
    def fail() -> None:
        raise OSError("disk on fire")

    with pytest.raises(OSError, match="disk on fire"):
        check(_jobs(tmp_path, 300), 2, fail)
    _no_children_left()


def _no_children_left() -> None:
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_no_descriptor_is_left_open(tmp_path: pathlib.Path) -> None:
    jobs = _jobs(tmp_path, 300)
    before = os.listdir("/proc/self/fd")
    check(jobs, 3)
    assert os.listdir("/proc/self/fd") == before
    with pytest.raises(ZeroDivisionError):
        check(jobs, 3, lambda: [][1 // 0])
    assert os.listdir("/proc/self/fd") == before


def test_results_come_in_the_order_that_they_are_asked_for() -> None:
    with Pool(3, lambda task: task * 2) as three:
        numbers = [three.submit(number) for number in range(1000)]
        assert three.wait(reversed(numbers)) == [number * 2 for number in reversed(numbers)]
        more = three.submit("ab")
        assert three.wait([more]) == ["abab"]
        seen: list[tuple[int, int]] = []
        three.submit("last", weight=5)
        three.finish(lambda done, whole: seen.append((done, whole)))
    assert seen[-1] == (5, 5)


def test_results_larger_than_a_pipe_that_are_waited_for_early() -> None:
    with Pool(2, lambda size: b"x" * size) as two:
        for _round in range(3):
            assert two.wait([two.submit(300000) for _number in range(10)]) == [b"x" * 300000] * 10


def test_every_worker_dies_before_all_is_queued() -> None:
    with Pool(2, lambda number: os.kill(os.getpid(), number)) as two, pytest.raises(ScanError, match="died"):
        two.wait([two.submit(9) for _number in range(20000)])
    _no_children_left()


def test_a_worker_that_dies_while_it_is_waited_for() -> None:
    with Pool(2, lambda number: os.kill(os.getpid(), number)) as two, pytest.raises(ScanError, match="died"):
        two.wait([two.submit(9), two.submit(9)])
    _no_children_left()


@pytest.fixture
def large(bare: Env) -> Env:
    """An environment with files that are read ahead."""
    bare.install("big", {f"big/{name}.bin": os.urandom(400000) for name in "abc"} | {"big/__init__.py": b""})
    bare.install("small", {f"small/m{number}.py": b"x = %d\n" % number for number in range(200)})
    return bare


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_result_is_the_same_whatever_was_read_ahead(
    large: Env, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def everything(**options: Any) -> dict[str, Any]:
        result = large.scan(**options)
        summary = result.summary.to_dict()
        del summary["seconds"]
        return {"findings": [finding.to_dict() for finding in result.findings], **summary}

    (large.site / "big/a.bin").write_bytes(b"short")
    data = bytearray((large.site / "big/b.bin").read_bytes())
    data[-1] ^= 1
    (large.site / "big/b.bin").write_bytes(data)
    (large.site / "big/c.bin").unlink()
    (large.site / "small/m3.py").write_bytes(b"edited")
    ahead = everything(workers=workers)
    assert ahead["modified"] == 3
    assert ahead["missing"] == 1
    monkeypatch.setattr("ansible_collections.pristine.vllm.plugins.module_utils.record.scan.large_files", lambda *_: [])
    assert everything(workers=1) == ahead


def test_a_large_file_with_two_owners_is_as_either_says(large: Env) -> None:
    other = os.urandom(400000)
    large.install("other", {"big/a.bin": other})
    assert large.found() == {}
    (large.site / "big/a.bin").write_bytes(other[:-1])
    assert large.one().detail == "size is 399999 bytes, recorded 400000"


def test_nothing_out_of_the_environment_is_read_ahead(large: Env, tmp_path: pathlib.Path) -> None:
    outside = tmp_path / "outside.bin"
    outside.write_bytes(b"x" * 400000)
    away = tmp_path / "away"
    (large.site / "big").rename(away)
    (large.site / "big").symlink_to(away)
    row = f"../../../../outside.bin,sha256={'A' * 43},400000\n"
    with (large.site / "big-1.0.dist-info/RECORD").open("a") as stream:
        stream.write(row)
    os.utime(outside, (1, 1))
    os.utime(away / "a.bin", (1, 1))
    found = large.found()
    assert set(found.values()) == {"outside", "redirected"}
    assert outside.stat().st_atime == (away / "a.bin").stat().st_atime == 1


def test_pinned_wheels_are_read_by_the_workers(
    bare: Env, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"p/__init__.py": b"", "p-1.0.dist-info/METADATA": b"Name: p\nVersion: 1.0\n"}
    bare.install("p", {"p/__init__.py": b""})
    wheel = build_wheel(tmp_path / "wheels", files, info="p-1.0.dist-info")
    lock = tmp_path / "lock.txt"
    lock.write_text(f"p==1.0 --hash=sha256:{sha256(wheel.read_bytes())}\n")

    def here(path: str) -> str:
        raise AssertionError(f"{path} was read in the parent")

    monkeypatch.setattr(reader, "sha256_file", here)
    result = bare.scan(wheel=wheel.parent, lock=str(lock), workers=2)
    assert result.summary.verified_against == "pinned_wheel"
    assert result.findings == []
    lock.write_text(f"p==1.0 --hash=sha256:{'0' * 64}\n")
    result = bare.scan(wheel=wheel.parent, lock=str(lock), workers=2)
    assert result.summary.verified_against == "installed_record"
    assert "was refused" in result.warnings[0]


def test_cores_are_those_that_may_be_used() -> None:
    assert pool.usable_cores() == len(os.sched_getaffinity(0))
