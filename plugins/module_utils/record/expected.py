# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What should be in an environment: for each path, the content that the RECORDs and wheels of its owners claim."""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass, field
from typing import NamedTuple, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.record.environment import Distribution, Environment
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import (
    INSTALLED_RECORD,
    PINNED_WHEEL,
    WHEEL_RECORD,
    Finding,
)
from ansible_collections.pristine.vllm.plugins.module_utils.record.parse import Row, parse_record
from ansible_collections.pristine.vllm.plugins.module_utils.record.scripts import entry_for
from ansible_collections.pristine.vllm.plugins.module_utils.record.wheel import Wheel, WheelError, install_path

# Files that an installer adds to .dist-info: no wheel holds them.
_INSTALLER = {"INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json", "uv_build.json", "provenance_url.json"}
_SIGNATURES = ("RECORD", "RECORD.jws", "RECORD.p7s")


class Owner:
    """A distribution and, where there is one, the wheel it came from."""

    def __init__(self, distribution: Distribution, wheel: Optional[Wheel], selected: bool = True) -> None:
        """Tie them together; the wheel decides how far a verdict can be trusted.

        One that is not selected is only known by its paths, and as a second owner of a file.
        """
        self.distribution = distribution
        self.wheel = wheel
        self.selected = selected
        if wheel is None:
            self.level = INSTALLED_RECORD
        else:
            self.level = PINNED_WHEEL if wheel.pinned else WHEEL_RECORD


class Claim(NamedTuple):
    """What one owner says of a path: ``member`` is the wheel's, empty where only the installed RECORD speaks.

    ``problem`` says why there is no digest to compare with.
    """

    owner: Owner
    algorithm: str
    digest: bytes
    size: Optional[int]
    member: str = ""
    problem: str = ""


class Script(NamedTuple):
    """A script to compare with what its wheel says: by an entry point, or by a member whose first line is rewritten."""

    path: str
    owner: Owner
    member: str
    entry: str


@dataclass
class Expected:
    """Owners, ``claims`` by absolute path, every path that somebody lists, scripts to look into, findings so far."""

    owners: list[Owner] = field(default_factory=list)
    claims: dict[str, list[Claim]] = field(default_factory=dict)
    listed: set[str] = field(default_factory=set)
    scripts: list[Script] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def locate(site: str, root: str, row: str) -> Optional[str]:
    """The absolute path that a RECORD row means, or None when it leads out of the environment.

    By its text alone: links are looked at where the path is about to be opened.
    """
    path = f"{site}/{row}"
    if row[0] in "./" or "/." in row or "//" in row:
        # posixpath.join: an absolute row stands for itself.
        path = posixpath.normpath(posixpath.join(site, row))
    return path if path.startswith(root + "/") else None


