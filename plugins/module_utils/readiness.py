# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The readiness ladder: from a unit that systemd calls active to a completion that a real forward pass made.

Each rung rules out a lie of the one before: ``systemctl start`` returns at once, the port is bound before the model is
loaded, ``/health`` stays 200 with a hung engine, and a server can answer from no engine at all.
"""

from __future__ import annotations

import os
import time
from typing import Callable, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.command import Run, run
from ansible_collections.pristine.vllm.plugins.module_utils.journal_lines import (
    fatal_line,
    relevant_lines,
)
from ansible_collections.pristine.vllm.plugins.module_utils.main_process import (
    command_words,
    home_of,
    read_serves,
    runs_from,
)
from ansible_collections.pristine.vllm.plugins.module_utils.readiness_ask import Ask, Readiness, Step
from ansible_collections.pristine.vllm.plugins.module_utils.redact import redact
from ansible_collections.pristine.vllm.plugins.module_utils.unit import (
    UnitState,
    journal_sync,
    journal_tail,
    unit_problem,
    unit_state,
)
from ansible_collections.pristine.vllm.plugins.module_utils.vllm_api import TOKEN_COUNTERS, ApiError, VllmApi

# Reading the journal of a model load costs more than a look at the unit.
_JOURNAL_EVERY = 5.0
# vLLM updates its counters after it has sent the answer.
_COUNTER_PATIENCE = 5.0


class _NotReadyError(Exception):
    """No use waiting any longer."""


class Ladder:
    """Climbs once. The rungs are methods that return None when passed, else what is still missing."""

    def __init__(self, ask: Ask, run_command: Run = run) -> None:
        """:raises ValueError: the URL is not one of a server."""
        self.ask = ask
        self.result = Readiness()
        self._run = run_command
        self._api = VllmApi(ask.url, ask.api_key, ask.request_timeout)
        self._begun = time.monotonic()
        self._first: Optional[UnitState] = None
        self._words: list[str] = []
        self._journal_read = self._begun
        self._counters: dict[str, float] = {}
        self._note: Optional[str] = None

    def climb(self) -> Readiness:
        """Climb to the top or until it is clear that the top will not be reached; never longer than the time-out.

        :raises UnitError: systemd gives no answer.
        """
        rungs: tuple[tuple[str, Callable[[], Optional[str]]], ...] = (
            ("unit", self._unit),
            *([("release", self._release)] if self.ask.environment else []),
            ("tcp", self._tcp),
            ("health", self._health),
            ("models", self._models),
            ("completion", self._completion),
            ("tokens", self._tokens),
            ("journal", self._journal),
        )
        try:
            for name, rung in rungs:
                self._pass(name, rung)
            self._watch()
            self.result.ready = True
        except _NotReadyError as error:
            self._explain(str(error))
        self.result.seconds = self._spent()
        return self.result

    def _pass(self, name: str, rung: Callable[[], Optional[str]]) -> None:
        begun = time.monotonic()
        while True:
            self._watch()
            self._api.timeout = self._at_most(self.ask.request_timeout)
            missing = rung()
            if missing is None:
                break
            # A server that dies takes its connections along: the unit's end is the reason then, not the connection's.
            self._watch()
            left = self._left()
            if left <= 0:
                raise _NotReadyError(f"step {name} was not passed {self._in_what_time()}: {missing}")
            time.sleep(min(self.ask.interval, left))
        self.result.step = name
        self.result.steps.append(Step(name, round(time.monotonic() - begun, 3), self._note))
        self._note = None

    def _watch(self) -> None:
        """Give up at once when the unit is not the one that we began with, or its engine has died in it."""
        now = unit_state(self.ask.unit, self._run)
        first = self._first
        if first is None or (first.main_pid == 0 and now.n_restarts == first.n_restarts):
            # Before its main process there may be an ExecStartPre.
            self._first = first = now
        self.result.main_pid, self.result.n_restarts, self.result.enabled = now.main_pid, now.n_restarts, now.enabled
        self._words = command_words(now.main_pid, self.ask.proc)
        self.result.serves = read_serves(self._words) if self._words else None
        problem = unit_problem(now)
        if problem is not None:
            raise _NotReadyError(f"{problem}. Give the name of the unit that serves the model, or install it first")
        if now.down:
            raise _NotReadyError("the unit is not running")
        if now.n_restarts != first.n_restarts or now.main_pid != first.main_pid:
            before = f"main pid {first.main_pid}, {first.n_restarts} restarts"
            raise _NotReadyError(f"the unit has been restarted meanwhile ({before} when this began)")
        if time.monotonic() - self._journal_read >= _JOURNAL_EVERY:
            self._fatal_problem()

    def _unit(self) -> Optional[str]:
        first = self._first
        if first is not None and first.active_state == "active" and first.main_pid:
            return None
        return "it has not become active"

    def _release(self) -> Optional[str]:
        first, environment = self._first, self.ask.environment
        if first is None or environment is None or not self._words:
            return "the main process does not tell its command line yet"
        if runs_from(self._words, environment):
            self._note = f"{home_of(self._words)} is in {environment}"
            return None
        drop_ins = f" with the drop-ins {first.drop_in_paths}" if first.drop_in_paths else " without drop-ins"
        raise _NotReadyError(
            f"main process {first.main_pid} runs {' '.join(self._words[:2])}, and it should run from "
            f"{os.path.realpath(environment)}. Its unit file is {first.fragment_path or 'unknown'}{drop_ins}: "
            "another unit file or a drop-in overrides ExecStart, or the unit was not restarted since a switch. "
            f"See `systemctl cat {first.unit}` for what it starts"
        )

    def _tcp(self) -> Optional[str]:
        return self._try(self._api.connect)

    def _health(self) -> Optional[str]:
        return self._try(self._api.health)

    def _models(self) -> Optional[str]:
        names: list[str] = []
        missing = self._try(lambda: names.extend(self._api.models()), permanent=True)
        if missing is None and self.ask.model not in names:
            raise _NotReadyError(
                f"{self.ask.url}/v1/models names {', '.join(names) or 'no model'}, not {self.ask.model}: "
                "give the name in --served-model-name, and see that no other server has the port"
            )
        return missing

    def _completion(self) -> Optional[str]:
        self._try(lambda: self._counters.update(self._api.metrics(TOKEN_COUNTERS)))
        limit = self._at_most(self.ask.completion_timeout)
        texts: list[str] = []
        ask = self.ask
        missing = self._try(
            lambda: texts.append(self._api.complete(ask.model, ask.prompt, ask.max_tokens, limit)), permanent=True
        )
        if missing is None and not texts[0]:
            return f"POST {ask.url}/v1/completions gave an empty text for {ask.prompt!r}"
        if missing is None:
            self.result.completion = redact(texts[0], [ask.api_key or ""])
        return missing

    def _tokens(self) -> Optional[str]:
        """The engine's own count must have risen; where the server exports none, say so and go on."""
        until = time.monotonic() + _COUNTER_PATIENCE
        while True:
            after: dict[str, float] = {}
            missing = self._try(lambda: after.update(self._api.metrics(TOKEN_COUNTERS)))  # noqa: B023
            if missing is not None:
                self._note = f"not checked: {missing}"
                return None
            if not after:
                self._note = f"not checked: {self.ask.url}/metrics has none of {', '.join(TOKEN_COUNTERS)}"
                return None
            risen = [name for name in after if after[name] > self._counters.get(name, 0.0)]
            if risen:
                name = risen[0]
                self._note = f"{name} rose from {self._counters.get(name, 0.0):g} to {after[name]:g}"
                return None
            if time.monotonic() >= until:
                counts = ", ".join(f"{name} stays at {value:g}" for name, value in sorted(after.items()))
                raise _NotReadyError(f"a completion was answered, but the engine made no token for it: {counts}")
            time.sleep(0.1)

    def _journal(self) -> Optional[str]:
        problem = self._fatal_problem()
        self._note = f"not checked: {problem}" if problem else None
        return None

    def _fatal_problem(self) -> Optional[str]:
        """Give up when the journal has a fatal line; return why the journal cannot be read."""
        self._journal_read = time.monotonic()
        # Only of this start: the one before it may have ended with just such a line.
        lines, problem = self._read_journal(None)
        line = fatal_line(lines, self.ask.fatal_patterns)
        if line is not None:
            raise _NotReadyError(f"its journal has a line after which no engine recovers: {line}")
        return problem

    def _read_journal(self, since: Optional[str]) -> tuple[list[str], Optional[str]]:
        if self._first is None:
            return [], "systemd did not tell the state of the unit"
        return journal_tail(self._first, since, secrets=[self.ask.api_key or ""], run_command=self._run)

    def _try(self, call: Callable[[], None], permanent: bool = False) -> Optional[str]:
        try:
            call()
        except ApiError as error:
            if permanent and error.permanent:
                raise _NotReadyError(f"{error}. Asking again cannot help: correct the request or the unit") from error
            return str(error)
        return None

    def _left(self) -> float:
        """How many seconds are left, below 0 when none are."""
        return self._since() + self.ask.timeout - time.monotonic()

    def _since(self) -> float:
        """The moment from which the time-out counts, on the monotonic clock, which is also systemd's."""
        first = self._first
        if self.ask.patient and first is not None and first.active_state == "active" and first.started:
            return min(self._begun, first.started)
        return self._begun

    def _at_most(self, limit: float) -> float:
        """How long a request may take: no longer than is left, except for the one pass that is made in any case."""
        if not self.ask.timeout or self.ask.patient:
            return limit
        return max(1.0, min(limit, self._left()))

    def _in_what_time(self) -> str:
        text = f"in {self.ask.timeout:g} seconds"
        if self.ask.patient and self._since() < self._begun:
            text += f" from the start of the unit, which was {time.monotonic() - self._since():.0f} seconds ago"
        return text

    def _spent(self) -> float:
        return round(time.monotonic() - self._begun, 3)

    def _explain(self, why: str) -> None:
        """One message: what, where, why, what the journal says, what to do next."""
        now = unit_state(self.ask.unit, self._run)
        journal_sync(self._run)
        lines, problem = self._read_journal(self.ask.since)
        self.result.journal = relevant_lines(lines, self.ask.fatal_patterns)
        said = "".join(f"\n  {line}" for line in self.result.journal) or f" {problem or 'nothing'}"
        reason = (
            f"{self.ask.unit} at {self.ask.url} is not ready after {self._spent():.1f} seconds "
            f"(last step passed: {self.result.step or 'none'}): {why}. Now {now.describe()}. Its journal says:{said}\n"
            f"See `journalctl -u {now.unit}` on this host for the rest."
        )
        self.result.reason = redact(reason, [self.ask.api_key or ""])
