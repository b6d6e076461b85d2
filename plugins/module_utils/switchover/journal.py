# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The journal of a switchover: how far it came, on disk at every step, so that whoever comes next can tell."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import atomic_write, read_file

JOURNAL = "journal.json"
#: In their order; the names that the play and the run record use.
PHASES = ("drain and stop", "switch", "start and prove", "verify")
#: How a switchover can end.
DONE = "done"
UNTOUCHED = "nothing was stopped"
BACK = "rolled back"
STUCK = "going back failed"
_LARGEST = 16 * 1024 * 1024


@dataclass
class Journal:
    """What has happened. Times are seconds since the epoch by the host's clock, durations are by its monotonic one.

    ``touched`` is set before the first thing changes, ``saved`` tells how all of it was before.
    """

    run_id: str
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

    def save(self, directory: str) -> None:
        """Write it, synced: what follows may be cut off at any moment."""
        data = json.dumps(dataclasses.asdict(self), indent=1).encode()
        atomic_write(os.path.join(directory, JOURNAL), data, mode=0o644)


def load_journal(directory: str) -> Optional[Journal]:
    """The journal in a directory; None when there is none yet.

    :raises ValueError: it is damaged.
    """
    try:
        return Journal(**json.loads(read_file(os.path.join(directory, JOURNAL), _LARGEST)))
    except FileNotFoundError:
        return None
    except TypeError as error:
        raise ValueError(f"{os.path.join(directory, JOURNAL)} is damaged: {error}") from error
