# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the fault matrix: each row is a host that serves and is dirty, a reinstall, and one fault in the middle of it.

    make faults                     all rows, two at a time; the table is in build/faults.md
    make faults ONLY="kill cut-5"   these rows, by name or by how the name begins
    make faults JOBS=1 KEEP=1       one at a time; the containers stay, to be looked at
    make faults CHAIN=1             one for each phase, on one host: a row's next run is the one under the next fault

What every row asks: does the host serve, which release, was anything lost, does the next run finish (and the one after
it change nothing). Ends with 1 when the answer to one of them is no. The logs of a row are in build/faults/<row>.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from ansible_collections.pristine.vllm.molecule.shared import hosts
from ansible_collections.pristine.vllm.tests.faults import verdict
from ansible_collections.pristine.vllm.tests.faults.index import BadIndex
from ansible_collections.pristine.vllm.tests.faults.inject import strike
from ansible_collections.pristine.vllm.tests.faults.machine import ROOT, WATCHED, Machine, MachineError
from ansible_collections.pristine.vllm.tests.faults.play import Play, PlayError, finish, write_inventory
from ansible_collections.pristine.vllm.tests.faults.rows import CHAIN, ON_HOST, PHASES, ROWS, Row, chosen
from ansible_collections.pristine.vllm.tests.faults.state import make_key, prepare, tidy
from ansible_collections.pristine.vllm.tests.faults.verdict import Outcome

FOLDER = ROOT / "build/faults"
TABLE = ROOT / "build/faults.md"
TABLE_OF_CHAIN = ROOT / "build/faults-chain.md"
#: A switchover that has to go back loads a model twice, and may be given up by the service's start time-out before.
SETTLED_SECONDS = 180.0


