# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The phases of a run with the time of each: those of the play, and those that ran on the host by themselves. Pure."""

from __future__ import annotations

from typing import Any, Optional

_LAST = "record"


def merge_phases(marks: list[dict[str, Any]], timed: list[dict[str, Any]], end: float) -> list[dict[str, Any]]:
    """Return ``name`` and ``seconds`` of each phase, in order.

    The two come from two clocks, so no time of the one is compared with one of the other: the host's phases stand
    before the play's ``record`` (else at the end) and bring their own length. Where the play marked one of them too,
    the host's length counts, which has no waiting for the play in it. Where it did not, the last phase of the play
    before them would seem to last until the next mark: it is shorter by what they took.

    :param marks: ``name`` and ``started`` (seconds since the epoch, the controller's clock); each ends where the next
        begins
    :param timed: ``name``, ``started`` and ``finished`` (seconds since the epoch, the host's clock)
    :param end: when the last mark ended
    """
    own = phase_seconds(marks, end)
    if not timed:
        return own
    host = [{"name": name, "seconds": seconds} for name, seconds in _lengths(timed)]
    theirs = {phase["name"] for phase in host}
    at = next((index for index, phase in enumerate(own) if phase["name"] in theirs | {_LAST}), len(own))
    if at and not any(phase["name"] in theirs for phase in own):
        own[at - 1]["seconds"] = round(max(0.0, own[at - 1]["seconds"] - _span(timed)), 1)
    return own[:at] + host + [phase for phase in own[at:] if phase["name"] not in theirs]


def phase_seconds(marks: list[dict[str, Any]], end: float) -> list[dict[str, Any]]:
    """Return ``name`` and ``seconds`` of each phase. Each ends where the next one begins, the last one at ``end``.

    :param marks: dicts with ``name`` and ``started`` (seconds since the epoch)
    """
    ends = [mark["started"] for mark in marks[1:]] + [end]
    return [
        {"name": mark["name"], "seconds": round(max(0.0, float(stop) - float(mark["started"])), 1)}
        for mark, stop in zip(marks, ends)
    ]


def _finished(timed: list[dict[str, Any]], index: int) -> float:
    """When a phase ended. One that a failure cut short may not say so: then where the next began, else at once."""
    own: Optional[float] = timed[index].get("finished")
    if own is not None:
        return float(own)
    following = timed[index + 1]["started"] if index + 1 < len(timed) else timed[index]["started"]
    return float(following)


def _lengths(timed: list[dict[str, Any]]) -> list[tuple[str, float]]:
    return [
        (phase["name"], round(max(0.0, _finished(timed, index) - float(phase["started"])), 1))
        for index, phase in enumerate(timed)
    ]


def _span(timed: list[dict[str, Any]]) -> float:
    return max(0.0, _finished(timed, len(timed) - 1) - float(timed[0]["started"]))
