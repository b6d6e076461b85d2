# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The RECORD that should be installed: the wheel's rows, and of the rest what an installer adds."""

from __future__ import annotations

import base64
import csv
import io
import os
import posixpath
from collections.abc import Iterator
from dataclasses import replace
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import read_file, sha256_file
from ansible_collections.pristine.vllm.plugins.module_utils.record.claims import Owner
from ansible_collections.pristine.vllm.plugins.module_utils.record.environment import Distribution, Environment
from ansible_collections.pristine.vllm.plugins.module_utils.record.expected import Builder
from ansible_collections.pristine.vllm.plugins.module_utils.record.parse import Row, logical_lines, parse_record
from ansible_collections.pristine.vllm.plugins.module_utils.record.places import place
from ansible_collections.pristine.vllm.plugins.module_utils.record.reference import rows_by_member
from ansible_collections.pristine.vllm.plugins.module_utils.record.scripts import entry_for, is_generated
from ansible_collections.pristine.vllm.plugins.module_utils.record.wheel import Wheel, install_path

# What installers write into .dist-info, for a RECORD that is gone as a whole.
_ADDED = ("INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json", "uv_build.json", "provenance_url.json")
_SCRIPT_LIMIT = 16 * 1024 * 1024

# Absolute path -> sha256 (bytes) and size of a file whose row is to be written anew.
Rows = dict[str, tuple[bytes, int]]


class RecordFile:
    """Composes the RECORD of one distribution from its wheel and the installed one."""

    def __init__(self, environment: Environment, owner: Owner, wheel: Wheel, rows: Rows) -> None:
        """``rows`` are of files that no wheel holds as they are, such as scripts, and win over all others."""
        self._environment = environment
        self._owner = owner
        self._wheel = wheel
        self._rows = dict(rows)
        self._installed = owner.distribution.record
        self._entries = wheel.entry_points()
        self._members = self._places()

    def compose(self) -> Optional[bytes]:
        """Its content: each line of the installed RECORD that is as it should be stays as it is.

        None when the result would still not be what a scan accepts, which no known input makes happen.
        """
        distribution = self._owner.distribution
        data = self._installed or b""
        if self._installed is None:
            self._rows.update(self._found())
        end = "\r\n" if b"\r\n" in data or (not data and self._installer() == b"pip") else "\n"
        lines: list[str] = []
        seen: set[str] = set()
        for line in logical_lines(os.fsdecode(data)):
            for row in parse_record(os.fsencode(line)).rows:
                path = self._locate(row.path)
                text = self._line(line, row, path)
                if text is not None and (path is None or self._belongs(path, row)):
                    lines.append(text)
                    seen.add(path or row.path)
        lines += self._lacking(seen)
        composed = os.fsencode("".join(line + end for line in lines))
        return composed if self._fits(replace(distribution, record=composed)) else None

    def _places(self) -> dict[str, tuple[str, list[Row]]]:
        """Where what the wheel's RECORD lists, or the wheel holds, is installed: member and rows."""
        distribution, root = self._owner.distribution, self._environment.root
        rows = parse_record(self._installed or b"").rows
        installed = {path for path in (self._locate(row.path) for row in rows) if path is not None}
        of_wheel = rows_by_member(self._wheel)
        members = {}
        for member in dict.fromkeys([*of_wheel, *self._wheel.sizes]):
            path = posixpath.normpath(install_path(self._wheel, member, distribution, root, installed))
            if self._environment.contains(path):
                members[path] = member, [row for row in of_wheel.get(member, []) if row.digest]
        return members

    def _locate(self, row: str) -> Optional[str]:
        return place(self._environment, self._owner.distribution.site, row)

    def _line(self, line: str, row: Row, path: Optional[str]) -> Optional[str]:
        """An installed line as it should be; None when it should not be there."""
        if path is None:
            # A wheel may have such a row itself; then it is no edit.
            return line if row.path in self._wheel.rows else None
        if path in self._rows:
            return self._text(row.path, "sha256", *self._rows[path])
        member, ours = self._members.get(path, ("", []))
        if not ours or not row.digest or self._is_rewritten(member):
            return line
        if row[1:4] in {known[1:4] for known in ours}:
            return line
        return self._text(row.path, *ours[0][1:4])

    def _belongs(self, path: str, row: Row) -> bool:
        """Whether a row is a member's, or one that an installer adds."""
        if path in self._members or path in self._rows:
            return True
        folder, name = posixpath.split(path)
        if folder == self._owner.distribution.directory:
            return name in _ADDED or name.endswith(".pyc")
        script = folder == self._environment.root + "/bin" and entry_for(name, self._entries) is not None
        return script or name.endswith(".pyc") or row.path.endswith("/")

    def _lacking(self, seen: set[str]) -> Iterator[str]:
        """Lines of the wheel's members and of other files that should have one."""
        site = self._owner.distribution.site
        directory = self._owner.distribution.directory
        for path, (member, ours) in self._members.items():
            known = path in seen or path in self._rows or path == directory + "/RECORD"
            if not known and ours and not self._is_rewritten(member):
                yield self._text(os.path.relpath(path, site), *ours[0][1:4])
        for path, (digest, size) in self._rows.items():
            if path not in seen:
                yield self._text(os.path.relpath(path, site), "sha256", digest, size)
        if directory + "/RECORD" not in seen:
            yield self._text(os.path.relpath(directory + "/RECORD", site), "", b"", None)

    def _is_rewritten(self, member: str) -> bool:
        """Whether installers change its first line, so that its row is not the wheel's."""
        scripts = self._wheel.data + "scripts/"
        return (
            member.startswith(scripts) and member in self._wheel.sizes and self._wheel.starts_with(member, b"#!python")
        )

    def _found(self) -> Rows:
        """What an installer has added, where no installed RECORD tells: its notes, and scripts that it made."""
        rows: Rows = {}
        distribution = self._owner.distribution
        for path in [f"{distribution.directory}/{name}" for name in _ADDED]:
            if os.path.isfile(path) and not os.path.islink(path):
                rows[path] = bytes.fromhex(sha256_file(path)), os.lstat(path).st_size
        for name, entry in self._entries.items():
            path = f"{self._environment.root}/bin/{name}"
            if (
                os.path.isfile(path)
                and not os.path.islink(path)
                and is_generated(read_file(path, _SCRIPT_LIMIT), entry)
            ):
                rows[path] = bytes.fromhex(sha256_file(path)), os.lstat(path).st_size
        return {**rows, **self._rows}

    def _installer(self) -> bytes:
        try:
            return read_file(self._owner.distribution.directory + "/INSTALLER", 100).strip()
        except OSError:
            return b""

    def _fits(self, distribution: Distribution) -> bool:
        """Whether a scan has nothing to say of it, so that both always agree."""
        builder = Builder(self._environment)
        builder.add(Owner(distribution, self._wheel))
        # What the wheel itself has out of the environment stays its fault.
        own = set(self._wheel.rows) | {f"{member} of the wheel" for member in self._wheel.sizes}
        return not any(
            finding.status == "record_edited" or (finding.status == "outside" and finding.path not in own)
            for finding in builder.expected.findings
        )

    @staticmethod
    def _text(path: str, algorithm: str, digest: bytes, size: Optional[int]) -> str:
        hashed = ""
        if digest:
            hashed = f"{algorithm}={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"
        text = io.StringIO()
        csv.writer(text, lineterminator="").writerow([path, hashed, "" if size is None else size])
        return text.getvalue()
