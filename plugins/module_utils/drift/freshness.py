# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Of a service: is its unit as it should be, does `current` lead where it should, does it run what is on disk?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.command import Run, run
from ansible_collections.pristine.vllm.plugins.module_utils.drift.findings import Finding, in_order
from ansible_collections.pristine.vllm.plugins.module_utils.drift.link import link_findings
from ansible_collections.pristine.vllm.plugins.module_utils.drift.process import stale
from ansible_collections.pristine.vllm.plugins.module_utils.drift.process_reader import look_at_process
from ansible_collections.pristine.vllm.plugins.module_utils.drift.unit_drift import unit_findings
from ansible_collections.pristine.vllm.plugins.module_utils.release import ReleaseError
from ansible_collections.pristine.vllm.plugins.module_utils.unit import UnitError, unit_state


@dataclass(frozen=True)
class Ask:
    """What to look at; what is None is not looked at. ``unit_files`` as `unit_drift` takes it."""

    unit: Optional[str] = None
    unit_files: Optional[Mapping[str, str]] = None
    environment: Optional[str] = None
    root: Optional[str] = None
    release: Optional[str] = None


@dataclass
class Freshness:
    """``kinds`` are those of which everything could be looked at; what could not is in ``errors``."""

    findings: list[Finding] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    main_pid: Optional[int] = None
    started: Optional[float] = None

    @property
    def restart_needed(self) -> Optional[bool]:
        """None when nobody knows: something could not be looked at and the rest does not say so already."""
        stale_now = any(one.kind == "process" for one in self.findings)
        return True if stale_now else (False if "process" in self.kinds else None)


def look(ask: Ask, run_command: Run = run) -> Freshness:
    """Look at the host. Never raises for what it finds there: a look that failed is an answer too."""
    found = Freshness()
    if ask.unit:
        _look_at_unit(ask, found, run_command)
    if ask.root:
        try:
            found.findings += link_findings(ask.root, ask.release)
            found.kinds.append("link")
        except (ReleaseError, OSError) as error:
            found.errors.append(f"{ask.root}/current: {error}")
    found.findings = in_order(found.findings)
    return found


def _look_at_unit(ask: Ask, found: Freshness, run_command: Run) -> None:
    try:
        state = unit_state(str(ask.unit), run_command)
    except UnitError as error:
        found.errors.append(str(error))
        return
    found.findings += unit_findings(state, ask.unit_files)
    found.kinds.append("unit")
    if not ask.environment:
        return
    looked = look_at_process(state.unit, state.main_pid, state.control_group, ask.environment)
    found.errors += looked.problems
    if looked.running is not None:
        found.main_pid, found.started = looked.running.pid, looked.running.started
        found.findings += stale(looked.running)
    if not looked.problems:
        found.kinds.append("process")
