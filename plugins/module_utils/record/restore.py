# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Putting files back to what their wheels hold: all that is needed is at hand and kept before the first is replaced."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import BusyError, exclusive, sweep
from ansible_collections.pristine.vllm.plugins.module_utils.files import TEMPORARY, atomic_write, fsync_directory
from ansible_collections.pristine.vllm.plugins.module_utils.process import readable_files
from ansible_collections.pristine.vllm.plugins.module_utils.quarantine import Quarantine
from ansible_collections.pristine.vllm.plugins.module_utils.record.bytecode import cached_of
from ansible_collections.pristine.vllm.plugins.module_utils.record.change import Change, Plan, backwards, evidence
from ansible_collections.pristine.vllm.plugins.module_utils.record.diff import DiffResult
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import ScanError, ScanOptions, printable
from ansible_collections.pristine.vllm.plugins.module_utils.record.restore_plan import Planner
from ansible_collections.pristine.vllm.plugins.module_utils.record.scan import Scan, scan
from ansible_collections.pristine.vllm.plugins.module_utils.record.wheel import WheelError

NOTE = "restored.json"


@dataclass(frozen=True)
class Request:
    """What is wanted: ``caches`` are directories that may hold other names of hard-linked files."""

    options: ScanOptions
    quarantine: str
    remove_unexpected: bool = False
    caches: tuple[str, ...] = ()


@contextlib.contextmanager
def writing(environment: str, wait: float = 60.0) -> Iterator[None]:
    """Keep others of our kind from changing an environment meanwhile.

    :param wait: seconds to wait for one that is at it.
    :raises ScanError: it is still at it, or there is no such directory.
    """
    try:
        with exclusive(os.path.realpath(environment), wait):
            yield
    except BusyError as error:
        raise ScanError(str(error)) from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ScanError(f"environment {environment!r} cannot be opened: {error.strerror}; give its root") from error


@contextlib.contextmanager
def plan(request: Request) -> Iterator[Plan]:
    """Scan, and decide what to do; reads only. The wheels stay open as long as the plan may be carried out.

    :raises ScanError: as `scan`, or the quarantine lies in the environment.
    :raises RestoreError: a byte that is needed is not to be had.
    """
    quarantine = Quarantine(request.quarantine)
    root = os.path.realpath(request.options.environment)
    if (os.path.realpath(quarantine.directory) + "/").startswith(root + "/"):
        raise ScanError(f"quarantine: {quarantine.directory} lies in the environment {root}: give a place out of it")
    done: Scan = scan(request.options)
    try:
        planner = Planner(done, request.options.adaptations, quarantine, request.remove_unexpected)
        decided = planner.decide(list(request.caches))
        decided.warnings = done.result.warnings
        yield decided
    finally:
        done.close()


def apply(decided: Plan, directory: str) -> None:
    """Carry a plan out.

    First everything is kept in the quarantine; then bytecode and whatever goes is removed; then file after file is
    replaced, each by a rename, so that a kill at any moment leaves each file old or new.

    :raises ScanError: a file cannot be kept (then nothing was changed), or not be replaced.
    """
    if not decided.changed:
        return
    _keep(decided, Quarantine(directory))
    for folder in sorted({os.path.dirname(change.file) for change in decided.restored}):
        if os.path.isdir(folder):
            sweep(folder, TEMPORARY)
    for change in decided.removed:
        _remove(change, decided.root)
    for number, change in enumerate(decided.restored):
        try:
            _replace(change, decided.root)
        except (OSError, WheelError) as error:
            raise ScanError(
                f"{change.file} could not be replaced: {error}. {number} of {len(decided.restored)} files were put "
                f"right, all others are as they were; what was replaced is in {directory}. Run again when the cause "
                "is gone"
            ) from error


