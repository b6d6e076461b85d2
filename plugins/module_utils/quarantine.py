# Copyright: (c) Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where everything that is replaced or removed is kept first."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

from ansible_collections.pristine.vllm.plugins.module_utils.files import (
    CHUNK,
    atomic_write,
    fsync_directory,
    open_regular,
    sha256_file,
)


@dataclass(frozen=True)
class Kept:
    """A file in the quarantine: where it came from, where it is now, its sha256 (hex) and its size in bytes.

    For a symlink both are of the text it points to, and the kept one is a symlink again.
    """

    path: str
    kept: str
    sha256: str
    size: int


class Quarantine:
    """A directory that only its owner can read: ``files/<absolute path>``, ``patches/<absolute path>.patch``, notes.

    Keeping the same content twice keeps it once. Nothing in it is ever overwritten, notes apart.
    """

    def __init__(self, directory: str) -> None:
        """Name the directory, which must be an absolute path. It is made by the first thing that is kept."""
        if not os.path.isabs(directory):
            raise ValueError(f"quarantine {directory!r} is not an absolute path: give one")
        self.directory = os.path.normpath(directory)

    def keep(self, path: str, move: bool = False) -> Kept:
        """Copy (or move) a regular file or a symlink, with its mode, times and, where permitted, its owner.

        The copy is on disk before the original goes.

        :raises OSError: it is missing, unreadable, or neither a regular file nor a symlink; it stays where it is.
        """
        path = os.path.abspath(path)
        info = os.lstat(path)
        target = self._place("files", path)
        if stat.S_ISLNK(info.st_mode):
            kept = self._keep_link(path, target)
        elif stat.S_ISREG(info.st_mode):
            kept = self._keep_file(path, target)
        else:
            raise OSError(errno.EINVAL, "neither a regular file nor a symlink, so it cannot be kept", path)
        if move:
            os.unlink(path)
        return kept

    def patch(self, path: str, text: str) -> str:
        """Save the unified patch that leads from the pristine text of ``path`` to what was found; return where."""
        data = text.encode("utf-8", "surrogateescape")
        for candidate in _candidates(self._place("patches", os.path.abspath(path)), ".patch"):
            if not os.path.lexists(candidate):
                atomic_write(candidate, data, mode=0o600)
                return candidate
            if _holds(candidate, hashlib.sha256(data).hexdigest()):
                return candidate
        raise AssertionError("unreachable: the candidates never end")

    def note(self, name: str, text: str) -> str:
        """Write a file such as ``findings.json`` at the top of the quarantine, over one of that name; return where."""
        if os.path.basename(name) != name or name in ("", ".", ".."):
            raise ValueError(f"note {name!r} is not a plain file name")
        self._make(self.directory)
        place = os.path.join(self.directory, name)
        atomic_write(place, text.encode("utf-8", "surrogateescape"), mode=0o600)
        return place

    def _place(self, section: str, path: str) -> str:
        place = os.path.join(self.directory, section, path.lstrip("/"))
        self._make(os.path.dirname(place))
        return place

    def _make(self, directory: str) -> None:
        # os.makedirs gives its mode to the last directory only, and a kept file may hold what only root may read.
        missing = []
        while not os.path.isdir(directory):
            missing.append(directory)
            directory = os.path.dirname(directory)
        for name in reversed(missing):
            inside = name == self.directory or name.startswith(self.directory + os.sep)
            os.mkdir(name, 0o700 if inside else 0o755)

    def _keep_link(self, path: str, target: str) -> Kept:
        text = os.readlink(path)
        raw = os.fsencode(text)
        for candidate in _candidates(target):
            if not os.path.lexists(candidate):
                os.symlink(text, candidate)
                fsync_directory(os.path.dirname(candidate))
            elif not (os.path.islink(candidate) and os.readlink(candidate) == text):
                continue
            return Kept(path, candidate, hashlib.sha256(raw).hexdigest(), len(raw))
        raise AssertionError("unreachable: the candidates never end")

    def _keep_file(self, path: str, target: str) -> Kept:
        temporary, sha256, size = _copy(path, os.path.dirname(target))
        for candidate in _candidates(target):
            if not os.path.lexists(candidate):
                os.rename(temporary, candidate)
                fsync_directory(os.path.dirname(candidate))
            elif _holds(candidate, sha256):
                os.unlink(temporary)
            else:
                continue
            return Kept(path, candidate, sha256, size)
        raise AssertionError("unreachable: the candidates never end")


def _candidates(place: str, suffix: str = "") -> Iterator[str]:
    """``place``, then ``place.1``, ``place.2`` and so on."""
    yield place + suffix
    number = 0
    while True:
        number += 1
        yield f"{place}.{number}{suffix}"


def _holds(place: str, sha256: str) -> bool:
    """Whether a regular file with this content is there already."""
    try:
        return sha256_file(place) == sha256
    except OSError:
        return False


def _copy(path: str, directory: str) -> tuple[str, str, int]:
    """Copy a regular file to a temporary one, synced, hashed in the same pass: its path, sha256 and size."""
    digest = hashlib.sha256()
    size = 0
    with open(open_regular(path), "rb", buffering=0) as source:
        info = os.fstat(source.fileno())
        descriptor, temporary = tempfile.mkstemp(prefix=".pristine-", dir=directory)
        try:
            with open(descriptor, "wb") as copy:
                for chunk in iter(lambda: source.read(CHUNK), b""):
                    digest.update(chunk)
                    size += len(chunk)
                    copy.write(chunk)
                copy.flush()
                _copy_owner(copy.fileno(), info)
                # After the change of owner, which clears set-id bits.
                os.fchmod(copy.fileno(), stat.S_IMODE(info.st_mode))
                os.utime(copy.fileno(), ns=(info.st_atime_ns, info.st_mtime_ns))
                os.fsync(copy.fileno())
        except BaseException:
            os.unlink(temporary)
            raise
    return temporary, digest.hexdigest(), size


def _copy_owner(descriptor: int, info: os.stat_result) -> None:
    """Give the copy the original's owner; only root may, and for others their own is the best there is."""
    if (info.st_uid, info.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, info.st_uid, info.st_gid)
