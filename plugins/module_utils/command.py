# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Running a program with a time limit that holds even when the program hangs or leaves children behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional, Protocol

# sudo and ssh often leave these out, and systemctl or nvidia-smi may be in any of them.
_MORE_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


@dataclass(frozen=True)
class Completed:
    """How a program ended: its exit status (None when it never ended by itself), its output, and what went wrong.

    ``problem`` is None when the program ran to its end, whatever its exit status.
    """

    argv: tuple[str, ...]
    rc: Optional[int]
    stdout: str
    stderr: str
    problem: Optional[str] = None

    @property
    def failure(self) -> Optional[str]:
        """Why this run is of no use, in one line: ``problem``, or a non-zero status with what the program said."""
        if self.problem is not None:
            return self.problem
        if self.rc == 0:
            return None
        said = " ".join((self.stderr.strip() or self.stdout.strip() or "it said nothing").split())
        return f"{self.argv[0]} ended with status {self.rc}: {said[:400]}"


class Run(Protocol):
    """Runs a program; `run` does it, and a test may stand in for it."""

    def __call__(self, argv: Sequence[str], timeout: float = 30.0) -> Completed: ...


def run(argv: Sequence[str], timeout: float = 30.0) -> Completed:
    """Run ``argv`` without a shell, in the C locale and UTC, for at most ``timeout`` seconds.

    Never raises: a program that is not there or does not end is told in ``problem``.
    """
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(),
            encoding="utf-8",
            errors="replace",
            cwd="/",
            # So that a time-out can end its children too: one of them would keep the pipe open.
            start_new_session=True,
        )
    except OSError as error:
        return Completed(tuple(argv), None, "", "", f"cannot run {argv[0]}: {error.strerror or error}")
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _end(process)
        return Completed(tuple(argv), None, "", "", f"{' '.join(argv)} did not end within {timeout:g} seconds")
    return Completed(tuple(argv), process.returncode, stdout, stderr)


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # One that is stuck in a driver does not even die: waiting for it would hang us as well.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=2)


def _environment() -> dict[str, str]:
    environment = dict(os.environ)
    path = [part for part in environment.get("PATH", "").split(os.pathsep) if part]
    environment["PATH"] = os.pathsep.join(path + [part for part in _MORE_PATH if part not in path])
    # UTC, so that the times that systemctl prints are what journalctl reads, across any change of summer time.
    environment.update(LC_ALL="C.UTF-8", TZ="UTC", SYSTEMD_COLORS="0", SYSTEMD_PAGER="")
    return environment
