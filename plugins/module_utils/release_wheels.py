# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a build takes from the wheelhouse: the wheels of a lock, their size when unpacked, and uv itself."""

from __future__ import annotations

import os
import shutil
import stat
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.pristine.vllm.plugins.module_utils.files import sha256_file
from ansible_collections.pristine.vllm.plugins.module_utils.lock import LockRow
from ansible_collections.pristine.vllm.plugins.module_utils.messages import human_bytes
from ansible_collections.pristine.vllm.plugins.module_utils.release import ReleaseError
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_name import (
    WheelName,
    canonical_version,
    parse_wheel_name,
)
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_target import Target

_FILL = "Fill it with the wheelhouse module and run again."


@dataclass(frozen=True)
class Need:
    """What a build needs of the disk: bytes, and files and directories."""

    size: int
    files: int


def find_wheels(folder: str, rows: Sequence[LockRow], target: Target) -> list[str]:
    """The path of a wheel for each row, by name, version and tags; uv compares the digests when it installs.

    :param target: this host with the Python that builds. What is there for another one is of no use.

    :raises ReleaseError: the folder cannot be read or lacks wheels, with all that it lacks.
    """
    fitting = [wheel for wheel in _list(folder) if not target.misfit(wheel)]
    found = {(wheel.name, canonical_version(wheel.version)): wheel.filename for wheel in fitting}
    lacking = [row.pin for row in rows if row.key not in found]
    if lacking:
        more = f" and {len(lacking) - 8} more" if len(lacking) > 8 else ""
        raise ReleaseError(
            f"wheelhouse {folder} has no wheel for {', '.join(lacking[:8])}{more} that fits {target.words}. {_FILL}"
        )
    return [os.path.join(folder, found[row.key]) for row in rows]


def need_of(wheels: Sequence[str]) -> Need:
    """What building an environment of these wheels takes at its peak.

    :raises ReleaseError: a wheel cannot be read.
    """
    size = files = 0
    for wheel in wheels:
        try:
            with zipfile.ZipFile(wheel) as archive:
                for member in archive.infolist():
                    # uv unpacks into its private cache, then copies. Bytecode is about as large as its source.
                    code = member.filename.endswith(".py")
                    size += member.file_size * (3 if code else 2)
                    files += 3 if code else 2
        except (OSError, zipfile.BadZipFile) as error:
            raise ReleaseError(f"wheel {wheel} cannot be read: {error}. {_FILL}") from error
    return Need(size, files)


def check_disk(directory: str, need: Need, spare: int) -> None:
    """Make sure that the directory's file system has room.

    :param spare: bytes that must be left.
    :raises ReleaseError: it has not, with the numbers.
    """
    state = os.statvfs(directory)
    free = state.f_bavail * state.f_frsize
    if free < need.size + spare:
        raise ReleaseError(
            f"the disk of {directory} is too small: building the release takes {human_bytes(need.size)} and "
            f"{human_bytes(spare)} must stay free, {human_bytes(free)} are there. What serves was not touched. "
            "Prune old releases and quarantines, or enlarge the disk."
        )
    # Some file systems make inodes as they go and count none.
    if state.f_files and state.f_favail < need.files:
        raise ReleaseError(
            f"the file system of {directory} has inodes for {state.f_favail} more files and building the release takes "
            f"{need.files}. What serves was not touched. Prune old releases and quarantines."
        )


def extract_uv(folder: str, rows: Sequence[LockRow], machine: str, scratch: str) -> str:
    """Put the uv of the wheelhouse into a scratch directory; return the program's path.

    :param rows: where a row pins uv, the wheel's digest must be one of its. Without such a row the wheelhouse must hold
        exactly one uv for the machine, and is trusted to.
    :raises ReleaseError: there is no such wheel, or not one.
    """
    wheels = [wheel for wheel in _list(folder) if wheel.name == "uv" and wheel.fits_machine(machine)]
    pins = [row for row in rows if row.name == "uv"]
    if pins:
        keys = {row.key: row for row in pins}
        paths = [
            path
            for wheel in wheels
            if (wheel.name, canonical_version(wheel.version)) in keys
            for path in [os.path.join(folder, wheel.filename)]
            if sha256_file(path) in keys[wheel.name, canonical_version(wheel.version)].hashes
        ]
        wanted = f"{pins[0].pin} with the pinned digest"
    else:
        paths = [os.path.join(folder, wheel.filename) for wheel in wheels]
        wanted = "exactly one uv"
    if not paths or (len(paths) > 1 and not pins):
        names = ", ".join(wheel.filename for wheel in wheels) or "none"
        raise ReleaseError(f"wheelhouse {folder} does not hold {wanted} for {machine}; it holds {names}. {_FILL}")
    return _unpack_uv(paths[0], scratch)


def _unpack_uv(wheel: str, scratch: str) -> str:
    target = os.path.join(scratch, "uv")
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.endswith(".data/scripts/uv")]
            if len(names) != 1:
                raise ReleaseError(f"wheel {wheel} holds no uv program. {_FILL}")
            with archive.open(names[0]) as source, open(target, "wb") as copy:
                shutil.copyfileobj(source, copy, 1024 * 1024)
    except (zipfile.BadZipFile, EOFError) as error:
        raise ReleaseError(f"wheel {wheel} cannot be read: {error}. {_FILL}") from error
    os.chmod(target, stat.S_IRWXU)
    return target


def _list(folder: str) -> list[WheelName]:
    try:
        names = [parse_wheel_name(name) for name in sorted(os.listdir(folder))]
    except OSError as error:
        raise ReleaseError(f"wheelhouse {folder} cannot be read: {error.strerror}. {_FILL}") from error
    return [name for name in names if name]
