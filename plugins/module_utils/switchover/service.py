# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit's life in a switchover: what it was like before, its start and its proof."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Sequence
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.command import Completed, Run, run
from ansible_collections.pristine.vllm.plugins.module_utils.drain import StopAsk, Stopped
from ansible_collections.pristine.vllm.plugins.module_utils.drain import apply as stop_unit
from ansible_collections.pristine.vllm.plugins.module_utils.drain import plan as plan_stop
from ansible_collections.pristine.vllm.plugins.module_utils.main_process import command_words, read_serves
from ansible_collections.pristine.vllm.plugins.module_utils.readiness import Ladder
from ansible_collections.pristine.vllm.plugins.module_utils.readiness_ask import Ask, Readiness
from ansible_collections.pristine.vllm.plugins.module_utils.redact import redact
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.order import Drain, Order, Serving
from ansible_collections.pristine.vllm.plugins.module_utils.unit import unit_problem, unit_state

# A model loads for minutes; how soon its end is noticed is downtime.
_INTERVAL = 0.25
_ANYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 (compared, not bound)
# What can be asked of systemd again without doing anything twice.
_REPEATABLE = ("show", "daemon-reload", "enable", "disable", "stop")
_TRIES = 3
PAUSE = 1.0
# Reading all units again takes long on a host that is busy.
_SYSTEMCTL = 120.0


class ServiceError(Exception):
    """The service does not do what it must. The text says what, where, why and what to do next."""


def steady(run_command: Run = run) -> Run:
    """Runs programs; systemd is asked again where it did not answer: one busy moment must not cost a model load."""

    def again(argv: Sequence[str], timeout: float = 30.0) -> Completed:
        done = run_command(argv, timeout=timeout)
        if argv[0] == "systemctl" and argv[1] in _REPEATABLE:
            for _again in range(_TRIES - 1):
                if done.failure is None:
                    break
                time.sleep(PAUSE)
                done = run_command(argv, timeout=timeout)
        return done

    return again


def look(order: Order, proc: str = "/proc", run_command: Run = run) -> dict[str, Any]:
    """How the service is before anything changes, as the way back must make it again; for the journal, no secrets."""
    state = unit_state(order.unit, run_command)
    words = command_words(state.main_pid, proc)
    serves = read_serves(words)
    return {
        "known": unit_problem(state) is None,
        "masked": state.load_state == "masked",
        "reload": state.need_daemon_reload,
        "invocation": state.invocation_id,
        "active": state.active_state == "active",
        "enabled": bool(state.enabled),
        "main_pid": state.main_pid,
        "host": serves.host,
        "port": serves.port,
        "model": serves.model,
    }


def key_of(pid: int, fallback: Optional[str], proc: str = "/proc") -> Optional[str]:
    """The API key that a running server was started with, by its command line or environment; else the fallback.

    A wrapper says nothing of a key, and a server that wants none takes any.
    """
    words = command_words(pid, proc)
    for word, following in zip(words, [*words[1:], ""]):
        name, equals, value = word.partition("=")
        if name.replace("_", "-") == "--api-key":
            return value if equals else following
    try:
        with open(f"{proc}/{pid}/environ", "rb") as stream:
            variables = dict(entry.partition(b"=")[::2] for entry in stream.read().split(b"\0"))
    except OSError:
        return fallback
    return os.fsdecode(variables[b"VLLM_API_KEY"]) if b"VLLM_API_KEY" in variables else fallback


def serving_before(order: Order, before: dict[str, Any], api_key: Optional[str]) -> Serving:
    """How to reach what served before: its port, its model's name and its key may differ from those of the order."""
    port, host, model = before.get("port"), before.get("host"), before.get("model")
    url = order.serving.url
    if port is not None:
        address = "127.0.0.1" if host is None or host in _ANYWHERE else str(host)
        url = f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"
    return dataclasses.replace(order.serving, url=url, model=model or order.serving.model, api_key=api_key)


def stop(order: Order, url: str, drain: Optional[Drain], run_command: Run = run) -> Stopped:
    """Drain (unless ``drain`` is None) and stop, and prove that nothing of the unit is left.

    :raises StopError, UnitError: it could not be stopped, or not proven.
    """
    ask = StopAsk(
        unit=order.unit,
        url=url,
        drain_timeout=drain.timeout if drain else 0.0,
        stop_timeout=order.drain.stop_timeout,
        gpu_command=order.drain.gpu_command,
        missing_ok=True,
    )
    return stop_unit(ask, plan_stop(ask, run_command), run_command)


def start(order: Order, timeout: float, run_command: Run = run) -> float:
    """Start the unit; the monotonic time at which that was asked for. Whether it runs, the proof tells."""
    begun = time.monotonic()
    run_command(["systemctl", "start", "--", order.unit], timeout=timeout)
    return begun


def prove(order: Order, serving: Serving, environment: Optional[str], run_command: Run = run) -> Readiness:
    """Climb the ladder up to a completion.

    :raises ServiceError: the service does not answer one.
    """
    values = dataclasses.asdict(serving)
    ask = Ask(unit=order.unit, environment=environment, interval=_INTERVAL, **values)
    readiness = Ladder(ask, run_command).climb()
    if not readiness.ready:
        raise ServiceError(readiness.reason or "the service is not ready")
    return readiness


def systemctl(words: Sequence[str], run_command: Run = run) -> None:
    """Have systemd do something that must work.

    :raises ServiceError: it does not.
    """
    done = run_command(["systemctl", *words], timeout=_SYSTEMCTL)
    if done.failure is not None:
        raise ServiceError(f"systemctl {' '.join(words)} failed: {done.failure}. See `journalctl -b -u init.scope`.")


def hooks(commands: Sequence[Sequence[str]], timeout: float, what: str, run_command: Run = run) -> None:
    """Run an operator's commands one after the other.

    :raises ServiceError: one of them failed.
    """
    for words in commands:
        done = run_command(list(words), timeout=timeout)
        if done.failure is not None:
            # The words of a command may hold a token, and so may what it says.
            why = redact(done.failure.replace(" ".join(words), words[0]))
            raise ServiceError(f"the command {what}, {words[0]}, failed: {why}. Correct it, or take it out.")