@dataclass
class Case:
    """A row on its way."""

    row: Row
    image: str
    key: Path
    public_key: str
    folder: Path
    chained: bool = False
    control: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="pristine-ssh-")))

    def __post_init__(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.machine = Machine("chain" if self.chained else self.row.name)
        self.inventory = self.folder / "hosts.json"
        self.index = BadIndex(self.folder.name, self.row.bad_index) if self.row.bad_index else None
        self.outcome = Outcome(self.row)

    def run(self) -> Outcome:
        """From a fresh host to the answers. Never raises for what goes wrong on the host."""
        with self._telling():
            self._begin()
            self._strike()
            self._next()
        return self.outcome

    def run_chained(self, first: bool, last: bool, previous: Optional[Outcome]) -> Outcome:
        """As `run`, on the host as the row before left it: that one's next run is the one under this fault."""
        with self._telling():
            if first:
                self._begin()
            elif self.row.small_root:
                self.machine.shrink_root()
            write_inventory(self.inventory, self.machine, self.key)
            self._strike()
            if previous:
                previous.next_run = True
            if last:
                self._next()
        return self.outcome

    @contextmanager
    def _telling(self) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        except (MachineError, PlayError) as error:
            self.outcome.problems.append(str(error))
        self.outcome.seconds = time.monotonic() - begun
        if not self.outcome.good:
            self._keep_journal()

    def remove(self) -> None:
        self.machine.remove()
        if self.index:
            self.index.remove()
        shutil.rmtree(self.control, ignore_errors=True)

    def _begin(self) -> None:
        self.machine.start(self.image, self.public_key)
        if self.row.small_root:
            self.machine.shrink_root()
        self.machine.write_dumps()
        if self.row.refreshed:
            self.machine.refresh_model()
        write_inventory(self.inventory, self.machine, self.key)

    def _strike(self) -> None:
        if self.index:
            self.index.start()
        before = self.machine.look(WATCHED)
        self._fault()
        self._after(before)

    def _fault(self) -> None:
        play = Play(self.inventory, self.folder / "1-fault.log", self.control, self._pin(under_fault=True))
        try:
            code = strike(self.row, self.machine, play, self.index)
        except BaseException:
            play.kill()
            raise
        # What the host carries out may have failed before the play has said that it begins.
        if self.row.phase < 4 and (play.came_to(4) or not play.came_to(self.row.phase)):
            self.outcome.problems.append(f"the fault did not strike in phase {self.row.phase}: see {play.log}")
        if code == 0 and self.row.fails:
            self.outcome.problems.append("the run under the fault ended with 0, as if nothing had been")

    def _after(self, before: dict[str, Any]) -> None:
        outcome, row = self.outcome, self.row
        outcome.serves = self.machine.settle(SETTLED_SECONDS)
        after = self.machine.look(WATCHED)
        if outcome.serves is None:
            state = f"unit {after['unit']}, switchovers that have not ended: {after['unended'] or 'none'}"
            outcome.problems.append(f"does not serve within {SETTLED_SECONDS:.0f} s ({state})")
        if row.phase in ON_HOST and PHASES[row.phase - 1] not in after["phases"]:
            outcome.problems.append(f"the host never came to phase {row.phase}: {after['phases']}")
        outcome.release = verdict.release(before, after)
        if outcome.release not in row.releases:
            outcome.problems.append(f"live is {outcome.release}, and it should be {' or '.join(row.releases)}")
        outcome.lost = verdict.lost(before, after, ["/tmp"] if row.kind == "reboot" else [])
        outcome.problems += [f"lost: {path}" for path in outcome.lost]
        told = verdict.undisturbed(row, before, after)
        outcome.problems += [told] if told else []
        if after["enabled"] != "enabled":
            outcome.problems.append(f"the unit is {after['enabled']}: the next boot would not start it")

    def _next(self) -> None:
        outcome, row = self.outcome, self.row
        if row.small_root:
            self.machine.free_root()
        if row.kind == "reboot":
            write_inventory(self.inventory, self.machine, self.key)
        extra = self._pin(under_fault=False)
        reason, _changed = finish(self.inventory, self.folder / "2-next.log", self.control, extra)
        outcome.next_run = reason is None
        if reason:
            outcome.problems.append(f"the next run: {reason}")
            return
        if not self.chained:
            reason, changed = finish(self.inventory, self.folder / "3-again.log", self.control, extra)
            if reason or changed:
                outcome.problems.append(f"the run after the next one: {reason or f'{changed} tasks changed something'}")
        state = self.machine.look()
        if not state["completion"]:
            outcome.problems.append(f"the next run finished, and the host does not serve (unit {state['unit']})")

    def _pin(self, under_fault: bool) -> dict[str, Any]:
        # Each link of a chain has something to do, whatever became of the one before.
        force = {"nightly_wheel_force": True} if self.chained and under_fault else {}
        if not self.row.pin or not (under_fault or self.row.repeats_pin):
            return force
        pin: dict[str, Any] = hosts.inventory("faults")["vllm_hosts"]["vars"][f"fixture_{self.row.pin}"]
        return {**force, **pin, **({"vllm_index_url": self.index.url} if self.index and under_fault else {})}

    def _keep_journal(self) -> None:
        try:
            (self.folder / "journal.log").write_text(self.machine.journal(), encoding="utf-8")
        except MachineError as error:
            self.outcome.problems.append(f"its journal cannot be had: {error}")


class Matrix:
    """Rows, some at a time, and the table of those that are done."""

    def __init__(self, rows: Sequence[Row], table: Path, keep: bool) -> None:
        self._rows = rows
        self._table = table
        self._keep = keep
        self._begun = time.monotonic()
        self._done: dict[str, Outcome] = {}
        self._lock = threading.Lock()

    def run(self, jobs: int) -> list[Outcome]:
        """Each row on a host of its own.

        :raises MachineError: there is no host to begin with.
        """
        with self._prepared() as make:
            self._say(f"{len(self._rows)} rows, {jobs} at a time")
            with ThreadPoolExecutor(jobs) as pool:
                list(pool.map(lambda row: self._row(make(row, False)), self._rows))
        return self._outcomes()

    def run_chain(self) -> list[Outcome]:
        """One row after the other on one host, up to the first that says no.

        :raises MachineError: there is no host to begin with.
        """
        with self._prepared() as make:
            self._say(f"{len(self._rows)} rows on one host")
            cases = [make(row, True) for row in self._rows]
            previous: Optional[Outcome] = None
            try:
                for case in cases:
                    outcome = case.run_chained(case is cases[0], case is cases[-1], previous)
                    self._note(outcome)
                    if not outcome.good:
                        break
                    previous = outcome
            finally:
                if not self._keep:
                    for case in cases:
                        case.remove()
        self._write()
        return self._outcomes()

    @contextmanager
    def _prepared(self) -> Iterator[Callable[[Row, bool], Case]]:
        FOLDER.mkdir(parents=True, exist_ok=True)
        self._say("making the host that each row begins with")
        try:
            image = prepare(FOLDER / "state")
            key, public_key = make_key(FOLDER)
            yield lambda row, chained: Case(
                row, image, key, public_key, FOLDER / (f"chain-{row.name}" if chained else row.name), chained
            )
        finally:
            if not self._keep:
                tidy(FOLDER / "state")

    def _row(self, case: Case) -> None:
        try:
            self._note(case.run())
        finally:
            if not self._keep:
                case.remove()

    def _note(self, outcome: Outcome) -> None:
        row = outcome.row
        with self._lock:
            self._done[row.name] = outcome
            self._write()
        answers = " | ".join(outcome.cells()[2:6])
        self._say(f"{len(self._done):3}/{len(self._rows)} {row.name:16} {outcome.seconds:5.0f} s  {answers}")
        for problem in outcome.problems:
            self._say(f"    NO: {problem}")

    def _write(self) -> None:
        self._table.write_text(verdict.table(self._outcomes()), encoding="utf-8")

    def _outcomes(self) -> list[Outcome]:
        return [self._done[row.name] for row in self._rows if row.name in self._done]

    def _say(self, text: str) -> None:
        print(f"faults {time.monotonic() - self._begun:5.0f} s  {text}", flush=True)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="names of rows, or how they begin")
    parser.add_argument("--chain", action="store_true", help="one row for each phase, one after the other on one host")
    parser.add_argument("--jobs", type=int, default=2, help="rows at a time")
    parser.add_argument("--keep", action="store_true", help="leave the containers")
    parser.add_argument("--list", action="store_true", help="name the rows and run none")
    given = parser.parse_args(arguments)
    if given.list:
        print("\n".join(f"{row.name:16} {row.told}, in phase {row.heading}" for row in ROWS))
        return 0
    try:
        rows = [row for name in CHAIN for row in ROWS if row.name == name] if given.chain else chosen(given.only)
        table = TABLE_OF_CHAIN if given.chain else TABLE
        matrix = Matrix(rows, table, given.keep)
        outcomes = matrix.run_chain() if given.chain else matrix.run(given.jobs)
    except (MachineError, ValueError) as error:
        print(f"faults: {error}", file=sys.stderr)
        return 2
    bad = [outcome.row.name for outcome in outcomes if not outcome.good]
    print(f"{len(outcomes) - len(bad)} passed, {len(bad)} failed: {table.relative_to(ROOT)}")
    return 1 if bad or len(outcomes) < len(rows) else 0


if __name__ == "__main__":
    sys.exit(main())
