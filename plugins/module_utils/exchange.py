# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exchange what two names mean in one step (``renameat2`` with ``RENAME_EXCHANGE``), which Python does not offer."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from typing import Any

# What keeps two names from being exchanged although both are there: other file systems, a file system or a kernel
# that knows no exchange, a mount point, something that may not be renamed.
IMPOSSIBLE = (
    *(errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBUSY, errno.EPERM, errno.EACCES, errno.EROFS),
)
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
# For a C library older than glibc 2.28, which has no function for it.
_NUMBERS = {"x86_64": 316, "aarch64": 276, "riscv64": 276, "ppc64le": 357, "s390x": 347}


def exchange(one: str, other: str) -> None:
    """Let each of two names, on one file system, mean what the other did; nobody ever sees one of them missing.

    To make it last through a power cut is left to the caller: an error always means that it was not done.

    :raises OSError: nothing was changed; one of `IMPOSSIBLE` where it cannot be here.
    """
    function, leading = _renameat2(ctypes.CDLL(None, use_errno=True))
    path, target = ctypes.c_char_p(os.fsencode(one)), ctypes.c_char_p(os.fsencode(other))
    if function(*leading, _AT_FDCWD, path, _AT_FDCWD, target, ctypes.c_uint(_RENAME_EXCHANGE)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), one, None, other)


def _renameat2(library: Any) -> tuple[Any, list[Any]]:
    """The function to call, and what comes before its arguments."""
    if hasattr(library, "renameat2"):
        return library.renameat2, []
    number = _NUMBERS.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, f"renameat2 is not known for {platform.machine()}")
    return library.syscall, [ctypes.c_long(number)]
