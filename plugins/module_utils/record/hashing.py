# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Comparing one file with its claims."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from typing import NamedTuple, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import CHUNK
from ansible_collections.pristine.vllm.plugins.module_utils.record.cache import identity, now_ns, settled

# (algorithm, digest, size) triples of which one must fit; none: the file must only be there.
Claims = list[tuple[str, bytes, Optional[int]]]
Job = tuple[str, Claims]

_NEW = {"sha256": hashlib.sha256, "sha384": hashlib.sha384, "sha512": hashlib.sha512}
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)


class Outcome(NamedTuple):
    """A file that does not match: ``state`` is missing, differs, irregular (a link too) or unreadable."""

    state: str
    sha256: Optional[str]
    text: str


class Content(NamedTuple):
    """What a regular file held: ``identity`` is as `cache.identity`, empty where that could lie about the content."""

    size: int
    sha256: bytes
    identity: bytes


def judge(claims: Claims, size: int, sha256: bytes) -> Optional[Outcome]:
    """The outcome for content that is known, with claims that are all of sha256 (see `only_sha256`)."""
    fitting = False
    for _algorithm, digest, recorded in claims:
        if recorded is None or recorded == size:
            fitting = True
            if digest == sha256:
                return None
    return _differs(claims, fitting, size, sha256)


def only_sha256(claims: Claims) -> bool:
    """Whether the sha256 of a file's content is enough to judge it."""
    if len(claims) == 1:
        return claims[0][0] == "sha256"
    return bool(claims) and all(claim[0] == "sha256" for claim in claims)


def _differs(claims: Claims, fitting: bool, size: int, sha256: bytes) -> Outcome:
    what = "content differs, size is as recorded" if fitting else f"size is {size} bytes, recorded {_sizes(claims)}"
    return Outcome("differs", sha256.hex(), what)


class Hasher:
    """Checks files one after another with one buffer."""

    def __init__(self, remember: bool = False) -> None:
        """Make the buffer; with ``remember``, ``last`` tells after each check what the file held, for a cache."""
        self.bytes_hashed = 0
        self.last: Optional[Content] = None
        self._remember = remember
        self._buffer = bytearray(CHUNK)
        self._view = memoryview(self._buffer)

    def check(self, job: Job) -> Optional[Outcome]:
        """None when the file is as one of its claims says."""
        path, claims = job
        self.last = None
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

    def content(self, path: str) -> Optional[Content]:
        """What a regular file holds; None when it is none, or cannot be read: `check` then says why."""
        try:
            info = os.lstat(path)
            if not stat.S_ISREG(info.st_mode):
                return None
            sha256 = self._digest(path, [hashlib.sha256()])[0]
        except OSError:
            return None
        return Content(info.st_size, sha256, self._identity)

    def _compare(self, path: str, claims: Claims, size: int) -> Optional[Outcome]:
        fitting = [claim for claim in claims if claim[2] is None or claim[2] == size]
        if len(fitting) == 1:
            algorithm, digest, _size = fitting[0]
            digests = {algorithm: self._digest(path, [_NEW[algorithm]()])[0]}
            matches = digests[algorithm] == digest
        else:
            algorithms = sorted({claim[0] for claim in fitting} or {"sha256"})
            digests = dict(zip(algorithms, self._digest(path, [_NEW[name]() for name in algorithms])))
            matches = any(digests[algorithm] == digest for algorithm, digest, _size in fitting)
        if self._remember and "sha256" in digests:
            self.last = Content(size, digests["sha256"], self._identity)
        if matches:
            return None
        sha256 = digests.get("sha256") or self._digest(path, [hashlib.sha256()])[0]
        return _differs(claims, bool(fitting), size, sha256)

    def _digest(self, path: str, hashers: list[hashlib._Hash]) -> list[bytes]:
        """The digests of a regular file's content; its identity is noted where that will do for the content."""
        buffers = [self._buffer]
        before = now_ns() if self._remember else 0
        self._identity = b""
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
            if before and settled(info, before) and identity(os.fstat(descriptor)) == identity(info):
                self._identity = identity(info)
        finally:
            os.close(descriptor)
        return [hasher.digest() for hasher in hashers]


def _sizes(claims: Claims) -> str:
    return " or ".join(sorted({str(claim[2]) for claim in claims}))


def _kind(path: str, mode: int) -> str:
    if stat.S_ISLNK(mode):
        return f"is now a symlink to {os.readlink(path)}"
    names = ((stat.S_ISDIR, "directory"), (stat.S_ISFIFO, "FIFO"), (stat.S_ISSOCK, "socket"))
    return "is now a {}".format(next((name for test, name in names if test(mode)), "device"))
