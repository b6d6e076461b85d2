# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files and links as they are, kept so that each can be put back to the byte, whatever became of it meanwhile."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import (
    CHUNK,
    TEMPORARY,
    atomic_write,
    fsync_directory,
    open_regular,
    sha256_file,
)
from ansible_collections.pristine.vllm.plugins.module_utils.quarantine import Quarantine

_DISPLACED = ".displaced"


@dataclass(frozen=True)
class Saved:
    """One path: ``target`` is what a link said, ``kept`` where a file's content is; neither where nothing was.

    ``mode``, ``uid`` and ``gid`` are the file's own: the quarantine keeps a content once, whoever had it first.
    ``folder`` is for a directory, of which only itself is kept: ``there`` or ``absent``.
    """

    path: str
    kept: Optional[str] = None
    target: Optional[str] = None
    mode: int = 0
    uid: int = 0
    gid: int = 0
    folder: str = ""


def take_folders(paths: Iterable[str]) -> list[Saved]:
    """Keep which directories there are, and whose they are: those that a change may remove or make."""
    saved = []
    for path in paths:
        try:
            info = os.lstat(path)
        except FileNotFoundError:
            saved.append(Saved(path, folder="absent"))
            continue
        # Of a link, what it says is kept by whoever changes it.
        if stat.S_ISDIR(info.st_mode):
            saved.append(Saved(path, mode=stat.S_IMODE(info.st_mode), uid=info.st_uid, gid=info.st_gid, folder="there"))
    return saved


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
    every = list(saved)
    folders = sorted((entry for entry in every if entry.folder), key=lambda entry: entry.path)
    made = [entry for entry in folders if entry.folder == "absent"]
    there = [entry for entry in folders if entry.folder == "there"]
    for entry in [*there, *(entry for entry in every if not entry.folder), *reversed(made)]:
        try:
            _restore(entry)
        except OSError as error:
            problem = problem or error
    if problem is not None:
        raise problem


def _restore(entry: Saved) -> None:
    if entry.folder:
        _restore_folder(entry)
        return
    _make_way(entry.path)
    if entry.kept is not None:
        _restore_file(entry)
    elif entry.target is not None:
        _restore_link(entry.path, entry.target)
    elif os.path.lexists(entry.path):
        os.unlink(entry.path)
        fsync_directory(os.path.dirname(entry.path))


def _restore_folder(entry: Saved) -> None:
    if entry.folder == "absent":
        # One that somebody put something into meanwhile stays.
        with contextlib.suppress(OSError):
            os.rmdir(entry.path)
        return
    if not os.path.isdir(entry.path):
        os.mkdir(entry.path)
    now = os.lstat(entry.path)
    if (now.st_uid, now.st_gid) != (entry.uid, entry.gid):
        os.chown(entry.path, entry.uid, entry.gid)
    if stat.S_IMODE(now.st_mode) != entry.mode:
        os.chmod(entry.path, entry.mode)


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
    kept = entry.kept or ""
    wanted = sha256_file(kept)
    with contextlib.suppress(OSError):
        now = os.lstat(entry.path)
        same = (now.st_uid, now.st_gid, stat.S_IMODE(now.st_mode)) == (entry.uid, entry.gid, entry.mode)
        if same and sha256_file(entry.path) == wanted:
            return
    os.makedirs(os.path.dirname(entry.path), exist_ok=True)
    atomic_write(entry.path, _chunks(kept), entry.mode, (entry.uid, entry.gid))


def _chunks(path: str) -> Iterator[bytes]:
    """A library may have gigabytes."""
    with open(open_regular(path), "rb", buffering=0) as stream:
        yield from iter(lambda: stream.read(CHUNK), b"")


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
