# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading RECORD files: tolerant of all that is found in published wheels, never raising on any bytes.

The format is that of https://packaging.python.org/en/latest/specifications/recording-installed-packages/ :
CSV rows of path, ``algorithm=urlsafe-base64-without-padding``, size in bytes.
"""

from __future__ import annotations

import binascii
import contextlib
import csv
import os
from collections.abc import Iterator
from typing import NamedTuple, Optional

# Weaker ones are forbidden by the specification: a match would prove nothing.
DIGEST_BYTES = {"sha256": 32, "sha384": 48, "sha512": 64}

# A quoted name may hold line breaks; one that never closes its quote must not swallow the rest of the file.
_LINES_PER_ROW = 8


class Row(NamedTuple):
    """One row: ``digest`` is empty and ``problem`` says why where there is no hash that can be used."""

    path: str
    algorithm: str
    digest: bytes
    size: Optional[int]
    problem: str = ""


class Record(NamedTuple):
    """The rows in their order, and the text of each line that is not as the specification wants it."""

    rows: list[Row]
    malformed: list[str]


def parse_record(data: bytes) -> Record:
    """Read the content of a RECORD; paths are as the file system has them (``os.fsdecode``)."""
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    rows: list[Row] = []
    malformed: list[str] = []
    append = rows.append
    for line in logical_lines(os.fsdecode(data)):
        if '"' in line:
            fields, good = _quoted_fields(line)
        else:
            # Hash and size never hold a comma, so this also reads names whose commas nobody quoted.
            fields = line.rsplit(",", 2)
            good = len(fields) == 3 and "," not in fields[0]
        fields += [""] * (3 - len(fields))
        path, hashed, size = fields
        if size and _size(size) is None:
            # pip 23 cuts rows with unquoted commas off behind the third field, which can be the hash or still the name.
            if parse_hash(size)[1]:
                path, hashed, size, good = f"{path},{hashed}", size, "", False
            elif not parse_hash(hashed)[1]:
                path, hashed, size, good = ",".join(fields), "", "", False
        if not path or "\0" in path:
            malformed.append(line)
            continue
        if not good:
            malformed.append(line)
        algorithm, digest, problem = "sha256", b"", ""
        # Nearly every row of an environment is of this one form.
        if len(hashed) == 50 and hashed.startswith("sha256="):
            with contextlib.suppress(ValueError):
                digest = binascii.a2b_base64(hashed[7:].replace("-", "+").replace("_", "/") + "=")
        if len(digest) != 32:
            algorithm, digest, problem = parse_hash(hashed)
        append(Row(path, algorithm, digest, _size(size), problem))
    return Record(rows, malformed)


def _size(text: str) -> Optional[int]:
    """A size in bytes; None for what no file can have: Python refuses to convert thousands of digits."""
    return int(text) if len(text) < 20 and text.isascii() and text.isdigit() else None


def parse_hash(text: str) -> tuple[str, bytes, str]:
    """Algorithm, digest and, where the digest is of no use, the reason.

    Padding, the standard base64 alphabet and hexadecimal digits are accepted: lengths keep them apart, so none of it is
    a guess. https://github.com/pypa/pip/pull/11762
    """
    if not text:
        return "", b"", "its row has no hash"
    algorithm, separator, encoded = text.partition("=")
    algorithm = algorithm.lower()
    length = DIGEST_BYTES.get(algorithm)
    if not separator or length is None:
        return algorithm, b"", f"its row has a hash of a kind that proves nothing: {text[:80]!r}"
    try:
        if len(encoded) == 2 * length:
            return algorithm, binascii.unhexlify(encoded), ""
        plain = encoded.replace("-", "+").replace("_", "/").rstrip("=")
        digest = binascii.a2b_base64(plain + "=" * (-len(plain) % 4))
    except ValueError:
        digest = b""
    if len(digest) != length:
        return algorithm, b"", f"the hash in its row cannot be decoded: {text[:80]!r}"
    return algorithm, digest, ""


def logical_lines(text: str) -> Iterator[str]:
    """Lines without their ends; those that an open quote joins come as one."""
    lines = text.split("\n")
    index = 0
    while index < len(lines):
        line = lines[index]
        index += 1
        if '"' in line and line.count('"') % 2:
            for end in range(index, min(index + _LINES_PER_ROW, len(lines))):
                if lines[end].count('"') % 2:
                    line = "\n".join([line, *lines[index : end + 1]])
                    index = end + 1
                    break
        line = line.rstrip("\r")
        if line:
            yield line


def _quoted_fields(line: str) -> tuple[list[str], bool]:
    """At most three fields of a row with quotes, and whether the row is well formed."""
    try:
        fields = next(csv.reader([line])) if line.count('"') % 2 == 0 else []
    except (csv.Error, StopIteration):
        fields = []
    if not fields:
        return line.rsplit(",", 2), False
    if len(fields) > 3:
        return [",".join(fields[:-2]), *fields[-2:]], False
    return fields, len(fields) == 3
