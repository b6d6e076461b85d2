# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small process on the controller that runs an errand regularly while another process lives, and one at its end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable

# What an errand may answer: it went well, or there is nothing more to do. All else is to be tried again.
DONE, OVER = 0, 3
_LOOK = 0.5
# How long the errand at the end may take, all tries together: nobody waits for us then.
_LAST_PATIENCE = 10.0

Errand = Callable[[], int]


class Watched:
    """A process that is not our child."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = -1
        # It tells of one that nobody has waited for yet, and of no other with the same pid. Not every system has it.
        with contextlib.suppress(OSError, AttributeError):
            self._descriptor = os.pidfd_open(pid)

    def gone(self, wait: float) -> bool:
        """Whether it has ended, at the latest after ``wait`` seconds."""
        if self._descriptor >= 0:
            # poll, as select takes no descriptor above 1023.
            poll = select.poll()
            poll.register(self._descriptor, select.POLLIN)
            return bool(poll.poll(wait * 1000))
        time.sleep(wait)
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        return False


def start(
    pid: int, interval: float, patience: float, prepare: Callable[[], None], renew: Errand, give_up: Errand
) -> None:
    """Start a keeper for the process ``pid``, which is nobody's child, holds nothing of ours open and says nothing.

    :param interval: seconds between two runs of ``renew``.
    :param patience: seconds after which one that does not end is killed.
    :param prepare: is run in the keeper first.
    :param give_up: is run when the process is gone.
    """
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    # From here on nothing may return or raise into the code above us: it is another program's.
    try:
        os.setsid()
        if os.fork() == 0:
            _let_go()
            prepare()
            keep(Watched(pid), interval, patience, renew, give_up)
    finally:
        os._exit(0)


def keep(watched: Watched, interval: float, patience: float, renew: Errand, give_up: Errand) -> None:
    """Renew until the process is gone or an errand says that it is over; then give up."""
    while True:
        due = time.monotonic() + interval
        while time.monotonic() < due:
            if watched.gone(min(_LOOK, max(0.0, due - time.monotonic()))):
                _insist(give_up)
                return
        if _run(renew, patience, watched) == OVER:
            return


def _insist(errand: Errand) -> None:
    until = time.monotonic() + _LAST_PATIENCE
    while time.monotonic() < until:
        if _run(errand, until - time.monotonic()) in (DONE, OVER):
            return
        time.sleep(_LOOK)


def _run(errand: Errand, patience: float, watched: Watched | None = None) -> int:
    """Run it in a process of its own, which is killed with all that it started when it takes too long.

    A connection that is cut may leave a program waiting for minutes, and the end of the process is not to be missed.
    """
    until = time.monotonic() + patience
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setpgid(0, 0)
            code = errand()
        finally:
            os._exit(code)
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until or (watched is not None and watched.gone(0)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return 1
        time.sleep(0.02)


def _let_go() -> None:
    """Hold nothing that somebody may wait for the end of, and die of signals as any process does."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    # Among these are the queues to the playbook, and what it inherited itself: a pipe that a CI job reads to its end.
    os.closerange(3, 1 << 20)
