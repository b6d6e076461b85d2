# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import os
import pathlib
from typing import Optional

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.record import hashing
from ansible_collections.pristine.vllm.plugins.module_utils.record.hashing import Hasher, Job, Outcome, check
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import ScanError


def _jobs(folder: pathlib.Path, count: int) -> list[Job]:
    jobs: list[Job] = []
    for number in range(count):
        data = b"x" * (number % 50) + b"%d" % number
        (folder / str(number)).write_bytes(data)
        jobs.append((str(folder / str(number)), [("sha256", hashlib.sha256(data).digest(), len(data))]))
    return jobs


def _nothing() -> None:
    """What a scan does meanwhile."""


@pytest.mark.parametrize("workers", [None, 1, 2, 5, 1000])
def test_every_job_is_done_once(tmp_path: pathlib.Path, workers: Optional[int]) -> None:
    jobs = _jobs(tmp_path, 500)
    called: list[int] = []
    checked = check(jobs, workers, lambda: called.append(os.getpid()))
    assert checked.outcomes == {}
    assert checked.bytes_hashed == sum(os.path.getsize(path) for path, _claims in jobs)
    assert called == [os.getpid()]
    os.unlink(jobs[7][0])
    pathlib.Path(jobs[123][0]).write_bytes(b"edited")
    checked = check(jobs, workers, _nothing)
    assert checked.outcomes == {
        7: Outcome("missing", None, ""),
        123: Outcome("differs", hashlib.sha256(b"edited").hexdigest(), "size is 6 bytes, recorded 26"),
    }


def test_no_jobs() -> None:
    assert check([], None, _nothing).outcomes == {}


def test_more_results_than_a_pipe_holds(tmp_path: pathlib.Path) -> None:
    jobs: list[Job] = [(str(tmp_path / f"absent{number}"), []) for number in range(20000)]
    assert len(check(jobs, 2, _nothing).outcomes) == 20000


def test_more_batches_than_a_pipe_holds(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "_BATCH_FILES", 1)
    jobs: list[Job] = [(str(tmp_path / f"absent{number}"), []) for number in range(40000)]
    assert len(check(jobs, 2, _nothing).outcomes) == 40000


def test_a_dead_worker_is_an_error(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = os.getpid()

    def die(self: Hasher, job: Job) -> None:
        if os.getpid() != parent:
            os.kill(os.getpid(), 9)

    monkeypatch.setattr(Hasher, "check", die)
    with pytest.raises(ScanError, match="worker that hashed files died"):
        check(_jobs(tmp_path, 300), 2, _nothing)
    _no_children_left()


def test_a_worker_that_raises_is_an_error(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Hasher, job: Job) -> None:
        raise MemoryError

    monkeypatch.setattr(Hasher, "check", fail)
    with pytest.raises(ScanError, match="worker that hashed files died"):
        check(_jobs(tmp_path, 300), 2, _nothing)
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
    check(jobs, 3, _nothing)
    assert os.listdir("/proc/self/fd") == before


def test_names_that_are_too_long_are_missing(tmp_path: pathlib.Path) -> None:
    outcome = Hasher().check((str(tmp_path / ("x" * 300)), []))
    assert outcome is not None
    assert outcome.state == "missing"


def test_several_algorithms_in_one_reading(tmp_path: pathlib.Path) -> None:
    data = os.urandom(600000)
    (tmp_path / "file").write_bytes(data)
    claims: list[tuple[str, bytes, Optional[int]]] = [
        ("sha512", b"\0" * 64, len(data)),
        ("sha384", hashlib.sha384(data).digest(), None),
    ]
    hasher = Hasher()
    assert hasher.check((str(tmp_path / "file"), claims)) is None
    assert hasher.bytes_hashed == len(data)
    outcome = hasher.check((str(tmp_path / "file"), claims[:1]))
    assert outcome == Outcome("differs", hashlib.sha256(data).hexdigest(), "content differs, size is as recorded")
