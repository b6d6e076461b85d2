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
        if path not in wheel.sizes:
            path = posixpath.normpath(path.replace("\\", "/"))
        found.setdefault(path, []).append(row)
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


def difference(wheel: Wheel, ours: list[Row], theirs: Optional[list[Row]]) -> str:
    """How the installed rows of a file are not what the wheel's rows say, or nothing.

    Installers drop repeated rows, and what they cannot read; a row that the wheel has not is an edit even beside the
    right one.
    """
    if theirs and len(ours) == len(theirs) == 1 and ours[0][1:4] == theirs[0][1:4]:
        return ""
    expected = {row[1:3]: row.size for row in ours if row.digest}
    if not expected:
        return ""
    if not theirs:
        return "is not in it"
    found = {row[1:3]: row.size for row in theirs if row.digest}
    if not found:
        hard = any(not row.digest or "\\" in row.path or ("," in row.path and wheel.record.malformed) for row in ours)
        return "" if hard else "has no hash in it"
    if not found.keys() & expected.keys():
        return "has another hash"
    if found.keys() - expected.keys():
        return "is in it more than once, with another hash too"
    sizes = [(size, expected[key]) for key, size in found.items()]
    return "has another size" if any(None not in pair and pair[0] != pair[1] for pair in sizes) else ""
