# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The switchover: stop, change, start, prove, verify; and back to what was, whatever fails and whoever is killed.

It runs on the host by itself (see `background`), so neither the play nor the connection can leave a stopped service.
Each step is in the journal before it is taken. One that is killed is started again by systemd, at the next boot too,
and goes back: what the journal kept is put back to the byte.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils import command
from ansible_collections.pristine.vllm.plugins.module_utils.switchover import changes, reserve, service
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.back import Back
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.hooks import Hooks, told
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.journal import (
    BACK,
    DONE,
    PHASES,
    STUCK,
    UNTOUCHED,
    Journal,
)
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.order import Order, Serving
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.verify import verify
from ansible_collections.pristine.vllm.plugins.module_utils.unit import UnitError, unit_state

_DRAIN, _SWITCH, _START, _VERIFY = PHASES
# How often, and with which pause, the end is written again where it cannot be.
_SAVES = 5
_PAUSE = 1.0


class Transaction:
    """One switchover, from its order and its journal to an outcome."""

    def __init__(self, order: Order, journal: Journal, directory: str, run_command: command.Run = command.run) -> None:
        """
        :param directory: where the journal is.
        """
        self._order = order
        self._journal = journal
        self._directory = directory
        self._run = service.steady(run_command)
        # When the service was stopped, by this process's own clock.
        self._stopped: Optional[float] = None
        self._back = Back(order, journal, self._run)
        self._hooks = Hooks(order.drain, journal, self._run)

    def run(self, begun_only: bool = False) -> Journal:
        """Carry it out, or back. Never raises for what goes wrong on the host: the journal tells.

        :param begun_only: give up what has not begun.
        """
        journal = self._journal
        if journal.finished:
            # Killed while it tidied up.
            pass
        elif journal.phases:
            # We were killed, or the host went down.
            self._fail(f"the switchover was interrupted in phase {journal.phase!r}: killed, or the host went down")
        elif begun_only:
            self._fail("the switchover was handed over and never begun")
        else:
            self._try()
        if journal.outcome in (DONE, BACK):
            changes.discard_wiped(self._order, journal)
            # With what could not be removed.
            self._note()
        return journal

    def _try(self) -> None:
        try:
            self._forward()
        except Exception as error:  # noqa: BLE001 (whatever it is, the host must serve again)
            self._fail(told(error))
        else:
            self._finish(DONE)

    def _forward(self) -> None:
        order, journal = self._order, self._journal
        self._begin(_DRAIN)
        journal.before = service.look(order, run_command=self._run)
        if order.restart and journal.before["masked"]:
            raise service.ServiceError(
                f"{order.unit} is masked, so nothing can start it. `systemctl unmask {order.unit}`, and run again."
            )
        self._back.remember_key()
        with contextlib.ExitStack() as held:
            self._change(changes.decide(order, held))
        self._begin(_START)
        if order.restart:
            self._start()
        else:
            changes.clear(order, journal)
        self._begin(_VERIFY)
        verify(order, journal)

    def _change(self, decided: changes.Changes) -> None:
        order, journal = self._order, self._journal
        # What an earlier one left would pass for what this one put aside.
        changes.discard_wiped(order, journal)
        journal.saved = [dataclasses.asdict(entry) for entry in changes.keep(order, decided)]
        if order.restart:
            self._stop()
        self._begin(_SWITCH)
        journal.touched = True
        self._save()
        written = changes.apply(order, decided, journal)
        if written or journal.before["reload"]:
            service.systemctl(["daemon-reload"], self._run)

    def _stop(self) -> None:
        order, journal = self._order, self._journal
        journal.hooked = self._hooks.any
        self._save()
        self._hooks.before()
        # From here on the service may be stopped: a killed one is put back.
        journal.touched, journal.stopped_at = True, time.time()
        self._stopped = time.monotonic()
        self._save()
        url = service.serving_before(order, journal.before, None).url
        stopped = service.stop(order, url, order.drain, self._run)
        self._stopped = time.monotonic() - stopped.stop_seconds
        journal.stopped_at = time.time() - stopped.stop_seconds
        journal.drain_seconds, journal.requests_left = stopped.drain_seconds, stopped.requests_left
        journal.pids_killed = stopped.pids_killed
        if stopped.drain_problem and journal.before["active"]:
            journal.cautions.append(f"drain: {stopped.drain_problem}")
        if stopped.gpu_problem:
            journal.cautions.append(f"GPUs: {stopped.gpu_problem}")

    def _start(self) -> None:
        order, journal = self._order, self._journal
        begun = service.start(order, order.serving.timeout, self._run)
        journal.started_at = time.time()
        # While the model loads.
        service.systemctl(["enable", "--", order.unit], self._run)
        changes.clear(order, journal)
        self._save()
        journal.completion = service.prove(order, self._serving(), self._environment(), self._run).completion
        self._served(begun)
        self._hooks.after()

    def _serving(self) -> Serving:
        """How to reach what was started: a unit from an earlier time may have another port, name or key."""
        order = self._order
        if self._same_unit():
            return service.serving_before(order, self._journal.before, self._back.key())
        if not any(entry.source for entry in order.files):
            return order.serving
        now = service.look(order, run_command=self._run)
        return service.serving_before(order, now, service.key_of(now["main_pid"], order.serving.api_key))

    def _environment(self) -> Optional[str]:
        """What the service must run from: a unit that somebody wrote by hand may name its environment as it likes."""
        kept = any(entry.source for entry in self._order.files)
        return None if kept or self._same_unit() else os.path.join(self._order.root, "current")

    def _same_unit(self) -> bool:
        """Whether only files of the environment change, and the service comes back as whatever it was."""
        return self._order.restore is not None and not self._order.release and not self._order.files

    def _served(self, begun: float) -> None:
        """Note when the service was back."""
        journal = self._journal
        journal.serving_at = time.time()
        journal.load_seconds = round(time.monotonic() - begun, 2)
        journal.downtime_seconds = self._downtime()
        self._save()

    def _downtime(self) -> float:
        """How long the service has been down; by the host's clock where another process stopped it."""
        journal = self._journal
        if not journal.before.get("active") or journal.stopped_at is None:
            return 0.0
        if self._stopped is not None:
            return round(time.monotonic() - self._stopped, 2)
        return max(0.0, round(time.time() - journal.stopped_at, 2))

    def _fail(self, reason: str) -> None:
        journal = self._journal
        reserve.give(self._directory)
        journal.failure = journal.failure or reason
        journal.failed_phase = journal.failed_phase or journal.phase
        journal.end()
        self._note()
        self._back.sweep()
        if not journal.touched or self._still_serves():
            self._hooks.after()
            self._finish(UNTOUCHED)
            return
        if not journal.returned:
            problem = self._go_back()
            if problem is not None:
                self._finish(problem)
                return
        self._hooks.after()
        self._finish(BACK)

    def _go_back(self) -> Optional[str]:
        """Go back; the outcome where that does not end with a service that serves."""
        journal = self._journal
        self._hooks.before_again()
        try:
            self._back.go()
        except Exception as error:  # noqa: BLE001 (the operator must learn of both failures)
            if isinstance(error, service.ServiceError) and not journal.before.get("active"):
                # It is as it was: all is put back, and it did not serve before either.
                journal.cautions.append(f"{self._order.unit} was not running before, and does not serve now: {error}")
                return BACK
            journal.failure = f"{journal.failure}\nGoing back failed too: {told(error)}"
            return STUCK
        journal.downtime_seconds = self._downtime()
        # One that is killed from here on need not load the model once more.
        journal.returned = True
        self._note()
        return None

    def _still_serves(self) -> bool:
        """Whether it failed while it waited for requests to end: nothing was stopped then."""
        journal = self._journal
        if journal.phase != _DRAIN or not journal.before.get("main_pid"):
            return False
        try:
            state = unit_state(self._order.unit, self._run)
        except UnitError:
            return False
        same = (state.main_pid, state.invocation_id) == (journal.before["main_pid"], journal.before["invocation"])
        return state.active_state == "active" and same

    def _finish(self, outcome: str) -> None:
        self._journal.end()
        self._journal.outcome = outcome
        reserve.give(self._directory)
        for _again in range(_SAVES):
            if self._note():
                return
            time.sleep(_PAUSE)

    def _note(self) -> bool:
        """Write the journal where it can be: on a full disk, too, the host must serve again."""
        try:
            self._save()
        except Exception as error:  # noqa: BLE001 (as it says)
            text = f"the journal cannot be written: {error}"
            if text not in self._journal.cautions:
                self._journal.cautions.append(text)
            return False
        return True

    def _begin(self, phase: str) -> None:
        self._journal.begin(phase)
        self._save()

    def _save(self) -> None:
        self._journal.hide(key for key in (self._order.serving.api_key, self._back.key()) if key)
        self._journal.save(self._directory)
