# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Diffs and probes of a finished scan: what needs the pristine text."""

from __future__ import annotations

from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import read_file
from ansible_collections.pristine.vllm.plugins.module_utils.record.diff import TEXT_LIMIT, DiffResult, is_binary, patch
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import Finding, Probe
from ansible_collections.pristine.vllm.plugins.module_utils.record.probes import find_probes
from ansible_collections.pristine.vllm.plugins.module_utils.record.scan import Scan
from ansible_collections.pristine.vllm.plugins.module_utils.record.wheel import WheelError

_WHOLE = "drift_archive keeps the whole patch"


class Texts:
    """The pristine and the installed bytes of a finding, with the reason where one of them is not to be had."""

    def __init__(self, scan: Scan, finding: Finding) -> None:
        """Read them; only a regular file in the environment is opened."""
        self.pristine: Optional[bytes] = None
        self.installed: Optional[bytes] = None
        self.origin = "no file"
        self.problem = ""
        #: Whether there is a wheel that holds it, and its bytes are not to be had.
        self.failed = False
        if finding.status not in ("modified", "missing", "unexpected", "declared", "unadapted"):
            self.problem = f"not opened, because it is {finding.status}"
            return
        try:
            known = scan.pristine_bytes(finding, TEXT_LIMIT)
            if known is not None:
                self.pristine, self.origin = known
            elif finding.file in scan.expected.claims:
                self.problem = "its pristine text is not known: give the wheel it was installed from (option wheels)"
                return
            if finding.status != "missing":
                self.installed = read_file(finding.file, TEXT_LIMIT + 1)
        except WheelError as error:
            self.problem, self.failed = str(error), True
        except FileNotFoundError:
            pass
        except OSError as error:
            self.problem = f"it cannot be read: {error.strerror}"

    def patch(self, path: str) -> Optional[str]:
        """The patch from pristine to installed, None where there is none to be had."""
        return None if self.problem else patch(path, self.pristine, self.installed, self.origin)


def diff_of(scan: Scan) -> list[dict[str, str]]:
    """One entry for each finding that counts and each declared difference, as Ansible's ``--diff`` takes them.

    When the whole is large enough, one entry for all that are left.
    """
    result = DiffResult(_WHOLE)
    different = [finding for finding in scan.result.findings if finding.counts or finding.status == "declared"]
    for number, finding in enumerate(different):
        if result.full:
            result.left(len(different) - number)
            break
        texts = Texts(scan, finding)
        text = texts.patch(finding.path)
        if text is None:
            reason = texts.problem
            if not reason:
                binary = is_binary(texts.pristine or b"") or is_binary(texts.installed or b"")
                reason = "binary file differs" if binary else "no difference in text, or too large to show"
            text = f"{finding.path}: {finding.status}: {reason}\n"
        result.add(finding.path, texts.origin, text)
    return result.entries


def probes_of(scan: Scan, findings: Optional[list[Finding]] = None) -> list[Probe]:
    """What was added to each modified Python source whose pristine text is known.

    Warns of one whose wheel cannot be read: who cleans up by probes would not know of what it writes.

    :param findings: some of the scan's; default all of them.
    """
    probes: list[Probe] = []
    for finding in scan.result.findings if findings is None else findings:
        if finding.status == "modified" and finding.path.endswith(".py"):
            texts = Texts(scan, finding)
            if texts.pristine is not None and texts.installed is not None:
                probes += find_probes(finding.path, texts.pristine, texts.installed)
            elif texts.failed:
                scan.result.warnings.append(f"probes: what was added to {finding.path} is not known: {texts.problem}")
    return probes
