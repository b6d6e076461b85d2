# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the gates of `make test`: all but long ones, or those of `make test ONLY="lint units"`; LIST=1 names them.

As many at a time as there are processors; what takes longest begins first.
Each gate's output is in build/test/<gate>.log and is shown when the gate fails.
"""

from __future__ import annotations

import argparse
import os
import queue
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Optional

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build/test"
COLLECTION = ".cache/collections/ansible_collections/pristine/vllm"
PACKAGE = "ansible_collections.pristine.vllm"
TYPED = [f"{COLLECTION}/{folder}" for folder in ("plugins", "dev", "molecule", "tests")]

# Logs are read in editors and CI: no colours, no links.
PLAIN = {
    name: value for name, value in os.environ.items() if name not in {"FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS"}
}
PLAIN.update(NO_COLOR="1", ANSIBLE_NOCOLOR="1", ANSIBLE_FORCE_COLOR="0", TERM="dumb")

# What a command says by its exit code when this machine lacks what it needs (automake's convention).
NOT_HERE = 77
# A gate that hangs is a gate that fails; several times what any of them takes on two cores.
TIME_LIMIT_SECONDS = 30 * 60
# Of a failing gate's output; the log holds all of it.
SHOWN_LINES = 300
# Repeated below the summary, for who sees only the end of it.
TELLING_LINES = 6
TELLING_WIDTH = 300
TELLING = re.compile(r"^E  |fatal: |stderr: |\bERROR\b|\bFAILED\b|[Ee]rror: ")


@dataclass(frozen=True)
class Gate:
    """One row of the summary: commands that must all end with 0. Each is run: one failure does not hide the next."""

    name: str
    commands: tuple[str, ...]
    # A runner that found no test ends with 0 (molecule with testinfra does): then the counted tests decide.
    must_count_tests: bool = False
    # Takes so long that it is run when it is named.
    when_named: bool = False


# Tests that load Ansible itself.
CONTROLLER = (
    "tests/unit/plugins/action",
    "tests/unit/plugins/filter",
    "tests/unit/plugins/lookup",
    "tests/unit/plugins/plugin_utils",
    "tests/unit/roles",
)
IGNORE_CONTROLLER = " ".join(f"--ignore {folder}" for folder in CONTROLLER)

# In the order in which they begin: what takes longest first.
GATES = (
    Gate("molecule-incident", ("molecule test -s incident",), must_count_tests=True),
    Gate("molecule-drift", ("molecule test -s drift",), must_count_tests=True),
    Gate("molecule-adoption", ("molecule test -s adoption",), must_count_tests=True),
    # Code of the controller apart: once that is loaded, a module's warnings go to the screen.
    Gate(
        "units",
        (f"python -m pytest tests/unit --ignore tests/unit/house {IGNORE_CONTROLLER}",),
        must_count_tests=True,
    ),
    # One fault for each phase; `make faults` has them all.
    Gate("faults", (f"env PYTHONPATH=.cache/collections python -m {PACKAGE}.tests.faults.run --chain",)),
    Gate("sanity", ("dev/ansible_test.sh controller sanity",)),
    Gate("controller-units", (f"python -m pytest {' '.join(CONTROLLER)}",), must_count_tests=True),
    Gate("molecule-default", ("molecule test -s default",), must_count_tests=True),
    # The oldest Python that a host may have, and the newest Ansible that a controller may have.
    Gate(
        "python-3.9",
        (
            "dev/ansible_test.sh 3.9 sanity --test import --test compile",
            # The modules, which lead through all the rest: ansible-test starts a process for each test.
            "dev/ansible_test.sh 3.9 units tests/unit/plugins/modules/",
        ),
        must_count_tests=True,
    ),
    Gate("core-2.21", ("dev/core_2_21.sh",), must_count_tests=True),
    Gate(
        "lint",
        (
            "yamllint --strict .",
            "ruff check .",
            "ruff format --check .",
            "ansible-lint --offline",
        ),
    ),
    Gate("house", ("python -m pytest tests/unit/house",), must_count_tests=True),
    Gate("docs", ("antsibull-docs lint-collection-docs --plugin-docs --validate-collection-refs=self .",)),
    Gate("types", (f"mypy --cache-dir .cache/mypy {' '.join(TYPED)}",)),
    Gate("changelog", ("antsibull-changelog lint",)),
    Gate("molecule-wheels", ("molecule test -s wheels",), must_count_tests=True, when_named=True),
    Gate("molecule-fleet", ("molecule test -s fleet",), must_count_tests=True, when_named=True),
    # Provisions a host, builds an environment for Ansible on it, waits for scans at idle priority and for Prometheus.
    Gate("molecule-schedule", ("molecule test -s schedule",), must_count_tests=True, when_named=True),
    # The real vLLM, from here on.
    Gate("molecule-timer", ("molecule test -s timer",), must_count_tests=True, when_named=True),
    Gate("molecule-seed", ("molecule test -s seed",), must_count_tests=True, when_named=True),
)
# With that many they are hardly ever idle.
WORKERS = os.cpu_count() or 2


@dataclass
class Outcome:
    """How a gate ended: `verdict` is passed, failed or skipped; `tests` is None where nothing counted any."""

    gate: Gate
    verdict: str
    seconds: float
    tests: Optional[int] = None
    reason: str = ""

    def line(self) -> str:
        notes = [] if self.tests is None else [f"{self.tests} tests"]
        notes += [self.reason] if self.reason else []
        return f"{self.verdict:8}{self.gate.name:20}{self.seconds:7.1f} s   {', '.join(notes)}".rstrip()


@dataclass
class Runner:
    """Runs gates, and ends what it started when it is told to stop."""

    outcomes: list[Outcome] = field(default_factory=list)
    running: set[subprocess.Popen[str]] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    stopped: threading.Event = field(default_factory=threading.Event)

    def work(self, waiting: queue.SimpleQueue[Gate]) -> None:
        """Run gates, one after the other, for as long as there are any."""
        while not self.stopped.is_set():
            try:
                gate = waiting.get_nowait()
            except queue.Empty:
                return
            self.say(f"start   {gate.name}")
            outcome = self.run(gate)
            with self.lock:
                self.outcomes.append(outcome)
            if outcome.verdict == "failed":
                self.say(f"{tail(LOGS / f'{gate.name}.log')}\n{outcome.line()}")
            else:
                self.say(outcome.line())

    def run(self, gate: Gate) -> Outcome:
        path = LOGS / f"{gate.name}.log"
        started = time.monotonic()
        with path.open("w", encoding="utf-8") as log:
            codes = [self.command(command, log, started + TIME_LIMIT_SECONDS) for command in gate.commands]
        seconds = time.monotonic() - started
        text = path.read_text(encoding="utf-8", errors="replace")
        tests = count_tests(text) if gate.must_count_tests else None
        if NOT_HERE in codes:
            return Outcome(gate, "skipped", seconds, reason=text.strip().splitlines()[-1])
        if any(codes):
            return Outcome(gate, "failed", seconds, tests, f"output above and in {path.relative_to(ROOT)}")
        if tests == 0:
            return Outcome(gate, "failed", seconds, tests, "ended well, but no test ran")
        return Outcome(gate, "passed", seconds, tests)

    def command(self, command: str, log: IO[str], deadline: float) -> int:
        """Runs one command with its output in the log; the exit code, or 1 when it did not end in time."""
        print(f"$ {command}", file=log, flush=True)
        # A session of its own, so that what the command started can be ended with it.
        process = subprocess.Popen(
            shlex.split(command),
            cwd=ROOT,
            env=PLAIN,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        with self.lock:
            self.running.add(process)
        if self.stopped.is_set():
            end(process)
        try:
            return process.wait(max(1.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            end(process)
            print(f"ended: the gate's {TIME_LIMIT_SECONDS} s were over", file=log, flush=True)
            return 1
        finally:
            with self.lock:
                self.running.discard(process)

    def stop(self, *_signal: object) -> None:
        self.stopped.set()
        for process in tuple(self.running):
            end(process)

    def say(self, text: str) -> None:
        with self.lock:
            print(text, flush=True)


def end(process: subprocess.Popen[str]) -> None:
    """Ends a command and all it started: asks, then insists."""
    for sign, seconds in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, sign)
            process.wait(seconds)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def count_tests(text: str) -> int:
    """The tests that pytest's closing lines say passed, e.g. `= 12 passed, 1 warning in 0.4s =`, summed."""
    closing = re.compile(r"^=*\s*(?:\d+ \w+, )*(\d+) passed\b.* in [\d.]+s", re.MULTILINE)
    return sum(int(found.group(1)) for found in closing.finditer(re.sub(r"\x1b\[[0-9;]*m", "", text)))


