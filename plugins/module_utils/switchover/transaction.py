# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The switchover: stop, change, start, prove, verify; and back to what was, whatever fails and whoever is killed.

It runs on the host by itself (see `background`), so neither the play nor the connection can leave a stopped service.
Each step is in the journal before it is taken. One that is killed is started again by systemd, at the next boot too,
and goes back: what the journal kept is put back to the byte.
"""

from __future__ import annotations

import dataclasses
import os
import time
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.command import Run, run
from ansible_collections.pristine.vllm.plugins.module_utils.quarantine import Quarantine
from ansible_collections.pristine.vllm.plugins.module_utils.record.options import scan_options
from ansible_collections.pristine.vllm.plugins.module_utils.record.result import result_of
from ansible_collections.pristine.vllm.plugins.module_utils.record.scan import scan
from ansible_collections.pristine.vllm.plugins.module_utils.report import findings_lines
from ansible_collections.pristine.vllm.plugins.module_utils.switchover import changes, service, snapshot
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.back import Back
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.journal import (
    BACK,
    DONE,
    PHASES,
    STUCK,
    UNTOUCHED,
    Journal,
)
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.order import Order
from ansible_collections.pristine.vllm.plugins.module_utils.unit import UnitError, unit_state

_DRAIN, _SWITCH, _START, _VERIFY = PHASES
_FINDINGS = 200
# How often, and with which pause, the end is written again where it cannot be.
_SAVES = 5
_PAUSE = 1.0


class NotPristineError(Exception):
    """What was verified is not what it must be."""


class Transaction:
    """One switchover, from its order and its journal to an outcome."""

    def __init__(self, order: Order, journal: Journal, directory: str, run_command: Run = run) -> None:
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
        return journal

    def _try(self) -> None:
        try:
            self._forward()
        except Exception as error:  # noqa: BLE001 (whatever it is, the host must serve again)
            self._fail(_told(error))
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
        decided = changes.decide(order)
        # What an earlier one left would pass for what this one put aside.
        changes.discard_wiped(order, journal)
        journal.saved = [
            dataclasses.asdict(entry) for entry in snapshot.take(changes.paths_of(order), Quarantine(order.quarantine))
        ]
        changes.keep_served_unit(order)
        if order.restart:
            self._stop()
        self._begin(_SWITCH)
        journal.touched = True
        self._save()
        if changes.apply(order, decided, journal):
            service.systemctl(["daemon-reload"], self._run)
        self._begin(_START)
        if order.restart:
            self._start()
        else:
            changes.clear(order, journal)
        self._begin(_VERIFY)
        self._verify()

    def _stop(self) -> None:
        order, journal = self._order, self._journal
        if order.drain.before or order.drain.after:
            journal.hooked = True
            self._save()
        service.hooks(order.drain.before, order.drain.command_timeout, "before the drain", self._run)
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
        environment = os.path.join(order.root, "current")
        journal.completion = service.prove(order, order.serving, environment, self._run).completion
        self._served(begun)
        self._after_hooks()

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

    def _before_hooks_again(self) -> None:
        """The new one may be answering requests by now."""
        drain = self._order.drain
        if self._journal.hooked and self._journal.serving_at is not None:
            try:
                service.hooks(drain.before, drain.command_timeout, "before the drain", self._run)
            except Exception as error:  # noqa: BLE001 (nothing may keep the host from going back)
                self._journal.cautions.append(_told(error))

    def _after_hooks(self) -> None:
        """A load balancer that does not take the host back is told, and is no reason to stop a good service."""
        drain = self._order.drain
        if self._journal.hooked:
            try:
                service.hooks(drain.after, drain.command_timeout, "after the start", self._run)
            except Exception as error:  # noqa: BLE001 (as it says)
                self._journal.cautions.append(_told(error))

    def _verify(self) -> None:
        order, journal = self._order, self._journal
        if order.verify:
            done = scan(scan_options(order.verify))
            try:
                result = result_of(done, _FINDINGS)
            finally:
                done.close()
            journal.scan = {name: result[name] for name in ("pristine", "summary", "findings")}
            if not result["pristine"]:
                raise NotPristineError(
                    f"{order.verify['environment']} is not what its wheels hold: "
                    f"{'; '.join(findings_lines(result['findings'], limit=5))}. Next: find what writes there "
                    "(`ls -l --time-style=full-iso` on the first file), then run again."
                )
        for config in order.configs:
            plan = changes.config_plan(config)
            if plan is not None and plan.changes:
                raise NotPristineError(
                    f"{config.path} lost its adaptation again during the run: something wrote it back. "
                    "Next: find what writes there (a model refresh?), then run again."
                )

    def _fail(self, reason: str) -> None:
        journal = self._journal
        journal.failure = journal.failure or reason
        journal.failed_phase = journal.failed_phase or journal.phase
        journal.end()
        self._note()
        self._back.sweep()
        if not journal.touched or self._still_serves():
            self._after_hooks()
            self._finish(UNTOUCHED)
            return
        self._before_hooks_again()
        try:
            self._back.go()
        except Exception as error:  # noqa: BLE001 (the operator must learn of both failures)
            if isinstance(error, service.ServiceError) and not journal.before.get("active"):
                # It is as it was: all is put back, and it did not serve before either.
                journal.cautions.append(f"{self._order.unit} was not running before, and does not serve now: {error}")
                self._finish(BACK)
                return
            journal.failure = f"{journal.failure}\nGoing back failed too: {_told(error)}"
            self._finish(STUCK)
            return
        journal.downtime_seconds = self._downtime()
        self._after_hooks()
        self._finish(BACK)

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
        for _ in range(_SAVES):
            if self._note():
                return
            time.sleep(_PAUSE)

    def _note(self) -> bool:
        """Write the journal where it can be: on a full disk, too, the host must serve again."""
        try:
            self._save()
        except OSError as error:
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


def _told(error: Exception) -> str:
    """An exception's text, with its kind where the text alone says little."""
    text = str(error)
    return text if text and not isinstance(error, (KeyError, TypeError)) else f"{type(error).__name__}: {error!r}"
