# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeping the evidence: every file that is not pristine, and the patch that tells it from what it was."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from dataclasses import dataclass, replace
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.quarantine import Quarantine
from ansible_collections.pristine.vllm.plugins.module_utils.record.evidence import Texts
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import (
    STATUSES,
    Finding,
    ScanError,
    ScanOptions,
    printable,
)
from ansible_collections.pristine.vllm.plugins.module_utils.record.scan import Scan, scan

NOTE = "findings.json"
# Of more files than that, a scan of all is faster than looking for the owners of each.
_SINGLY = 200


@dataclass
class Item:
    """One finding to archive.

    ``kept`` and ``patched`` are the places in the quarantine of its file and of the patch to it, None where there is no
    such thing, and ``note`` says why; ``new`` is whether one of them is not there yet.
    """

    finding: Finding
    kept: Optional[str] = None
    patch: Optional[str] = None
    patched: Optional[str] = None
    note: str = ""
    new: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As the module returns it."""
        found = self.finding.to_dict()
        places = {"kept": self.kept, "patch": self.patched}
        return {
            **{name: found[name] for name in ("path", "file", "status")},
            **{name: None if place is None else printable(place) for name, place in places.items()},
            "note": self.note,
        }


@dataclass
class Plan:
    """What to keep, the text of ``findings.json`` where that is to be written, and warnings for the operator."""

    items: list[Item]
    note: str
    write_note: bool
    warnings: list[str]

    @property
    def changed(self) -> bool:
        """Whether anything is not in the quarantine yet."""
        return self.write_note or any(item.new for item in self.items)


def finding_of(entry: dict[str, Any], environment: str) -> Finding:
    """A finding from what ``wheel_record_info`` returned.

    :raises ScanError: it is none, or of another environment.
    """
    try:
        finding = Finding(**{name: entry.get(name) for name in Finding.__dataclass_fields__})  # type: ignore[arg-type]
        counts = STATUSES[entry["status"]]
        finding.file = os.path.normpath(entry["file"])
    except (KeyError, TypeError) as error:
        raise ScanError(
            f"findings: {str(entry)[:200]} is not a finding of wheel_record_info ({error}): give its list as it is"
        ) from error
    root = os.path.realpath(environment)
    if counts and not finding.file.startswith(root + "/"):
        raise ScanError(
            f"findings: {finding.file} is not in the environment {environment!r} (really {root}), and only its files "
            "can be archived here: scan and archive the same environment"
        )
    if not os.path.lexists(finding.file):
        finding.file = _raw(finding.file)
    return finding


def plan(options: ScanOptions, findings: list[dict[str, Any]], probes: list[dict[str, Any]], directory: str) -> Plan:
    """Decide what to keep of each finding that counts; reads only.

    :param options: the environment, and the wheels that the pristine text may come from.
    :param directory: of the quarantine.
    :raises ScanError: as `scan`, or a finding is none, or a file that has to be kept cannot be read.
    """
    quarantine = Quarantine(directory)
    counting = [finding for finding in (finding_of(entry, options.environment) for entry in findings) if finding.counts]
    recorded = [finding.file for finding in counting if finding.status in ("modified", "missing")]
    pristine: Optional[Scan] = None
    if recorded and options.wheels:
        pristine = scan(replace(options, files=recorded if len(recorded) <= _SINGLY else []))
    warnings = [] if pristine is None else pristine.result.warnings
    try:
        items = [_item(finding, pristine, quarantine) for finding in counting]
    finally:
        if pristine is not None:
            pristine.close()
    text = json.dumps({"findings": findings, "probes": probes}, indent=2, sort_keys=True) + "\n"
    return Plan(items, text, bool(items) and _text(os.path.join(directory, NOTE)) != text, warnings)


def _item(finding: Finding, pristine: Optional[Scan], quarantine: Quarantine) -> Item:
    item = Item(finding)
    if finding.status in ("outside", "redirected") and not os.path.islink(finding.file):
        # Its content is not the environment's, and may be anything on this host.
        item.note = "not kept: it lies out of the environment and was not opened"
        return item
    try:
        mode = os.lstat(finding.file).st_mode
        if stat.S_ISREG(mode) or stat.S_ISLNK(mode):
            item.kept, there = quarantine.place_of(finding.file)
            item.new = not there
        else:
            item.note = "not kept: neither a regular file nor a symlink"
    except FileNotFoundError:
        item.note = "not kept: it is not there"
    except OSError as error:
        raise _cannot(finding.file, quarantine.directory, error) from error
    if pristine is not None and finding.status in ("modified", "missing"):
        texts = Texts(pristine, finding)
        item.patch = texts.patch(finding.path) if texts.pristine is not None else None
        if texts.problem and not item.note:
            item.note = f"no patch: {texts.problem}"
    if item.patch is not None:
        item.patched, there = quarantine.place_of_patch(finding.file, item.patch)
        item.new = item.new or not there
    return item


def apply(decided: Plan, directory: str) -> None:
    """Keep what `plan` decided.

    :raises ScanError: something cannot be kept.
    """
    quarantine = Quarantine(directory)
    for item in decided.items:
        try:
            if item.kept is not None:
                item.kept = quarantine.keep(item.finding.file).kept
            if item.patch is not None:
                item.patched = quarantine.patch(item.finding.file, item.patch)
        except OSError as error:
            raise _cannot(item.finding.file, directory, error) from error
    if decided.write_note:
        try:
            quarantine.note(NOTE, decided.note)
        except OSError as error:
            raise _cannot(NOTE, directory, error) from error


def _cannot(path: str, directory: str, error: OSError) -> ScanError:
    return ScanError(
        f"{path} cannot be kept in the quarantine {directory}: {error}; the environment is as it was: "
        "make room or correct the permissions, and run again"
    )


def _raw(path: str) -> str:
    """The path of a file whose name is no UTF-8, from what findings write for it."""
    found = "/"
    for part in path.strip("/").split("/"):
        step = os.path.join(found, part)
        if not os.path.lexists(step):
            names: list[str] = []
            with contextlib.suppress(OSError):
                names = [name for name in os.listdir(found) if printable(name) == part]
            # Of a file that is gone only the text is left.
            raw = re.sub(rb"\\x([0-9a-f]{2})", lambda match: bytes.fromhex(match.group(1).decode()), os.fsencode(part))
            step = os.path.join(found, names[0] if names else os.fsdecode(raw))
        found = step
    return found


def _text(path: str) -> Optional[str]:
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except (OSError, ValueError):
        return None