def tail(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    left_out = (
        [f"... ({len(lines) - SHOWN_LINES} lines before these are in the log)"] if len(lines) > SHOWN_LINES else []
    )
    return "\n".join([f"----- {path.stem}", *left_out, *lines[-SHOWN_LINES:], "-----"])


def telling(outcome: Outcome) -> list[str]:
    """The lines of a failed gate's log that most likely say why, cut short."""
    text = (LOGS / f"{outcome.gate.name}.log").read_text(encoding="utf-8", errors="replace")
    lines = [line.strip(" │") for line in text.splitlines() if line.strip(" │")]
    found = [line for line in lines if TELLING.search(line)] or lines
    return [f"    {line[:TELLING_WIDTH]}" for line in found[-TELLING_LINES:]]


def chosen(only: str) -> list[Gate]:
    """The gates that ONLY names, by name or by how the name begins; all but the long ones when it is empty."""
    wanted = only.replace(",", " ").split()
    unknown = [name for name in wanted if not any(gate.name.startswith(name) for gate in GATES)]
    if unknown:
        sys.exit(f"No gate is called {', '.join(unknown)}. There are: {', '.join(gate.name for gate in GATES)}")
    if not wanted:
        return [gate for gate in GATES if not gate.when_named]
    return [gate for gate in GATES if any(gate.name.startswith(name) for name in wanted)]


@contextmanager
def stopping_on_signals(runner: Runner) -> Iterator[None]:
    handlers = {sign: signal.signal(sign, runner.stop) for sign in (signal.SIGINT, signal.SIGTERM)}
    yield
    for sign, handler in handlers.items():
        signal.signal(sign, handler)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names of gates, or how they begin")
    parser.add_argument("--list", action="store_true", help="name the gates and run none")
    arguments = parser.parse_args()
    gates = chosen(arguments.only)
    if arguments.list:
        print("\n".join(gate.name for gate in (gates if arguments.only else GATES)))
        return 0

    LOGS.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    runner = Runner()
    waiting: queue.SimpleQueue[Gate] = queue.SimpleQueue()
    for gate in gates:
        waiting.put(gate)
    with stopping_on_signals(runner):
        threads = [threading.Thread(target=runner.work, args=(waiting,)) for _number in range(WORKERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    order = [gate.name for gate in gates]
    outcomes = sorted(runner.outcomes, key=lambda outcome: order.index(outcome.gate.name))
    print(f"\nGates, {time.monotonic() - started:.0f} s in all:")
    for outcome in outcomes:
        print("\n".join([outcome.line(), *(telling(outcome) if outcome.verdict == "failed" else [])]))
    verdicts = [outcome.verdict for outcome in outcomes]
    skipped = f", {verdicts.count('skipped')} skipped" if "skipped" in verdicts else ""
    print(f"{verdicts.count('passed')} passed, {verdicts.count('failed')} failed{skipped}")
    if runner.stopped.is_set():
        return 130
    return 1 if "failed" in verdicts or len(outcomes) < len(gates) else 0


if __name__ == "__main__":
    sys.exit(main())
