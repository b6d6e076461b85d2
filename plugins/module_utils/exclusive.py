# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One writer at a time in a directory, by a lock that the kernel drops when its holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator


class BusyError(Exception):
    """Somebody else holds the lock. The text is for the operator and names them where the kernel does."""


@contextlib.contextmanager
def exclusive(directory: str, wait: float = 60.0) -> Iterator[int]:
    """Hold an existing directory for ourselves; yields the lock's descriptor, to be inherited by children.

    No file is left behind that a killed run could leave locked.

    :param wait: seconds to wait for another holder; a killed run's children need a moment to go.
    :raises BusyError: it is still held.
    :raises OSError: the directory cannot be opened.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise BusyError(_busy(directory, descriptor, wait)) from None
            time.sleep(0.05)
        yield descriptor
    finally:
        os.close(descriptor)


def sweep(directory: str, *prefixes: str) -> None:
    """Remove what a killed run left under our temporary names. Only the holder of the lock may."""
    for entry in list(os.scandir(directory)):
        if entry.name.startswith(prefixes):
            discard(entry.path)


def discard(path: str) -> None:
    """Remove a file, a link or a tree of ours; links in it are removed and not followed."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _busy(directory: str, descriptor: int, wait: float) -> str:
    pid = _holder(os.fstat(descriptor).st_ino)
    who = "a process that an earlier run left"
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as stream:
        # Arguments of an Ansible module hold no secrets: they travel on its standard input.
        who = f"process {pid} ({stream.read(200).replace(chr(0), ' ').strip()})"
    return (
        f"{directory} is being changed by {who}, for more than {wait:.0f} s now. Nothing was changed. "
        "Wait for the other run to end, or end it, and run again."
    )


def _holder(inode: int) -> int:
    """The pid that /proc/locks names for a flock on this inode; 0 when it names none."""
    with contextlib.suppress(OSError), open("/proc/locks", encoding="ascii") as stream:
        for line in stream:
            # 1: FLOCK  ADVISORY  WRITE 4242 08:02:131073 0 EOF
            fields = line.split()
            if fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == str(inode):
                return max(int(fields[4]), 0)
    return 0
