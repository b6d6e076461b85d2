# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What should be in an environment: for each path, the content that the RECORDs and wheels of its owners claim."""

from __future__ import annotations

import os
import posixpath
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.record.claims import (
    Claim,
    Expected,
    Owner,
    Script,
    is_cached_bytecode,
)
from ansible_collections.pristine.vllm.plugins.module_utils.record.environment import Distribution, Environment
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import Finding
from ansible_collections.pristine.vllm.plugins.module_utils.record.parse import Record, Row, parse_record
from ansible_collections.pristine.vllm.plugins.module_utils.record.places import place
from ansible_collections.pristine.vllm.plugins.module_utils.record.plain import only, split
from ansible_collections.pristine.vllm.plugins.module_utils.record.reference import (
    difference,
    reference,
    rows_by_member,
)
from ansible_collections.pristine.vllm.plugins.module_utils.record.scripts import entry_for
from ansible_collections.pristine.vllm.plugins.module_utils.record.wheel import Wheel, WheelError, install_path

# Files that an installer adds to .dist-info: no wheel holds them.
_INSTALLER = {"INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json", "uv_build.json", "provenance_url.json"}
# The specification forbids hashes of these in RECORD.
_SIGNATURES = ("RECORD.jws", "RECORD.p7s")


class Builder:
    """Collects what is expected, distribution by distribution."""

    def __init__(self, environment: Environment, wanted: Optional[set[str]] = None) -> None:
        """With ``wanted``, only these absolute paths get claims."""
        self.environment = environment
        self.wanted = wanted
        self.expected = Expected()

    def add(self, owner: Owner) -> None:
        """Take up one distribution."""
        distribution = owner.distribution
        self.expected.owners.append(owner)
        if distribution.record is None and owner.wheel is None:
            return
        record = self._plain(owner) or parse_record(self._lines(owner))
        rows = self._rows(owner, record.rows)
        if record.malformed and owner.selected and self.wanted is None:
            number, first = len(record.malformed), record.malformed[0][:120]
            detail = f"RECORD is malformed in {number} row(s), read as well as can be; the first is {first!r}"
            self._note(owner, "unverifiable", detail)
        entries: dict[str, str] = {}
        if owner.wheel is not None:
            try:
                entries = owner.wheel.entry_points()
            except WheelError as error:
                self._note(owner, "unverifiable", f"compared with the installed RECORD only: {error}")
                owner.without_wheel()
        if owner.wheel is not None and distribution.editable and not self._holds(owner.wheel, distribution.site, rows):
            owner.without_wheel()
        if owner.wheel is None:
            self._from_record(owner, rows)
        else:
            self._from_wheel(owner, rows, owner.wheel, entries)

    def _lines(self, owner: Owner) -> bytes:
        """The RECORD, as far as it has a say in what is wanted; the wheel's rows are compared with all of it."""
        record = owner.distribution.record or b""
        if self.wanted is None or owner.wheel is not None:
            return record
        return only(record, {posixpath.basename(path) for path in self.wanted})

    def _plain(self, owner: Owner) -> Optional[Record]:
        """Take up the rows that need no thought, and return the others; None where that would not be the same."""
        distribution = owner.distribution
        plain = split(distribution.record or b"") if owner.wheel is None and self.wanted is None else None
        if plain is None:
            return None
        paths = [f"{distribution.site}/{path}" for path in plain.paths]
        rest, taken = parse_record(plain.rest), {*paths, ""}
        if distribution.directory + "/RECORD" in taken or any(
            # Plain rows name no bytecode.
            not row.path.endswith(".pyc") and place(self.environment, distribution.site, row.path) in taken
            for row in rest.rows
        ):
            return None
        claims = self.expected.claims
        for path, digest, size in zip(paths, plain.digests, plain.sizes):
            claim = Claim(owner, "sha256", digest, size)
            if path in claims:
                claims[path].append(claim)
            else:
                claims[path] = [claim]
        self.expected.listed.update(paths)
        return rest

    def _rows(self, owner: Owner, found: list[Row]) -> dict[str, list[Row]]:
        """The rows of an installed RECORD by the absolute path that they mean."""
        rows: dict[str, list[Row]] = {}
        for row in found:
            path = place(self.environment, owner.distribution.site, row.path)
            if path is None:
                if owner.selected:
                    self._outside(owner, row.path)
            elif not row.path.endswith("/"):
                # A directory has no content, whatever hash its row has.
                rows.setdefault(path, []).append(row)
        return rows

    def _holds(self, wheel: Wheel, site: str, rows: dict[str, list[Row]]) -> bool:
        """Whether an installed RECORD lists any of the wheel's code: that of an editable install does not."""
        own = (wheel.dist_info + "/", wheel.data)
        return any(f"{site}/{member}" in rows for member in wheel.sizes if not member.startswith(own))

    def _from_record(self, owner: Owner, rows: dict[str, list[Row]]) -> None:
        record = owner.distribution.directory + "/RECORD"
        for path, group in rows.items():
            self.expected.listed.add(path)
            if path != record:
                self._claim_rows(owner, path, group)

    def _claim_rows(self, owner: Owner, path: str, group: list[Row], problem: str = "") -> None:
        if self.wanted is not None and path not in self.wanted:
            return
        hashed = any(row.digest for row in group)
        signature = path[len(owner.distribution.directory) + 1 :] in _SIGNATURES
        for row in group:
            if row.digest or not hashed:
                # Where another row says more, one without a hash says nothing.
                why = problem or ("" if signature else row.problem)
                self._claim(path, Claim(owner, row.algorithm, row.digest, row.size, "", why))

    def _claim(self, path: str, claim: Claim) -> None:
        if is_cached_bytecode(path):
            # Some wheels record theirs (numpy's), and Python writes it anew for another mtime.
            return
        self.expected.claims.setdefault(path, []).append(claim)

    def _from_wheel(self, owner: Owner, rows: dict[str, list[Row]], wheel: Wheel, entries: dict[str, str]) -> None:
        root = self.environment.root
        of_wheel = rows_by_member(wheel)
        installed = set(rows)
        own = self._claim_ghosts(owner, wheel, installed, of_wheel)
        differences: list[str] = []
        for member in wheel.sizes:
            path = posixpath.normpath(install_path(wheel, member, owner.distribution, root, installed))
            if not self.environment.contains(path):
                if owner.selected:
                    self._outside(owner, f"{member} of the wheel")
                continue
            own.add(path)
            if member == wheel.dist_info + "/RECORD":
                continue
            try:
                if member.startswith(wheel.data + "scripts/") and wheel.starts_with(member, b"#!python"):
                    self._rewritten(owner, path, member, rows.get(path, []))
                    continue
                text = difference(wheel, of_wheel.get(member, []), rows.get(path))
                differences += [f"{self.environment.relative(path)} {text}"] if text else []
                if self.wanted is None or path in self.wanted:
                    self._claim_member(owner, path, member, of_wheel.get(member, []))
            except WheelError as error:
                self._claim_damaged(owner, path, member, rows.get(path, []), str(error))
        self.expected.listed |= own
        extras = [path for path in rows if path not in own]
        self._extras(owner, {path: rows[path] for path in extras}, entries, differences)
        if owner.distribution.record is None:
            differences = [owner.distribution.problem]
            for name, entry in entries.items():
                path = f"{root}/bin/{name}"
                if os.path.lexists(path) and (self.wanted is None or path in self.wanted):
                    self.expected.listed.add(path)
                    self.expected.scripts.append(Script(path, owner, "", entry))
        self._edited(owner, differences)

    def _rewritten(self, owner: Owner, path: str, member: str, rows: list[Row]) -> None:
        """A script whose first line installers replace: only the installed RECORD vouches for all of its bytes."""
        if self.wanted is None or path in self.wanted:
            self.expected.scripts.append(Script(path, owner, member, ""))
            self._claim_rows(Owner(owner.distribution, None), path, rows)

    def _claim_member(self, owner: Owner, path: str, member: str, rows: list[Row]) -> None:
        if owner.wheel is not None and not is_cached_bytecode(path):
            algorithm, digest, size, problem = reference(owner.wheel, member, rows)
            self._claim(path, Claim(owner, algorithm, digest, size, member, problem))

    def _claim_damaged(self, owner: Owner, path: str, member: str, rows: list[Row], problem: str) -> None:
        """A member that cannot be read: the installed RECORD speaks, as what it is."""
        if rows:
            self._claim_rows(Owner(owner.distribution, None), path, rows, problem)
        elif self.wanted is None or path in self.wanted:
            self._claim(path, Claim(owner, "", b"", None, member, problem))

    def _claim_ghosts(
        self, owner: Owner, wheel: Wheel, installed: set[str], of_wheel: dict[str, list[Row]]
    ) -> set[str]:
        """What the wheel's own RECORD lists although the wheel does not hold it: its absence is nobody's drift."""
        found = set()
        for member, rows in of_wheel.items():
            if member in wheel.sizes or rows[0].path.endswith("/"):
                continue
            path = posixpath.normpath(install_path(wheel, member, owner.distribution, self.environment.root, installed))
            if not self.environment.contains(path):
                continue
            found.add(path)
            if not os.path.isdir(path) and (self.wanted is None or path in self.wanted):
                row, problem = rows[0], "the wheel's own RECORD lists it but the wheel does not hold it"
                self._claim(path, Claim(owner, row.algorithm, row.digest, row.size, member, problem))
        return found

    def _extras(
        self, owner: Owner, rows: dict[str, list[Row]], entries: dict[str, str], differences: list[str]
    ) -> None:
        """Rows of the installed RECORD that are not members of the wheel: the known ones are fine, others are edits."""
        directory = owner.distribution.directory
        for path, group in rows.items():
            folder, name = posixpath.split(path)
            if folder == directory and name in _INSTALLER:
                self._claim_rows(Owner(owner.distribution, None), path, group)
            elif folder == self.environment.root + "/bin" and entry_for(name, entries):
                self._claim_rows(Owner(owner.distribution, None), path, group)
                if self.wanted is None or path in self.wanted:
                    self.expected.scripts.append(Script(path, owner, "", entry_for(name, entries) or ""))
            elif is_cached_bytecode(path) or (folder == directory and name in ("RECORD", *_SIGNATURES)):
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

    def _edited(self, owner: Owner, differences: list[str]) -> None:
        # One that cannot be read is told as that.
        unreadable = owner.distribution.directory + "/RECORD" in self.environment.unreadable
        if differences and owner.selected and self.wanted is None and not unreadable:
            more = f" and {len(differences) - 5} more" if len(differences) > 5 else ""
            shown = "; ".join(sorted(differences)[:5])
            self._note(owner, "record_edited", f"it is not what the wheel's RECORD says: {shown}{more}")

    def _note(self, owner: Owner, status: str, detail: str) -> None:
        """A finding about an installed RECORD itself."""
        path = owner.distribution.directory + "/RECORD"
        name = owner.distribution.name
        self.expected.findings.append(
            Finding(self.environment.relative(path), path, status, detail, name, verified_against=owner.level)
        )


def record_mentions(distribution: Distribution, names: set[str]) -> bool:
    """Whether a RECORD may list one of these file names, found without parsing it."""
    record = distribution.record
    return record is not None and any(os.fsencode(name).replace(b'"', b'""') in record for name in names)
