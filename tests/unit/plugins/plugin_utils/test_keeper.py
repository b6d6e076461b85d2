# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import COLLECTIONS

# Starts a keeper for the process it is told, with errands that note what they do, and ends. A program of its own, as
# forking pytest itself would take its threads and its files along.
STARTER = """
import os, sys, time
from ansible_collections.pristine.vllm.plugins.plugin_utils import keeper

pid, log, answer, seconds = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])

def errand(name, answer, seconds=0.0):
    with open(log, "a") as stream:
        print(name, os.getpid(), os.getsid(0), sorted(os.listdir("/proc/self/fd")), file=stream)
    time.sleep(seconds)
    return answer

keeper.start(pid, 0.1, 1.0, lambda: errand("prepare", 0) and None,
             lambda: errand("renew", answer, seconds), lambda: errand("give_up", 0))
print("started")
"""


def wait_for(condition: Callable[[], bool], what: str, patience: float = 30.0) -> None:
    until = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


class Kept:
    """A process, a keeper of it, and what that noted."""

    def __init__(self, log: pathlib.Path) -> None:
        self.log = log
        self.process = subprocess.Popen(["sleep", "600"])

    def start(self, answer: int = 0, seconds: float = 0.0) -> None:
        # capture_output reads to the end of both: it would not return while the keeper held them.
        done = subprocess.run(
            [sys.executable, "-c", STARTER, str(self.process.pid), str(self.log), str(answer), str(seconds)],
            env={**os.environ, "PYTHONPATH": str(COLLECTIONS)},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert (done.stdout, done.stderr) == ("started\n", "")
        # It goes its own way: who started it may be back before it has done anything.
        wait_for(lambda: self.log.exists() and self.noted("prepare") == 1, "the keeper begins")

    def noted(self, name: str) -> int:
        return sum(line.startswith(name + " ") for line in self.log.read_text(encoding="utf-8").splitlines())

    @property
    def session(self) -> int:
        """The keeper's session; all that belongs to it carries its number."""
        return int(self.log.read_text(encoding="utf-8").split()[2])

    def gone(self) -> bool:
        """Whether no process of the keeper's session is left."""
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit() and alive(int(entry.name)):
                try:
                    if os.getsid(int(entry.name)) == self.session:
                        return False
                except ProcessLookupError:
                    continue
        return True

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def kept(tmp_path: pathlib.Path) -> Iterator[Kept]:
    kept = Kept(tmp_path / "log")
    yield kept
    kept.end()
    if kept.log.exists():
        wait_for(kept.gone, "the keeper outlives what it watched")


def test_it_renews_while_the_process_lives_and_gives_up_after_it(kept: Kept) -> None:
    kept.start()
    wait_for(lambda: kept.noted("renew") >= 3, "it renews again and again")
    assert not kept.gone()
    assert kept.noted("give_up") == 0
    # Nobody waits for it yet: it is a zombie, which is as good as gone.
    os.kill(kept.process.pid, signal.SIGKILL)
    wait_for(kept.gone, "the keeper ends")
    assert (kept.noted("prepare"), kept.noted("give_up")) == (1, 1)
    assert kept.log.read_text(encoding="utf-8").splitlines()[-1].startswith("give_up")


def test_it_ends_when_there_is_nothing_left_to_keep(kept: Kept) -> None:
    kept.start(answer=3)
    wait_for(kept.gone, "the keeper ends")
    assert (kept.noted("renew"), kept.noted("give_up")) == (1, 0)


def test_it_tries_again_after_a_failure(kept: Kept) -> None:
    kept.start(answer=255)
    wait_for(lambda: kept.noted("renew") >= 3, "it tries again")


def test_an_errand_that_hangs_is_killed_and_tried_again(kept: Kept) -> None:
    kept.start(seconds=600.0)
    wait_for(lambda: kept.noted("renew") >= 2, "it tries again")


def test_an_errand_that_hangs_does_not_keep_it(kept: Kept) -> None:
    kept.start(seconds=600.0)
    wait_for(lambda: kept.noted("renew") >= 1, "it begins to renew")
    kept.end()
    wait_for(kept.gone, "the keeper ends")
    assert kept.noted("give_up") == 1


def test_it_holds_nothing_of_its_starter_open(kept: Kept) -> None:
    kept.start()
    wait_for(lambda: kept.noted("renew") >= 1, "it begins to renew")
    first = kept.log.read_text(encoding="utf-8").splitlines()[0]
    # Standard input, output and error, the log and the listing itself.
    assert first.endswith("['0', '1', '2', '3', '4']")
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and alive(int(entry.name)) and os.getsid(int(entry.name)) == kept.session:
            opened = {os.readlink(entry / "fd" / str(number)) for number in range(3)}
            assert opened == {os.devnull}
