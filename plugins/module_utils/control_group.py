# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes of a control group, and how to end those and no others.

Which processes belong to a group is read from ``/proc/<pid>/cgroup``. That holds on pure and hybrid hierarchies and in
containers, wherever (and whether) the hierarchy is mounted, and shows only what this host can see. A group's directory
that is not there would prove nothing: it may only be mounted elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Optional


def control_group_pids(control_group: str, proc: str = "/proc") -> list[int]:
    """The living processes in the group, named as systemd does (``/system.slice/x.service``), or in one below it.

    An empty name and the root group hold nothing: every process would be in them. Zombies are dead.
    """
    if control_group in ("", "/"):
        return []
    pids = [int(name) for name in os.listdir(proc) if name.isdigit()]
    return sorted(pid for pid in pids if _belongs(pid, control_group, proc) and _alive(pid, proc))


def kill_in_control_group(control_group: str, proc: str = "/proc") -> list[int]:
    """Send SIGKILL to each process in the group, except this one; return those that it was sent to.

    A process is held by a descriptor while its group is looked up again, so that a pid which changes hands in between
    kills nobody else.
    """
    killed: list[int] = []
    for pid in control_group_pids(control_group, proc):
        if pid != os.getpid() and _kill(pid, control_group, proc):
            killed.append(pid)
    return killed


def default_control_group(unit: str, slice_name: str, proc: str = "/proc") -> str:
    """Where systemd puts a service that it starts: for a unit that is not running systemd does not say.

    :param slice_name: the unit's slice, e.g. ``system.slice``; ``a-b.slice`` lies in ``a.slice``.
    """
    parts: list[str] = []
    prefix = ""
    for word in slice_name[: -len(".slice")].split("-") if slice_name.endswith(".slice") else ["system"]:
        prefix = f"{prefix}-{word}" if prefix else word
        parts.append(f"{prefix}.slice")
    return f"{_manager_root(proc)}/{'/'.join(parts)}/{unit}"


def _manager_root(proc: str) -> str:
    """The group that systemd itself manages: not the root where a container sees its host's hierarchy."""
    groups = _groups(1, proc)
    for group in groups:
        if group.endswith("/init.scope"):
            return group[: -len("/init.scope")]
    return ""


def _groups(pid: int, proc: str) -> list[str]:
    """The process's groups in the hierarchies that systemd uses: the unified one, and on old hosts its own."""
    try:
        with open(f"{proc}/{pid}/cgroup", encoding="utf-8", errors="surrogateescape") as stream:
            rows = [line.rstrip("\n").split(":", 2) for line in stream]
    except OSError:
        return []  # It ended meanwhile.
    return [row[2] for row in rows if len(row) == 3 and row[1] in ("", "name=systemd")]


def _belongs(pid: int, control_group: str, proc: str) -> bool:
    return any(group == control_group or group.startswith(control_group + "/") for group in _groups(pid, proc))


def _alive(pid: int, proc: str) -> bool:
    try:
        with open(f"{proc}/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            state = stream.read().rpartition(")")[2].split()[0]
        # A main thread may end before the others: the process lives on as long as they do.
        return state not in ("Z", "X") or len(os.listdir(f"{proc}/{pid}/task")) > 1
    except (OSError, IndexError):
        return False


def _kill(pid: int, control_group: str, proc: str) -> bool:
    descriptor: Optional[int] = None
    try:
        # Kernels before 5.3 have none.
        with contextlib.suppress(OSError, AttributeError):
            descriptor = os.pidfd_open(pid)
        if not _belongs(pid, control_group, proc):
            return False
        if descriptor is None:
            os.kill(pid, signal.SIGKILL)
        else:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        return True
    except ProcessLookupError:
        return False
    finally:
        if descriptor is not None:
            os.close(descriptor)
