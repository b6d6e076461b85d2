# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What should be in a file: its bytes, proven, or the reason why they are not to be had."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Callable, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import read_file
from ansible_collections.pristine.vllm.plugins.module_utils.record.claims import Claim, Owner, Script
from ansible_collections.pristine.vllm.plugins.module_utils.record.launchers import LIMIT, Launchers
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import LEVELS, Finding
from ansible_collections.pristine.vllm.plugins.module_utils.record.record_file import RecordFile, Rows
from ansible_collections.pristine.vllm.plugins.module_utils.record.reference import rows_by_member
from ansible_collections.pristine.vllm.plugins.module_utils.record.scan import Scan
from ansible_collections.pristine.vllm.plugins.module_utils.record.scripts import (
    entry_for,
    generated,
    interpreter_lines,
    interpreter_of,
    without_interpreter,
)
from ansible_collections.pristine.vllm.plugins.module_utils.record.wheel import Wheel, WheelError

_PYTHON = re.compile(r"(?:python|pypy)[\d.]*t?\Z")
# What installers write into .dist-info that no wheel has, and that is the same everywhere.
_NOTES = {"INSTALLER": (b"pip\n", b"uv", b"pip", b"uv\n"), "REQUESTED": (b"",)}
_FILE_MODE = 0o644
_PROGRAM_MODE = 0o755


class UnavailableError(Exception):
    """The bytes of a file are not to be had; the text says why and what would help."""


@dataclass
class Content:
    """Bytes for a file: ``chunks`` gives them anew at each call and raises `WheelError` unless they are as described.

    ``mode`` are permission bits for a file that is not there; ``origin`` names where the bytes are from.
    """

    sha256: str
    size: int
    mode: int
    origin: str
    level: str
    chunks: Callable[[], Iterator[bytes]]

    def read(self, limit: int) -> Optional[bytes]:
        """All of it; None where that is more than ``limit`` bytes."""
        return b"".join(self.chunks()) if self.size <= limit else None


