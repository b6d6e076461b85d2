# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Path patterns and declared adaptations."""

from __future__ import annotations

import re

_CLASS = re.compile(r"\[(!?)(\]?[^\]]*)\]")


def compile_glob(pattern: str) -> re.Pattern[str]:
    """A path glob as a regular expression.

    ``*`` and ``?`` stay within one path component, ``**`` does not, ``[...]`` is a set (``[[]`` is a literal bracket),
    a backslash makes the next character literal.
    """
    parts = []
    index = 0
    while index < len(pattern):
        character = pattern[index]
        group = _CLASS.match(pattern, index) if character == "[" else None
        if group:
            content = group.group(2).replace("\\", "\\\\").replace("[", "\\[").replace("^", "\\^")
            if content.startswith("]"):
                content = "\\" + content
            parts.append("[{}{}]".format("^/" if group.group(1) else "", _safe_set(content)))
            index = group.end()
            continue
        if pattern.startswith("**", index):
            # "a/**/b" also means "a/b".
            if pattern.startswith("**/", index) and (index == 0 or pattern[index - 1] == "/"):
                parts.append("(?:.*/)?")
                index += 3
            else:
                parts.append(".*")
                index += 2
            continue
        if character == "\\" and index + 1 < len(pattern):
            index += 1
            parts.append(re.escape(pattern[index]))
        else:
            parts.append({"*": "[^/]*", "?": "[^/]"}.get(character, re.escape(character)))
        index += 1
    return re.compile("".join(parts), re.DOTALL)


def _safe_set(content: str) -> str:
    """Keep a set that is no valid expression (``[z-a]``) from being an error: then each character stands for itself."""
    try:
        re.compile(f"[{content}]")
    except re.error:
        return content.replace("-", "\\-")
    return content


class Ignore:
    """Paths that are never reported. A pattern that is the path itself, letter by letter, always matches it."""

    def __init__(self, patterns: list[str]) -> None:
        """Compile the globs."""
        self._literal = set(patterns)
        self._patterns = [compile_glob(pattern) for pattern in patterns]

    def __call__(self, path: str) -> bool:
        """Whether the path, as findings name it, is ignored."""
        return path in self._literal or any(pattern.fullmatch(path) for pattern in self._patterns)
