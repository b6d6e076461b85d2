# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run of the watch over a host: what is known is brought up to date, what to do is decided, metrics are written."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.drift.findings import Finding, in_order
from ansible_collections.pristine.vllm.plugins.module_utils.drift.history import (
    Look,
    conclude,
    give_up,
    not_later,
    note,
    see,
)
from ansible_collections.pristine.vllm.plugins.module_utils.drift.metrics import render_metrics
from ansible_collections.pristine.vllm.plugins.module_utils.drift.policy import (
    Decision,
    Remediation,
    Rules,
    after_remediation,
    check_rules,
    decide,
)
from ansible_collections.pristine.vllm.plugins.module_utils.drift.state import (
    State,
    StateError,
    load_state,
    render_state,
    save_state,
)
from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import exclusive
from ansible_collections.pristine.vllm.plugins.module_utils.files import atomic_write, read_file
from ansible_collections.pristine.vllm.plugins.module_utils.redact import redact

_REASON_BYTES = 400


@dataclass(frozen=True)
class Ask:
    """What a run is given. ``textfile`` is empty where no metrics are wanted, ``hold_file`` where none counts.

    ``interval`` is None where the history knows it, 0 where no scan is scheduled any more.
    ``run_id`` is that of a run which has the host to itself, empty where nobody sees to that.
    """

    path: str
    environment: str
    look: Look
    rules: Rules
    retention: float
    interval: Optional[float] = None
    hold_file: str = ""
    textfile: str = ""
    remediation: Optional[Remediation] = None
    run_id: str = ""

    @property
    def ended(self) -> Optional[Remediation]:
        """The remediation that this run has tried, once it knows what came of it."""
        return None if self.remediation is None or self.remediation.begun else self.remediation


@dataclass(frozen=True)
class Plan:
    """What a run comes to, before anything is written."""

    now: float
    state: State
    decision: Decision
    damage: Optional[str]
    state_differs: bool
    metrics_before: str
    metrics_after: str

    @property
    def changed(self) -> bool:
        return self.state_differs or self.metrics_before != self.metrics_after

    def findings(self) -> list[dict[str, Any]]:
        """What is there, with since when and whether that is news."""
        known = {one.finding: one for one in self.state.current}
        return [
            {
                **finding.to_dict(),
                "first_seen": known[finding].first_seen,
                "new": known[finding].first_seen == self.now,
                "counts": finding.counts,
            }
            for finding in in_order(known)
        ]

    def gone(self) -> list[Finding]:
        """What was there at the scan before and is not any more."""
        return in_order(one.finding for one in self.state.known if one.gone == self.now)


def read_hold(path: str) -> Optional[str]:
    """The reason in the hold file; None when there is no such file. Whatever else lies there holds as well."""
    if not path:
        return None
    try:
        os.lstat(path)
        text = read_file(path, _REASON_BYTES).decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return f"{path} cannot be read ({error.strerror}), so the host counts as held"
    return redact(" ".join(text.split()))


def plan(ask: Ask, now: float) -> Plan:
    """Decide. Writes nothing.

    :raises ValueError: the policy is none.
    :raises StateError: the history may not be read.
    """
    check_rules(ask.rules)
    loaded, damage = load_state(ask.path, ask.environment, now)
    hold = read_hold(ask.hold_file)
    state = see(not_later(loaded, now), _with_what_lies(ask.look, loaded), now, hold)
    if ask.interval is not None:
        state = dataclasses.replace(state, interval=ask.interval or None)
    findings = [one.finding for one in state.current]
    if ask.ended is not None:
        left = decide(findings, ask.rules, now).wanted in ("restore", "reinstall")
        # One that ended well and left what it should have mended counts as failed, or it would be tried for ever. What
        # could not be looked at may be such a thing.
        helped = ask.ended.succeeded and not left and not ask.look.errors
        state = note(state, dataclasses.replace(ask.ended, succeeded=helped))
    elif ask.remediation is not None:
        state = note(state, ask.remediation)
    if ask.look.attempted:
        state = give_up(state, now, ask.run_id)
    decision = decide(findings, ask.rules, now, state.remediations, hold, ask.look.errors, damage is None)
    if ask.ended is not None:
        decision = after_remediation(decision, ask.ended)
    # What only begins, a history or a remediation, is no run to remember, and begins once.
    if ask.look.attempted or ask.look.kinds or ask.ended is not None:
        state = conclude(state, decision, now, ask.retention)
    return Plan(
        now=now,
        state=state,
        decision=decision,
        damage=damage,
        state_differs=_content(ask.path) != render_state(state),
        metrics_before=_content(ask.textfile).decode("utf-8", "replace"),
        metrics_after=render_metrics(state) if ask.textfile else "",
    )


def apply(ask: Ask, planned: Plan) -> None:
    """Write the history, then the metrics.

    :raises StateError: one of them cannot be written; the history goes first and may be written already.
    """
    if planned.state_differs:
        save_state(ask.path, planned.state, planned.damage is not None)
    if ask.textfile and planned.metrics_before != planned.metrics_after:
        try:
            # node exporter runs as a user of its own.
            atomic_write(ask.textfile, planned.metrics_after.encode(), mode=0o644)
        except OSError as error:
            raise StateError(
                f"{ask.textfile}: the metrics of {ask.environment} cannot be written: {error.strerror}. Make the "
                "folder that node exporter reads (--collector.textfile.directory), or name another. The history is "
                "written"
            ) from error


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold the history for ourselves: what is read must still be so when it is written.

    :raises StateError: its folder cannot be made.
    :raises BusyError: another run holds it.
    """
    directory = os.path.dirname(path) or "."
    try:
        os.makedirs(directory, mode=0o750, exist_ok=True)
        with exclusive(directory):
            yield
    except OSError as error:
        raise StateError(
            f"{directory}, where the history is kept, cannot be used: {error.strerror}. Name another path"
        ) from error


def _with_what_lies(look: Look, state: State) -> Look:
    """What to look for the debug code says; once that is gone, or a process holds the file, only the disk tells."""
    paths = {one.finding.path for one in state.current if one.finding.kind == "artifacts"}
    return dataclasses.replace(look, lying=[path for path in sorted(paths) if os.path.lexists(path)])


def _content(path: str) -> bytes:
    """What is in a file that is to be replaced; nothing where it is not there or is not one."""
    try:
        return read_file(path) if path else b""
    except OSError:
        return b""
