# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A short cut through RECORD: nearly all rows are of one form, and are read together; the others stay for `parse`.

What comes out is the same: this only knows rows that no rule but the first of each of `parse` and `places` applies to.
"""

from __future__ import annotations

import binascii
import os
import re
from typing import NamedTuple, Optional

# Path, digest and size of a row that can be read as it stands; or any other line. No part of a plain path is empty or
# begins with a dot.
_PART = r'[^",\\\n\r\0./][^",\\\n\r\0/]*'
_ROW = re.compile(
    rf"^(?:({_PART}(?:/{_PART})*)(?<!\.pyc),sha256=([A-Za-z0-9_-]{{43}}),([0-9]{{1,19}})\r?|(.+))$", re.MULTILINE
)
# Of the byte order: it is dropped at the start of a file, and there only.
_MARK = b"\xef\xbb\xbf"
# 43 characters and one that stands for six zero bits are 33 bytes.
_STRIDE = 33


class Plain(NamedTuple):
    """Rows of the plain form: their paths, digests and sizes in one order; ``rest`` is all other lines."""

    paths: list[str]
    digests: list[bytes]
    sizes: list[int]
    rest: bytes


def only(record: bytes, names: set[str]) -> bytes:
    """The lines of a RECORD that mention one of these file names; all where what a line is depends on others."""
    quoted = [line for line in record.split(b"\n") if b'"' in line] if b'"' in record else []
    if _MARK in record or any(line.count(b'"') % 2 for line in quoted):
        return record
    lines = set()
    for name in names - {""}:
        written = os.fsencode(name).replace(b'"', b'""')
        found = record.find(written)
        while found >= 0:
            end = record.find(b"\n", found)
            end = len(record) if end < 0 else end
            lines.add((record.rfind(b"\n", 0, found) + 1, end))
            found = record.find(written, end)
    return b"\n".join([record[start:end] for start, end in sorted(lines)])


def split(record: bytes) -> Optional[Plain]:
    """Take the plain rows out of a RECORD; None where what a line is depends on others."""
    found = _ROW.findall(os.fsdecode(record))
    rest = [row[3] for row in found if row[3]]
    paths = [row[0] for row in found if row[0]]
    if any(line.count('"') % 2 for line in rest) or _MARK in record or len(set(paths)) < len(paths):
        return None
    text = "A".join([row[1] for row in found if row[0]] + [""])
    data = binascii.a2b_base64(text.replace("-", "+").replace("_", "/"))
    digests = [data[start : start + 32] for start in range(0, len(data), _STRIDE)]
    sizes = [int(row[2]) for row in found if row[0]]
    return Plain(paths, digests, sizes, os.fsencode("\n".join(rest)))
