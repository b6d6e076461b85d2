# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The faults themselves: each strikes a run at the phase of its row."""

from __future__ import annotations

import json
import subprocess
from typing import Optional

from ansible_collections.pristine.vllm.tests.faults.index import BadIndex
from ansible_collections.pristine.vllm.tests.faults.machine import VLLM_ROOT, Machine
from ansible_collections.pristine.vllm.tests.faults.play import RUN_SECONDS, Play, PlayError
from ansible_collections.pristine.vllm.tests.faults.rows import ON_HOST, PHASES, Row


class Trap:
    """Holds the switchover in a phase of its own, so that what strikes there finds it there."""

    def __init__(self, machine: Machine, *words: str) -> None:
        self._machine = machine
        self._process = machine.background("trap.py", *words, str(RUN_SECONDS))

    def sprung(self, phase: str) -> int:
        """The pid of what it holds or has killed.

        :raises PlayError: it came too late.
        """
        told, _errors = self._process.communicate(timeout=RUN_SECONDS + 10)
        caught = json.loads(told)
        if not caught["pid"] or caught["phase"] != phase:
            raise PlayError(f"nothing was caught in phase {phase!r} (it was {caught['phase']!r} then)")
        return int(caught["pid"])

    def cancel(self) -> None:
        self._process.kill()
        self._process.communicate()


def strike(row: Row, machine: Machine, play: Play, index: Optional[BadIndex]) -> Optional[int]:
    """Let the fault strike, and return when the run is over: its exit code, None where it was killed.

    :raises PlayError: the run did not come there.
    """
    if row.kind == "uv":
        trap = Trap(machine, "kill", "uv")
        code = play.wait()
        trap.sprung("")
        return code
    if row.kind == "nothing":
        return play.wait()
    if row.kind == "index" and index is not None:
        # A spoilt wheel is there from the beginning: its download could be over before it is spoilt.
        if row.bad_index == "moved":
            play.wait_for_phase(row.phase)
        index.misbehave()
        return play.wait()
    held = _reach(row, machine, play)
    _hit(row, machine, play, held)
    if held and row.kind not in ("die", "reboot"):
        machine.run("kill", "-CONT", str(held))
    if row.kind == "kill":
        return None
    code = play.wait()
    if row.kind == "cut":
        machine.link("up")
    return code


def _hit(row: Row, machine: Machine, play: Play, held: int) -> None:
    if row.kind == "kill":
        play.kill()
    elif row.kind == "cut":
        machine.link("down")
    elif row.kind == "full":
        machine.fill_root()
    elif row.kind == "die":
        machine.run("kill", "-KILL", str(held))
    elif row.kind == "reboot":
        machine.reboot()


def _reach(row: Row, machine: Machine, play: Play) -> int:
    """Wait for the phase, on the host too where the host carries it out; the pid of what is held there, else 0."""
    if row.phase not in ON_HOST:
        play.wait_for_phase(row.phase)
        return 0
    # Looking for it all the time would slow the host down.
    play.wait_for_phase(3)
    phase = PHASES[row.phase - 1]
    trap = Trap(machine, "switchover", VLLM_ROOT, phase)
    try:
        play.wait_for_phase(row.phase)
        return trap.sprung(phase)
    except (PlayError, subprocess.TimeoutExpired):
        trap.cancel()
        raise
