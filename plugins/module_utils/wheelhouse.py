# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wheelhouse: a folder with the very wheel for each row of a lock, proven by digest at every call.

A file counts when its sha256 is one that its row names, never because of its name or of a marker. Other files in the
folder (the wheels of earlier releases) are left alone.
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
from ansible_collections.pristine.vllm.plugins.module_utils.wheelhouse_fetch import (
    INCOMING,
    Source,
    WheelhouseError,
    fetch,
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
    """What was done. ``bytes`` were downloaded; ``rejected`` has path, sha256 and kept (None in check mode)."""

    changed: bool
    downloaded: list[str]
    present: int
    bytes: int = 0
    rejected: list[dict[str, Optional[str]]] = field(default_factory=list)


def plan(path: str, rows: Sequence[LockRow]) -> Plan:
    """Compare the folder with the lock, reading every wheel that a row could mean.

    :raises WheelhouseError: the folder or one of these wheels cannot be read.
    """
    by_key = {row.key: row for row in rows}
    candidates: list[tuple[str, LockRow]] = []
    for filename in _wheels(path):
        name = parse_wheel_name(filename)
        row = by_key.get((name.name, canonical_version(name.version))) if name else None
        if row:
            candidates.append((filename, row))
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
    path: str, rows: Sequence[LockRow], source: Source, quarantine: Optional[str] = None, check: bool = False
) -> Outcome:
    """Bring the folder to hold a right wheel for each row; safe to kill and to call again.

    :param quarantine: directory for wheels with a wrong digest; default `REJECTED` in the folder.
    :param check: decide only.
    :raises WheelhouseError: a wheel could not be had; what was fetched before it is kept.
    :raises BusyError: another run is filling the folder.
    """
    if check:
        return _outcome(plan(path, rows) if os.path.lexists(path) else Plan({}, list(rows), []))
    with readable_files():
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise WheelhouseError(f"wheelhouse {path} cannot be made: {error.strerror}.") from error
        with exclusive(path) as held:
            sweep(path, INCOMING)
            decided = plan(path, rows)
            outcome = _outcome(decided)
            kept = Quarantine(quarantine or os.path.join(path, REJECTED))
            for wrong, entry in zip(decided.wrong, outcome.rejected):
                entry["kept"] = kept.keep(wrong.path, move=True).kept
            if decided.missing:
                outcome.bytes = fetch(path, decided.missing, source, held)
    return outcome


def _outcome(decided: Plan) -> Outcome:
    rejected: list[dict[str, Optional[str]]] = [
        {"path": wrong.path, "sha256": wrong.sha256 or None, "kept": None} for wrong in decided.wrong
    ]
    pins = [row.pin for row in decided.missing]
    return Outcome(decided.changed, pins, len(decided.present), rejected=rejected)


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
