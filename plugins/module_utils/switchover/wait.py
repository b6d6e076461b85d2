# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watching a switchover from the play's side."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.command import Run, run
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.background import folder
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.journal import (
    DONE,
    JOURNAL,
    UNTOUCHED,
    Journal,
    load_journal,
)
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.order import ORDER
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.places import service_name
from ansible_collections.pristine.vllm.plugins.module_utils.unit import UnitError, unit_state

_POLL = 0.1
_LOOK = 2.0
# Between its death and its next start systemd waits a second.
_DEAD_LOOKS = 3


@dataclass(frozen=True)
class Watched:
    """Which switchover to watch."""

    root: str
    run_id: str
    unit: str


class WaitError(Exception):
    """The switchover did not come that far. The text says why; ``journal`` tells the rest."""

    def __init__(self, text: str, journal: Optional[Journal]) -> None:
        super().__init__(text)
        self.journal = journal


def wait(order: Watched, until: str, timeout: float, run_command: Run = run) -> Journal:
    """Wait until a phase was passed, or with ``end`` until it is over, whatever the end.

    :param timeout: in seconds.
    :raises WaitError: it went back instead, is dead, or the time is over.
    :raises ValueError: the journal is damaged.
    """
    directory = folder(order.root, order.run_id)
    begun = looked = time.monotonic()
    dead = 0
    while True:
        # The order goes last: what follows may start another one, and this one must have let go of everything.
        over = not os.path.lexists(os.path.join(directory, ORDER))
        journal = load_journal(directory)
        if over or (dead >= _DEAD_LOOKS and journal is not None and journal.finished):
            return _ended(order, until, journal)
        # One that has ended is waited for until it has let go, whatever phase was asked for.
        if journal is not None and not journal.finished and journal.failure is None and journal.past(until):
            return journal
        where = f"`journalctl -u {service_name(order.unit)}`"
        if dead >= _DEAD_LOOKS:
            raise WaitError(
                f"the switchover of run {order.run_id} has died and systemd does not start it again: see {where}. "
                "Next: run again, which puts back what it left.",
                journal,
            )
        now = time.monotonic()
        if now - begun > timeout:
            raise WaitError(
                f"the switchover of run {order.run_id} has not passed {until!r} within {timeout:.0f} s. It goes on by "
                f"itself: see {directory}/{JOURNAL} and {where}. Next: wait for its end, then run again.",
                journal,
            )
        if now - looked > _LOOK:
            looked = now
            dead = dead + 1 if _is_dead(order, run_command) else 0
        time.sleep(_POLL)


def _ended(order: Watched, until: str, journal: Optional[Journal]) -> Journal:
    if journal is None:
        journal = Journal(order.run_id, outcome=UNTOUCHED, failure="the switchover was never handed over to the host")
    if not journal.finished:
        raise WaitError(
            f"the switchover of run {order.run_id} has ended, and its journal does not tell how: it could not be "
            f"written. Next: see `df` and `journalctl -u {service_name(order.unit)}`, and whether the service serves.",
            journal,
        )
    if until == "end" or journal.outcome == DONE:
        return journal
    raise WaitError(journal.failure or f"the switchover ended: {journal.outcome}", journal)


def _is_dead(order: Watched, run_command: Run) -> bool:
    try:
        return unit_state(service_name(order.unit), run_command).stopped
    except UnitError:
        # A systemd that is too busy to answer says nothing about it.
        return False
