# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Comparing files with their claims, in forked workers, largest file first.

Processes and not threads: most files are so small that the interpreter's lock costs more than the hashing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gc
import hashlib
import json
import os
import signal
import stat
import struct
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import CHUNK
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import ScanError

# A path, and the (algorithm, digest, size) triples of which one must fit; none: it must only be there.
Job = tuple[str, list[tuple[str, bytes, Optional[int]]]]

_BATCH_BYTES = 4 * 1024 * 1024
_BATCH_FILES = 64
_NEW = {"sha256": hashlib.sha256, "sha384": hashlib.sha384, "sha512": hashlib.sha512}
# Linux; Python has it as fcntl.F_GETPIPE_SZ from 3.10 on.
_F_GETPIPE_SZ = 1032
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)


class Outcome(NamedTuple):
    """A file that does not match: ``state`` is missing, differs, irregular (a link too) or unreadable."""

    state: str
    sha256: Optional[str]
    text: str


# An outcome on its way through a pipe, the job's number first.
_Raw = tuple[int, str, Optional[str], str]


class Checked(NamedTuple):
    """What a run of `check` found: outcomes by job number, and the bytes that were read."""

    outcomes: dict[int, Outcome]
    bytes_hashed: int


class Hasher:
    """Checks files one after another with one buffer."""

    def __init__(self) -> None:
        """Make the buffer."""
        self.bytes_hashed = 0
        self._buffer = bytearray(CHUNK)
        self._view = memoryview(self._buffer)

    def check(self, job: Job) -> Optional[Outcome]:
        """None when the file is as one of its claims says."""
        path, claims = job
        try:
            info = os.lstat(path)
            if not stat.S_ISREG(info.st_mode):
                return Outcome("irregular", None, _kind(path, info.st_mode))
            if not claims:
                return None
            return self._compare(path, claims, info.st_size)
        except OSError as error:
            if error.errno in _GONE:
                return Outcome("missing", None, "")
            if error.errno == errno.ELOOP:
                return Outcome("irregular", None, "is now a symlink")
            return Outcome("unreadable", None, str(error.strerror))

    def _compare(self, path: str, claims: list[tuple[str, bytes, Optional[int]]], size: int) -> Optional[Outcome]:
        fitting = [claim for claim in claims if claim[2] is None or claim[2] == size]
        if len(fitting) == 1:
            algorithm, digest, _size = fitting[0]
            digests = {algorithm: self._digest(path, [_NEW[algorithm]()])[0]}
            if digests[algorithm] == digest:
                return None
        else:
            algorithms = sorted({claim[0] for claim in fitting} or {"sha256"})
            digests = dict(zip(algorithms, self._digest(path, [_NEW[name]() for name in algorithms])))
            if any(digests[algorithm] == digest for algorithm, digest, _size in fitting):
                return None
        sha256 = digests.get("sha256") or self._digest(path, [hashlib.sha256()])[0]
        what = "content differs, size is as recorded" if fitting else f"size is {size} bytes, recorded {_sizes(claims)}"
        return Outcome("differs", sha256.hex(), what)

    def _digest(self, path: str, hashers: list[hashlib._Hash]) -> list[bytes]:
        """The digests of a regular file's content."""
        buffers = [self._buffer]
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            info = os.fstat(descriptor)
            if not stat.S_ISREG(info.st_mode):
                raise OSError(errno.EIO, "it changed its kind while it was read")
            left = info.st_size
            if left > CHUNK:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
            # Up to the size that it was opened with: one system call fewer for each small file.
            while left > 0:
                count = os.readv(descriptor, buffers)
                if not count:
                    break
                left -= count
                self.bytes_hashed += count
                for hasher in hashers:
                    hasher.update(self._view[:count])
        finally:
            os.close(descriptor)
        return [hasher.digest() for hasher in hashers]


def _sizes(claims: list[tuple[str, bytes, Optional[int]]]) -> str:
    return " or ".join(sorted({str(claim[2]) for claim in claims}))


