# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading and replacing single files without ever following a link at their last path component."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterable
from typing import Optional, Union

# Measured as the fastest size on this kind of data: larger reads and mmap lose to the CPU cache.
CHUNK = 256 * 1024
# What a file that is being written is called until it is whole; one that is left is of a run that was killed.
TEMPORARY = ".pristine-"


def open_regular(path: str) -> int:
    """Open a regular file for reading and return its descriptor.

    Does not follow a symlink and does not block on a FIFO or a device.

    :raises OSError: ``EINVAL`` when it is not a regular file (``ELOOP`` for a symlink), else what the system says.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return descriptor


def sha256_file(path: str) -> str:
    """The sha256 of a regular file as 64 hex digits.

    :raises OSError: as `open_regular`, or when reading fails.
    """
    digest = hashlib.sha256()
    buffer = bytearray(CHUNK)
    view = memoryview(buffer)
    descriptor = open_regular(path)
    with open(descriptor, "rb", buffering=0) as stream:
        while True:
            count = stream.readinto(buffer)
            if not count:
                return digest.hexdigest()
            digest.update(view[:count])


def read_file(path: str, limit: Optional[int] = None) -> bytes:
    """The content of a regular file, at most ``limit`` bytes of it.

    :raises OSError: as `open_regular`, or when reading fails.
    """
    with open(open_regular(path), "rb") as stream:
        return stream.read() if limit is None else stream.read(limit)


def fsync_directory(path: str) -> None:
    """Make a rename in the directory last through a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def atomic_write(
    path: str,
    data: Union[bytes, Iterable[bytes]],
    mode: Optional[int] = None,
    owner: Optional[tuple[int, int]] = None,
) -> None:
    """Put a regular file with this content at ``path``: readers see the old file or the new one, never a part.

    A temporary file in the same directory is written, synced and renamed, so a hard link elsewhere keeps the old
    content, a symlink at ``path`` is replaced and not written through, and a process that maps the old file lives on.

    :param data: the content, in pieces where it is large. If they raise before their end, that stays without effect.
    :param mode: permission bits; default those of the regular file that is replaced, else 0666 less the umask.
    :param owner: user and group id; default those of the file that is replaced, else those of the process.
    :raises OSError: nothing is left behind and ``path`` is as it was.
    """
    try:
        before: Optional[os.stat_result] = os.lstat(path)
    except FileNotFoundError:
        before = None
    if before is not None and stat.S_ISDIR(before.st_mode):
        raise IsADirectoryError(errno.EISDIR, "is a directory and cannot be replaced by a file", path)
    if owner is None and before is not None:
        owner = (before.st_uid, before.st_gid)
    if mode is None:
        # A symlink's own mode is always 0777 and says nothing.
        regular = before is not None and stat.S_ISREG(before.st_mode)
        mode = stat.S_IMODE(before.st_mode) if before is not None and regular else 0o666 & ~_umask()
    directory = os.path.dirname(path) or "."
    descriptor, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=directory)
    try:
        with open(descriptor, "wb") as stream:
            stream.writelines([data] if isinstance(data, bytes) else data)
            if owner is not None and owner != (os.geteuid(), os.getegid()):
                os.fchown(stream.fileno(), owner[0], owner[1])
            # After the change of owner, which clears set-id bits.
            os.fchmod(stream.fileno(), mode)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    fsync_directory(directory)


def _umask() -> int:
    """The process's umask; the only way to read it is to set it."""
    value = os.umask(0o077)
    os.umask(value)
    return value
