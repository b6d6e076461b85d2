# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stopping the service: let its requests end, stop it, prove that nothing of it is left."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.command import Run, run
from ansible_collections.pristine.vllm.plugins.module_utils.control_group import (
    control_group_pids,
    default_control_group,
    kill_in_control_group,
)
from ansible_collections.pristine.vllm.plugins.module_utils.gpu import read_compute_apps
from ansible_collections.pristine.vllm.plugins.module_utils.unit import (
    UnitError,
    UnitState,
    unit_problem,
    unit_state,
)
from ansible_collections.pristine.vllm.plugins.module_utils.vllm_api import RUNNING, WAITING, ApiError, VllmApi

_POLL = 0.2
# A request is in neither count for a moment, between the server and its engine.
_QUIET_LOOKS = 2
# Of a server that has not told of any request, or where nobody listens any more. One with requests may be too busy with
# them to answer, for as long as they take.
_BLIND_LOOKS = 3
# What SIGKILL needs to take effect: the driver frees some 97 GB on each GPU.
_KILL_PATIENCE = 30.0


class StopError(Exception):
    """It could not be stopped, or not proven stopped. The text says what, where, why and what to do next."""


@dataclass(frozen=True)
class StopAsk:
    """What to stop. Times in seconds; an empty ``url`` drains nothing, an empty ``gpu_command`` asks no GPU.

    With ``missing_ok`` a unit that systemd does not know is nothing to stop.
    """

    unit: str
    url: str = ""
    drain_timeout: float = 300.0
    stop_timeout: float = 120.0
    gpu_command: str = "nvidia-smi"
    missing_ok: bool = False
    proc: str = "/proc"


@dataclass(frozen=True)
class StopPlan:
    """What there is to do: the unit's state, its control group, its processes, and whether it must be stopped."""

    state: UnitState
    control_group: str
    pids: tuple[int, ...]

    @property
    def changes(self) -> bool:
        return not self.state.stopped or bool(self.pids)


@dataclass
class Stopped:
    """What was done. ``requests_left`` is None when the server did not tell, and then ``drain_problem`` says why."""

    changed: bool = False
    drained: bool = False
    drain_problem: Optional[str] = None
    drain_seconds: float = 0.0
    stop_seconds: float = 0.0
    requests_left: Optional[int] = None
    pids: list[int] = field(default_factory=list)
    pids_killed: list[int] = field(default_factory=list)
    gpu_checked: bool = False
    gpu_problem: Optional[str] = None


def plan(ask: StopAsk, run_command: Run = run) -> StopPlan:
    """Look at the unit and its processes; changes nothing.

    :raises UnitError: systemd gives no answer, or knows no such unit and that is not ``missing_ok``.
    """
    state = unit_state(ask.unit, run_command)
    problem = unit_problem(state)
    if ask.missing_ok and state.load_state == "not-found":
        # One whose file was deleted under it runs on, without a file.
        if state.stopped:
            return StopPlan(state, "", ())
        problem = None
    # A masked unit can still run, and can be stopped.
    if problem is not None and state.load_state != "masked":
        raise UnitError(f"cannot stop unit {ask.unit}: {problem}. Give the name of the unit that serves the model")
    group = state.control_group or default_control_group(state.unit, state.slice, ask.proc)
    pids = control_group_pids(group, ask.proc)
    return StopPlan(state, group, tuple(pids))


def apply(ask: StopAsk, found: StopPlan, run_command: Run = run) -> Stopped:
    """Drain, stop, end what is left in the control group, and prove it.

    :raises StopError: a process survives, or the unit does not stop.
    """
    result = Stopped(changed=found.changes, pids=list(found.pids))
    _drain(ask, found, result)
    begun = time.monotonic()
    former = set(found.pids) | {found.state.main_pid}
    if not found.state.stopped:
        former |= set(control_group_pids(found.control_group, ask.proc))
        _stop(ask, found, result, run_command)
    _end_leftovers(ask, found, result)
    result.changed = result.changed or bool(result.pids_killed)
    _prove_gpus_free(ask, former - {0}, result, run_command)
    _forget_starts(found.state, run_command)
    result.stop_seconds = round(time.monotonic() - begun, 3)
    return result


def _drain(ask: StopAsk, found: StopPlan, result: Stopped) -> None:
    """Wait until no request runs or waits, at most ``drain_timeout``; a server that never tells is not waited for."""
    begun = time.monotonic()
    if found.state.active_state != "active" or not ask.url:
        result.drained = found.state.stopped
        why = "no url was given" if not ask.url else f"{found.state.unit} is {found.state.active_state}"
        result.drain_problem = None if found.state.stopped else f"nothing to ask for its requests: {why}"
        return
    api = VllmApi(ask.url, timeout=5.0)
    quiet = blind = last = 0
    while True:
        listens = _read_requests(api, result)
        quiet = quiet + 1 if result.requests_left == 0 else 0
        blind = blind + 1 if result.requests_left is None else 0
        last = last if result.requests_left is None else result.requests_left
        spent = time.monotonic() - begun
        in_vain = blind >= _BLIND_LOOKS and not (last and listens)
        if quiet >= _QUIET_LOOKS or in_vain or spent >= ask.drain_timeout:
            break
        time.sleep(min(_POLL, max(0.0, ask.drain_timeout - spent)))
    result.drained = result.requests_left == 0
    if result.requests_left:
        left = f"{result.requests_left} requests still ran or waited"
        result.drain_problem = f"{left} after {ask.drain_timeout:g} seconds"
    elif last and result.requests_left is None:
        result.drain_problem = f"{result.drain_problem}; {last} requests ran or waited when it last told"
    result.drain_seconds = round(time.monotonic() - begun, 3)


