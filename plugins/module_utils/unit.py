# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What systemd and the journal know about a unit, typed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.command import Run, run
from ansible_collections.pristine.vllm.plugins.module_utils.redact import redact

# No glob characters: systemctl would expand them and answer for several units.
_NAME = re.compile(r"[A-Za-z0-9:_.\\@][A-Za-z0-9:_.\\@-]*")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PROPERTIES = (
    "Id",
    "LoadState",
    "LoadError",
    "ActiveState",
    "SubState",
    "MainPID",
    "NRestarts",
    "ControlGroup",
    "Slice",
    "ExecMainStatus",
    "Result",
    "ActiveEnterTimestamp",
    "ActiveEnterTimestampMonotonic",
    "ExecMainStartTimestampMonotonic",
    "InvocationID",
    "FragmentPath",
    "DropInPaths",
    "UnitFileState",
    "NeedDaemonReload",
)


class UnitError(Exception):
    """systemd does not answer, or knows no such unit. The text says what, where, why and what to do next."""


@dataclass(frozen=True)
class UnitState:
    """A unit at one moment, as ``systemctl show`` names it. Empty strings where systemd has nothing to say."""

    unit: str
    load_state: str
    load_error: str
    active_state: str
    sub_state: str
    main_pid: int
    n_restarts: int
    control_group: str
    slice: str
    exec_main_status: int
    result: str
    active_enter_timestamp: str
    invocation_id: str
    fragment_path: str
    need_daemon_reload: bool
    # Seconds of the monotonic clock; 0 when it was never started.
    started: float = 0.0
    drop_in_paths: str = ""
    unit_file_state: str = ""

    @property
    def enabled(self) -> Optional[bool]:
        """Whether it starts with the host; None when systemd does not know it."""
        if not self.unit_file_state or self.load_state == "not-found":
            return None
        return self.unit_file_state in ("enabled", "enabled-runtime")

    @property
    def stopped(self) -> bool:
        """Whether no process of it should be left."""
        return self.active_state in ("inactive", "failed")

    @property
    def down(self) -> bool:
        """Whether it is not going to serve without something happening first, e.g. it waits for its own restart."""
        return self.stopped or self.active_state == "deactivating" or self.sub_state.startswith("auto-restart")

    def describe(self) -> str:
        """The state in a few words, for messages."""
        text = f"{self.unit} is {self.active_state} ({self.sub_state}), main pid {self.main_pid}"
        if self.n_restarts:
            text += f", restarted {self.n_restarts} times"
        if self.result not in ("", "success") or self.stopped:
            text += f", result {self.result or 'unknown'}, exit status {self.exec_main_status}"
        return text


def unit_state(unit: str, run_command: Run = run) -> UnitState:
    """Ask systemd for the state of ``unit`` (``.service`` may be left out). A unit that is not there is an answer too.

    :raises UnitError: the name cannot be one, or systemctl gives no answer.
    """
    if not _NAME.fullmatch(unit):
        raise UnitError(f"unit {unit!r} is no name of a systemd unit: give one such as vllm-kimi-k25")
    done = run_command(["systemctl", "show", "--no-pager", f"--property={','.join(_PROPERTIES)}", "--", unit])
    if done.failure is not None:
        raise UnitError(
            f"systemd does not tell the state of unit {unit}: {done.failure}. "
            "This host must have been booted with systemd; try `systemctl status` on it"
        )
    return parse_state(unit, done.stdout)


def parse_state(unit: str, text: str) -> UnitState:
    """Read the ``Key=Value`` lines of ``systemctl show``; a property that an old systemd lacks is empty or 0."""
    found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    name = found.get("Id", "") or unit
    return UnitState(
        unit=name,
        load_state=found.get("LoadState", ""),
        load_error=found.get("LoadError", "").strip('" '),
        active_state=found.get("ActiveState", ""),
        sub_state=found.get("SubState", ""),
        main_pid=_integer(found.get("MainPID", "")),
        n_restarts=_integer(found.get("NRestarts", "")),
        control_group=found.get("ControlGroup", ""),
        slice=found.get("Slice", ""),
        exec_main_status=_integer(found.get("ExecMainStatus", "")),
        result=found.get("Result", ""),
        active_enter_timestamp=found.get("ActiveEnterTimestamp", "").replace("n/a", ""),
        invocation_id=found.get("InvocationID", ""),
        fragment_path=found.get("FragmentPath", ""),
        need_daemon_reload=found.get("NeedDaemonReload", "") == "yes",
        # The main process's own start where there is one: the unit is active before and after, too.
        started=(_microseconds(found, "ExecMainStart") or _microseconds(found, "ActiveEnter")) / 1e6,
        drop_in_paths=found.get("DropInPaths", ""),
        unit_file_state=found.get("UnitFileState", ""),
    )


def unit_problem(state: UnitState) -> Optional[str]:
    """Why systemd could not start this unit, or None when it could."""
    if state.load_state in ("loaded", "merged", "stub"):
        return None
    reasons = {
        "not-found": "systemd knows no unit of that name",
        "masked": "it is masked, so nothing can start it",
    }
    reason = reasons.get(state.load_state, f"systemd could not load it ({state.load_state or 'no load state'})")
    return f"{reason}: {state.load_error}" if state.load_error and state.load_state not in reasons else reason


def journal_tail(
    state: UnitState,
    since: Optional[str] = None,
    lines: int = 4000,
    secrets: Iterable[str] = (),
    run_command: Run = run,
) -> tuple[list[str], Optional[str]]:
    """The last lines of the journal of this start of the unit, secrets taken out, and why they cannot be read.

    Its invocation id tells this start from the one before even within the same second; ``since`` (what
    ``journalctl --since`` takes, in UTC) asks by time instead.
    """
    argv = ["journalctl", "--no-pager", "--quiet", "--output=cat", f"--lines={lines}"]
    if since:
        argv += [f"--since={since}", f"--unit={state.unit}"]
    elif state.invocation_id:
        argv += [f"_SYSTEMD_INVOCATION_ID={state.invocation_id}", "+", f"INVOCATION_ID={state.invocation_id}"]
    else:
        argv.append(f"--unit={state.unit}")
        if state.active_enter_timestamp:
            # "Mon 2026-11-30 03:25:12 UTC": journalctl wants it without the name of the day.
            argv.append("--since=" + state.active_enter_timestamp.split(" ", 1)[1])
    done = run_command(argv)
    if done.failure is not None:
        return [], f"the journal cannot be read: {done.failure}"
    return redact(_ESCAPES.sub("", done.stdout), secrets).splitlines(), None


def journal_sync(run_command: Run = run) -> None:
    """Have journald write what it has received: the last words of a process that just died are read right after."""
    # Needs root; without it a line or two may be missing from a message, which is no reason to fail.
    run_command(["journalctl", "--sync"], timeout=10.0)


def _microseconds(found: dict[str, str], event: str) -> int:
    return _integer(found.get(f"{event}TimestampMonotonic", ""))


def _integer(text: str) -> int:
    return int(text) if text.isdigit() else 0
