# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run at a time on a host: a lease that its run renews, and that lapses by itself when nobody does.

A run is many processes on the host, one after another, so none of them can hold a kernel's lock for all of it. What
says that the run lives is the time of the last renewal: the lock file's modification time, in the clock that counts
from the boot. Nobody can set that clock, and a time set through an open descriptor never touches a lock that somebody
else has put there since.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import exclusive
from ansible_collections.pristine.vllm.plugins.module_utils.files import atomic_write, read_file
from ansible_collections.pristine.vllm.plugins.module_utils.unit import UnitError, unit_state

TAKE, CONFIRM, WAIT, REFUSE = "take", "confirm", "wait", "refuse"
# A run renews six times in a lease; one that missed more than a renewal may be dead, and is worth waiting for.
RENEWALS = 6
_POLL = 0.2
_TYPES: dict[str, Callable[[Any], Any]] = {"lease": float}
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True)
class Holder:
    """Who holds the lock. ``process`` tells runs apart, ``mark`` one taking of it from the next of the same run."""

    process: str
    mark: str
    who: str
    playbook: str
    run_id: str
    acquired: str
    lease: float
    boot: str

    def describe(self) -> str:
        """The holder in a few words, for messages."""
        run = f" run {self.run_id}" if self.run_id else ""
        return f"{self.who} ({self.playbook or 'a playbook'}{run}, process {self.process}, since {self.acquired})"


@dataclass(frozen=True)
class Found:
    """What lies at the lock's path. Without a ``holder`` nothing does, or it is no lock, and ``problem`` says why."""

    holder: Optional[Holder] = None
    age: float = 0.0
    problem: str = ""


@dataclass(frozen=True)
class Decision:
    """What to do about it, and what the operator should know of that."""

    verb: str
    note: str = ""


@dataclass(frozen=True)
class Outcome:
    """Whether the host is this run's now, who holds it, and what stands in the way, for `blocker_lines`.

    ``confirmed``: it was this run's all the time since it took it.
    """

    held: bool
    holder: Optional[Holder]
    in_the_way: list[dict[str, str]] = field(default_factory=list)
    note: str = ""
    confirmed: bool = False


