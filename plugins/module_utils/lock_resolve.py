# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Have uv resolve requirements, and find all that it cannot have: it names one reason, and there may be several."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.pristine.vllm.plugins.module_utils.lock import LockError
from ansible_collections.pristine.vllm.plugins.module_utils.messages import tail
from ansible_collections.pristine.vllm.plugins.module_utils.process import Completed, run

# uv ends with this where there is no solution, and with another status for all else, such as an index that is down.
_NO_SOLUTION = 1
_OPTIONS = (
    *("--no-config", "--no-python-downloads", "--no-progress", "--color", "never", "--no-header", "--no-annotate"),
    # A source distribution would be built, which runs what is in it; and releases are made of wheels.
    "--no-build",
    # As pip does: the best version of all indexes, and not that of the first which has the name.
    *("--index-strategy", "unsafe-best-match"),
    *("--generate-hashes", "--no-emit-package", "vllm"),
)


@dataclass(frozen=True)
class Resolver:
    """One uv with its settings. Its cache is in ``scratch``, for one lock; ``deadline`` is of the monotonic clock."""

    uv: str
    python: str
    environment: dict[str, str]
    scratch: str
    deadline: float
    held: int
    no_index: bool = False
    no_deps: bool = False

    def resolve(self, lines: Sequence[str], base: Sequence[str] = ()) -> tuple[list[str], list[str]]:
        """The resolution, a logical line for each package, and else a line for each reason why there is none.

        :param base: requirements besides that are not suspected themselves.
        :raises LockError: uv failed for another reason.
        """
        ran = self._compile([*base, *lines])
        if ran.returncode == 0:
            return _logical(ran.stdout), []
        return [], self._blame(lines, ran)

    def resolve_most(self, lines: Sequence[str]) -> tuple[list[str], list[str]]:
        """The same where the lines do not depend on each other: of those that can be had, the resolution too.

        :raises LockError: uv failed for another reason.
        """
        ran = self._compile(lines)
        if ran.returncode == 0:
            return _logical(ran.stdout), []
        if len(lines) <= 1:
            return [], self._blame(lines, ran)
        middle = len(lines) // 2
        (one, first), (other, second) = self.resolve_most(lines[:middle]), self.resolve_most(lines[middle:])
        return one + other, first + second

    def _blame(self, lines: Sequence[str], failed: Completed) -> list[str]:
        """Halve the requirements until each reason stands alone; a whole whose halves have none is a conflict."""
        if len(lines) <= 1:
            return [f"{line}: {_reason(failed)}" for line in lines] or [_reason(failed)]
        found = []
        middle = len(lines) // 2
        for half in (lines[:middle], lines[middle:]):
            ran = self._compile(half)
            if ran.returncode:
                found += self._blame(half, ran)
        return found or [f"conflict: {_reason(failed)}"]

    def _compile(self, lines: Sequence[str]) -> Completed:
        requirements = os.path.join(self.scratch, "requirements.in")
        with open(requirements, "w", encoding="utf-8") as stream:
            stream.write("".join(f"{line}\n" for line in lines))
        argv = [self.uv, "pip", "compile", "--python", self.python, *_OPTIONS]
        argv += ["--cache-dir", os.path.join(self.scratch, "cache")]
        argv += ["--no-index"] * self.no_index + ["--no-deps"] * self.no_deps
        left = max(self.deadline - time.monotonic(), 1.0)
        ran = run([*argv, requirements], self.environment, left, cwd=self.scratch, hold=[self.held])
        if ran.returncode not in (0, _NO_SOLUTION):
            raise LockError(f"uv pip compile ended with {ran.returncode}: {tail(ran.stderr) or 'it says nothing'}")
        return ran


def _logical(output: str) -> list[str]:
    """uv's output with each package on one line, without comments."""
    joined = re.sub(r"\\\n\s*", "", output)
    return [line.strip() for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def _reason(ran: Completed) -> str:
    """Why there is no solution, in one line."""
    said = " ".join(tail(ran.stderr, 40, 2000).split())
    said = re.sub(r"^.*?No solution found when resolving dependencies:?\s*(?:cause:)?\s*", "", said)
    return said if len(said) <= 1500 else said[:1497] + "..."
