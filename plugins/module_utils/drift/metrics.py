# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of a host's drift for Prometheus, as node exporter's textfile collector reads it. Pure.

Names and units are those of https://prometheus.io/docs/practices/naming/: base units, times in seconds since the epoch,
``_total`` for counters alone. A metric whose value nobody knows is left out, but for the time of the last whole scan,
which is 0 before the first one, so that an alert can tell a scan that never ran from a host that has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Union

from ansible_collections.pristine.vllm.plugins.module_utils.drift.findings import KINDS
from ansible_collections.pristine.vllm.plugins.module_utils.drift.state import State

PREFIX = "pristine_vllm_"
# No distribution can have that name.
_UNLISTED = "(not listed)"
Number = Union[int, float]


@dataclass
class Metric:
    """One metric with its samples: pairs of labels and value."""

    name: str
    help: str
    type: str = "gauge"
    samples: list[tuple[Mapping[str, str], Number]] = field(default_factory=list)

    def add(self, value: Number, **labels: str) -> None:
        self.samples.append((labels, value))


def render_metrics(state: State) -> str:
    """The file's content."""
    metrics = [*_drift(state), *_scans(state), *_remediations(state), *_hold(state)]
    return "".join(_exposition(metric, state.environment) for metric in metrics if metric.samples)


def _drift(state: State) -> Iterable[Metric]:
    current = [one for one in state.current if one.finding.counts]
    files = Metric("drifted_files", "Installed files that are not what their wheel holds.")
    code = _code(state)
    for (distribution, status), count in sorted(code.items()):
        files.add(count, distribution=distribution, status=status)
    findings = Metric("findings", "Differences from what was declared, by kind.")
    for kind in (kind for kind in KINDS if kind in state.kinds):
        found = sum(one.finding.kind == kind for one in current)
        findings.add(sum(code.values()) if kind == "code" else found, kind=kind)
    pristine = Metric(
        "pristine",
        "Whether files, model configuration, unit and link are as declared and no debug artifacts lie about.",
    )
    if "code" in state.kinds and state.scan is not None:
        pristine.add(int(all(one.finding.kind == "process" for one in current)))
    restart = Metric(
        "restart_needed", "Whether the running process may have loaded something else than what is on disk now."
    )
    if "process" in state.kinds:
        restart.add(int(any(one.finding.kind == "process" for one in current)))
    since = Metric(
        "finding_first_seen_timestamp_seconds",
        "When the oldest difference of a kind that is still there was first seen.",
    )
    for kind in KINDS:
        seen = [one.first_seen for one in current if one.finding.kind == kind]
        if seen:
            since.add(min(seen), kind=kind)
    return files, findings, pristine, restart, since


def _code(state: State) -> Counter[tuple[str, str]]:
    """How many files are drifted, by distribution and status; those of which a scan listed no more than that too."""
    current = [one for one in state.current if one.finding.kind == "code" and one.finding.counts]
    unlisted = {} if state.scan is None else state.scan.unlisted
    if state.scan is not None and unlisted:
        # What only an earlier scan listed may be among them, and may be gone.
        current = [one for one in current if one.last_seen >= state.scan.finished]
    code = Counter((one.finding.distribution or "", one.finding.status) for one in current)
    code.update({(_UNLISTED, status): count for status, count in unlisted.items()})
    return code


def _scans(state: State) -> Iterable[Metric]:
    last, scan = (
        Metric("scan_last_success_timestamp_seconds", "When a whole scan last ended; 0 when there was none."),
        state.scan,
    )
    last.add(0 if scan is None else scan.finished)
    began = Metric("watch_start_timestamp_seconds", "When the history of this environment began.")
    began.add(state.began)
    planned = Metric("scan_interval_seconds", "How often a scan is scheduled.")
    if state.interval is not None:
        planned.add(state.interval)
    attempt = Metric("scan_last_attempt_timestamp_seconds", "When a scan was last tried.")
    success = Metric("scan_success", "Whether the last scan that was tried was whole.")
    if state.attempted is not None:
        attempt.add(state.attempted)
        success.add(int(not state.errors))
    duration = Metric("scan_duration_seconds", "How long the last whole scan compared files.")
    size = Metric("scan_read_bytes", "Bytes that the last whole scan read.")
    files = Metric("scan_files", "Files that the last whole scan compared.")
    cached = Metric("scan_cached_files", "Files that the last whole scan did not read because it knew them unchanged.")
    if scan is not None:
        for metric, value in (
            (duration, scan.seconds),
            (size, scan.bytes),
            (files, scan.files),
            (cached, scan.cached_files),
        ):
            metric.add(value)
    return last, began, planned, attempt, success, duration, size, files, cached


def _remediations(state: State) -> Iterable[Metric]:
    total = Metric("remediations_total", "Remediations that were tried.", "counter")
    for name, count in sorted(state.totals.items()):
        action, _space, outcome = name.partition(" ")
        total.add(count, action=action, outcome=outcome)
    when = Metric("remediation_last_timestamp_seconds", "When the last remediation ended.")
    success = Metric("remediation_last_success", "Whether the last remediation succeeded.")
    downtime = Metric("remediation_last_downtime_seconds", "How long the service was away for the last remediation.")
    # One that is under way has come to nothing yet.
    for last in [one for one in state.remediations if not one.begun][-1:]:
        when.add(last.time, action=last.action)
        success.add(int(last.succeeded), action=last.action)
        downtime.add(last.downtime_seconds, action=last.action)
    return total, when, success, downtime


def _hold(state: State) -> Iterable[Metric]:
    hold = Metric("hold", "Whether an operator keeps this host from being remediated.")
    hold.add(int(state.hold is not None))
    since = Metric("hold_since_timestamp_seconds", "When the hold was first seen.")
    if state.held_since is not None:
        since.add(state.held_since)
    return hold, since


def _exposition(metric: Metric, environment: str) -> str:
    name = PREFIX + metric.name
    lines = [f"# HELP {name} {metric.help}", f"# TYPE {name} {metric.type}"]
    for labels, value in metric.samples:
        pairs = ",".join(f'{key}="{_escape(text)}"' for key, text in {"environment": environment, **labels}.items())
        lines.append(f"{name}{{{pairs}}} {_number(value)}")
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    # Paths are bytes: what is no UTF-8 in them cannot stand in the file.
    clean = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return clean.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: Number) -> str:
    # Whole numbers without a fraction, and no exponents, for who reads the file.
    return str(int(value)) if value == int(value) else f"{value:.3f}"