class Builder:
    """Collects what is expected, distribution by distribution."""

    def __init__(self, environment: Environment, wanted: Optional[set[str]] = None) -> None:
        """With ``wanted``, only these absolute paths get claims."""
        self.environment = environment
        self.wanted = wanted
        self.expected = Expected()

    def add(self, owner: Owner) -> None:
        """Take up one distribution."""
        distribution, selected = owner.distribution, owner.selected
        self.expected.owners.append(owner)
        if distribution.record is None and owner.wheel is None:
            return
        record = parse_record(distribution.record or b"")
        rows: dict[str, list[Row]] = {}
        for row in record.rows:
            path = locate(distribution.site, self.environment.root, row.path)
            if path is not None:
                rows.setdefault(path, []).append(row)
            elif selected:
                self._outside(owner, row.path)
        if record.malformed and selected and self.wanted is None:
            self._malformed(owner, record.malformed)
        if owner.wheel is None:
            self._from_record(owner, rows)
        else:
            self._from_wheel(owner, rows, owner.wheel)

    def _from_record(self, owner: Owner, rows: dict[str, list[Row]]) -> None:
        record = owner.distribution.directory + "/RECORD"
        for path, group in rows.items():
            self.expected.listed.add(path)
            if path.startswith(record) and posixpath.basename(path) in _SIGNATURES:
                continue
            self._claim_rows(owner, path, group)

    def _claim_rows(self, owner: Owner, path: str, group: list[Row]) -> None:
        if self.wanted is not None and path not in self.wanted:
            return
        hashed = any(row.digest for row in group)
        for row in group:
            if not row.digest and (hashed or row.path.endswith((".pyc", "/"))):
                # Bytecode comes and goes; a directory has no content; another row says more.
                continue
            self._claim(path, Claim(owner, row.algorithm, row.digest, row.size, "", row.problem))

    def _claim(self, path: str, claim: Claim) -> None:
        if is_cached_bytecode(path):
            # Some wheels record theirs (numpy's), and Python writes it anew for another mtime.
            return
        self.expected.claims.setdefault(path, []).append(claim)

    def _from_wheel(self, owner: Owner, rows: dict[str, list[Row]], wheel: Wheel) -> None:
        root = self.environment.root
        installed = set(rows)
        own: set[str] = set()
        differences: list[str] = []
        for member in wheel.sizes:
            path = posixpath.normpath(install_path(wheel, member, owner.distribution, root, installed))
            if not self.environment.contains(path):
                if owner.selected:
                    self._outside(owner, f"{member} of the wheel")
                continue
            own.add(path)
            if member.startswith(wheel.dist_info + "/") and posixpath.basename(member) in _SIGNATURES:
                continue
            rewritten = member.startswith(wheel.data + "scripts/") and wheel.starts_with(member, b"#!python")
            if not rewritten:
                self._compare_rows(path, wheel.rows.get(member), rows.get(path), differences)
            if self.wanted is not None and path not in self.wanted:
                continue
            if rewritten:
                self.expected.scripts.append(Script(path, owner, member, ""))
                self._claim_rows(owner, path, rows.get(path, []))
            else:
                self._claim(path, _member_claim(owner, wheel, member))
        self.expected.listed |= own
        extras = [path for path in rows if path not in own]
        self._extras(owner, wheel, {path: rows[path] for path in extras}, differences)
        if owner.distribution.record is None:
            differences = ["it is not there or cannot be read"]
            for name, entry in wheel.entry_points().items():
                path = f"{root}/bin/{name}"
                if os.path.lexists(path) and (self.wanted is None or path in self.wanted):
                    self.expected.listed.add(path)
                    self.expected.scripts.append(Script(path, owner, "", entry))
        if differences and owner.selected and self.wanted is None:
            self._edited(owner, differences)

    def _compare_rows(
        self, path: str, ours: Optional[Row], theirs: Optional[list[Row]], differences: list[str]
    ) -> None:
        """Note a row of the wheel's RECORD that the installed RECORD does not have unchanged."""
        if ours is None or not ours.digest:
            return
        name = self.environment.relative(path)
        if not theirs:
            differences.append(f"{name} is not in it")
        elif not any(
            (row.algorithm, row.digest, row.size) == (ours.algorithm, ours.digest, ours.size) for row in theirs
        ):
            differences.append(f"{name} has another hash or size")

    def _extras(self, owner: Owner, wheel: Wheel, rows: dict[str, list[Row]], differences: list[str]) -> None:
        """Rows of the installed RECORD that are not members of the wheel: the known ones are fine, others are edits."""
        entries = wheel.entry_points()
        directory = owner.distribution.directory
        missing = {
            install_path(wheel, row.path, owner.distribution, self.environment.root, set(rows)): row.path
            for row in wheel.record.rows
            if row.path not in wheel.sizes
        }
        for path, group in rows.items():
            folder, name = posixpath.split(path)
            if folder == directory and name in _INSTALLER:
                self._claim_rows(Owner(owner.distribution, None), path, group)
            elif folder == self.environment.root + "/bin" and entry_for(name, entries):
                self._claim_rows(owner, path, group)
                if self.wanted is None or path in self.wanted:
                    self.expected.scripts.append(Script(path, owner, "", entry_for(name, entries) or ""))
            elif path in missing:
                problem = "the wheel's RECORD lists it but the wheel does not hold it"
                self._claim(path, Claim(owner, "", b"", None, missing[path], problem))
            elif name.endswith(".pyc") or (folder == directory and name in _SIGNATURES) or group[0].path.endswith("/"):
                pass
            else:
                differences.append(f"{self.environment.relative(path)} is in it and not in the wheel")
                continue
            self.expected.listed.add(path)

    def _outside(self, owner: Owner, row: str) -> None:
        if self.wanted is not None:
            return
        self.expected.findings.append(
            Finding(
                row,
                owner.distribution.directory + "/RECORD",
                "outside",
                "its RECORD row points out of the environment; it was not opened",
                owner.distribution.name,
            )
        )

    def _malformed(self, owner: Owner, lines: list[str]) -> None:
        path = owner.distribution.directory + "/RECORD"
        self.expected.findings.append(
            Finding(
                self.environment.relative(path),
                path,
                "unverifiable",
                f"RECORD is malformed in {len(lines)} row(s), read as well as can be; the first is {lines[0][:120]!r}",
                owner.distribution.name,
                verified_against=owner.level,
            )
        )

    def _edited(self, owner: Owner, differences: list[str]) -> None:
        path = owner.distribution.directory + "/RECORD"
        more = f" and {len(differences) - 5} more" if len(differences) > 5 else ""
        self.expected.findings.append(
            Finding(
                self.environment.relative(path),
                path,
                "record_edited",
                f"it is not what the wheel's RECORD says: {'; '.join(sorted(differences)[:5])}{more}",
                owner.distribution.name,
                verified_against=owner.level,
            )
        )


def _member_claim(owner: Owner, wheel: Wheel, member: str) -> Claim:
    """What the wheel says of one of its members: by its RECORD, or by the member's bytes where RECORD has no hash."""
    row = wheel.rows.get(member)
    size = wheel.sizes[member]
    if row is not None and row.digest:
        return Claim(owner, row.algorithm, row.digest, size, member)
    try:
        return Claim(owner, "sha256", bytes.fromhex(wheel.sha256(member)), size, member)
    except WheelError as error:
        return Claim(owner, "", b"", None, member, str(error))


def is_cached_bytecode(path: str) -> bool:
    """Whether it is bytecode that Python keeps of a source (PEP 3147); what lies beside the sources is not."""
    return path.endswith(".pyc") and posixpath.basename(posixpath.dirname(path)) == "__pycache__"


def record_mentions(distribution: Distribution, names: set[str]) -> bool:
    """Whether a RECORD may list one of these file names, found without parsing it."""
    record = distribution.record
    return record is not None and any(os.fsencode(name).replace(b'"', b'""') in record for name in names)
