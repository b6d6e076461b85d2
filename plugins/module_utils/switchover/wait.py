# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Watching a switchover from the play's side."""

from __future__ import annotations

import dataclasses
import os
import time
from dataclasses import dataclass
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.command import Run, run
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.background import folder, service_name
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.journal import (
    DONE,
    JOURNAL,
    Journal,
    load_journal,
)
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.order import ORDER
from ansible_collections.pristine.vllm.plugins.module_utils.unit import unit_state

_POLL = 0.1
_LOOK = 2.0
# Between its death and its next start systemd waits a second.
_DEAD_LOOKS = 3
# What the way back needs, and what only it must know.
_PRIVATE = ("saved", "touched")


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
        journal = load_journal(directory)
        # The order goes last: what follows may start another one, and this one must have let go of everything.
        if journal is not None and journal.finished and not os.path.lexists(os.path.join(directory, ORDER)):
            if until == "end" or journal.outcome == DONE:
                return journal
            raise WaitError(journal.failure or f"the switchover ended: {journal.outcome}", journal)
        if journal is not None and journal.failure is None and journal.past(until):
            return journal
        now = time.monotonic()
        if now - begun > timeout:
            raise WaitError(
                f"the switchover of run {order.run_id} has not passed {until!r} within {timeout:.0f} s. It goes on by "
                f"itself: see {directory}/{JOURNAL} and `journalctl -u {service_name(order.unit)}`. "
                "Next: wait for its end, then run again.",
                journal,
            )
        if now - looked > _LOOK:
            looked = now
            state = unit_state(service_name(order.unit), run_command)
            dead = dead + 1 if state.stopped else 0
            if dead >= _DEAD_LOOKS:
                raise WaitError(
                    f"the switchover of run {order.run_id} has died and systemd does not start it again: see "
                    f"`journalctl -u {service_name(order.unit)}`. Next: run again, which puts back what it left.",
                    journal,
                )
        time.sleep(_POLL)


def told(journal: Optional[Journal]) -> Optional[dict[str, Any]]:
    """A journal as Ansible hands it on."""
    if journal is None:
        return None
    return {name: value for name, value in dataclasses.asdict(journal).items() if name not in _PRIVATE}
