# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock: a requirements file in which every row pins one version and the digests of its wheels.

The format is that of pip's hash-checking mode (https://pip.pypa.io/en/stable/topics/secure-installs/), and only the
part of it that leaves nothing to a resolver, to an index or to the host: no options, links, markers or ranges.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ansible_collections.pristine.vllm.plugins.module_utils.messages import redact_urls
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_name import canonical_version, normalise

_ROW = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[^\]]*\])?\s*==\s*(?P<version>[A-Za-z0-9][A-Za-z0-9.!+_-]*)"
    r"(?P<hashes>(?:\s+--hash[= ]\S+)*)"
)
_HASH = re.compile(r"--hash[= ](?P<algorithm>[a-z0-9]+):(?P<digest>\S+)")
_HOW = (
    "Every row is name==version with a --hash=sha256:... for each wheel, as `uv pip compile --generate-hashes` writes."
)


class LockError(ValueError):
    """The lock cannot be used. The text is for the operator: where, what, why and what to do next."""


@dataclass(frozen=True)
class LockRow:
    """One pinned distribution: normalised name, version as written, the sha256 (64 hex) of each of its wheels."""

    name: str
    version: str
    hashes: tuple[str, ...]
    line: int

    @property
    def pin(self) -> str:
        """The requirement without its hashes."""
        return f"{self.name}=={self.version}"

    @property
    def key(self) -> tuple[str, str]:
        """What a wheel's name and version must equal."""
        return self.name, canonical_version(self.version)

    def render(self, exact: bool = False) -> str:
        """The row as pip and uv read it.

        :param exact: with ``===``, to which ``2.9.1+cu130`` is no ``2.9.1`` (PEP 440): of a folder with both, either
            tool takes the other for ``==``, and then has no digest for it.
        """
        pin = f"{self.name}==={self.version}" if exact else self.pin
        return " \\\n    ".join([pin, *(f"--hash=sha256:{digest}" for digest in self.hashes)])


def read_lock(path: str) -> list[LockRow]:
    """Read and parse the lock.

    :raises LockError: it cannot be read or is not a complete lock.
    """
    try:
        with open(path, encoding="utf-8-sig") as stream:
            text = stream.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise LockError(f"lock {path} cannot be read: {reason}. Name a requirements file on this host.") from error
    return parse_lock(text, path)


def parse_lock(text: str, source: str) -> list[LockRow]:
    """The rows in their order; ``source`` names the file in errors. Every bad row is named, not only the first.

    :raises LockError: a row is not a complete pin, a distribution has two different rows, or there is no row.
    """
    rows: dict[str, LockRow] = {}
    problems = []
    for line, logical in _logical_lines(text):
        try:
            row = _parse_row(logical, line)
        except LockError as error:
            problems.append(f"line {line}: {error}")
            continue
        other = rows.setdefault(row.name, row)
        if (other.key, set(other.hashes)) != (row.key, set(row.hashes)):
            problems.append(f"line {line}: {row.pin} contradicts {other.pin} in line {other.line}: keep one of them")
    if not problems and not rows:
        problems.append("it has no rows")
    if problems:
        more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise LockError(redact_urls(f"lock {source} is not complete: {'; '.join(problems[:5])}{more}. {_HOW}"))
    return list(rows.values())


def merge_rows(rows: list[LockRow], more: list[LockRow]) -> list[LockRow]:
    """Both lists as one; where they pin the same version, the digests of both will do."""
    merged = {row.key: row for row in rows}
    for row in more:
        hashes = (merged[row.key].hashes if row.key in merged else ()) + row.hashes
        merged[row.key] = LockRow(row.name, row.version, tuple(dict.fromkeys(hashes)), row.line)
    return list(merged.values())


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines joined at a final backslash, comments and blank ones dropped, with the number of the first (from 1)."""
    joined = ""
    start = 0
    # An empty last line ends a continuation that the file leaves open.
    for number, physical in enumerate([*text.splitlines(), ""], 1):
        start = start or number
        # pip: a comment begins at a # that starts the line or follows white space, before lines are joined.
        line = re.sub(r"(^|\s+)#.*$", "", physical)
        if line.endswith("\\"):
            joined += line[:-1] + " "
            continue
        logical = (joined + line).strip()
        if logical:
            yield start, logical
        joined, start = "", 0


def _parse_row(logical: str, line: int) -> LockRow:
    """One logical line as a row.

    :raises LockError: with what is wrong, to be put behind the line's number.
    """
    what = logical.split(" --hash", 1)[0].strip()
    if logical.startswith("-"):
        raise LockError(f"{logical.split(maxsplit=1)[0]!r} is an option: give indexes and links to the module instead")
    if ";" in what:
        raise LockError(f"{what!r} has a marker: make the lock for the one platform and Python of the hosts")
    if "@" in what or "/" in what:
        raise LockError(f"{what!r} is a link or a path: pin a version and give the wheel's digest")
    match = _ROW.fullmatch(logical)
    if match is None:
        raise LockError(f"{what!r} does not pin one version with ==")
    hashes = []
    for found in _HASH.finditer(match["hashes"]):
        if found["algorithm"] != "sha256":
            continue
        digest = found["digest"].lower()
        if not re.fullmatch(r"[0-9a-f]{64}", digest):
            raise LockError(f"{what!r} has a sha256 that is not 64 hexadecimal digits: {found['digest']!r}")
        hashes.append(digest)
    if not hashes:
        raise LockError(f"{what!r} has no --hash=sha256:")
    return LockRow(normalise(match["name"]), match["version"], tuple(dict.fromkeys(hashes)), line)
