# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Idempotent edits of a model's JSON configuration: decided from the bytes that are there, written without a link."""

from __future__ import annotations

import codecs
import difflib
import hashlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import atomic_write
from ansible_collections.pristine.vllm.plugins.module_utils.json_edit import (
    JsonEditError,
    locate,
    parse,
    put,
    remove,
)
from ansible_collections.pristine.vllm.plugins.module_utils.quarantine import Quarantine

# A model's configuration is some 10 KB; what is larger than this is weights by mistake.
_SIZE_LIMIT = 16 * 1024 * 1024


class ModelConfigError(Exception):
    """The file cannot be edited. The text says what, where, why and what to do next; nothing was changed."""


@dataclass(frozen=True)
class Edit:
    """What must hold: the member at ``path`` is absent, or is present with ``value``; ``reason`` is for the reader."""

    path: tuple[str, ...]
    present: bool
    value: Any = None
    reason: str = ""


@dataclass(frozen=True)
class Outcome:
    """What an edit came to: ``removed``, ``set``, ``unchanged``, or ``null_kept`` for a null that does no harm."""

    path: tuple[str, ...]
    outcome: str
    before: Any
    reason: str


@dataclass(frozen=True)
class ConfigPlan:
    """A file as it is and as it should be. ``source`` is the file that a link at ``path`` leads to, else ``path``."""

    path: str
    source: str
    link_target: Optional[str]
    before: bytes
    after: bytes
    outcomes: tuple[Outcome, ...]
    mode: int
    owner: tuple[int, int]

    @property
    def changes(self) -> bool:
        return self.before != self.after

    def diff(self) -> dict[str, str]:
        """For Ansible's ``--diff``."""
        return {
            "before_header": self.path,
            "after_header": self.path,
            "before": self.before.decode("utf-8", "replace"),
            "after": self.after.decode("utf-8", "replace"),
        }


@dataclass(frozen=True)
class Saved:
    """Where the content before the edit is kept, where the link is kept if there was one, and the patch of the edit."""

    kept: str
    kept_link: Optional[str]
    patch: str


def plan(path: str, edits: Sequence[Edit], keep_null: bool = True) -> Optional[ConfigPlan]:
    """Decide what the file should hold; None when there is no file. Changes nothing.

    A symlink, as in the Hugging Face cache, is followed for reading only.

    :param keep_null: leave a member alone that should be absent and is null: vLLM takes null as not there.
    :raises ModelConfigError: it cannot be read, is not JSON in UTF-8, or a path leads through what is no object.
    """
    try:
        info = os.stat(path)
        link_target = os.readlink(path) if os.path.islink(path) else None
        if not stat.S_ISREG(info.st_mode):
            raise ModelConfigError(f"{path} is not a regular file: give the path of a model's config.json")
        if info.st_size > _SIZE_LIMIT:
            raise ModelConfigError(f"{path} has {info.st_size} bytes, too many for a configuration: check the path")
        source = os.path.realpath(path)
        with open(source, "rb") as stream:
            before = stream.read()
    except FileNotFoundError as error:
        if os.path.islink(path):
            raise ModelConfigError(
                f"{path} is a link to {os.readlink(path)}, which is not there: download the model again"
            ) from error
        return None
    except OSError as error:
        raise ModelConfigError(f"{path} cannot be read: {error.strerror}. Check path and permissions") from error
    after, outcomes = edit_bytes(path, before, edits, keep_null)
    return ConfigPlan(
        path, source, link_target, before, after, outcomes, stat.S_IMODE(info.st_mode), (info.st_uid, info.st_gid)
    )


def edit_bytes(
    path: str, before: bytes, edits: Sequence[Edit], keep_null: bool = True
) -> tuple[bytes, tuple[Outcome, ...]]:
    """Apply the edits to a file's bytes; ``path`` is for messages.

    :raises ModelConfigError: as `plan`.
    """
    mark = codecs.BOM_UTF8 if before.startswith(codecs.BOM_UTF8) else b""
    outcomes: list[Outcome] = []
    try:
        text = before[len(mark) :].decode("utf-8")
        parse(text)
        for edit in edits:
            text, outcome = _apply_edit(text, edit, keep_null)
            outcomes.append(outcome)
        # What was cut and put in by offsets must be JSON still, and hold what the edits ask for.
        parse(text)
        left = [edit.path for edit in edits if _apply_edit(text, edit, keep_null)[0] != text]
    except UnicodeDecodeError as error:
        where = f"{error.reason} at byte {error.start}"
        raise ModelConfigError(f"{path} is not UTF-8 ({where}): download the file again") from error
    except JsonEditError as error:
        raise ModelConfigError(f"{path} cannot be edited: {error}. Correct the file, or the edit's path") from error
    if left:
        names = ", ".join(" > ".join(one) for one in left)
        raise ModelConfigError(f"{path} cannot be edited: the edits contradict each other at {names}. Keep one of them")
    return mark + text.encode("utf-8"), tuple(outcomes)


def apply(found: ConfigPlan, quarantine: Quarantine) -> Saved:
    """Keep what is there, then put the new content at ``path``: a link is replaced, what it leads to is not touched.

    :raises ModelConfigError: the file has changed since it was read, or cannot be written.
    """
    try:
        kept = quarantine.keep(found.source)
        kept_link = quarantine.keep(found.path).kept if found.link_target is not None else None
        if kept.sha256 != sha256(found.before):
            raise ModelConfigError(f"{found.path} was changed by someone else during the edit: run this again")
        patch = quarantine.patch(found.path, unified(found))
        atomic_write(found.path, found.after, found.mode, found.owner)
    except OSError as error:
        raise ModelConfigError(
            f"{found.path} cannot be replaced: {error.filename or found.path}: {error.strerror}. "
            "It is as it was. Make room or correct permissions, and run this again"
        ) from error
    return Saved(kept.kept, kept_link, patch)


def unified(found: ConfigPlan) -> str:
    """The edit as a patch from before to after, for ``patch -p1`` in the root directory."""
    before, after = (data.decode("utf-8").splitlines(keepends=True) for data in (found.before, found.after))
    lines: list[str] = []
    for line in difflib.unified_diff(before, after, f"a{found.path}", f"b{found.path}"):
        lines.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(lines)


def sha256(data: bytes) -> str:
    """The sha256 as 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def _apply_edit(text: str, edit: Edit, keep_null: bool) -> tuple[str, Outcome]:
    there, before = _value(text, edit.path)
    if edit.present:
        same = there and json_equal(before, edit.value)
        after = text if same else put(text, edit.path, edit.value)
        return after, Outcome(edit.path, "unchanged" if same else "set", before, edit.reason)
    if not there:
        return text, Outcome(edit.path, "unchanged", None, edit.reason)
    if before is None and keep_null:
        return text, Outcome(edit.path, "null_kept", None, edit.reason)
    return remove(text, edit.path), Outcome(edit.path, "removed", before, edit.reason)


def _value(text: str, path: Sequence[str]) -> tuple[bool, Any]:
    span = locate(text, path)
    member = span.find(path[-1]) if span is not None else None
    return (False, None) if member is None else (True, parse(text[member.value_start : member.end]))


def json_equal(left: Any, right: Any) -> bool:
    """Whether two values are the same JSON. Python alone takes 1, 1.0 and true for equal."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(json_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(json_equal(one, other) for one, other in zip(left, right))
    return type(left) is type(right) and bool(left == right)
