# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of a host under a fault, and the table of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible_collections.pristine.vllm.tests.faults.rows import NEW, OLD, Row

#: A message in the table is no longer.
NOTE = 160
_RELEASE = re.compile(r".*/releases/[^/]+(?=/)")


@dataclass
class Outcome:
    """The answers of one row; each that is no is in ``problems``. ``next_run``: None while nobody has asked."""

    row: Row
    serves: Optional[float] = None
    release: str = "?"
    lost: list[str] = field(default_factory=list)
    next_run: Optional[bool] = None
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        return not self.problems

    def cells(self) -> list[str]:
        serves = "**no**" if self.serves is None else f"yes, {self.serves:.0f} s later" if self.serves >= 1 else "yes"
        lost = f"**{len(self.lost)} files**" if self.lost else "nothing"
        return [
            self.row.heading,
            self.row.told,
            serves,
            self.release,
            lost,
            "not asked" if self.next_run is None else "finishes" if self.next_run else "**no**",
            f"{self.seconds:.0f}",
        ]


def lost(before: dict[str, Any], after: dict[str, Any], volatile: Iterable[str] = ()) -> list[str]:
    """Files that were there before and are neither where they were, as they were, nor in the quarantine.

    :param volatile: folders that a reboot empties.
    """
    kept = set(after["kept"])
    gone = tuple(f"{folder}/" for folder in [*volatile, *pruned(before, after)])
    return sorted(
        path
        for path, digest in before["files"].items()
        if after["files"].get(path) != digest and digest not in kept and not path.startswith(gone or ("\0",))
    )


def pruned(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    """Releases that went as a whole, as they should: neither the live nor the previous one, and not what was live."""
    needed = {before.get("live"), after.get("live"), after.get("previous")}
    folders = {match.group() for match in map(_RELEASE.match, before["files"]) if match}
    return {folder for folder in folders - needed if not any(path.startswith(f"{folder}/") for path in after["files"])}


def release(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Which release is live, in words."""
    if after["runs_from"] != after["live"]:
        return f"{after['live']}, but {after['runs_from'] or 'nothing'} runs"
    return OLD if after["live"] == before["live"] else NEW


def undisturbed(row: Row, before: dict[str, Any], after: dict[str, Any]) -> Optional[str]:
    """Why it is not so that a fault before phase 4 left the service alone; None where it is."""
    if row.phase >= 4 or row.kind == "reboot" or after["main_pid"] == before["main_pid"]:
        return None
    return f"a fault in phase {row.phase} restarted the service (pid {before['main_pid']} -> {after['main_pid']})"


def table(outcomes: list[Outcome]) -> str:
    """The matrix as Markdown; below it, whatever says no."""
    head = ["phase", "fault", "serves", "release", "lost", "next run", "seconds"]
    lines = ["# Fault matrix", "", _line(head), _line(["---"] * len(head))]
    lines += [_line(outcome.cells()) for outcome in outcomes]
    bad = [outcome for outcome in outcomes if not outcome.good]
    lines += ["", f"{len(outcomes)} rows, {len(bad)} of them say no."]
    for outcome in bad:
        lines += ["", f"{outcome.row.name}: {outcome.row.told} in phase {outcome.row.heading}", ""]
        lines += [f"- {problem}" for problem in outcome.problems]
    return "\n".join(lines) + "\n"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
