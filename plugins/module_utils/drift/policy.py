# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What to do about the findings of a scan. Pure: the time, the past and the hold are given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.drift.findings import KINDS, Finding
from ansible_collections.pristine.vllm.plugins.module_utils.drift.windows import Window, is_open, next_open

# Each does all that the ones before it do.
ACTIONS = ("none", "report", "restore", "reinstall")
POLICIES = ACTIONS[1:]
DAY = 24 * 60 * 60


@dataclass(frozen=True)
class Remediation:
    """One that was tried: when it ended, how (``restore`` or ``reinstall``), and what it came to.

    One that is only ``begun`` has the time at which it was handed over to the host, and has not succeeded: its play may
    be gone before its end, and then nobody tells of that.
    """

    time: float
    action: str
    succeeded: bool
    downtime_seconds: float = 0.0
    run_id: str = ""
    begun: bool = False


@dataclass(frozen=True)
class Rules:
    """What an operator decided. A kind that ``policy`` does not name is only reported."""

    policy: Mapping[str, str] = field(default_factory=dict)
    windows: Sequence[Window] = ()
    max_per_day: int = 1
    cool_down: float = 6 * 60 * 60


@dataclass(frozen=True)
class Decision:
    """What is to be done now.

    ``verdict`` is ``pristine``, ``reported``, ``held``, ``due``, ``remediated``, ``remediation_failed`` or
    ``scan_failed``; only with ``due`` is something to be remediated, by ``action``. ``wanted`` is what the policy asks
    for, now or later, and ``next_possible`` when it can first be done (None: never, or there is nothing to do).
    """

    verdict: str
    action: str
    reason: str
    wanted: str = "none"
    kinds: tuple[str, ...] = ()
    next_possible: Optional[float] = None

    def to_dict(self) -> dict[str, Any]:
        """As the module returns it."""
        return {
            "verdict": self.verdict,
            "action": self.action,
            "reason": self.reason,
            "wanted": self.wanted,
            "kinds": list(self.kinds),
            "next_possible": self.next_possible,
            "next_possible_utc": None if self.next_possible is None else utc(self.next_possible),
        }


def check_rules(rules: Rules) -> None:
    """
    :raises ValueError: with every mistake in the policy and the limits.
    """
    problems = [
        f"policy names {kind!r}: kinds of findings are {', '.join(KINDS)}" for kind in rules.policy if kind not in KINDS
    ]
    problems += [
        f"policy of {kind} is {choice!r}: give {', '.join(POLICIES)}"
        for kind, choice in rules.policy.items()
        if choice not in POLICIES
    ]
    limits = {"max_per_day": rules.max_per_day, "cool_down": rules.cool_down}
    problems += [f"{name} is {value}: give 0 or more" for name, value in limits.items() if value < 0]
    if problems:
        raise ValueError("; ".join(problems))


def decide(
    findings: Iterable[Finding],
    rules: Rules,
    now: float,
    remediations: Sequence[Remediation] = (),
    hold: Optional[str] = None,
    errors: Sequence[str] = (),
    past_known: bool = True,
) -> Decision:
    """Decide about a host.

    :param remediations: those of the past, in any order.
    :param hold: why an operator holds the host, None when nobody does; an empty reason holds as well.
    :param errors: what the scan could not look at. On half a look nothing is changed.
    :param past_known: whether ``remediations`` are all there were. Else no limit could be kept.
    """
    drifted = [kind for kind in KINDS if any(one.kind == kind and one.counts for one in findings)]
    if errors:
        return Decision("scan_failed", "report", f"the scan is not whole: {errors[0]}", kinds=tuple(drifted))
    if not drifted:
        return Decision("pristine", "none", "nothing differs from what was declared")
    choices = {kind: rules.policy.get(kind, "report") for kind in drifted}
    wanted = max(choices.values(), key=ACTIONS.index)
    if wanted == "report":
        return Decision("reported", "report", f"the policy for {_words(drifted)} is to report", wanted, tuple(drifted))
    # What is only to be reported is left alone by a restore; a reinstall makes everything anew whatever is asked for.
    kinds = tuple(kind for kind in drifted if choices[kind] != "report")
    what = f"{wanted} for {_words(kinds)} is due"
    if hold is not None:
        because = hold or "no reason was given"
        return Decision("held", "report", f"{what}, but the host is held: {because}", wanted, kinds)
    lost = "its history was damaged and how often it was remediated is lost: not before the next run", None
    obstacle = _obstacle(rules, now, remediations) if past_known else lost
    if obstacle is None:
        return Decision("due", wanted, what, wanted, kinds, now)
    why, when = obstacle
    opens = "" if when is None else f"; possible from {utc(when)} on"
    return Decision("reported", "report", f"{what}, but {why}{opens}", wanted, kinds, when)


def after_remediation(decision: Decision, done: Remediation) -> Decision:
    """The verdict of a run that remediated: what the scan after it found decides whether that helped."""
    if not done.succeeded:
        reason = f"the {done.action} failed. {decision.reason}"
        return Decision("remediation_failed", "report", reason, decision.wanted, decision.kinds, decision.next_possible)
    if decision.verdict == "pristine":
        return Decision("remediated", "none", f"the {done.action} left nothing that differs", kinds=decision.kinds)
    if decision.wanted in ("none", "report") and decision.verdict == "reported":
        reason = f"the {done.action} succeeded; the policy for {_words(decision.kinds)} is to report"
        return Decision("remediated", "report", reason, decision.wanted, decision.kinds)
    if decision.verdict == "scan_failed":
        return decision
    reason = f"the {done.action} ended well, but {_words(decision.kinds)} still differs: find what writes there"
    return Decision("remediation_failed", "report", reason, decision.wanted, decision.kinds, decision.next_possible)


def utc(moment: float) -> str:
    """A time for messages, to the minute and never before the moment itself."""
    return datetime.fromtimestamp(-(-moment // 60) * 60, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def _obstacle(rules: Rules, now: float, past: Sequence[Remediation]) -> Optional[tuple[str, Optional[float]]]:
    """Why nothing may be done at ``now``, and when it first may be; None when it may."""
    if rules.max_per_day == 0:
        return "no remediation is allowed (max_per_day is 0)", None
    whys: list[str] = []
    free = now
    last = max(past, key=lambda one: one.time, default=None)
    if last is not None and not last.succeeded and last.time + rules.cool_down > now:
        # Of one whose play is gone, nobody may ever tell more.
        how = "was begun and nobody told how it ended" if last.begun else "failed and the host cools down"
        whys.append(f"the last one {how}")
        free = last.time + rules.cool_down
    # Any 24 hours and not the calendar's day, in which two could follow each other around midnight.
    recent = sorted(one.time for one in past if one.time > now - DAY)
    if len(recent) >= rules.max_per_day:
        whys.append(f"{len(recent)} of {rules.max_per_day} remediations in 24 hours are used up")
        free = max(free, recent[-rules.max_per_day] + DAY)
    if not is_open(rules.windows, now):
        whys.append("no maintenance window is open")
    if not whys:
        return None
    return ", ".join(whys), next_open(rules.windows, free)


def _words(kinds: Sequence[str]) -> str:
    return ", ".join(kinds)