class Contents:
    """Finds the content for findings of one scan."""

    def __init__(self, scan: Scan) -> None:
        """``rows`` collects what the RECORD of a .dist-info has to say anew of scripts that no wheel holds."""
        self.rows: dict[str, Rows] = {}
        self._scan = scan
        self._scripts = {script.path: script for script in scan.expected.scripts}
        self._launchers = Launchers(scan.environment)
        self._first_lines: Optional[list[bytes]] = None

    def of(self, finding: Finding) -> Content:
        """What should be in a finding's file (RECORD aside).

        :raises UnavailableError: it cannot be told, or not proven.
        """
        claims = self._scan.expected.claims.get(finding.file, [])
        best: Optional[UnavailableError] = None
        for claim in sorted(claims, key=lambda claim: -LEVELS.index(claim.owner.level)):
            wheel = claim.owner.wheel
            if wheel is not None and claim.member in wheel.sizes:
                try:
                    return self._member(claim, wheel)
                except UnavailableError as error:
                    best = best or error
        if best is not None:
            raise best
        script = self._scripts.get(finding.file)
        if script is not None:
            return self._script(script, claims)
        return self._note(finding, claims)

    def record(self, file: str) -> Content:
        """What should be in a distribution's RECORD.

        :raises UnavailableError: there is no wheel to tell.
        """
        environment = self._scan.environment
        for owner in self._scan.expected.owners:
            if owner.distribution.directory + "/RECORD" != file:
                continue
            if owner.wheel is None:
                break
            try:
                rows = self.rows.get(owner.distribution.directory, {})
                composed = RecordFile(environment, owner, owner.wheel, rows).compose()
            except (OSError, WheelError) as error:
                raise UnavailableError(f"its RECORD cannot be composed: {error}") from error
            if composed is None:
                raise UnavailableError("no RECORD can be composed that agrees with its wheel: reinstall it")
            return _known(composed, _FILE_MODE, owner.wheel.filename, owner.level)
        raise UnavailableError("without its wheel nobody knows its RECORD: give the wheel it was installed from")

    def is_of_wheel(self, finding: Finding) -> bool:
        """Whether a place out of the environment is one that a distribution's wheel names itself."""
        directory = os.path.dirname(finding.file)
        wheels = [owner.wheel for owner in self._scan.expected.owners if owner.distribution.directory == directory]
        return any(
            wheel is not None and (finding.path in wheel.rows or finding.path.endswith(" of the wheel"))
            for wheel in wheels
        )

    def adopt(self, file: str) -> bool:
        """Whether a file that nobody lists is a script that an installer made for a wheel: RECORD has lost its row."""
        folder, name = os.path.split(file)
        if folder != self._scan.environment.root + "/bin" or os.path.islink(file):
            return False
        for owner in self._scan.expected.owners:
            entry = entry_for(name, owner.wheel.entry_points()) if owner.wheel is not None and owner.selected else None
            if entry is None:
                continue
            with contextlib.suppress(OSError):
                data = read_file(file, LIMIT)
                if self._launchers.judge(Script(file, owner, "", entry), data) is None:
                    self._row(owner, file, data)
                    return True
        return False

    def _row(self, owner: Owner, file: str, data: bytes) -> None:
        self.rows.setdefault(owner.distribution.directory, {})[file] = hashlib.sha256(data).digest(), len(data)

    def _member(self, claim: Claim, wheel: Wheel) -> Content:
        """A wheel's member, its bytes proven."""
        digest = hashlib.sha256()
        rows = [row for row in rows_by_member(wheel).get(claim.member, []) if row.digest]
        others = [hashlib.new(row.algorithm) for row in rows]
        size = 0
        try:
            for chunk in wheel.chunks(claim.member):
                size += len(chunk)
                for each in (digest, *others):
                    each.update(chunk)
            mode = wheel.mode(claim.member)
        except WheelError as error:
            raise UnavailableError(f"{error}; fetch the wheel again") from error
        agrees = not rows or any(other.digest() == row.digest for other, row in zip(others, rows))
        if not agrees and not wheel.pinned:
            raise UnavailableError(
                f"wheel {wheel.path} holds other bytes for it than its own RECORD says, and nothing tells which are "
                "right: give a lock with the wheel's sha256"
            )
        # As installers do: nothing else of an archive's permissions means anything.
        program = mode & 0o111 or claim.member.startswith(wheel.data + "scripts/")
        mode = _PROGRAM_MODE if program else _FILE_MODE
        sha256 = digest.hexdigest()
        return Content(
            sha256, size, mode, wheel.filename, claim.owner.level, lambda: _proven(wheel, claim.member, sha256)
        )

    def _script(self, script: Script, claims: list[Claim]) -> Content:
        """A script that no wheel holds as it is installed, made again.

        Where it does not come out as RECORD has it, that row was edited, or an unknown installer made it: then it is
        made as another script of this environment is, and its row with it.
        """
        owner = script.owner
        wheel = owner.wheel
        bodies: list[bytes] = []
        if script.member and wheel is not None:
            try:
                bodies = [without_interpreter(wheel.read(script.member, LIMIT))]
            except WheelError as error:
                raise UnavailableError(f"{error}; fetch the wheel again") from error
        else:
            bodies = generated(script.entry, _start(owner.distribution.directory + "/INSTALLER").strip() == b"uv")
        made = [line + body for body in bodies for line in self._lines(script.path)]
        good = [data for data in made if self._launchers.judge(script, data) is None]
        if not good:
            raise UnavailableError("no script that starts this environment's Python can be made: reinstall it")
        data = next((data for data in good if _is_recorded(data, claims)), None)
        if data is None:
            data = good[0]
            self._row(owner, script.path, data)
        return _known(data, _PROGRAM_MODE, wheel.filename if wheel is not None else "installer", owner.level)

    def _lines(self, script: str) -> list[bytes]:
        """The first lines that a script may have: its own, those of other scripts, and what installers write."""
        if self._first_lines is None:
            folder = self._scan.environment.root + "/bin"
            counted: dict[bytes, int] = {}
            names = sorted(os.listdir(folder))
            for name in names:
                line = interpreter_of(_start(f"{folder}/{name}"))
                if line:
                    counted[line] = counted.get(line, 0) + 1
            lines = sorted(counted, key=lambda line: -counted[line])
            for name in sorted(names):
                if _PYTHON.match(name):
                    lines += interpreter_lines(f"{folder}/{name}")
            self._first_lines = lines
        return list(dict.fromkeys([interpreter_of(_start(script)), *self._first_lines]))

    def _note(self, finding: Finding, claims: list[Claim]) -> Content:
        for data in _NOTES.get(os.path.basename(finding.file), ()):
            if _is_recorded(data, claims):
                return _known(data, _FILE_MODE, "installer", claims[0].owner.level)
        if any(claim.owner.wheel is not None for claim in claims):
            raise UnavailableError("its wheel does not hold it: reinstall its distribution, or ignore it")
        name = finding.distribution or "its distribution"
        installer = os.path.dirname(finding.file).endswith(".dist-info")
        why = f"no wheel of {name} is at hand, or none holds it"
        raise UnavailableError(f"{why}: give the wheel it was installed from{', or ignore it' if installer else ''}")


def _start(path: str) -> bytes:
    """The beginning of a regular file; nothing where it cannot be read."""
    try:
        return read_file(path, 4096)
    except OSError:
        return b""


def _proven(wheel: Wheel, member: str, sha256: str) -> Iterator[bytes]:
    digest = hashlib.sha256()
    for chunk in wheel.chunks(member):
        digest.update(chunk)
        yield chunk
    if digest.hexdigest() != sha256:
        raise WheelError(f"wheel {wheel.path} changed while it was read: member {member} is not what it was before")


def _known(data: bytes, mode: int, origin: str, level: str) -> Content:
    return Content(hashlib.sha256(data).hexdigest(), len(data), mode, origin, level, lambda: iter([data]))


def _is_recorded(data: bytes, claims: list[Claim]) -> bool:
    """Whether one of the claims is of exactly these bytes."""
    return any(claim.digest and hashlib.new(claim.algorithm, data).digest() == claim.digest for claim in claims)
