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

from ansible_collections.pristine.vllm.plugins.module_utils.files import (
    TEMPORARY,
    atomic_write,
    fsync_directory,
    read_file,
)
from ansible_collections.pristine.vllm.plugins.module_utils.quarantine import Quarantine

_DISPLACED = ".displaced"


@dataclass(frozen=True)
class Saved:
    """One path: ``target`` is what a link said, ``kept`` where a file's content is; neither where nothing was.

    ``mode``, ``uid`` and ``gid`` are the file's own: the quarantine keeps a content once, whoever had it first.
    """

    path: str
    kept: Optional[str] = None
    target: Optional[str] = None
    mode: int = 0
    uid: int = 0
    gid: int = 0


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
            kept = quarantine.keep(path).kept
            saved.append(Saved(path, kept, mode=stat.S_IMODE(info.st_mode), uid=info.st_uid, gid=info.st_gid))
    return saved


def restore(saved: Iterable[Saved]) -> None:
    """Put back what was there; what is as it was is left alone. A directory in the way is moved aside.

    :raises OSError: one cannot be written; all others are back.
    """
    problem: Optional[OSError] = None
    for entry in saved:
        try:
            _restore(entry)
        except OSError as error:
            problem = problem or error
    if problem is not None:
        raise problem


def _restore(entry: Saved) -> None:
    _make_way(entry.path)
    if entry.kept is not None:
        _restore_file(entry)
    elif entry.target is not None:
        _restore_link(entry.path, entry.target)
    elif os.path.lexists(entry.path):
        os.unlink(entry.path)
        fsync_directory(os.path.dirname(entry.path))


def _make_way(path: str) -> None:
    """Move a directory aside: it is not ours, and nothing of it is lost."""
    if not os.path.isdir(path) or os.path.islink(path):
        return
    place, number = path + _DISPLACED, 0
    while os.path.lexists(place):
        number += 1
        place = f"{path}{_DISPLACED}.{number}"
    os.rename(path, place)


def _restore_file(entry: Saved) -> None:
    wanted = read_file(entry.kept or "")
    with contextlib.suppress(OSError):
        now = os.lstat(entry.path)
        same = (now.st_uid, now.st_gid, stat.S_IMODE(now.st_mode)) == (entry.uid, entry.gid, entry.mode)
        if same and read_file(entry.path) == wanted:
            return
    os.makedirs(os.path.dirname(entry.path), exist_ok=True)
    atomic_write(entry.path, wanted, entry.mode, (entry.uid, entry.gid))


def _restore_link(path: str, target: str) -> None:
    if os.path.islink(path) and os.readlink(path) == target:
        return
    # No process id in it: after a reboot they come again.
    temporary = os.path.join(os.path.dirname(path), f"{TEMPORARY}{os.path.basename(path)}")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    # One that was killed here before us has left it.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    os.symlink(target, temporary)
    os.replace(temporary, path)
    fsync_directory(os.path.dirname(path))
