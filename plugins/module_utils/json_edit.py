# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Edits of a JSON text that touch nothing but the members they are about.

The text is never written anew from the parsed document: key order, indentation, separators, escapes, numbers and line
ends stay as they are because they are not touched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

_SPACE = re.compile(r"[ \t\r\n]*")


class JsonEditError(ValueError):
    """The text is not JSON, or not of the shape that the path needs. The text says which and where."""


@dataclass(frozen=True)
class Member:
    """A member of an object: its key, and where in the text its key begins, its value begins and ends."""

    key: str
    start: int
    value_start: int
    end: int


@dataclass(frozen=True)
class Span:
    """An object in the text: the offset after its ``{``, that of its ``}``, and its members."""

    inner: int
    close: int
    members: tuple[Member, ...]

    def find(self, key: str) -> Optional[Member]:
        """The member of that name; the last of several, which is the one that every reader takes."""
        return next((member for member in reversed(self.members) if member.key == key), None)


def parse(text: str) -> Any:
    """The document.

    :raises JsonEditError: the text is not JSON.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        raise JsonEditError(f"it is not JSON: {error}") from error


def locate(text: str, path: Sequence[str]) -> Optional[Span]:
    """The object that holds the last key of ``path``, or None when one on the way is missing or null.

    :raises JsonEditError: something on the way is neither an object nor null, so that the path cannot be meant.
    """
    offset = _SPACE.match(text, 0).end()  # type: ignore[union-attr]
    for depth in range(len(path)):
        if text[offset] != "{":
            if text.startswith("null", offset) and depth:
                return None
            where = " > ".join(path[:depth]) or "the document"
            raise JsonEditError(f"{where} is not an object, so it has no {path[depth]!r}")
        span = _span(text, offset)
        if depth == len(path) - 1:
            return span
        member = span.find(path[depth])
        if member is None:
            return None
        offset = member.value_start
    raise JsonEditError("the path is empty")


def remove(text: str, path: Sequence[str]) -> str:
    """``text`` without the member at ``path`` (and without its doubles); as it is when there is none."""
    while True:
        span = locate(text, path)
        member = span.find(path[-1]) if span is not None else None
        if span is None or member is None:
            return text
        index = span.members.index(member)
        if len(span.members) == 1:
            start, end = span.inner, span.close
        elif member is span.members[-1]:
            start, end = span.members[index - 1].end, member.end
        else:
            start, end = member.start, span.members[index + 1].start
        text = text[:start] + text[end:]


def put(text: str, path: Sequence[str], value: Any) -> str:
    """``text`` with ``value`` at ``path``: a member that is there is replaced, else one is added as the last.

    Objects that are missing on the way are made.
    """
    known = len(path)
    while known > 1 and locate(text, path[:known]) is None:
        known -= 1
    for key in reversed(path[known:]):
        value = {key: value}
    path = path[:known]
    span = locate(text, path)
    if span is None:
        raise AssertionError("the loop above ends with one that is there")
    member = span.find(path[-1])
    style = _Style.of(text)
    if member is not None:
        indent = style.line_indent(text, member.start)
        return text[: member.value_start] + style.dump(value, indent) + text[member.end :]
    outer = style.line_indent(text, span.inner - 1)
    indent = style.line_indent(text, span.members[-1].start) if span.members else outer + (style.unit or "")
    added = style.dump(path[-1], "") + style.colon + style.dump(value, indent)
    if not span.members:
        before, after = (style.newline + indent, style.newline + outer) if style.unit is not None else ("", "")
        return text[: span.inner] + before + added + after + text[span.close :]
    last = span.members[-1]
    if len(span.members) > 1:
        comma = text[span.members[-2].end : last.start]
    else:
        comma = "," + (text[span.inner : last.start] or style.gap)
    return text[: last.end] + comma + added + text[last.end :]


@dataclass(frozen=True)
class _Style:
    """How the text is laid out. ``unit`` is the white space of one level, None where all is on one line."""

    unit: Optional[str]
    newline: str
    colon: str
    gap: str
    ascii_only: bool

    @classmethod
    def of(cls, text: str) -> _Style:
        newline = "\r\n" if "\r\n" in text else "\n"
        indented = re.match(r"\s*\{[ \t]*\r?\n([ \t]*)\"", text)
        member = re.search(r'"(\s*:\s*)', text)
        comma = re.search(r'["\d\]}el],([ \t]*)"', text)
        escaped = text.isascii() and re.search(r"\\u(?!00[0-7])", text) is not None
        return cls(
            unit=indented.group(1) if indented else None,
            newline=newline,
            colon=member.group(1) if member else ": ",
            gap=comma.group(1) if comma else " " if member and member.group(1) != ":" else "",
            ascii_only=escaped,
        )

    def dump(self, value: Any, indent: str) -> str:
        """``value`` as text whose later lines begin with ``indent``."""
        comma = "," if self.unit is not None else "," + self.gap
        text = json.dumps(
            value, indent=self.unit, separators=(comma, self.colon), ensure_ascii=self.ascii_only, allow_nan=False
        )
        return text.replace("\n", self.newline + indent)

    def line_indent(self, text: str, offset: int) -> str:
        """The white space that the line of this offset begins with."""
        start = text.rfind("\n", 0, offset) + 1
        found = re.compile(r"[ \t]*").match(text, start)
        return found.group() if found else ""


def _span(text: str, offset: int) -> Span:
    """The object whose ``{`` is at ``offset``, in a text that is known to be JSON."""
    decoder = json.JSONDecoder()
    members: list[Member] = []
    inner = offset + 1
    position = _skip(text, inner)
    while text[position] != "}":
        start = position
        key, position = decoder.raw_decode(text, start)
        value_start = _skip(text, _skip(text, position) + 1)
        end = decoder.raw_decode(text, value_start)[1]
        members.append(Member(key, start, value_start, end))
        position = _skip(text, end)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return Span(inner, position, tuple(members))


def _skip(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position
