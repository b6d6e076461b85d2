# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The journal of a switchover: how far it came, on disk at every step, so that whoever comes next can tell."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import atomic_write, read_file
from ansible_collections.pristine.vllm.plugins.module_utils.redact import redact

JOURNAL = "journal.json"
#: In their order; the names that the play and the run record use.
PHASES = ("drain and stop", "switch", "start and prove", "verify")
#: How a switchover can end.
DONE = "done"
UNTOUCHED = "nothing was stopped"
BACK = "rolled back"
STUCK = "going back failed"
_LARGEST = 16 * 1024 * 1024


class JournalError(ValueError):
    """A journal cannot be read. The text says which, why and what to do next."""


@dataclass
class Journal:
    """What has happened. Times are seconds since the epoch by the host's clock, durations are by its monotonic one.

    ``touched`` is set before the first thing changes, ``saved`` tells how all of it was before. ``hooked`` is set
    before the first of the operator's commands, ``returned`` when what was before serves again, ``boot`` tells in which
    boot of the host it was handed over.
    """

    run_id: str
    boot: str = ""
    hooked: bool = False
    returned: bool = False
    phases: list[dict[str, Any]] = field(default_factory=list)
    touched: bool = False
    saved: list[dict[str, Any]] = field(default_factory=list)
    before: dict[str, Any] = field(default_factory=dict)
    outcome: Optional[str] = None
    failure: Optional[str] = None
    failed_phase: Optional[str] = None
    cautions: list[str] = field(default_factory=list)
    drain_seconds: float = 0.0
    requests_left: Optional[int] = None
    stopped_at: Optional[float] = None
    started_at: Optional[float] = None
    serving_at: Optional[float] = None
    downtime_seconds: float = 0.0
    load_seconds: Optional[float] = None
    pids_killed: list[int] = field(default_factory=list)
    artifacts: list[dict[str, Any]] = field(default_factory=list)
    config: list[dict[str, Any]] = field(default_factory=list)
    restored: Optional[dict[str, Any]] = None
    completion: Optional[str] = None
    scan: Optional[dict[str, Any]] = None

    @property
    def finished(self) -> bool:
        return self.outcome is not None

    @property
    def phase(self) -> str:
        """The phase that it is in, or was in last; empty before the first."""
        return str(self.phases[-1]["name"]) if self.phases else ""

    def begin(self, name: str) -> None:
        """Enter a phase; the one before it ends."""
        self.end()
        self.phases.append({"name": name, "started": time.time(), "finished": None})

    def end(self) -> None:
        """The phase that it is in ends now."""
        if self.phases and self.phases[-1]["finished"] is None:
            self.phases[-1]["finished"] = time.time()

    def past(self, name: str) -> bool:
        """Whether a phase was passed."""
        return any(phase["name"] == name and phase["finished"] is not None for phase in self.phases)

    def hide(self, secrets: Iterable[str]) -> None:
        """Take secrets out of all that was said by a server, a program or an exception."""
        known = list(secrets)
        self.failure = redact(self.failure, known) if self.failure else self.failure
        self.completion = redact(self.completion, known) if self.completion else self.completion
        self.cautions = [redact(text, known) for text in self.cautions]

    def save(self, directory: str) -> None:
        """Write it, synced: what follows may be cut off at any moment."""
        data = json.dumps(dataclasses.asdict(self), indent=1).encode()
        atomic_write(os.path.join(directory, JOURNAL), data, mode=0o644)


def load_journal(directory: str) -> Optional[Journal]:
    """The journal in a directory; None when there is none yet.

    :raises JournalError: it is damaged.
    """
    path = os.path.join(directory, JOURNAL)
    try:
        journal = Journal(**json.loads(read_file(path, _LARGEST)))
        _check(journal)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise JournalError(
            f"{path} is damaged ({error}), so nobody can tell what this switchover did, nor undo it. What it replaced "
            "is in the quarantine of its run. Next: see that the service serves and from which release, then remove "
            f"{directory} and run again."
        ) from error
    return journal


def _check(journal: Journal) -> None:
    if not isinstance(journal.before, dict) or not isinstance(journal.saved, list):
        raise TypeError("what was before is not told")
    for phase in journal.phases:
        str(phase["name"]), phase["started"], phase["finished"]
    for entry in journal.saved:
        str(entry["path"])
