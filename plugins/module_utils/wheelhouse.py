# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wheelhouse: a folder with the very wheel for each row of a lock, proven by digest at every call.

A file counts when its tags are those of the host it is for and its sha256 is one that its row names, never because of
its name alone or of a marker: a row may name the wheels of every Python. Other files in the folder (the wheels of
earlier releases, and of other hosts) are left alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import exclusive, sweep
from ansible_collections.pristine.vllm.plugins.module_utils.files import sha256_file
from ansible_collections.pristine.vllm.plugins.module_utils.lock import LockRow
from ansible_collections.pristine.vllm.plugins.module_utils.process import readable_files
from ansible_collections.pristine.vllm.plugins.module_utils.quarantine import Quarantine
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_name import canonical_version, parse_wheel_name
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_target import Target
from ansible_collections.pristine.vllm.plugins.module_utils.wheelhouse_fetch import INCOMING, Source, fetch
from ansible_collections.pristine.vllm.plugins.module_utils.wheelhouse_resume import (
    WheelhouseError,
    fetch_direct,
    sweep_partials,
)

# Where a wheel with a wrong digest goes when no quarantine is given: out of the way of --find-links, and not lost.
REJECTED = ".rejected"


@dataclass(frozen=True)
class Wrong:
    """A wheel that has a row's name and version and none of its digests; ``sha256`` is empty for a symlink."""

    path: str
    sha256: str
    row: LockRow


@dataclass(frozen=True)
class Plan:
    """What the folder holds of a lock: file names by pin, rows to fetch, files to move aside."""

    present: dict[str, str]
    missing: list[LockRow]
    wrong: list[Wrong]

    @property
    def changed(self) -> bool:
        """Whether there is anything to do. A wrong wheel is moved aside even where a right one is there too."""
        return bool(self.missing or self.wrong)


@dataclass
class Outcome:
    """What was done. ``bytes`` were downloaded; ``rejected`` has path, sha256 and kept (None in check mode).

    ``missing`` are the pins that were left out, because nothing was to be fetched; ``files`` the names by pin.
    """

    changed: bool
    downloaded: list[str]
    present: int
    missing: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    bytes: int = 0
    rejected: list[dict[str, Optional[str]]] = field(default_factory=list)


def plan(path: str, rows: Sequence[LockRow], target: Optional[Target] = None) -> Plan:
    """Compare the folder with the lock, reading every wheel that a row could mean.

    :param target: the host that the wheels are for: one that does not fit it is none of its wheels. None: all fit.
    :raises WheelhouseError: the folder or one of these wheels cannot be read.
    """
    candidates = _candidates(path, rows, target)
    # sha256 of a large file runs outside the interpreter's lock.
    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        digests = list(pool.map(lambda candidate: _digest(os.path.join(path, candidate[0])), candidates))
    present: dict[str, str] = {}
    wrong = []
    for (filename, row), digest in zip(candidates, digests):
        if digest in row.hashes:
            present.setdefault(row.pin, filename)
        else:
            wrong.append(Wrong(os.path.join(path, filename), digest, row))
    return Plan(present, [row for row in rows if row.pin not in present], wrong)


def complete(
    path: str,
    rows: Sequence[LockRow],
    source: Optional[Source],
    quarantine: Optional[str] = None,
    check: bool = False,
    target: Optional[Target] = None,
) -> Outcome:
    """Bring the folder to hold a right wheel for each row; safe to kill and to call again.

    :param source: None to fetch nothing, and only move aside what is wrong.
    :param quarantine: directory for wheels with a wrong digest; default `REJECTED` in the folder.
    :param check: decide only.
    :param target: see `plan`.
    :raises WheelhouseError: a wheel could not be had; what was fetched before it is kept.
    :raises BusyError: another run is filling the folder.
    """
    there = os.path.lexists(path)
    if check or not (source or there):
        return _outcome(plan(path, rows, target) if there else Plan({}, list(rows), []), source)
    with readable_files():
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise WheelhouseError(f"wheelhouse {path} cannot be made: {error.strerror}.") from error
        with exclusive(path) as held:
            sweep(path, INCOMING)
            decided = plan(path, rows, target)
            sweep_partials(path, decided.missing)
            outcome = _outcome(decided, source)
            kept = Quarantine(quarantine or os.path.join(path, REJECTED))
            for wrong, entry in zip(decided.wrong, outcome.rejected):
                entry["kept"] = kept.keep(wrong.path, move=True).kept
            if decided.missing and source:
                outcome.bytes = _fetch(path, decided.missing, source, kept, held)
                outcome.files = _names(path, rows, target)
    return outcome


def _fetch(path: str, missing: Sequence[LockRow], source: Source, kept: Quarantine, held: int) -> int:
    """The wheel that has an address of its own first: indexes of nightlies move on, others stay."""
    rest = list(missing)
    total = 0
    if source.direct:
        for row in filter(source.direct.is_for, missing):
            total += fetch_direct(path, row, source.direct, kept, source.timeout)
            rest.remove(row)
    return total + (fetch(path, rest, source, held) if rest else 0)


def _names(path: str, rows: Sequence[LockRow], target: Optional[Target]) -> dict[str, str]:
    """The file name of each row's wheel, by pin, of a folder that was just completed: nothing is read again."""
    found: dict[str, str] = {}
    for filename, row in _candidates(path, rows, target):
        found.setdefault(row.pin, filename)
    return found


def _candidates(path: str, rows: Sequence[LockRow], target: Optional[Target]) -> list[tuple[str, LockRow]]:
    """The wheels that a row could mean, by name, version and tags, each with its row."""
    by_key = {row.key: row for row in rows}
    found: list[tuple[str, LockRow]] = []
    for filename in _wheels(path):
        name = parse_wheel_name(filename)
        row = by_key.get((name.name, canonical_version(name.version))) if name else None
        if name and row and not (target and target.misfit(name)):
            found.append((filename, row))
    return found


def _outcome(decided: Plan, source: Optional[Source]) -> Outcome:
    rejected: list[dict[str, Optional[str]]] = [
        {"path": wrong.path, "sha256": wrong.sha256 or None, "kept": None} for wrong in decided.wrong
    ]
    pins = [row.pin for row in decided.missing]
    fetched, missing = (pins, []) if source else ([], pins)
    changed = decided.changed if source else bool(decided.wrong)
    return Outcome(changed, fetched, len(decided.present), missing, decided.present, rejected=rejected)


def _wheels(path: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(path) if name.endswith(".whl"))
    except OSError as error:
        raise WheelhouseError(f"wheelhouse {path} cannot be read: {error.strerror}. Name a folder.") from error


def _digest(path: str) -> str:
    # A link's target can be changed by those who cannot write here, so it is fetched again as a file.
    if os.path.islink(path):
        return ""
    try:
        return sha256_file(path)
    except OSError as error:
        raise WheelhouseError(
            f"wheel {path} cannot be read: {error.strerror}. Move it away and run again: it is fetched anew."
        ) from error
