# Copyright: Pristine vLLM maintainers
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
from collections.abc import Callable
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
        target = self._target("files", path)
        self._make(os.path.dirname(target))
        if stat.S_ISLNK(info.st_mode):
            kept = self._keep_link(path, target)
        elif stat.S_ISREG(info.st_mode):
            kept = self._keep_file(path, target)
        else:
            raise OSError(errno.EINVAL, "neither a regular file nor a symlink, so it cannot be kept", path)
        if move:
            os.unlink(path)
        return kept

    def place_of(self, path: str) -> tuple[str, bool]:
        """Where `keep` puts a regular file or a symlink, and whether it is there already; writes nothing.

        :raises OSError: it is missing, unreadable, or of another kind.
        """
        path = os.path.abspath(path)
        target = self._target("files", path)
        if os.path.islink(path):
            return _first(target, "", lambda place: _points_to(place, os.readlink(path)))
        sha256 = sha256_file(path)
        return _first(target, "", lambda place: _holds(place, sha256))

    def patch(self, path: str, text: str) -> str:
        """Save the unified patch that leads from the pristine text of ``path`` to what was found; return where."""
        place, there = self.place_of_patch(path, text)
        if not there:
            self._make(os.path.dirname(place))
            atomic_write(place, text.encode("utf-8", "surrogateescape"), mode=0o600)
        return place

    def place_of_patch(self, path: str, text: str) -> tuple[str, bool]:
        """Where `patch` puts a patch, and whether it is there already; writes nothing."""
        sha256 = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
        target = self._target("patches", os.path.abspath(path))
        return _first(target, ".patch", lambda place: _holds(place, sha256))

    def note(self, name: str, text: str) -> str:
        """Write a file such as ``findings.json`` at the top of the quarantine, over one of that name; return where."""
        if os.path.basename(name) != name or name in ("", ".", ".."):
            raise ValueError(f"note {name!r} is not a plain file name")
        self._make(self.directory)
        place = os.path.join(self.directory, name)
        atomic_write(place, text.encode("utf-8", "surrogateescape"), mode=0o600)
        return place

    def _target(self, section: str, path: str) -> str:
        return os.path.join(self.directory, section, path.lstrip("/"))

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
        place, there = _first(target, "", lambda candidate: _points_to(candidate, text))
        if not there:
            os.symlink(text, place)
            fsync_directory(os.path.dirname(place))
        return Kept(path, place, hashlib.sha256(raw).hexdigest(), len(raw))

    def _keep_file(self, path: str, target: str) -> Kept:
        temporary, sha256, size = _copy(path, os.path.dirname(target))
        place, there = _first(target, "", lambda candidate: _holds(candidate, sha256))
        if there:
            os.unlink(temporary)
        else:
            os.rename(temporary, place)
            fsync_directory(os.path.dirname(place))
        return Kept(path, place, sha256, size)


def _first(place: str, suffix: str, same: Callable[[str], bool]) -> tuple[str, bool]:
    """The first of ``place``, ``place.1``, ``place.2`` that is free or holds the same, and whether it does hold it."""
    candidate = place + suffix
    number = 0
    while os.path.lexists(candidate):
        if same(candidate):
            return candidate, True
        number += 1
        candidate = f"{place}.{number}{suffix}"
    return candidate, False


def _points_to(place: str, text: str) -> bool:
    return os.path.islink(place) and os.readlink(place) == text


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