def prove(request: Request, decided: Plan) -> None:
    """Scan again and find nothing but what was left.

    :raises ScanError: there is more.
    """
    done = scan(replace(request.options, cache=None))
    done.close()
    left = {finding.file for finding, _reason in decided.left}
    more = [finding for finding in done.result.findings if finding.counts and finding.file not in left]
    if more:
        shown = "; ".join(f"{printable(finding.path)}: {finding.status}, {finding.detail}" for finding in more[:5])
        raise ScanError(
            f"{len(decided.restored)} files were put right, and a scan right after it still finds {len(more)}: "
            f"{shown}. Something else may be changing the environment: find it, and run again"
        )


def diff_of(decided: Plan) -> list[dict[str, str]]:
    """One entry for each file, from what is there to what will be, as Ansible's ``--diff`` takes them."""
    result = DiffResult("the quarantine keeps the whole file")
    for change in decided.restored + decided.removed:
        origin = change.content.origin if change.content is not None else "no file"
        try:
            text = backwards(change)
        except WheelError as error:
            text = f"{change.path}: {change.status}: its pristine text cannot be shown: {error}\n"
        if text is None:
            size = change.size if change.content is None else change.content.size
            done = "removed" if change.content is None else "put back"
            text = f"{change.path}: {change.status}: {done}, {size} bytes\n"
        result.add(change.path, origin, text)
    for entry in result.entries:
        entry["before_header"], entry["after_header"] = entry["after_header"], entry["before_header"]
    return result.entries


def _keep(decided: Plan, quarantine: Quarantine) -> None:
    """Keep every file and patch, and a note of all."""
    for change in decided.restored + decided.removed:
        try:
            text = evidence(change)
            if change.kept is not None:
                change.kept = quarantine.keep(change.file).kept
            if text is not None:
                change.patched = quarantine.patch(change.file, text)
        except (OSError, WheelError) as error:
            raise _cannot(change.file, quarantine.directory, error) from error
    try:
        quarantine.note(NOTE, json.dumps(decided.to_dict(None), indent=2, sort_keys=True) + "\n")
    except OSError as error:
        raise _cannot(NOTE, quarantine.directory, error) from error


def _cannot(path: str, directory: str, error: Exception) -> ScanError:
    return ScanError(
        f"{path} cannot be kept in the quarantine {directory}: {error}. The environment is as it was: "
        "make room or correct the permissions, and run again"
    )


def _remove(change: Change, root: str) -> None:
    """Remove what is in the quarantine (or an empty directory), and directories that are left empty."""
    folder = os.path.dirname(change.file)
    if not _inside(folder, root):
        raise ScanError(f"{change.file} was not removed: {folder} leads out of the environment {root} by now")
    try:
        with contextlib.suppress(FileNotFoundError):
            if os.path.isdir(change.file) and not os.path.islink(change.file):
                os.rmdir(change.file)
            else:
                os.unlink(change.file)
    except OSError as error:
        raise ScanError(f"{change.file} could not be removed: {error.strerror}; it is in the quarantine") from error
    while os.path.basename(folder) not in ("site-packages", "dist-packages", "bin") and _inside(folder, root):
        try:
            os.rmdir(folder)
        except OSError:
            break
        folder = os.path.dirname(folder)


def _replace(change: Change, root: str) -> None:
    """Put one file right."""
    if change.content is None:
        return
    folder = os.path.dirname(change.file)
    if not _inside(folder, root):
        raise OSError(f"{folder} leads out of the environment {root} by now")
    _make(folder, change.owner)
    atomic_write(change.file, change.content.chunks(), change.mode, change.owner)
    if change.file.endswith(".py"):
        # A process that imported the old source until now may have written its bytecode anew.
        with contextlib.suppress(OSError):
            for cached in cached_of(change.file):
                os.unlink(cached)


def _make(folder: str, owner: Optional[tuple[int, int]]) -> None:
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for name in reversed(missing):
        with readable_files():
            os.mkdir(name)
        if owner is not None and owner != (os.geteuid(), os.getegid()):
            os.chown(name, *owner)
        fsync_directory(os.path.dirname(name))


def _inside(folder: str, root: str) -> bool:
    """Whether a directory, there or not, is in the environment, links on its way followed."""
    real = os.path.realpath(folder)
    return real == root or real.startswith(root + "/")
