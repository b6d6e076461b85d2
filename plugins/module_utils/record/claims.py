# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who owns files, and what each owner claims of them."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from typing import NamedTuple, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.record.environment import Distribution
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import (
    INSTALLED_RECORD,
    PINNED_WHEEL,
    WHEEL_RECORD,
    Finding,
)
from ansible_collections.pristine.vllm.plugins.module_utils.record.wheel import Wheel


class Owner:
    """A distribution and, where there is one, the wheel it came from."""

    def __init__(self, distribution: Distribution, wheel: Optional[Wheel], selected: bool = True) -> None:
        """Tie them together; the wheel decides how far a verdict can be trusted.

        One that is not selected is only known by its paths, and as a second owner of a file.
        """
        self.distribution = distribution
        self.wheel = wheel
        self.selected = selected
        if wheel is None:
            self.level = INSTALLED_RECORD
        else:
            self.level = PINNED_WHEEL if wheel.pinned else WHEEL_RECORD

    def without_wheel(self) -> None:
        """The wheel turned out not to be of use for it."""
        self.wheel, self.level = None, INSTALLED_RECORD


class Claim(NamedTuple):
    """What one owner says of a path: ``member`` is the wheel's, empty where only the installed RECORD speaks.

    ``problem`` says why there is no digest to compare with or, where there is one, what keeps a match from being proof.
    """

    owner: Owner
    algorithm: str
    digest: bytes
    size: Optional[int]
    member: str = ""
    problem: str = ""


class Script(NamedTuple):
    """A script to compare with what its wheel says: by an entry point, or by a member whose first line is rewritten."""

    path: str
    owner: Owner
    member: str
    entry: str


@dataclass
class Expected:
    """Owners, ``claims`` by absolute path, every path that somebody lists, scripts to look into, findings so far."""

    owners: list[Owner] = field(default_factory=list)
    claims: dict[str, list[Claim]] = field(default_factory=dict)
    listed: set[str] = field(default_factory=set)
    scripts: list[Script] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def is_cached_bytecode(path: str) -> bool:
    """Whether it is bytecode that Python keeps of a source (PEP 3147); what lies beside the sources is not."""
    return path.endswith(".pyc") and posixpath.basename(posixpath.dirname(path)) == "__pycache__"
