# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a restore does, file by file, as data."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import read_file
from ansible_collections.pristine.vllm.plugins.module_utils.messages import human_bytes
from ansible_collections.pristine.vllm.plugins.module_utils.record.contents import Content
from ansible_collections.pristine.vllm.plugins.module_utils.record.diff import TEXT_LIMIT, patch
from ansible_collections.pristine.vllm.plugins.module_utils.record.hard_links import OtherLinks
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import Finding, printable

# What a result and a refusal show; the quarantine's note has all of it.
SHOWN = 200
# Left free beside what is written.
_SPARE = 16 * 1024 * 1024


@dataclass
class Change:
    """One file to replace or make (``content``), or to remove.

    ``kept`` and ``patched`` are places in the quarantine, if any. ``mode`` and ``owner`` are for a file that has none
    to keep. ``size`` is in bytes, and ``shared`` whether it has other names.
    """

    path: str
    file: str
    status: str
    detail: str
    distribution: Optional[str] = None
    content: Optional[Content] = None
    mode: Optional[int] = None
    owner: Optional[tuple[int, int]] = None
    kept: Optional[str] = None
    patched: Optional[str] = None
    size: int = 0
    shared: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As the module returns it."""
        result: dict[str, Any] = {
            "path": printable(self.path),
            "file": printable(self.file),
            "distribution": self.distribution,
            "status": self.status,
            "kept": None if self.kept is None else printable(self.kept),
        }
        if self.content is not None:
            result["patch"] = None if self.patched is None else printable(self.patched)
            result["sha256"] = self.content.sha256
            result["origin"] = self.content.origin
            result["verified_against"] = self.content.level
        return result


@dataclass
class Plan:
    """What to do, in this order: ``restored`` files, then ``removed`` ones; ``left`` are findings that stay."""

    root: str
    restored: list[Change] = field(default_factory=list)
    removed: list[Change] = field(default_factory=list)
    left: list[tuple[Finding, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    links: list[OtherLinks] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.restored or self.removed)

    @property
    def pristine(self) -> bool:
        """Whether nothing that counts is left afterwards."""
        return not any(finding.counts for finding, _reason in self.left)

    def to_dict(self, most: Optional[int] = SHOWN) -> dict[str, Any]:
        """As the module returns it, with at most so many entries in each list."""
        left = [{**finding.to_dict(), "reason": reason} for finding, reason in self.left]
        return {
            "changed": self.changed,
            "pristine": self.pristine,
            "restored": [change.to_dict() for change in self.restored[:most]],
            "removed": [change.to_dict() for change in self.removed[:most]],
            "left": left[:most],
            "other_links": [link.to_dict() for link in self.links[:most]],
            "counts": {
                "restored": len(self.restored),
                "removed": len(self.removed),
                "left": len(self.left),
                "other_links": len(self.links),
            },
        }


class RestoreError(Exception):
    """What stands in the way, as pairs of a path and a reason."""

    def __init__(self, reasons: list[tuple[str, str]]) -> None:
        """Put them into one message."""
        self.reasons = reasons
        shown = "; ".join(f"{printable(path)}: {reason}" for path, reason in reasons[:10])
        more = f"; and {len(reasons) - 10} more" if len(reasons) > 10 else ""
        super().__init__(f"nothing was changed, because {len(reasons)} file(s) cannot be put right: {shown}{more}")

    def to_list(self) -> list[dict[str, str]]:
        """As the module returns it."""
        return [{"path": printable(path), "reason": printable(reason)} for path, reason in self.reasons[:SHOWN]]


def evidence(change: Change) -> Optional[str]:
    """The patch from what a file should be to what is there; None where there is no text, or nothing there."""
    if change.content is None or change.kept is None or os.path.islink(change.file):
        return None
    texts = _texts(change)
    return None if texts is None else patch(change.path, *texts, change.content.origin)


def backwards(change: Change) -> Optional[str]:
    """The patch from what is there to what will be; None where there is no text."""
    texts = None if os.path.islink(change.file) else _texts(change)
    if texts is None:
        return None
    origin = change.content.origin if change.content is not None else ""
    pristine, installed = texts
    text = patch(change.path, installed, pristine, origin)
    if text is None:
        return None
    _before, _after, hunks = text.split("\n", 2)
    before = "/dev/null" if installed is None else f"a/{change.path}"
    after = "/dev/null\t" if pristine is None else f"b/{change.path}\tpristine: {origin}"
    return f"--- {before}\tinstalled\n+++ {after}\n{hunks}"


def _texts(change: Change) -> Optional[tuple[Optional[bytes], Optional[bytes]]]:
    """The pristine and the installed bytes of a change, None where one of them is too large or not to be read."""
    if max(change.size, change.content.size if change.content is not None else 0) > TEXT_LIMIT:
        return None
    try:
        installed: Optional[bytes] = read_file(change.file, TEXT_LIMIT)
    except FileNotFoundError:
        installed = None
    except OSError:
        return None
    return (change.content.read(TEXT_LIMIT) if change.content is not None else None), installed


def lacking_space(plan: Plan, quarantine: str) -> list[tuple[str, str]]:
    """The file systems that are too full for what is to be written."""
    while not os.path.isdir(quarantine):
        quarantine = os.path.dirname(quarantine)
    needed: dict[int, int] = {}
    paths: dict[int, str] = {}
    growth = [change.content.size - (0 if change.shared else change.size) for change in plan.restored if change.content]
    largest = max((change.content.size for change in plan.restored if change.content), default=0)
    kept = sum(change.size for change in plan.restored + plan.removed)
    for path, size in ((plan.root, max(0, sum(growth)) + largest), (quarantine, kept)):
        device = os.stat(path).st_dev
        needed[device] = needed.get(device, 0) + size
        paths.setdefault(device, path)
    reasons = []
    for device, size in needed.items():
        free = shutil.disk_usage(paths[device]).free
        if size and size + _SPARE > free:
            reason = f"{human_bytes(size)} are needed there and {human_bytes(free)} are free: make room"
            reasons.append((paths[device], reason))
    return reasons
