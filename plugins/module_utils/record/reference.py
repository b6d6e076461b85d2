# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wheel's own RECORD against its members, and an installed RECORD against the wheel's."""

from __future__ import annotations

import posixpath
from typing import NamedTuple, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.record.parse import Row
from ansible_collections.pristine.vllm.plugins.module_utils.record.wheel import Wheel


class Reference(NamedTuple):
    """What a member must be; ``problem`` tells of a fault of the wheel's own RECORD, which is then not relied on."""

    algorithm: str
    digest: bytes
    size: int
    problem: str


def rows_by_member(wheel: Wheel) -> dict[str, list[Row]]:
    """The rows of a wheel's own RECORD: a member may have several, and be spelled with detours."""
    found: dict[str, list[Row]] = {}
    for row in wheel.record.rows:
        path = row.path
        if "\\" in path and path not in wheel.sizes:
            path = path.replace("\\", "/")
        found.setdefault(posixpath.normpath(path) if "./" in path or "//" in path else path, []).append(row)
    return found


def reference(wheel: Wheel, member: str, rows: list[Row]) -> Reference:
    """What the wheel says of a member: by its RECORD, by the member's bytes where RECORD is no help.

    :raises WheelError: the bytes are needed and cannot be read.
    """
    size = wheel.sizes[member]
    hashed = {row[1:3] for row in rows if row.digest}
    wrong = {row.size for row in rows if row.size is not None} - {size}
    problem = ""
    if not rows:
        problem = "does not list it"
    elif len(hashed) > 1:
        problem = "lists it more than once, with different hashes"
    elif wrong:
        problem = f"says otherwise: {min(wrong)} bytes"
    if hashed and not problem:
        algorithm, digest = hashed.pop()
        return Reference(algorithm, digest, size, "")
    if problem:
        problem = f"it is byte for byte what the wheel holds, but the wheel's own RECORD {problem}"
    return Reference("sha256", bytes.fromhex(wheel.sha256(member)), size, problem)


def difference(ours: list[Row], theirs: Optional[list[Row]]) -> str:
    """How the installed rows of a file are not what the wheel's rows say, or nothing.

    Installers drop repeated rows; a row that the wheel has not is an edit even beside the right one.
    """
    expected = {row[1:4] for row in ours if row.digest}
    found = {row[1:4] for row in theirs or () if row.digest}
    if not expected or found == expected:
        return ""
    if not theirs:
        return "is not in it"
    if not found & expected:
        return "has another hash or size"
    return "is in it more than once, with another hash or size too" if found - expected else ""
