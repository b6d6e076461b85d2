# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stat cache: what files held when an earlier scan read them, for as long as their inode says nothing changed.

An inode can lie. Its times are as coarse as the file system's, so an edit in the same tick does not show; a process
that has a file mapped can change it for half a minute before its times move; a clock can be set back. So only a file
whose times were 60 s old when it was read is remembered, and nothing at all is believed after the clock was set. Root
can set a clock and set it back, and write to the disk below the file system: against that, scan without a cache.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
import struct
import time
from typing import NamedTuple, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import atomic_write

SETTLED_NS = 60 * 10**9
# A clock that is only slewed keeps its distance to the time since boot.
_STEP_NS = 2 * 10**9
# Of what an entry means: change it with that, and older caches are ignored.
_MAGIC = b"pristine.vllm stat cache 2\n"
_IDENTITY = struct.Struct("=QQQqqI")
_DIGEST = 32
_LIMIT = 1 << 30


def now_ns() -> int:
    """The time of day, as the times of inodes are given."""
    return time.time_ns()


def identity(info: os.stat_result) -> bytes:
    """What changes when a file does, as far as its inode tells."""
    return _IDENTITY.pack(info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_mode)


def settled(info: os.stat_result, now: int) -> bool:
    """Whether an inode's times are old enough, and none of them is in the future, to tell of any later change."""
    return info.st_ctime_ns < now - SETTLED_NS and info.st_mtime_ns < now - SETTLED_NS


class Clock(NamedTuple):
    """The boot that the machine is in, and what has to be added to the time since then to get the time of day."""

    boot: str
    offset: int

    @classmethod
    def read(cls) -> Clock:
        """As they are now."""
        boot = b""
        with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", "rb") as stream:
            boot = stream.read().strip()
        return cls(boot.decode(), now_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME))

    def set_since(self, earlier: Clock) -> bool:
        """Whether the clock was set since then; after a boot nobody can tell."""
        return self.boot == earlier.boot and abs(self.offset - earlier.offset) > _STEP_NS


class CacheError(Exception):
    """The cache cannot be used; the message says why."""


class Known:
    """What an earlier scan remembered: for each absolute path an identity and the sha256 of the content."""

    def __init__(self, paths: list[str], identities: bytes, digests: bytes) -> None:
        """Entries lie in the same order in all three."""
        self.paths = paths
        self._identities = identities
        self._digests = digests
        self._index: dict[str, int] = {}
        self._sizes: list[int] = []

    def __len__(self) -> int:
        return len(self.paths)

    def find(self, path: str) -> Optional[int]:
        """The number of a path's entry."""
        if not self._index:
            self._index = dict(zip(self.paths, range(len(self.paths))))
        return self._index.get(path)

    def identity(self, number: int) -> bytes:
        """The identity in an entry."""
        return self._identities[number * _IDENTITY.size : (number + 1) * _IDENTITY.size]

    def size(self, number: int) -> int:
        """The size in an entry, in bytes."""
        return int(_IDENTITY.unpack_from(self._identities, number * _IDENTITY.size)[2])

    def sha256(self, number: int) -> bytes:
        """The digest in an entry."""
        return self._digests[number * _DIGEST : (number + 1) * _DIGEST]

    def is_as(self, number: int, sha256: bytes, size: Optional[int]) -> bool:
        """Whether an entry is of this content; of any size where none is given."""
        if self._digests[number * _DIGEST : (number + 1) * _DIGEST] != sha256:
            return False
        if not self._sizes:
            self._sizes = [entry[2] for entry in _IDENTITY.iter_unpack(self._identities)]
        return size is None or self._sizes[number] == size

    def same(self, start: int, stop: int) -> bytes:
        """For each of these entries 1 when the file is still the one that was read, else 0."""
        now = now_ns()
        answer = bytearray(stop - start)
        for number in range(start, stop):
            try:
                info = os.lstat(self.paths[number])
            except OSError:
                continue
            if identity(info) == self.identity(number):
                answer[number - start] = info.st_ctime_ns <= now and info.st_mtime_ns <= now
        return bytes(answer)


def load(path: str, root: str) -> Known:
    """Read the cache of an environment; one that is not there yet is empty.

    :raises CacheError: it is damaged, somebody else could have written it, the clock was set since, or it is of
        another environment.
    """
    try:
        data = _read(path)
    except FileNotFoundError:
        return Known([], b"", b"")
    except OSError as error:
        what = "is a symlink" if error.errno == errno.ELOOP else f"cannot be read: {error.strerror}"
        raise CacheError(what) from error
    body = memoryview(data)[len(_MAGIC) + _DIGEST :]
    if not data.startswith(_MAGIC):
        raise CacheError("is not a cache of this release")
    if hashlib.sha256(body).digest() != data[len(_MAGIC) : len(_MAGIC) + _DIGEST]:
        raise CacheError("is damaged")
    return _parse(bytes(body), root)


def _parse(body: bytes, root: str) -> Known:
    line, _end, rest = body.partition(b"\n")
    head = json.loads(line)
    now = Clock.read()
    if head["root"] != root:
        raise CacheError(f"is of the environment {head['root']}")
    if head["written"] > now_ns() or now.set_since(Clock(head["boot"], head["offset"])):
        raise CacheError("was written before the clock was set")
    count = head["count"]
    paths = os.fsdecode(rest[count * (_IDENTITY.size + _DIGEST) :]).split("\0")[:count]
    identities = rest[: count * _IDENTITY.size]
    return Known(paths, identities, rest[len(identities) : len(identities) + count * _DIGEST])


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise CacheError("is not a regular file")
        if info.st_uid not in (0, os.geteuid()) or info.st_mode & 0o022:
            raise CacheError(
                "could have been written by someone else (it must belong to root or to this user, mode 0600)"
            )
        if info.st_size > _LIMIT:
            raise CacheError("is too large")
        with open(descriptor, "rb", closefd=False) as stream:
            return stream.read(_LIMIT)
    finally:
        os.close(descriptor)


def save(path: str, root: str, entries: dict[str, tuple[bytes, bytes]], clock: Clock) -> None:
    """Write a cache of identity and sha256 by absolute path, atomically.

    :param clock: as it was when the first of the files was read.
    :raises OSError: it cannot be written; an older one is left as it was.
    """
    head = {
        "root": root,
        "boot": clock.boot,
        "offset": clock.offset,
        "written": now_ns(),
        "count": len(entries),
    }
    body = b"".join(
        [
            json.dumps(head).encode("ascii"),
            b"\n",
            *(entry[0] for entry in entries.values()),
            *(entry[1] for entry in entries.values()),
            os.fsencode("\0".join(entries)),
        ]
    )
    data = _MAGIC + hashlib.sha256(body).digest() + body
    atomic_write(path, data, mode=0o600, owner=(os.geteuid(), os.getegid()))
