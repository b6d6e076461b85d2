# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on a test host: stops a process at the moment that matters, and tells what it was.

trap.py switchover ROOT PHASE SECONDS   holds the switchover (SIGSTOP) in a phase: most are over in milliseconds, and
                                        a fault that is to strike in one must find it there
trap.py kill NAME SECONDS               kills (SIGKILL) the first process of that name
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import signal
import sys
import time


def processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def find_switchover(root: str) -> int | None:
    """The process that carries out the order in a folder of ROOT/switchover."""
    for order in glob.glob(f"{root}/switchover/*/order.json"):
        folder = os.path.dirname(order)
        for pid in processes():
            if read(f"/proc/{pid}/cmdline").split("\0")[-2:-1] == [folder] and "main.py" in read(
                f"/proc/{pid}/cmdline"
            ):
                return pid
    return None


def phase_now(root: str) -> str:
    """The phase that the journal of an order names last; "" before anything changes, and once it has an outcome."""
    for order in glob.glob(f"{root}/switchover/*/order.json"):
        with contextlib.suppress(ValueError, LookupError):
            journal = json.loads(read(f"{os.path.dirname(order)}/journal.json"))
            if journal["touched"] and not journal["outcome"]:
                return str(journal["phases"][-1]["name"])
    return ""


def hold(root: str, phase: str, seconds: float) -> dict[str, object]:
    deadline = time.monotonic() + seconds
    pid = None
    while time.monotonic() < deadline:
        pid = pid or find_switchover(root)
        if not pid:
            time.sleep(0.01)
        elif phase_now(root) == phase:
            os.kill(pid, signal.SIGSTOP)
            while ") T " not in read(f"/proc/{pid}/stat"):
                if not os.path.exists(f"/proc/{pid}"):
                    return {"pid": 0, "phase": phase_now(root)}
            return {"pid": pid, "phase": phase_now(root)}
    return {"pid": 0, "phase": phase_now(root)}


def kill_first(name: str, seconds: float) -> dict[str, object]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for pid in processes():
            if read(f"/proc/{pid}/comm").strip() == name:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    return {"pid": pid, "phase": ""}
        time.sleep(0.005)
    return {"pid": 0, "phase": ""}


def main() -> None:
    if sys.argv[1] == "switchover":
        done = hold(sys.argv[2], sys.argv[3], float(sys.argv[4]))
    else:
        done = kill_first(sys.argv[2], float(sys.argv[3]))
    print(json.dumps(done))


if __name__ == "__main__":
    main()
