# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finding the files that debug code left behind, and moving them to the quarantine.

The patterns may come from the debug code itself, so they are not trusted: they name files in a directory that is
theirs, and nothing else on the host.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import sha256_file
from ansible_collections.pristine.vllm.plugins.module_utils.quarantine import Quarantine

_MAGIC = re.compile(r"[*?[]")
# No tensor dump belongs here, whatever a pattern says; the caller adds the environments and the model.
_SYSTEM = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr")


class GlobError(ValueError):
    """A pattern that could reach too far. The text says which, why and what to give instead."""


class MoveError(Exception):
    """A file could not be moved; ``moved`` are those that were, before."""

    def __init__(self, text: str, moved: Sequence[Artifact]) -> None:
        super().__init__(text)
        self.moved = tuple(moved)


@dataclass(frozen=True)
class Artifact:
    """A debug file: path, size in bytes, sha256 (hex), and where it is kept (None before it is moved)."""

    path: str
    size: int
    sha256: str
    kept: Optional[str] = None


@dataclass(frozen=True)
class Left:
    """What matches a pattern and is left where it is, with the reason."""

    path: str
    reason: str


@dataclass(frozen=True)
class CleanPlan:
    """What to move and what to leave, each sorted by path, and how many processes' open files could not be seen."""

    files: tuple[Artifact, ...]
    left: tuple[Left, ...]
    unseen_processes: int

    def diff(self) -> dict[str, str]:
        """For Ansible's ``--diff``: the files that match, before and after."""
        left = [entry.path for entry in self.left]
        before = sorted(left + [entry.path for entry in self.files])
        return {
            "before_header": "debug artifacts",
            "after_header": "debug artifacts",
            "before": "".join(f"{path}\n" for path in before),
            "after": "".join(f"{path}\n" for path in sorted(left)),
        }


def check_glob(pattern: str, protect: Iterable[str] = ()) -> None:
    """Refuse a pattern that is not absolute, has no directory of its own, or reaches into one that is protected.

    :raises GlobError: it is refused.
    """
    parts = pattern.split("/")
    fixed, name = fixed_directory(pattern), parts[-1]
    why = None
    if not pattern.startswith("/"):
        why = "is not absolute"
    elif any(part in ("", ".", "..") for part in parts[1:]):
        why = "has an empty part, or one that is . or .."
    elif "**" in pattern:
        why = "has **, which would descend into every directory"
    elif fixed == "/":
        why = "has no fixed directory before its first wildcard"
    elif not re.search(r"[A-Za-z0-9]", re.sub(r"\[[^]]*\]", "", name)):
        why = "would take every file of a directory"
    else:
        held = next((path for path in (*_SYSTEM, *protect) if _inside(fixed, path)), None)
        why = f"reaches into {held}, which is protected" if held is not None else None
    if why is not None:
        raise GlobError(f"glob {pattern!r} {why}: give one such as /tmp/nomla_debug_tp*.pt")


def plan(
    globs: Sequence[str], suggested: Sequence[str] = (), protect: Sequence[str] = (), proc: str = "/proc"
) -> CleanPlan:
    """Find the files that match and decide for each. Changes nothing.

    :param suggested: patterns that were derived from debug code: one that is refused is told and not followed.
    :param protect: directories in which nothing may be taken, e.g. environments, model, quarantine.
    :raises GlobError: one of ``globs`` is refused.
    """
    left: dict[str, str] = {}
    candidates: dict[str, os.stat_result] = {}
    for pattern in globs:
        check_glob(pattern, protect)
    for pattern in (*globs, *_followed(suggested, protect, left)):
        for path, reason in _matches(pattern):
            info = _lstat(path)
            if info is None:
                continue
            why = reason or _not_ours(path, info, protect)
            if why is None:
                candidates[path] = info
            else:
                left[path] = why
    files, unseen = _unheld(candidates, left, proc)
    return CleanPlan(
        tuple(sorted(files, key=lambda entry: entry.path)),
        tuple(Left(path, left[path]) for path in sorted(left)),
        unseen,
    )


def _unheld(candidates: dict[str, os.stat_result], left: dict[str, str], proc: str) -> tuple[list[Artifact], int]:
    """Those that nobody holds and that can be read; the others go to ``left``."""
    holders, unseen = _holders(candidates, proc)
    files: list[Artifact] = []
    for path, info in candidates.items():
        if path in holders:
            left[path] = f"process {holders[path]} holds it open"
            continue
        try:
            files.append(Artifact(path, info.st_size, sha256_file(path)))
        except FileNotFoundError:
            continue
        except OSError as error:
            left[path] = f"it cannot be read: {error.strerror}"
    return files, unseen


def _followed(suggested: Sequence[str], protect: Sequence[str], left: dict[str, str]) -> list[str]:
    followed: list[str] = []
    for pattern in suggested:
        try:
            check_glob(pattern, protect)
            followed.append(pattern)
        except GlobError as error:
            left[pattern] = str(error)
    return followed


