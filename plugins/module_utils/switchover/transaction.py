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
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.order import Order, Serving
from ansible_collections.pristine.vllm.plugins.module_utils.unit import unit_state

_DRAIN, _SWITCH, _START, _VERIFY = PHASES
_FINDINGS = 200


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
        self._run = run_command
        self._stopped: Optional[float] = None
        self._back = Back(order, journal, self._save, run_command)

    def run(self, begun_only: bool = False) -> Journal:
        """Carry it out, or back. Never raises for what goes wrong on the host: the journal tells.

        :param begun_only: give up what has not begun.
        """
        journal = self._journal
        if journal.finished:
            return journal
        if begun_only and not journal.phases:
            self._fail("the switchover was handed over and never begun")
            return journal
        if journal.phases:
            # We were killed, or the host went down.
            self._fail(f"the switchover was interrupted in phase {journal.phase!r}: killed, or the host went down")
            return journal
        try:
            self._forward()
            self._finish(DONE)
        except Exception as error:  # noqa: BLE001 (whatever it is, the host must serve again)
            self._fail(_told(error))
        return journal

    def _forward(self) -> None:
        order, journal = self._order, self._journal
        self._begin(_DRAIN)
        journal.before = service.look(order, run_command=self._run)
        self._back.remember_key()
        decided = changes.decide(order)
        journal.saved = [
            dataclasses.asdict(entry) for entry in snapshot.take(changes.paths_of(order), Quarantine(order.quarantine))
        ]
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
        service.hooks(order.drain.before, order.drain.command_timeout, "before the drain", self._run)
        # From here on the service may be stopped: a killed one is put back.
        journal.touched, journal.stopped_at = True, time.time()
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
        self._after_hooks()

    def _serving(self) -> Serving:
        """How to reach what was started: a unit from an earlier time may have another port, name or key."""
        order = self._order
        if not any(entry.source for entry in order.files):
            return order.serving
        now = service.look(order, run_command=self._run)
        return service.serving_before(order, now, service.key_of(now["main_pid"], order.serving.api_key))

    def _environment(self) -> Optional[str]:
        """What the service must run from: a unit that somebody wrote by hand may name its environment as it likes."""
        kept = any(entry.source for entry in self._order.files)
        return None if kept else os.path.join(self._order.root, "current")

    def _served(self, begun: float) -> None:
        """Note when the service was back."""
        journal, now = self._journal, time.monotonic()
        journal.serving_at = time.time()
        journal.load_seconds = round(now - begun, 2)
        if self._stopped is not None and journal.before.get("active"):
            journal.downtime_seconds = round(now - self._stopped, 2)
        self._save()

    def _after_hooks(self) -> None:
        """A load balancer that does not take the host back is told, and is no reason to stop a good service."""
        drain = self._order.drain
        try:
            service.hooks(drain.after, drain.command_timeout, "after the start", self._run)
        except service.ServiceError as error:
            self._journal.cautions.append(str(error))

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
        self._save()
        if not journal.touched or self._still_serves():
            if journal.touched:
                self._after_hooks()
            self._finish(UNTOUCHED)
            return
        try:
            self._back.go()
        except Exception as error:  # noqa: BLE001 (the operator must learn of both failures)
            journal.failure = f"{journal.failure}\nGoing back failed too: {_told(error)}"
            self._finish(STUCK)
            return
        if journal.before.get("active"):
            now = time.time()
            journal.downtime_seconds = round(now - journal.stopped_at, 2) if journal.stopped_at else 0.0
        self._after_hooks()
        self._finish(BACK)

    def _still_serves(self) -> bool:
        """Whether it failed while it waited for requests to end: nothing was stopped then."""
        journal = self._journal
        if journal.phase != _DRAIN or not journal.before.get("main_pid"):
            return False
        state = unit_state(self._order.unit, self._run)
        return state.active_state == "active" and state.main_pid == journal.before["main_pid"]

    def _finish(self, outcome: str) -> None:
        self._journal.end()
        self._journal.outcome = outcome
        self._save()

    def _begin(self, phase: str) -> None:
        self._journal.begin(phase)
        self._save()

    def _save(self) -> None:
        self._journal.save(self._directory)


def _told(error: Exception) -> str:
    """An exception's text, with its kind where the text alone says little."""
    text = str(error)
    return text if text and not isinstance(error, (KeyError, TypeError)) else f"{type(error).__name__}: {error!r}"
