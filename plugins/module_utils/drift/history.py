# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the history goes on when a host was looked at again. Pure, and doing it twice is doing it once."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.drift.findings import KINDS, Finding
from ansible_collections.pristine.vllm.plugins.module_utils.drift.policy import Decision, Remediation
from ansible_collections.pristine.vllm.plugins.module_utils.drift.state import Known, Scan, State, Tick

# However often a timer fires: months of hourly runs.
_MOST_TICKS = 2000
# Longer than any remediation: what takes longer, the unit of a scheduled scan ends by default.
_UNDER_WAY = 4 * 60 * 60


@dataclass(frozen=True)
class Look:
    """What one scan saw. ``kinds`` are those that were looked at from end to end: only of these may a finding be gone.

    With ``cut``, more findings of the kind ``code`` were made than are listed, those that count before others. Of
    ``lying`` it is known that they are on disk, debug artifacts which nobody looks for any more among them.
    ``scan`` is None where nothing was scanned, e.g. for the note of a remediation.
    """

    findings: Sequence[Finding] = ()
    kinds: Sequence[str] = ()
    scan: Optional[Scan] = None
    errors: Sequence[str] = ()
    cut: bool = False
    lying: Collection[str] = ()

    @property
    def attempted(self) -> bool:
        return self.scan is not None or bool(self.errors)

    def absent(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Those of earlier findings that are gone by this look."""
        keys = {one.key for one in self.findings}
        # One that is there with another content is listed as such.
        lying = set(self.lying) - {one.path for one in self.findings if one.kind == "artifacts"}
        # Where one is listed that does not count, all that count are.
        all_that_count = any(one.kind == "code" and not one.counts for one in self.findings)
        for one in findings:
            listed = one.kind != "code" or not self.cut or (one.counts and all_that_count)
            there = one.kind == "artifacts" and one.path in lying
            if one.key not in keys and one.kind in self.kinds and listed and not there:
                yield one


def not_later(state: State, now: float) -> State:
    """The state without times that are yet to come.

    They are of a clock that has been set back since, and would block remediations and hide a missed scan until then.
    """
    return dataclasses.replace(
        state,
        began=min(state.began, now),
        known=tuple(
            dataclasses.replace(one, first_seen=min(one.first_seen, now), last_seen=min(one.last_seen, now))
            for one in state.known
        ),
        scan=state.scan and dataclasses.replace(state.scan, finished=min(state.scan.finished, now)),
        attempted=None if state.attempted is None else min(state.attempted, now),
        remediations=tuple(dataclasses.replace(one, time=min(one.time, now)) for one in state.remediations),
        held_since=None if state.held_since is None else min(state.held_since, now),
    )


def see(state: State, look: Look, now: float, hold: Optional[str]) -> State:
    """The state after a look at the host, and at the file that holds it."""
    whole = not look.errors
    seen = {one.key: one for one in look.findings}
    known = {one.finding.key: one for one in state.known}
    for key, finding in seen.items():
        before = known.get(key)
        # One that comes back after it was gone is new: nobody knows that it has been there all the time.
        first = before.first_seen if before is not None and before.gone is None else now
        known[key] = Known(finding, first, now)
    for finding in look.absent(one.finding for one in state.current):
        known[finding.key] = dataclasses.replace(known[finding.key], gone=now)
    return dataclasses.replace(
        state,
        known=tuple(known[key] for key in sorted(known)),
        scan=look.scan if whole and look.scan is not None else state.scan,
        attempted=now if look.attempted else state.attempted,
        kinds=tuple(kind for kind in KINDS if kind in state.kinds or kind in look.kinds),
        errors=tuple(look.errors) if look.attempted else state.errors,
        hold=hold,
        held_since=None if hold is None else (state.held_since if state.hold is not None else now),
    )


def note(state: State, done: Remediation) -> State:
    """The state with a remediation added; with the same one again it stays as it is.

    One that has ended takes the place of what its run had begun. Only then is it counted.
    """
    if done.begun:
        known = any(one.run_id == done.run_id for one in state.remediations)
        return state if known else _with(state, (*state.remediations, done))
    if any((one.time, one.action, one.begun) == (done.time, done.action, False) for one in state.remediations):
        return state
    others = (one for one in state.remediations if not (one.begun and one.run_id == done.run_id))
    name = f"{done.action} {'succeeded' if done.succeeded else 'failed'}"
    counted = dataclasses.replace(state, totals={**state.totals, name: state.totals.get(name, 0) + 1})
    return _with(counted, (*others, done))


def give_up(state: State, now: float, holder: str) -> State:
    """The state in which what was begun, and of whose end nobody will tell any more, has failed.

    :param holder: the run that has the host to itself, so that no other one is under way. Empty when nobody knows; then
        one counts as under way for as long as any could be.
    """
    for one in state.remediations:
        if one.begun and one.run_id != holder and (holder or one.time + _UNDER_WAY <= now):
            state = note(state, dataclasses.replace(one, begun=False))
    return state


def _with(state: State, remediations: Iterable[Remediation]) -> State:
    return dataclasses.replace(state, remediations=tuple(sorted(remediations, key=lambda one: one.time)))


def conclude(state: State, decision: Decision, now: float, retention: float) -> State:
    """The state with this run in its history, without what is older than ``retention`` seconds.

    The last remediation stays however old it is: metrics tell of it.
    """
    since = now - retention
    counted = sum(one.finding.counts for one in state.current)
    tick = Tick(now, decision.verdict, decision.reason, counted)
    kept = [one for one in state.ticks if since <= one.time < now]
    return dataclasses.replace(
        state,
        known=tuple(one for one in state.known if one.gone is None or one.gone >= since),
        remediations=tuple(one for one in state.remediations[:-1] if one.time >= since) + state.remediations[-1:],
        ticks=(*kept[1 - _MOST_TICKS :], tick),
    )
