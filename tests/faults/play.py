# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run of the reinstall over ssh, as an operator's, that can be watched and killed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Optional

from ansible_collections.pristine.vllm.molecule.shared import hosts
from ansible_collections.pristine.vllm.tests.faults.machine import ROOT, SCENARIO, Machine

RUN_SECONDS = 600.0
#: How long a killed run may go on holding the host.
LOCK_SECONDS = 90.0
HELD = "another run is in progress"
# A cut is noticed within seconds.
SSH = (
    "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o ConnectTimeout=5 "
    "-o ServerAliveInterval=1 -o ServerAliveCountMax=3"
)


class PlayError(Exception):
    """A run did not come where the fault was to strike."""


def write_inventory(path: Path, machine: Machine, key: Path) -> None:
    """The scenario's inventory, with this machine in its host's place."""
    listed = hosts.inventory(SCENARIO)
    host = {
        "ansible_connection": "ssh",
        "ansible_host": machine.address(),
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_ssh_common_args": SSH,
        "ansible_ssh_private_key_file": str(key),
        "ansible_user": "root",
    }
    variables = {
        **listed["vllm_hosts"]["vars"],
        **settings(),
        "run_record_controller_path": str(path.parent / "records"),
    }
    path.write_text(json.dumps({"vllm_hosts": {"hosts": {"vllm01": host}, "vars": variables}}, indent=1))


def settings() -> dict[str, Any]:
    """Beside those of the scenario: a service that hangs is given up sooner."""
    return {"vllm_service_start_timeout": 40}


class Play:
    """One ansible-playbook, in a process group of its own."""

    def __init__(self, inventory: Path, log: Path, control: Path, extra: dict[str, Any]) -> None:
        """
        :param control: folder for the sockets of ssh, whose names may not be long.
        """
        self.log = log
        self._stream = log.open("w", encoding="utf-8")
        self._process = subprocess.Popen(
            ["ansible-playbook", "-i", str(inventory), "pristine.vllm.reinstall", "-e", json.dumps(extra)],
            cwd=ROOT,
            env={**os.environ, "ANSIBLE_SSH_CONTROL_PATH_DIR": str(control), "ANSIBLE_NOCOLOR": "1"},
            stdin=subprocess.DEVNULL,
            stdout=self._stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait_for_phase(self, number: int) -> None:
        """Return as soon as its heading is there.

        :raises PlayError: the run ended before, or hangs.
        """
        heading = f"Report phase {number} of 8"
        deadline = time.monotonic() + RUN_SECONDS
        while heading not in self.text():
            if self._process.poll() is not None and heading not in self.text():
                raise PlayError(f"the run ended with {self._process.returncode} before phase {number}: see {self.log}")
            if time.monotonic() > deadline:
                raise PlayError(f"the run did not come to phase {number} in {RUN_SECONDS:.0f} s: see {self.log}")
            time.sleep(0.05)

    def came_to(self, number: int) -> bool:
        """Whether a phase was begun."""
        return f"Report phase {number} of 8" in self.text()

    def kill(self) -> None:
        """SIGKILL to all of it: no handler, no rescue, no good-bye to the host."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._stream.close()

    def wait(self) -> int:
        """The exit code.

        :raises PlayError: it hangs; it is killed then.
        """
        try:
            return self._process.wait(RUN_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise PlayError(f"the run did not end in {RUN_SECONDS:.0f} s: see {self.log}") from error
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._stream.close()

    @property
    def changed(self) -> int:
        """How many tasks changed something, as the recap says."""
        return sum(int(number) for number in re.findall(r"changed=(\d+)", self.text()))

    def reason(self) -> str:
        """Its last failure, on one line."""
        found = re.findall(r"\[ERROR\]: (.*?)(?:\n\n|\nOrigin|\Z)|fatal: (.*?)(?:\n\n|\Z)", self.text(), re.DOTALL)
        texts = [first or second for first, second in found]
        return " ".join(texts[-1].split()) if texts else "no reason is in its output"


def finish(inventory: Path, log: Path, control: Path, extra: dict[str, Any]) -> tuple[Optional[str], int]:
    """A run to its end, once no killed one holds the host: why it failed (None: it did not), and its changes."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        play = Play(inventory, log, control, extra)
        code = play.wait()
        if code == 0:
            return None, play.changed
        if HELD not in " ".join(play.text().split()) or time.monotonic() > deadline:
            return f"exit code {code}: {play.reason()}", play.changed
