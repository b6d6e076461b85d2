# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forked workers that are fed while this process still finds out what there is to do.

Processes and not threads: most files are so small that the interpreter's lock costs more than the hashing.

A task lies in an unnamed file that all of them share; a pipe, from which each worker takes the next place in it, is the
queue: so neither a slow reader nor a slow worker holds up this process.
"""

from __future__ import annotations

import contextlib
import gc
import marshal
import os
import select
import signal
import struct
import tempfile
import warnings
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import CHUNK
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import ScanError

# Where a task lies in the shared file, and its length; whole records fill PIPE_BUF, so that a write is never split.
_PLACE = struct.Struct("=QQ")
_AT_ONCE = 4096
_FRAME = struct.Struct("=II")

# Called with how much of all that is to be done is done; both in bytes to read, roughly.
Progress = Callable[[int, int], None]


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def _unnamed() -> int:
    """A file without a name; in memory where this Python can."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("pristine-tasks")
    with tempfile.TemporaryFile() as stream:
        return os.dup(stream.fileno())


class Pool:
    """Runs ``work`` on tasks in ``count`` forked processes; with a count of 1 in this one, when it is submitted.

    Tasks and results are what `marshal` takes: plain lists, tuples, strings, bytes, numbers. Use as a context manager:
    no worker outlives it.
    """

    def __init__(self, count: int, work: Callable[[Any], Any]) -> None:
        """Fork the workers: early, while this process is small."""
        self._work = work
        self._results: dict[int, Any] = {}
        self._weights: list[int] = []
        self._done = 0
        self._end = 0
        self._pending: deque[bytes] = deque()
        self._workers: dict[int, int] = {}  # the pipe a worker's results come through -> its process
        self._buffers: dict[int, bytearray] = {}
        self._feed: Optional[int] = None
        if count > 1:
            self._start(count)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """End workers that are still there, whatever they do."""
        self._close_feed()
        for pipe, pid in self._workers.items():
            os.close(pipe)
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        self._workers.clear()

    def submit(self, task: Any, weight: int = 0) -> int:
        """Hand over a task; the number that `wait` knows its result by. Tasks are started in this order.

        :param weight: how much there is to do, for the progress.
        """
        number = len(self._weights)
        self._weights.append(weight)
        if self._feed is None:
            self._results[number] = self._work(task)
            return number
        data = marshal.dumps((number, task))
        os.pwrite(self._tasks, data, self._end)
        self._pending.append(_PLACE.pack(self._end, len(data)))
        self._end += len(data)
        return number

    def push(self) -> None:
        """Let the workers see what was submitted, as far as the queue takes it now."""
        while self._pending and self._feed is not None:
            some = list(islice(self._pending, _AT_ONCE // _PLACE.size))
            try:
                os.write(self._feed, b"".join(some))
            except (BlockingIOError, BrokenPipeError):
                # Full; or every worker is gone, which `_pump` is about to see.
                return
            for _place in some:
                self._pending.popleft()

    def wait(self, numbers: Iterable[int]) -> list[Any]:
        """The results of these tasks, in this order; each can be had once.

        :raises ScanError: a worker died: nothing is then known about its files.
        """
        numbers = list(numbers)
        for number in numbers:
            while number not in self._results:
                self._pump()
        return [self._results.pop(number) for number in numbers]

    def finish(self, progress: Optional[Progress] = None) -> None:
        """Wait for all tasks and end the workers.

        :param progress: called from time to time.
        :raises ScanError: as `wait`.
        """
        while self._pending:
            self._pump()
        self._close_feed()
        while self._workers:
            self._pump()
            if progress is not None:
                progress(self._done, sum(self._weights))

    def _close_feed(self) -> None:
        if self._feed is not None:
            os.close(self._feed)
            os.close(self._tasks)
            self._feed = None

    def _start(self, count: int) -> None:
        self._tasks = _unnamed()
        queue, self._feed = os.pipe()
        os.set_blocking(self._feed, False)
        # The workers share this process's memory; without this the first collection would copy all of it.
        gc.freeze()
        try:
            for _number in range(count):
                pid, pipe = self._fork(queue)
                self._workers[pipe] = pid
                self._buffers[pipe] = bytearray()
        except BaseException:
            self.close()
            raise
        finally:
            os.close(queue)
            gc.unfreeze()

    def _fork(self, queue: int) -> tuple[int, int]:
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
            if self._feed is not None:
                os.close(self._feed)
            _serve(self._work, queue, self._tasks, writer)
            status = 0
        finally:
            # Never back into the caller's code: this is a copy of the whole process.
            os._exit(status)

    def _pump(self) -> None:
        """Feed and read once, waiting until one of both is possible."""
        if not self._workers:
            raise ScanError("the workers that hash files are gone, so the scan is not complete and says nothing")
        self.push()
        writable = [self._feed] if self._pending and self._feed is not None else []
        ready, _writable, _errors = select.select(list(self._workers), writable, [])
        for pipe in ready:
            data = os.read(pipe, CHUNK)
            if data:
                self._take(self._buffers[pipe], data)
            else:
                self._ended(pipe)

    def _take(self, buffer: bytearray, data: bytes) -> None:
        buffer += data
        start = 0
        while len(buffer) - start >= _FRAME.size:
            number, length = _FRAME.unpack_from(buffer, start)
            end = start + _FRAME.size + length
            if end > len(buffer):
                break
            self._results[number] = marshal.loads(buffer[start + _FRAME.size : end])  # noqa: S302 - from our own fork
            self._done += self._weights[number]
            start = end
        del buffer[:start]

    def _ended(self, pipe: int) -> None:
        pid = self._workers.pop(pipe)
        os.close(pipe)
        _pid, status = os.waitpid(pid, 0)
        if status != 0 or self._feed is not None:
            raise ScanError(
                f"a worker that hashed files died (wait status {status}), so the scan is incomplete and says nothing; "
                "look for the out-of-memory killer in the kernel log, and run it again with fewer workers"
            )


def _serve(work: Callable[[Any], Any], queue: int, tasks: int, writer: int) -> None:
    """A worker's life: take a task, do it, and pass on results as far as the pipe takes them."""
    os.set_blocking(writer, False)
    # Another worker may be faster than this one, which then still has results to pass on.
    os.set_blocking(queue, False)
    out = bytearray()
    while True:
        select.select([queue], [writer] if out else [], [])
        with contextlib.suppress(BlockingIOError):
            del out[: os.write(writer, out) if out else 0]
        try:
            place = os.read(queue, _PLACE.size)
        except BlockingIOError:
            continue
        if not place:
            break
        offset, length = _PLACE.unpack(place)
        number, task = marshal.loads(os.pread(tasks, length, offset))  # noqa: S302 - from our own parent
        data = marshal.dumps(work(task))
        out += _FRAME.pack(number, len(data)) + data
    os.set_blocking(writer, True)
    while out:
        del out[: os.write(writer, out)]
