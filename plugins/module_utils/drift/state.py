# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of a host's drift from one scan to the next, and the file that keeps it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.drift.findings import Finding, from_dict
from ansible_collections.pristine.vllm.plugins.module_utils.drift.policy import POLICIES, Remediation
from ansible_collections.pristine.vllm.plugins.module_utils.files import atomic_write, read_file

SCHEMA = 1
# Several times what the 35,000 files of an environment would take if each of them were a finding.
_LARGEST = 64 * 1024 * 1024


@dataclass(frozen=True)
class Known:
    """A finding, and the scans that first and last saw it. ``gone`` is the one that did not, None while it is there."""

    finding: Finding
    first_seen: float
    last_seen: float
    gone: Optional[float] = None


@dataclass(frozen=True)
class Scan:
    """What a scan took. ``finished`` in seconds since the epoch.

    ``unlisted`` are files that it counted as drifted, by status, and did not list: there were too many.
    """

    finished: float
    seconds: float = 0.0
    bytes: int = 0
    files: int = 0
    cached_files: int = 0
    unlisted: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Tick:
    """One run in the history: when, what it came to, why, and how many findings counted then."""

    time: float
    verdict: str
    reason: str
    findings: int


@dataclass(frozen=True)
class State:
    """All that is known. ``began`` is when this history did, ``attempted`` when a scan last was, whole or not.

    ``interval`` is how many seconds lie between two scheduled scans, None when nobody has scheduled any.
    """

    environment: str
    began: float
    known: tuple[Known, ...] = ()
    scan: Optional[Scan] = None
    attempted: Optional[float] = None
    # Kinds that were ever looked at: of the others nothing can be said.
    kinds: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    remediations: tuple[Remediation, ...] = ()
    # "restore succeeded": how many there ever were. The list above forgets, a counter must not.
    totals: dict[str, int] = field(default_factory=dict)
    hold: Optional[str] = None
    held_since: Optional[float] = None
    ticks: tuple[Tick, ...] = ()
    interval: Optional[float] = None

    @property
    def current(self) -> list[Known]:
        """The findings that are there as far as anybody knows."""
        return [one for one in self.known if one.gone is None]


class StateError(Exception):
    """The history cannot be written. The text is for the operator."""


def load_state(path: str, environment: str, now: float) -> tuple[State, Optional[str]]:
    """The state in the file, and why it begins anew where there is one that cannot be used.

    :raises StateError: the file is there and may not be read: it is not ours to begin anew.
    """
    try:
        data = read_file(path, _LARGEST)
    except FileNotFoundError:
        return State(environment, now), None
    except PermissionError as error:
        raise StateError(
            f"{path}: the history of {environment} cannot be read: {error.strerror}. Run as the user who scans it, "
            "or name a path of your own"
        ) from error
    except OSError as error:
        return State(environment, now), _anew(path, error.strerror or str(error))
    try:
        state = parse_state(data)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        return State(environment, now), _anew(path, f"{type(error).__name__}: {error}")
    if state.environment != environment:
        return State(environment, now), _anew(path, f"it is of {state.environment}, not of {environment}")
    return state, None


def save_state(path: str, state: State, damaged: bool) -> None:
    """Write the file whole or not at all. One that was ``damaged`` is kept beside it.

    :raises StateError: it is as it was.
    """
    directory = os.path.dirname(path) or "."
    try:
        # Files of the host's users show in it, and their paths are nobody else's business.
        os.makedirs(directory, mode=0o750, exist_ok=True)
        if damaged:
            with contextlib.suppress(FileNotFoundError):
                os.replace(path, f"{path}.damaged")
        atomic_write(path, render_state(state), mode=0o640)
    except OSError as error:
        raise StateError(
            f"{path}: the history of {state.environment} cannot be written: {error.strerror}. Make {directory} "
            "writable, or name another path"
        ) from error


def render_state(state: State) -> bytes:
    """The content of the file; equal for equal states."""
    return (json.dumps({"schema": SCHEMA, **dataclasses.asdict(state)}, indent=1, sort_keys=True) + "\n").encode()


def parse_state(data: bytes) -> State:
    """The inverse of `render_state`. Nothing is taken on trust: what is read decides about remediations.

    :raises ValueError: or KeyError, TypeError, AttributeError, RecursionError: it is not such a file.
    """
    raw = json.loads(data)
    if raw["schema"] != SCHEMA:
        raise ValueError(f"its schema is {raw['schema']!r}, this version writes {SCHEMA}")
    return State(
        environment=_text(raw["environment"]),
        began=_number(raw["began"]),
        known=tuple(_known(one) for one in raw["known"]),
        scan=None if raw["scan"] is None else _scan(raw["scan"]),
        attempted=_maybe(raw["attempted"]),
        kinds=tuple(_text(one) for one in raw["kinds"]),
        errors=tuple(_text(one) for one in raw["errors"]),
        remediations=tuple(_remediation(one) for one in raw["remediations"]),
        totals={_text(name): int(_number(count)) for name, count in raw["totals"].items()},
        hold=None if raw["hold"] is None else _text(raw["hold"]),
        held_since=_maybe(raw["held_since"]),
        ticks=tuple(
            Tick(_number(one["time"]), _text(one["verdict"]), _text(one["reason"]), int(_number(one["findings"])))
            for one in raw["ticks"]
        ),
        interval=_maybe(raw["interval"]),
    )


def _anew(path: str, why: str) -> str:
    return f"{path}: the history cannot be used and begins anew, so every finding counts as new: {why}"


def _known(raw: dict[str, Any]) -> Known:
    finding = from_dict(raw["finding"])
    return Known(finding, _number(raw["first_seen"]), _number(raw["last_seen"]), _maybe(raw["gone"]))


def _scan(raw: dict[str, Any]) -> Scan:
    numbers = {name: _number(raw[name]) for name in ("finished", "seconds", "bytes", "files", "cached_files")}
    counts = {name: int(numbers[name]) for name in ("bytes", "files", "cached_files")}
    unlisted = {_text(status): int(_number(count)) for status, count in raw["unlisted"].items()}
    return Scan(finished=numbers["finished"], seconds=numbers["seconds"], unlisted=unlisted, **counts)


def _remediation(raw: dict[str, Any]) -> Remediation:
    flags = raw["succeeded"], raw["begun"]
    if raw["action"] not in POLICIES or not all(isinstance(one, bool) for one in flags) or all(flags):
        raise ValueError(f"a remediation is {raw!r}")
    times = _number(raw["time"]), _number(raw["downtime_seconds"])
    return Remediation(times[0], raw["action"], flags[0], times[1], _text(raw["run_id"]), flags[1])


def _number(value: Any) -> float:
    # bool is an int, and json reads NaN and Infinity.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e15:
        raise ValueError(f"{value!r} is no number")
    return float(value)


def _maybe(value: Any) -> Optional[float]:
    return None if value is None else _number(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value
