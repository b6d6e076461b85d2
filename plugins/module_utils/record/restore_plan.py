# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files have to be replaced or removed to make an environment pristine, and whether that can be done at all."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import TEMPORARY
from ansible_collections.pristine.vllm.plugins.module_utils.quarantine import Quarantine
from ansible_collections.pristine.vllm.plugins.module_utils.record.bytecode import CACHE, cached_of
from ansible_collections.pristine.vllm.plugins.module_utils.record.change import (
    Change,
    Plan,
    RestoreError,
    evidence,
    lacking_space,
)
from ansible_collections.pristine.vllm.plugins.module_utils.record.contents import (
    Content,
    Contents,
    UnavailableError,
)
from ansible_collections.pristine.vllm.plugins.module_utils.record.hard_links import other_links
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import Adaptation, Finding
from ansible_collections.pristine.vllm.plugins.module_utils.record.scan import Scan
from ansible_collections.pristine.vllm.plugins.module_utils.record.wheel import WheelError

_WRONG = ("modified", "missing", "redirected")
# Why a finding stays.
_LEFT = {
    "unadapted": "apply the declared adaptation",
    "duplicate": "nobody can tell which of them is right: reinstall the distribution",
}


class Planner:
    """Decides, finding by finding; reads only."""

    def __init__(self, scan: Scan, adaptations: list[Adaptation], quarantine: Quarantine, remove: bool) -> None:
        """Take a scan whose wheels are still open; ``remove`` is for what nobody lists."""
        self.plan = Plan(scan.environment.root)
        self._refused: list[tuple[str, str]] = []
        self._environment = scan.environment
        self._expected = scan.expected
        self._findings = scan.result.findings
        self._contents = Contents(scan)
        self._adaptations = adaptations
        self._quarantine = quarantine
        self._remove = remove
        self._done: set[str] = set()
        self._records: dict[str, Finding] = {}

    def decide(self, places: list[str]) -> Plan:
        """The plan.

        :param places: where other names of replaced files are looked for.
        :raises RestoreError: something that is needed is not to be had.
        """
        later = [finding for finding in self._findings if not self._needs_bytes(finding)]
        for finding in later:
            self._unlisted(finding)
        for directory in self._contents.rows:
            self._row_of(directory)
        for file, finding in sorted(self._records.items()):
            self._restore(finding, file, record=True)
        if not self._refused:
            self._refused += lacking_space(self.plan, self._quarantine.directory)
        if self._refused:
            raise RestoreError(self._refused)
        named = [(change.path, change.file) for change in self.plan.restored + self.plan.removed]
        self.plan.links = other_links(named, places)
        return self.plan

    def _needs_bytes(self, finding: Finding) -> bool:
        """Take up a finding that only the right bytes cure."""
        status = finding.status
        folder, name = os.path.split(finding.file)
        if status == "redirected" and not self._is_expected(finding.file):
            return False
        record = name == "RECORD" and folder.endswith(".dist-info")
        if status == "outside" and self._contents.is_of_wheel(finding):
            self.plan.left.append((finding, "the wheel itself has it there"))
        elif status in ("record_edited", "outside") or (record and status in _WRONG):
            self._records.setdefault(finding.file, finding)
        elif status in _WRONG:
            self._restore(finding, finding.file)
        elif status == "unreadable":
            self._refused.append((finding.path, f"{finding.detail}; what cannot be read cannot be kept"))
        else:
            return False
        return True

    def _is_expected(self, file: str) -> bool:
        record = os.path.basename(file) == "RECORD" and os.path.dirname(file).endswith(".dist-info")
        return record or file in self._expected.claims or file in self._expected.listed

    def _unlisted(self, finding: Finding) -> None:
        """Take up what is cured by going away, or not at all."""
        folder, name = os.path.split(finding.file)
        status = finding.status
        cache = (os.path.basename(folder) == CACHE and name.endswith(".pyc")) or (
            name == CACHE and os.path.islink(finding.file)
        )
        if cache or (status == "leftover" and name.startswith(TEMPORARY)):
            self._drop(finding.file, status, finding.detail, finding.distribution)
        elif status in ("unexpected", "bytecode", "leftover", "redirected"):
            if status == "unexpected" and self._contents.adopt(finding.file):
                return
            if any(file.startswith(finding.file + "/") for file in (*self._done, *self._records)):
                return  # What is put back in it makes it whole.
            if self._holds_up(finding.file):
                self.plan.left.append((finding, "put what it should be in its place, or build the environment anew"))
            elif self._remove:
                self._drop(finding.file, status, finding.detail, finding.distribution)
            else:
                self.plan.left.append((finding, "remove_unexpected is false"))
        elif status != "declared":
            self.plan.left.append((finding, _LEFT.get(status, "there is nothing to compare it with")))

    def _holds_up(self, file: str) -> bool:
        """Whether the environment rests on it: then it does not go."""
        return file in {*self._environment.escaped, *self._environment.sites, self._environment.root + "/bin"}

    def _row_of(self, directory: str) -> None:
        """A script's row changes, and with it the RECORD, where nothing else is wrong with that."""
        file = directory + "/RECORD"
        names = ", ".join(sorted(os.path.basename(path) for path in self._contents.rows[directory]))
        for owner in self._expected.owners:
            if owner.distribution.directory == directory:
                finding = Finding(
                    self._environment.relative(file),
                    file,
                    "record_edited",
                    f"its rows are not those of the scripts: {names}",
                    owner.distribution.name,
                )
                self._records.setdefault(file, finding)

    def _restore(self, finding: Finding, file: str, record: bool = False) -> None:
        if file in self._done:
            return
        self._done.add(file)
        path = self._environment.relative(file)
        try:
            self._reachable(file)
            content = self._contents.record(file) if record else self._contents.of(finding)
            change = Change(path, file, finding.status, finding.detail, finding.distribution, content)
            self._present(change, content)
        except (UnavailableError, WheelError) as error:
            self._refused.append((path, str(error)))
        except OSError as error:
            self._refused.append((path, f"it cannot be kept in the quarantine: {error.strerror or error}"))
        else:
            self.plan.restored.append(change)
            if file.endswith(".py"):
                self._bytecode_of(file, finding.distribution)
            self._unadapted(change)

    def _reachable(self, file: str) -> None:
        """
        :raises UnavailableError: the way to it leads out of the environment, or through something that is no directory.
        """
        parent = os.path.dirname(file)
        while not os.path.lexists(parent):
            parent = os.path.dirname(parent)
        real = os.path.realpath(parent)
        if real != self._environment.root and not self._environment.contains(real):
            raise UnavailableError(
                f"it is reached through {parent}, which leads to {real}, out of the environment, where nothing is "
                "written: put a directory in place of the link, or build the environment anew"
            )
        if not os.path.isdir(parent):
            raise UnavailableError(f"{parent} is no directory any more: move it away, and run again")

    def _present(self, change: Change, content: Content) -> None:
        """Note what is there now: whose it is, and where the quarantine keeps it."""
        try:
            info = os.lstat(change.file)
        except (FileNotFoundError, NotADirectoryError):
            parent = os.path.dirname(change.file)
            while not os.path.isdir(parent):
                parent = os.path.dirname(parent)
            info = os.stat(parent)
            change.owner, change.mode = (info.st_uid, info.st_gid), content.mode
            return
        if stat.S_ISDIR(info.st_mode):
            raise UnavailableError("it is a directory now, with what may be somebody's in it: move it away")
        if stat.S_ISREG(info.st_mode):
            change.size = info.st_size
            change.shared = info.st_nlink > 1
        else:
            change.mode = content.mode
        self._keep(change, info)
        text = evidence(change)
        if text is not None:
            change.patched = self._quarantine.place_of_patch(change.file, text)[0]

    def _keep(self, change: Change, info: os.stat_result) -> None:
        # A FIFO, a socket or a device has no content of its own that could be lost.
        if stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode):
            change.kept = self._quarantine.place_of(change.file)[0]

    def _bytecode_of(self, source: str, distribution: Optional[str]) -> None:
        with contextlib.suppress(OSError):
            for cached in cached_of(source):
                self._drop(cached, "bytecode", f"made from {os.path.basename(source)} as it was", distribution)

    def _unadapted(self, change: Change) -> None:
        """A file that is pristine again and should be adapted is not right yet."""
        for adaptation in self._adaptations:
            if change.file in self._environment.absolute(adaptation.path):
                finding = Finding(change.path, change.file, "unadapted", adaptation.reason, change.distribution)
                self.plan.left.append((finding, _LEFT["unadapted"]))

    def _drop(self, file: str, status: str, detail: str, distribution: Optional[str]) -> None:
        """Remove a file, a link, or a directory with all that is in it."""
        if file in self._done:
            return
        try:
            info = os.lstat(file)
            if stat.S_ISDIR(info.st_mode):
                entries = sorted(os.scandir(file), key=lambda entry: entry.name)
                for entry in entries:
                    self._drop(entry.path, status, detail, distribution)
                if entries:
                    return
            change = Change(self._environment.relative(file), file, status, detail, distribution)
            change.size = info.st_size
            self._keep(change, info)
        except OSError as error:
            reason = f"it cannot be kept in the quarantine: {error.strerror or error}"
            self._refused.append((self._environment.relative(file), reason))
            return
        self._done.add(file)
        self.plan.removed.append(change)
        if file.endswith(".py"):
            self._bytecode_of(file, distribution)