def apply(found: CleanPlan, quarantine: Quarantine) -> tuple[Artifact, ...]:
    """Move the files of the plan to the quarantine; each is there in full before it goes.

    :raises MoveError: one cannot be moved; it and those after it are still in their place.
    """
    moved: list[Artifact] = []
    for entry in found.files:
        try:
            kept = quarantine.keep(entry.path, move=True)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not os.path.lexists(entry.path):
                continue  # Its owner was faster.
            raise MoveError(
                f"{entry.path} cannot be moved to {quarantine.directory}: {error.strerror}. It is still there; "
                f"{len(moved)} of {len(found.files)} are moved. Make room or correct permissions, and run this again",
                moved,
            ) from error
        moved.append(Artifact(kept.path, kept.size, kept.sha256, kept.kept))
    return tuple(moved)


def fixed_directory(pattern: str) -> str:
    """The directory part before the first component with a wildcard, never the last component: ``/tmp``."""
    parts = pattern.split("/")[:-1]
    fixed: list[str] = []
    for part in parts:
        if _MAGIC.search(part):
            break
        fixed.append(part)
    return "/".join(fixed) or "/"


def _inside(path: str, directory: str) -> bool:
    """Whether ``path`` is the directory or lies in it."""
    plain = os.path.normpath(directory)
    return path == plain or path.startswith(plain.rstrip("/") + "/")


def _matches(pattern: str) -> Iterator[tuple[str, Optional[str]]]:
    """The paths that match, with a reason where one may not be touched. Follows no link anywhere."""
    fixed = fixed_directory(pattern)
    if os.path.realpath(fixed) != fixed:
        if os.path.lexists(fixed):
            yield fixed, "it is reached through a symlink: name the real directory"
        return
    level = [fixed]
    parts = pattern[len(fixed) :].strip("/").split("/")
    for part in parts[:-1]:
        level = [path for parent in level for path in _children(parent, part, directories=True)]
    for parent in level:
        for path in _children(parent, parts[-1], directories=False):
            yield path, None


def _children(parent: str, pattern: str, directories: bool) -> list[str]:
    """The entries of a directory whose name matches, as in a shell: a leading dot must be written out."""
    try:
        with os.scandir(parent) as entries:
            return [
                entry.path
                for entry in entries
                if fnmatch.fnmatchcase(entry.name, pattern)
                and (pattern.startswith(".") or not entry.name.startswith("."))
                and (not directories or entry.is_dir(follow_symlinks=False))
            ]
    except OSError:
        return []


def _lstat(path: str) -> Optional[os.stat_result]:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _not_ours(path: str, info: os.stat_result, protect: Sequence[str]) -> Optional[str]:
    held = next((one for one in protect if _inside(path, one)), None)
    if held is not None:
        return f"it lies in {held}, which is protected"
    if stat.S_ISREG(info.st_mode):
        # The other names keep the content alive, and may be somebody's file that was linked here to be taken away.
        return None if info.st_nlink == 1 else f"it has {info.st_nlink} hard links"
    kinds = {
        stat.S_IFLNK: "a symlink",
        stat.S_IFDIR: "a directory",
        stat.S_IFSOCK: "a socket",
        stat.S_IFIFO: "a FIFO",
    }
    return f"it is {kinds.get(stat.S_IFMT(info.st_mode), 'a device')}, not a regular file"


def _holders(candidates: dict[str, os.stat_result], proc: str) -> tuple[dict[str, int], int]:
    """For each file that a process has open or mapped, one such process; and how many could not be looked into.

    Compared by device and inode: a process in another mount namespace sees the file under another path.
    """
    by_inode = {(info.st_dev, info.st_ino): path for path, info in candidates.items()}
    inodes = {info.st_ino for info in candidates.values()}
    holders: dict[str, int] = {}
    unseen = 0
    if not candidates:
        return holders, unseen
    for name in os.listdir(proc):
        if not name.isdigit():
            continue
        try:
            held = [by_inode[key] for key in _open_inodes(f"{proc}/{name}/fd") if key in by_inode]
            held += _mapped(f"{proc}/{name}/maps", candidates, inodes)
        except PermissionError:
            unseen += 1
            continue
        except OSError:
            continue  # It ended meanwhile.
        for path in held:
            holders.setdefault(path, int(name))
    return holders, unseen


def _open_inodes(directory: str) -> Iterator[tuple[int, int]]:
    for name in os.listdir(directory):
        try:
            info = os.stat(f"{directory}/{name}")
        except OSError:
            continue
        yield info.st_dev, info.st_ino


def _mapped(maps: str, candidates: dict[str, os.stat_result], inodes: set[int]) -> list[str]:
    """The candidates that the process maps. The device in maps is not stat's on some file systems: the name decides."""
    found: list[str] = []
    with open(maps, encoding="utf-8", errors="surrogateescape") as stream:
        for line in stream:
            cells = line.rstrip("\n").split(None, 5)
            if len(cells) < 6 or not cells[4].isdigit() or int(cells[4]) not in inodes:
                continue
            name = os.path.basename(cells[5])
            found += [
                path
                for path, info in candidates.items()
                if info.st_ino == int(cells[4]) and os.path.basename(path) == name
            ]
    return found
