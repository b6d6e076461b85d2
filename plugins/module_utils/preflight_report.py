# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a preflight tells what it found."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Finding:
    """What was checked, where (a path, name or device), what is wrong there, and what to do next."""

    check: str
    where: str
    what: str
    next: str


@dataclass
class Findings:
    """What was found so far: blockers stand in the way, cautions only deserve a look."""

    blockers: list[Finding] = field(default_factory=list)
    cautions: list[Finding] = field(default_factory=list)

    def block(self, check: str, where: str, what: str, advice: str) -> None:
        self.blockers.append(Finding(check, where, what, advice))

    def caution(self, check: str, where: str, what: str, advice: str) -> None:
        self.cautions.append(Finding(check, where, what, advice))