def _read_requests(api: VllmApi, result: Stopped) -> bool:
    """Ask once; False when nobody listens there."""
    result.requests_left = result.drain_problem = None
    try:
        counts = api.metrics((RUNNING, WAITING))
    except ApiError as error:
        result.drain_problem = str(error)
        return not isinstance(error.__cause__, ConnectionRefusedError)
    if len(counts) < 2:
        result.drain_problem = f"{api.url}/metrics does not have both {RUNNING} and {WAITING}"
    else:
        result.requests_left = int(sum(counts.values()))
    return True


def _stop(ask: StopAsk, found: StopPlan, result: Stopped, run_command: Run) -> None:
    """Ask systemd to stop it; when its processes do not end in time, end them by pid."""
    unit = found.state.unit
    done = run_command(["systemctl", "stop", "--no-block", "--", unit])
    if done.failure is not None:
        raise StopError(f"cannot stop {unit}: {done.failure}. It runs as before; see `systemctl status {unit}`")
    state = _wait_stopped(ask, run_command, ask.stop_timeout)
    if not state.stopped:
        result.pids_killed += kill_in_control_group(found.control_group, ask.proc)
        state = _wait_stopped(ask, run_command, _KILL_PATIENCE)
    if not state.stopped:
        raise StopError(
            f"{unit} did not stop within {ask.stop_timeout:g} seconds, nor after SIGKILL to {result.pids_killed}: "
            f"{state.describe()}. A process may hang in the driver: see `ps -eo pid,stat,wchan,args` and `dmesg`"
        )


def _forget_starts(state: UnitState, run_command: Run) -> None:
    """Let the next start through whatever came before it.

    systemd's limit counts manual starts too, and from systemd 255 on the count survives a daemon-reload
    (https://github.com/systemd/systemd/pull/30024): a third start within the interval, the one of a rollback, would be
    refused. A unit that has ended by that limit is stopped already, so this is for such a one as well.
    """
    if state.load_state != "not-found":
        # One that systemd has unloaded has nothing to forget, and it says so with an error.
        run_command(["systemctl", "reset-failed", "--", state.unit])


def _wait_stopped(ask: StopAsk, run_command: Run, patience: float) -> UnitState:
    until = time.monotonic() + patience
    while True:
        state = unit_state(ask.unit, run_command)
        if state.stopped or time.monotonic() >= until:
            return state
        time.sleep(_POLL / 2)


def _end_leftovers(ask: StopAsk, found: StopPlan, result: Stopped) -> None:
    """Workers can outlive a parent that was killed, and hold their VRAM."""
    until = time.monotonic() + _KILL_PATIENCE
    while True:
        left = control_group_pids(found.control_group, ask.proc)
        if not left:
            return
        for pid in kill_in_control_group(found.control_group, ask.proc):
            if pid not in result.pids_killed:
                result.pids_killed.append(pid)
        if time.monotonic() >= until:
            raise StopError(
                f"{found.state.unit} is stopped, but processes {left} in its control group {found.control_group} "
                "survive SIGKILL and may hold VRAM. They hang in the kernel, most likely in the driver: see `dmesg`; "
                "only a reset of the GPU or a reboot frees them"
            )
        time.sleep(_POLL / 4)


def _prove_gpus_free(ask: StopAsk, former: set[int], result: Stopped, run_command: Run) -> None:
    """None of the unit's former processes may be in the list of those that compute on a GPU."""
    if not ask.gpu_command or not former:
        return
    until = time.monotonic() + _KILL_PATIENCE
    while True:
        problems: list[str] = []
        apps = read_compute_apps(ask.gpu_command, problems, run_command)
        result.gpu_problem = "; ".join(problems) or None
        result.gpu_checked = not problems
        held = {app.pid: app.used_mib for app in apps if app.pid in former}
        if not held:
            return
        if time.monotonic() >= until:
            memory = ", ".join(f"pid {pid}: {used} MiB" for pid, used in sorted(held.items()))
            raise StopError(
                f"{ask.unit} is stopped and its processes are gone, but {ask.gpu_command} still lists their memory "
                f"({memory}). The driver has not freed it: see `dmesg`; a reset of the GPU or a reboot frees it"
            )
        time.sleep(_POLL)
