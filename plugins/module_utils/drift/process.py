# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a running process runs the code that is on disk now. Pure; `process_reader` looks.

A file that was changed after the process began may have been loaded before. When a file was changed is read off its
ctime, which the kernel sets at every change and no program can set: an mtime is put back by ``touch -r``, ``cp -p`` and
most editors of files that are not to look edited. A change of mode, owner or links alone moves the ctime too: that is
told apart as far as the mtime allows, and counts all the same, since nobody can know.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.drift.findings import Finding

# The start is known to a clock tick (10 ms), a ctime to a timer interrupt (at most 10 ms). No interpreter imports
# anything so soon after its start.
RESOLUTION = 0.02
_DELETED = " (deleted)"
_OCTAL = re.compile(r"\\([0-7]{3})")
_SHOWN = 3


@dataclass(frozen=True)
class Mapping:
    """A file in a process's memory, as ``/proc/<pid>/maps`` names it."""

    path: str
    device: tuple[int, int]
    inode: int
    executable: bool
    deleted: bool


@dataclass(frozen=True)
class Stamp:
    """What the file system says of a file now; times in seconds since the epoch."""

    path: str
    device: tuple[int, int]
    inode: int
    ctime: float
    mtime: float


@dataclass(frozen=True)
class Running:
    """A service's processes and the files that they may have loaded, at one moment.

    ``root`` is the environment with its links followed, ``home`` where the main process runs from, and ``elsewhere``
    whether that is another one.
    """

    name: str
    pid: int
    started: float
    environment: str
    root: str
    home: str
    elsewhere: bool
    mappings: Sequence[Mapping]
    stamps: Sequence[Stamp]


def parse_maps(text: str) -> list[Mapping]:
    """The files of ``/proc/<pid>/maps``, each once; what is no file on a disk is left out."""
    found: dict[tuple[str, int], Mapping] = {}
    for line in text.splitlines():
        fields = line.split(None, 5)
        if len(fields) < 6 or not fields[5].startswith("/") or fields[4] == "0":
            continue
        path = fields[5]
        deleted = path.endswith(_DELETED)
        # The kernel writes a line feed as \012.
        path = _OCTAL.sub(lambda match: chr(int(match[1], 8)), path[: -len(_DELETED)] if deleted else path)
        major, _colon, minor = fields[3].partition(":")
        key = path, int(fields[4])
        before = found.get(key)
        found[key] = Mapping(
            path=path,
            device=(int(major, 16), int(minor, 16)),
            inode=int(fields[4]),
            executable="x" in fields[1] or (before is not None and before.executable),
            deleted=deleted,
        )
    return list(found.values())


def parse_start(stat: str, ticks_per_second: int, boot_time: float) -> Optional[float]:
    """When a process began, from its ``/proc/<pid>/stat``; None when that is not such a line.

    :param boot_time: seconds since the epoch, by the clock as it is set now: the same clock that a file's times are of.
    """
    # The name of the program may hold spaces and parentheses: the fields are counted from the last one.
    fields = stat.rpartition(")")[2].split()
    if len(fields) < 20 or not fields[19].isdigit():
        return None
    return boot_time + int(fields[19]) / ticks_per_second


def stale(running: Running) -> list[Finding]:
    """What the processes run that is not what is on disk. A finding for each way of that, not for each file."""
    findings: list[Finding] = []
    began = datetime.fromtimestamp(running.started, timezone.utc)
    since = f"pid {running.pid} runs since {began:%Y-%m-%d %H:%M:%S} UTC"
    if running.elsewhere:
        detail = f"{since} from {running.home}, which is not in {running.environment}"
        findings.append(_finding(running, "other_environment", detail))
    stamps = {stamp.path: stamp for stamp in running.stamps}
    replaced = sorted({one.path for one in running.mappings if is_replaced(one, stamps.get(one.path))})
    if replaced:
        detail = (
            f"{since} with {_count(replaced)} in memory that have been replaced or removed since: {_some(replaced)}"
        )
        findings.append(_finding(running, "replaced", detail))
    # Of the system's files only what was replaced under the process tells; of another environment nothing does.
    own = [] if running.elsewhere else [stamp for stamp in running.stamps if stamp.path.startswith(f"{running.root}/")]
    loaded = running.started + RESOLUTION
    newer = [stamp for stamp in own if stamp.ctime > loaded]
    changed = sorted(stamp.path for stamp in newer if stamp.mtime > loaded)
    if changed:
        detail = f"{since}, and {_count(changed)} that it may have loaded changed since: {_some(changed)}"
        findings.append(_finding(running, "changed", detail))
    touched = sorted(stamp.path for stamp in newer if stamp.mtime <= loaded)
    if touched:
        detail = (
            f"{since}, and {_count(touched)} that it may have loaded changed since, although their mtime is older: "
            f"it was put back, or mode, owner or links alone were changed: {_some(touched)}"
        )
        findings.append(_finding(running, "touched", detail))
    return findings


def is_replaced(mapping: Mapping, stamp: Optional[Stamp]) -> bool:
    """Whether another file, or none, is where the mapped one was loaded from."""
    if mapping.deleted:
        return True
    # On overlay file systems and btrfs, maps name the device and inode below: only like can be compared with like.
    return stamp is not None and stamp.device == mapping.device and stamp.inode != mapping.inode


def _finding(running: Running, status: str, detail: str) -> Finding:
    return Finding("process", running.name, status, detail=detail)


def _count(paths: Sequence[str]) -> str:
    return "1 file" if len(paths) == 1 else f"{len(paths)} files"


def _some(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(paths[:_SHOWN]) + more