def now() -> float:
    """Seconds since the boot, sleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    with open(_BOOT_ID, encoding="ascii") as stream:
        return stream.read().strip()


def look(path: str) -> Found:
    """Read the lock; a file that is none is an answer too.

    :raises OSError: it is there and may not be read.
    """
    try:
        data = read_file(path, limit=65536)
        renewed = os.lstat(path).st_mtime
    except FileNotFoundError:
        return Found()
    try:
        loaded = json.loads(data)
        holder = Holder(**{entry.name: _TYPES.get(entry.name, str)(loaded[entry.name]) for entry in fields(Holder)})
    except (ValueError, TypeError, KeyError) as error:
        return Found(problem=f"it is no lock ({type(error).__name__}: {error})")
    return Found(holder, now() - renewed)


def plan(found: Found, ask: Holder, boot: str) -> Decision:
    """Decide whose the host is. Pure."""
    if found.problem:
        return Decision(TAKE, f"the lock that lay there was thrown away: {found.problem}")
    holder = found.holder
    if holder is None:
        return Decision(TAKE)
    if holder.process == ask.process:
        return Decision(CONFIRM)
    if holder.boot != boot:
        return Decision(TAKE, f"taken over from {holder.describe()}: the host was booted since")
    # A time that is still to come is none of ours: somebody touched the file.
    if not 0 <= found.age < holder.lease:
        why = (
            f"not renewed for {found.age:.0f} s" if found.age > 0 else "its time is still to come, which no run writes"
        )
        return Decision(TAKE, f"taken over from {holder.describe()}: {why}")
    if found.age > 1.5 * holder.lease / RENEWALS:
        return Decision(WAIT)
    return Decision(REFUSE)


def acquire(path: str, ask: Holder) -> tuple[Decision, Found]:
    """Take or confirm the lock, or say who holds it; a holder that looks dead is waited for until its lease has lapsed.

    :raises BusyError: another process has been deciding about the lock for a minute.
    :raises OSError: the lock cannot be read or written.
    """
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    boot = boot_id()
    while True:
        with exclusive(os.path.dirname(path)):
            found = look(path)
            decision = plan(found, ask, boot)
            if decision.verb in (TAKE, CONFIRM):
                _write(path, ask, found, boot)
        if decision.verb != WAIT:
            return decision, found
        time.sleep(_POLL)


def release(path: str, process: str) -> Optional[Holder]:
    """Remove the lock when it is this run's; returns whose it was, None when there was none.

    :raises BusyError: another process has been deciding about the lock for a minute.
    :raises OSError: the lock cannot be read or removed.
    """
    if not os.path.isdir(os.path.dirname(path)):
        return None
    with exclusive(os.path.dirname(path)):
        holder = look(path).holder
        if holder is not None and holder.process == process:
            os.unlink(path)
    return holder


def hold(path: str, ask: Holder, unit: str) -> Outcome:
    """Take or confirm the lock, unless another run, or a switchover that goes on by itself, is at work on the host.

    :raises BusyError: another process has been deciding about the lock for a minute.
    :raises OSError: the lock cannot be read or written.
    """
    decision, found = acquire(path, ask)
    if decision.verb == REFUSE:
        return Outcome(False, found.holder, in_the_way=[_run_in_the_way(path, found), *switchover_in_the_way(unit)])
    # Only who holds the lock begins a switchover: none can begin behind our back now. Our own is no obstacle.
    in_the_way = switchover_in_the_way(unit) if decision.verb == TAKE else []
    if in_the_way:
        release(path, ask.process)
        return Outcome(False, None, in_the_way)
    return Outcome(True, ask, note=decision.note, confirmed=decision.verb == CONFIRM)


def predict(path: str, ask: Holder, unit: str) -> Outcome:
    """Who is at work on the host now. Changes nothing and waits for nobody."""
    found = look(path)
    in_the_way = switchover_in_the_way(unit)
    if plan(found, ask, boot_id()).verb in (WAIT, REFUSE):
        in_the_way.insert(0, _run_in_the_way(path, found))
    return Outcome(False, found.holder, in_the_way)


def switchover_in_the_way(unit: str) -> list[dict[str, str]]:
    """A switchover that goes on by itself, with or without the play that began it, as what stands in the way."""
    if not unit:
        return []
    name = f"{unit.removesuffix('.service')}-switchover.service"
    try:
        state = unit_state(name)
    except UnitError:
        # Without systemd there is none.
        return []
    if state.stopped or state.sub_state == "exited" or state.load_state == "not-found":
        return []
    # One of type oneshot is activating all the time and has no such time.
    since = f" since {state.active_enter_timestamp}" if state.active_enter_timestamp else ""
    return [
        {
            "check": "run",
            "where": name,
            "what": (f"an earlier run's switchover is under way{since}, with or without its play: {state.describe()}."),
            "next": f"Wait for its end (`journalctl -fu {name}` on the host shows it), then run again.",
        }
    ]


def _run_in_the_way(path: str, found: Found) -> dict[str, str]:
    who = found.holder.describe() if found.holder else "nobody"
    left = found.holder.lease - found.age if found.holder else 0
    return {
        "check": "run",
        "where": path,
        "what": f"another run is in progress on this host, that of {who}. It last said so {found.age:.0f} s ago.",
        "next": (
            "Wait for it to end, or end it where it runs, and run again: the lock goes with its playbook. "
            f"Should its controller be gone, the lock lapses by itself, {left:.0f} s from now."
        ),
    }


def _write(path: str, ask: Holder, found: Found, boot: str) -> None:
    values: dict[str, Any] = {**asdict(ask), "boot": boot}
    if found.holder is not None and found.holder.process == ask.process:
        values["acquired"] = found.holder.acquired
    atomic_write(path, (json.dumps(values, indent=2) + "\n").encode(), mode=0o644)
    renewed = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    os.utime(path, ns=(renewed, renewed))