def _kind(path: str, mode: int) -> str:
    if stat.S_ISLNK(mode):
        return f"is now a symlink to {os.readlink(path)}"
    names = ((stat.S_ISDIR, "directory"), (stat.S_ISFIFO, "FIFO"), (stat.S_ISSOCK, "socket"))
    return "is now a {}".format(next((name for test, name in names if test(mode)), "device"))


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def check(jobs: list[Job], workers: Optional[int], meanwhile: Callable[[], None]) -> Checked:
    """Check every job; call ``meanwhile`` once in this process while the workers run.

    :param workers: processes to fork; default the number of usable cores; 1 forks none.
    :raises ScanError: a worker died: nothing is then known about its files.
    """
    batches = _batches(jobs)
    count = min(workers or usable_cores(), len(batches))
    if count > 1:
        raw, bytes_hashed = _forked(jobs, batches, count, meanwhile)
    else:
        meanwhile()
        raw, bytes_hashed = _work(jobs, batches)
    return Checked({number: Outcome(state, sha256, text) for number, state, sha256, text in raw}, bytes_hashed)


def _size(job: Job) -> int:
    return max((claim[2] or 0 for claim in job[1]), default=0)


def _batches(jobs: list[Job]) -> list[list[int]]:
    """The numbers of the jobs, largest file first: large files alone, small ones together."""
    batches: list[list[int]] = []
    weight = _BATCH_BYTES
    sizes = [_size(job) for job in jobs]
    for number in sorted(range(len(jobs)), key=lambda number: -sizes[number]):
        if weight >= _BATCH_BYTES or len(batches[-1]) >= _BATCH_FILES:
            batches.append([])
            weight = 0
        batches[-1].append(number)
        weight += sizes[number]
    return batches


def _work(jobs: list[Job], batches: Iterable[list[int]]) -> tuple[list[_Raw], int]:
    hasher = Hasher()
    found: list[_Raw] = []
    for batch in batches:
        for number in batch:
            outcome = hasher.check(jobs[number])
            if outcome is not None:
                found.append((number, outcome.state, outcome.sha256, outcome.text))
    return found, hasher.bytes_hashed


def _forked(
    jobs: list[Job], batches: list[list[int]], count: int, meanwhile: Callable[[], None]
) -> tuple[list[_Raw], int]:
    queue, feed = os.pipe()
    # The whole queue is written before anyone reads it, so it has to fit into the pipe.
    while len(batches) * 4 > fcntl.fcntl(feed, _F_GETPIPE_SZ):
        pairs = [batches[index : index + 2] for index in range(0, len(batches), 2)]
        batches = [[number for batch in pair for number in batch] for pair in pairs]
    os.write(feed, struct.pack(f"{len(batches)}I", *range(len(batches))))
    os.close(feed)
    # The workers share this process's memory; without this the first collection would copy all of it.
    gc.freeze()
    children: list[tuple[int, int]] = []
    try:
        for _number in range(count):
            children.append(_fork(jobs, batches, queue))
        os.close(queue)
        meanwhile()
        found: list[_Raw] = []
        total = 0
        while children:
            pid, pipe = children[0]
            raw, bytes_hashed = _result(pid, pipe)
            del children[0]
            found += raw
            total += bytes_hashed
        return found, total
    finally:
        gc.unfreeze()
        for pid, pipe in children:
            os.close(pipe)
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def _fork(jobs: list[Job], batches: list[list[int]], queue: int) -> tuple[int, int]:
    """Start a worker; its process id, and the pipe that its result comes through."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Python warns of threads that the child does not have; it takes no lock that one of them could hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    status = 1
    try:
        gc.disable()
        with open(writer, "w", encoding="ascii") as stream:
            json.dump(_work(jobs, _taken(batches, queue)), stream)
        status = 0
    finally:
        # Never back into the caller's code: this is a copy of the whole process.
        os._exit(status)


def _taken(batches: list[list[int]], queue: int) -> Iterator[list[int]]:
    while True:
        number = os.read(queue, 4)
        if not number:
            return
        yield batches[struct.unpack("I", number)[0]]


def _result(pid: int, pipe: int) -> tuple[list[_Raw], int]:
    chunks = []
    while True:
        chunk = os.read(pipe, CHUNK)
        if not chunk:
            break
        chunks.append(chunk)
    _pid, status = os.waitpid(pid, 0)
    if status != 0:
        raise ScanError(
            f"a worker that hashed files died (wait status {status}), so the scan is not complete and says nothing; "
            "look for the out-of-memory killer in the kernel log, and run it again with fewer workers"
        )
    os.close(pipe)
    raw, bytes_hashed = json.loads(b"".join(chunks))
    return raw, bytes_hashed
