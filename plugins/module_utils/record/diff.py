# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unified diffs from the pristine text to the installed one."""

from __future__ import annotations

import difflib
import re
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.record.model import printable
from ansible_collections.pristine.vllm.plugins.module_utils.redact import redact

# Beyond this a patch is no longer read by anyone, and difflib's time grows with the square of the changed lines.
TEXT_LIMIT = 8 * 1024 * 1024
_CHANGED_LINES = 20000
_CONTEXT = 3
# What a result shows of one file, and of all.
FILE_LINES = 400
FILE_CHARACTERS = 32 * 1024
TOTAL_CHARACTERS = 256 * 1024
_HUNK = re.compile(r"@@ -(\d+)((?:,\d+)?) \+(\d+)((?:,\d+)?) @@")


def is_binary(data: bytes) -> bool:
    """Whether no one would want to read it as text."""
    return b"\0" in data


def patch(path: str, pristine: Optional[bytes], installed: Optional[bytes], origin: str) -> Optional[str]:
    """A unified patch that ``patch -p1`` takes, None where there is none: binary, too large, or no difference.

    :param pristine: None for a file that no wheel holds; ``installed``: None for one that is gone.
    :param origin: where the pristine text is from, for the header.
    """
    before, after = pristine or b"", installed or b""
    if is_binary(before) or is_binary(after) or max(len(before), len(after)) > TEXT_LIMIT:
        return None
    body = _hunks(_lines(before), _lines(after))
    if body is None or not body:
        return None
    old = "/dev/null" if pristine is None else f"a/{path}"
    new = "/dev/null" if installed is None else f"b/{path}"
    return "".join([f"--- {old}\tpristine: {origin}\n", f"+++ {new}\tinstalled\n", *body])


def _lines(data: bytes) -> list[str]:
    """Lines with their ends; only a line feed ends one, as for ``patch``."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    last = lines.pop()
    return [line + "\n" for line in lines] + ([last] if last else [])


def _hunks(before: list[str], after: list[str]) -> Optional[list[str]]:
    """The hunks; None when too much changed. Equal ends are cut off first: edits are small, files are not."""
    head = 0
    shortest = min(len(before), len(after))
    while head < shortest and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shortest - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    start = max(0, head - _CONTEXT)
    cut = max(0, tail - _CONTEXT)
    old = before[start : len(before) - cut]
    new = after[start : len(after) - cut]
    if max(len(old), len(new)) > _CHANGED_LINES:
        return None
    result = []
    for line in list(difflib.unified_diff(old, new, n=_CONTEXT))[2:]:
        match = _HUNK.match(line)
        if match:
            first, second = (int(match.group(group)) + start for group in (1, 3))
            result.append(f"@@ -{first}{match.group(2)} +{second}{match.group(4)} @@\n")
        else:
            result.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
    return result


class DiffResult:
    """The diffs that a module returns: each file's and the total capped, secrets masked, fit for a terminal."""

    def __init__(self, where: str) -> None:
        """``where`` tells the reader of a cut diff where the whole of it is to be had."""
        self.entries: list[dict[str, str]] = []
        self._where = where
        self._left = TOTAL_CHARACTERS

    @property
    def full(self) -> bool:
        """Whether no more files are shown."""
        return self._left <= 0

    def left(self, files: int) -> None:
        """Say how many files are not shown."""
        text = f"... and {files} more files, the diff is too large already; {self._where}\n"
        self.entries.append({"before_header": "", "after_header": "", "prepared": text})

    def add(self, path: str, origin: str, text: str) -> None:
        """Add a file's diff, or a line that says why there is none."""
        lines = redact(printable(text)).split("\n")
        shown = "\n".join(lines[:FILE_LINES])[:FILE_CHARACTERS]
        if len(shown) < len("\n".join(lines)):
            shown += f"\n... cut here, {len(lines)} lines in all; {self._where}\n"
        # The headers too: of many files with little to show they are the most.
        self._left -= len(shown) + 2 * len(path)
        self.entries.append(
            {
                "before_header": f"{printable(path)} (pristine: {printable(origin)})",
                "after_header": f"{printable(path)} (installed)",
                "prepared": shown,
            }
        )
