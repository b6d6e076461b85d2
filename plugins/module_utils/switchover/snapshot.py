# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files and links as they are, kept so that each can be put back to the byte, whatever became of it meanwhile."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import atomic_write, fsync_directory, read_file
from ansible_collections.pristine.vllm.plugins.module_utils.quarantine import Quarantine


@dataclass(frozen=True)
class Saved:
    """One path: ``target`` is what a link said, ``kept`` where a file's content is; neither where nothing was."""

    path: str
    kept: Optional[str] = None
    target: Optional[str] = None


def take(paths: Iterable[str], quarantine: Quarantine) -> list[Saved]:
    """Keep what is at each path.

    :raises OSError: one is neither a file, a link nor absent, or the quarantine cannot be written.
    """
    saved = []
    for path in paths:
        try:
            info = os.lstat(path)
        except FileNotFoundError:
            saved.append(Saved(path))
            continue
        if stat.S_ISLNK(info.st_mode):
            saved.append(Saved(path, target=os.readlink(path)))
        else:
            saved.append(Saved(path, kept=quarantine.keep(path).kept))
    return saved


def restore(saved: Iterable[Saved]) -> None:
    """Put back what was there; what is as it was is left alone.

    :raises OSError: one cannot be written; those before it are back.
    """
    for entry in saved:
        if entry.kept is not None:
            _restore_file(entry.path, entry.kept)
        elif entry.target is not None:
            _restore_link(entry.path, entry.target)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(entry.path)


def _restore_file(path: str, kept: str) -> None:
    wanted, info = read_file(kept), os.lstat(kept)
    with contextlib.suppress(OSError):
        now = os.lstat(path)
        same = (now.st_uid, now.st_gid, now.st_mode) == (info.st_uid, info.st_gid, info.st_mode)
        if same and read_file(path) == wanted:
            return
    atomic_write(path, wanted, stat.S_IMODE(info.st_mode), (info.st_uid, info.st_gid))


def _restore_link(path: str, target: str) -> None:
    if os.path.islink(path) and os.readlink(path) == target:
        return
    temporary = f"{path}.pristine-{os.getpid()}"
    os.symlink(target, temporary)
    os.replace(temporary, path)
    fsync_directory(os.path.dirname(path))
