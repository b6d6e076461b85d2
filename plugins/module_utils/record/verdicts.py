# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what was seen to findings."""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import read_file, sha256_file
from ansible_collections.pristine.vllm.plugins.module_utils.record.claims import Claim, Expected, Script
from ansible_collections.pristine.vllm.plugins.module_utils.record.environment import (
    Distribution,
    Environment,
    resolved,
)
from ansible_collections.pristine.vllm.plugins.module_utils.record.hashing import Outcome
from ansible_collections.pristine.vllm.plugins.module_utils.record.launchers import LIMIT, Launchers
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import (
    INSTALLED_RECORD,
    LEVELS,
    Adaptation,
    Finding,
    ScanError,
)
from ansible_collections.pristine.vllm.plugins.module_utils.record.parse import DIGEST_BYTES
from ansible_collections.pristine.vllm.plugins.module_utils.record.walk import Links, Stray, could_run
from ansible_collections.pristine.vllm.plugins.module_utils.record.wheel import WheelError

_EMPTY = {name: hashlib.new(name).digest() for name in DIGEST_BYTES}


class Judge:
    """Collects the findings of one scan."""

    def __init__(self, environment: Environment, expected: Expected, links: Links) -> None:
        """Start with what was found while the RECORDs were read."""
        self._environment = environment
        self._expected = expected
        self._links = links
        self._findings = list(expected.findings)
        # Set when something that has a wheel could be compared with the installed RECORD only.
        self._weakened = False

    def weakest(self) -> str:
        """The weakest level of trust that any verdict rests on; what installers themselves write is left aside."""
        levels = [LEVELS.index(owner.level) for owner in self._expected.owners if owner.selected]
        return LEVELS[0] if self._weakened or not levels else LEVELS[min(levels)]

    def _add(
        self, path: str, status: str, detail: str, claim: Optional[Claim] = None, sha256: Optional[str] = None
    ) -> None:
        finding = Finding(self._environment.relative(path), path, status, detail, actual_sha256=sha256)
        if claim is not None:
            finding.distribution = claim.owner.distribution.name
            finding.verified_against = claim.owner.level
            finding.expected_sha256 = claim.digest.hex() if claim.algorithm == "sha256" and claim.digest else None
        self._findings.append(finding)

    def behind_link(self, path: str, claims: list[Claim]) -> None:
        """A file that a link on its way takes out of the environment: not opened."""
        link = self._environment.relative(self._links.escape(os.path.dirname(path)))
        self._add(path, "redirected", f"reached through {link}, a symlink out of the environment", _best(claims))

    def file(self, path: str, claims: list[Claim], outcome: Optional[Outcome]) -> None:
        """One file that somebody lists."""
        claim = _best(claims)
        if outcome is None:
            if claim.problem:
                sha256 = claim.digest.hex() if claim.algorithm == "sha256" and claim.digest else None
                self._add(path, "unverifiable", claim.problem, claim, sha256)
                self._weakened |= claim.owner.level == INSTALLED_RECORD
        elif outcome.state == "missing":
            wheel = claim.owner.wheel
            ghost = bool(claim.member) and wheel is not None and claim.member not in wheel.sizes
            self._add(path, "unverifiable" if ghost else "missing", claim.problem if ghost else "not there", claim)
        elif outcome.state == "unreadable":
            self._add(path, "unreadable", outcome.text, claim)
        elif outcome.state == "irregular" and self._is_directory_row(path, claims):
            pass
        elif outcome.state == "irregular":
            out = os.path.islink(path) and self._links.leads_out(path)
            detail = outcome.text + (", out of the environment" if out else " and no regular file")
            self._add(path, "redirected" if out else "modified", detail, claim)
        elif self._is_member(path, claims, outcome.sha256):
            detail = "it is byte for byte what the wheel holds, but the wheel's own RECORD says otherwise"
            self._add(path, "unverifiable", detail, claim, outcome.sha256)
        else:
            self._add(path, "modified", outcome.text, claim, outcome.sha256)

    def _is_directory_row(self, path: str, claims: list[Claim]) -> bool:
        """Whether rows without content, as some builders write them for directories, mean just that."""
        if any(claim.digest and claim.digest != _EMPTY.get(claim.algorithm) for claim in claims):
            return False
        folder = os.path.isdir(path) and not os.path.islink(path)
        return folder and any(other.startswith(path + "/") for other in self._expected.listed)

    def _is_member(self, path: str, claims: list[Claim], sha256: Optional[str]) -> bool:
        """Whether a file that RECORD denies is the wheel's member all the same: published wheels have such rows."""
        for claim in claims:
            wheel = claim.owner.wheel
            if wheel is not None and claim.member in wheel.sizes:
                with contextlib.suppress(WheelError, OSError):
                    # Libraries have hundreds of megabytes, and the wheel may be far away.
                    if os.lstat(path).st_size == wheel.sizes[claim.member] and wheel.sha256(claim.member) == sha256:
                        return True
        return False

    def scripts(self) -> None:
        """Scripts whose bytes no wheel holds: do they do what the wheel's entry points or scripts do?"""
        known = {finding.file: finding for finding in self._findings}
        launchers = Launchers(self._environment)
        for script in self._expected.scripts:
            finding = known.get(script.path)
            if (finding is not None and finding.status != "modified") or not script.owner.selected:
                continue
            if script.path not in self._expected.listed or self._links.escape(os.path.dirname(script.path)):
                continue
            claim = Claim(script.owner, "", b"", None)
            try:
                verdict = launchers.judge(script, read_file(script.path, LIMIT))
            except FileNotFoundError:
                verdict = "missing", "not there"
            except OSError as error:
                verdict = "unreadable", str(error.strerror)
            if verdict is None:
                continue
            if finding is None:
                self._script(script, claim, *verdict)
            elif verdict[0] == "modified":
                # The installed RECORD denied it, and so does the wheel.
                finding.verified_against = script.owner.level

    def _script(self, script: Script, claim: Claim, status: str, detail: str) -> None:
        self._add(script.path, status, detail, claim)
        if status == "unverifiable":
            self._weakened = True
            self._findings[-1].verified_against = INSTALLED_RECORD
        elif status == "modified":
            with contextlib.suppress(OSError):
                self._findings[-1].actual_sha256 = sha256_file(script.path)

    def strays(self, strays: list[Stray]) -> None:
        """What the walk met."""
        owners: dict[str, str] = {}
        if strays:
            for path, claims in self._expected.claims.items():
                owners.setdefault(self._environment.relative(path).split("/")[0], claims[0].owner.distribution.name)
        for stray in strays:
            self._add(stray.path, stray.status, stray.detail)
            finding = self._findings[-1]
            inside = "/" in finding.path and finding.path.split("/")[0] != "bin"
            finding.distribution = owners.get(finding.path.split("/")[0]) if inside else None
            finding.verified_against = self.weakest()
            if stray.status == "unexpected":
                with contextlib.suppress(OSError):
                    finding.actual_sha256 = sha256_file(stray.path)

    def environment(self, names: list[str]) -> None:
        """What is wrong with distributions as such, and with the environment where all of it is scanned."""
        by_name: dict[str, list[Distribution]] = {}
        for owner in self._expected.owners:
            if owner.selected:
                by_name.setdefault(owner.distribution.name, []).append(owner.distribution)
                if owner.wheel is None and owner.distribution.problem:
                    self._whole(owner.distribution, owner.distribution.problem)
                elif owner.distribution.editable:
                    self._whole(owner.distribution, f"editable install: its code is in {owner.distribution.editable}")
        for group in by_name.values():
            if len(group) > 1:
                detail = "several .dist-info of one distribution: " + ", ".join(
                    os.path.basename(distribution.directory) for distribution in group
                )
                self._add(group[-1].directory, "duplicate", detail)
                self._findings[-1].distribution = group[-1].name
        chosen = tuple(f"{owner.distribution.directory}/" for owner in self._expected.owners if owner.selected)
        marks = [(path, "leftover", "remains of an interrupted installation") for path in self._environment.leftovers]
        for path in self._environment.escaped:
            real = resolved(path)
            marks.append((path, "redirected", f"leads out of the environment, to {real}; not opened"))
        marks += [(path, "unreadable", reason) for path, reason in self._environment.unreadable.items()]
        for path, status, detail in marks:
            if not names or f"{path}/".startswith(chosen):
                self._add(path, status, detail)

    def _whole(self, distribution: Distribution, detail: str) -> None:
        self._add(distribution.directory, "unverifiable", detail)
        self._findings[-1].distribution = distribution.name

    def unlisted_tops(self) -> set[str]:
        """Top-level paths, suffixes aside, of distributions that have neither RECORD nor wheel.

        Not those that another distribution's package has: a name in a text file must not hide what is put there.
        """
        tops = {
            f"{owner.distribution.site}/{name}"
            for owner in self._expected.owners
            if owner.wheel is None and owner.distribution.record is None
            for name in owner.distribution.top_level
        }
        return {top for top in tops if f"{top}/__init__.py" not in self._expected.listed}

    def tops(self, site: str) -> set[str]:
        """The names at the top of a site-packages that the selected distributions have files in."""
        start = len(site) + 1
        return {path[start:].split("/")[0] for path in self._expected.claims if path.startswith(site + "/")}

    def unclaimed(self, wanted: dict[str, list[str]]) -> None:
        """Files that were asked for and that nobody lists.

        :raises ScanError: one is not there either: an answer without it would read as "pristine".
        """
        for name, places in wanted.items():
            if any(place in self._expected.claims for place in places):
                continue
            there = [place for place in places if os.path.lexists(place)]
            if not there:
                raise ScanError(
                    f"files: no RECORD in {self._environment.root} lists {name!r} and it is not there: "
                    "give paths as RECORD has them, relative to site-packages"
                )
            runs = could_run(os.path.basename(there[0]), top="/" not in name)
            self._add(
                there[0], "unexpected" if runs else "unverifiable", f"nobody lists it{': ' if runs else ''}{runs}"
            )

    def adapt(self, adaptations: list[Adaptation], wanted: Optional[dict[str, list[str]]]) -> list[Finding]:
        """The findings, those that were declared taken for what they are.

        :raises ScanError: an adaptation lies outside of the environment.
        """
        by_file = {finding.file: finding for finding in self._findings}
        for adaptation in adaptations:
            places = [
                place for place in self._environment.absolute(adaptation.path) if self._environment.contains(place)
            ]
            if not places:
                raise ScanError(
                    f"adaptations: {adaptation.path!r} lies outside of the environment {self._environment.root}: "
                    "only files of the environment can be adapted here"
                )
            path = next(
                (place for place in places if place in self._expected.listed or os.path.lexists(place)), places[0]
            )
            if wanted is not None and not any(path in group for group in wanted.values()):
                continue
            if path in self._expected.listed and path not in self._expected.claims:
                continue  # It belongs to a distribution that was not asked for.
            self._adapt(adaptation, path, by_file.get(path))
        return self._findings

    def _adapt(self, adaptation: Adaptation, path: str, finding: Optional[Finding]) -> None:
        if finding is not None and finding.status in ("redirected", "unreadable"):
            return
        actual = finding.actual_sha256 if finding is not None else None
        if actual is None and not self._links.escape(os.path.dirname(path)):
            with contextlib.suppress(OSError):
                actual = sha256_file(path)
        declared = adaptation.sha256.lower()
        if finding is not None and actual != declared and finding.status != "unverifiable":
            finding.detail += f"; nor is it the declared adaptation ({adaptation.reason})"
            finding.actual_sha256 = actual
            return
        if finding is None:
            claims = self._expected.claims.get(path)
            self._add(path, "", "", _best(claims) if claims else None)
            finding = self._findings[-1]
        finding.expected_sha256, finding.actual_sha256 = declared, actual
        finding.status = "declared" if actual == declared else "unadapted"
        where = "it is not there" if actual is None else "the file is without it"
        finding.detail = adaptation.reason if actual == declared else f"{where}: {adaptation.reason}"


def _best(claims: list[Claim]) -> Claim:
    """The claim to report: that of a wheel first, then one with a digest."""
    return max(claims, key=lambda claim: (LEVELS.index(claim.owner.level), bool(claim.digest)))
