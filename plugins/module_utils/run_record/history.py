# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What earlier runs took, as a forecast for the next one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from statistics import median
from typing import Any, Optional

#: Outcomes of a run that reached what it was started for. Only such a run says how long the next one takes.
SUCCEEDED = ("reinstalled", "remediated", "restored", "switched back")
#: So many runs make the forecast: enough for a median that one slow run does not move, few enough to follow a change.
RUNS = 5
# A host that is scanned every hour has many records that tell nothing of a reinstall.
_LOOKED_AT = 200


def read_records(folder: str, host: str) -> list[dict[str, Any]]:
    """The last records of a host that succeeded, newest first; what cannot be read as one is passed over.

    A forecast is a help and no more: a broken or foreign file must not keep a run from starting.
    """
    place = os.path.join(folder, host)
    try:
        names = sorted((name for name in os.listdir(place) if name.endswith(".json")), reverse=True)
    except OSError:
        return []
    found: list[dict[str, Any]] = []
    for name in names[:_LOOKED_AT]:
        record = _read(os.path.join(place, name))
        if record is not None and record.get("outcome") in SUCCEEDED and not record.get("failure"):
            found.append(record)
        if len(found) == RUNS:
            break
    return found


def _read(path: str) -> Optional[dict[str, Any]]:
    try:
        with open(path, encoding="utf-8") as stream:
            record = json.load(stream)
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("phases"), list) else None


def forecast(own: list[dict[str, Any]], others: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The median of what the host's own runs took, or of its neighbours' where it has none.

    :param own: records of the host
    :param others: records of other hosts, by host
    :returns: ``phases`` (seconds by name), ``downtime_seconds``, ``load_seconds`` and ``overhead_seconds`` (None where
        not measured), ``runs``, ``hosts``, and what it is taken from, ``source`` in words and ``label`` in few
    """
    records = own[:RUNS]
    hosts: list[str] = []
    if not own:
        hosts = sorted(host for host, theirs in others.items() if theirs)
        records = sorted(
            (record for host in hosts for record in others[host]),
            key=lambda record: str(record.get("run_id") or ""),
            reverse=True,
        )[:RUNS]
    downtimes = [record.get("downtime_seconds") for record in records]
    overheads = [
        record["downtime_seconds"] - record["load_seconds"]
        for record in records
        if _measured(record.get("downtime_seconds")) and _measured(record.get("load_seconds"))
    ]
    return {
        "phases": _phases(records),
        "downtime_seconds": _median(downtimes),
        "load_seconds": _median(_load(record) for record in records),
        "overhead_seconds": round(max(0.0, median(overheads)), 1) if overheads else None,
        "runs": len(records),
        "hosts": hosts,
        "source": _source(len(records), hosts),
        "label": ", ".join(hosts) or ("last time" if len(records) == 1 else f"last {len(records)} times"),
    }


def _source(runs: int, hosts: list[str]) -> str:
    if not runs:
        return "nothing: no run of this host or its group is known"
    told = "the last run" if runs == 1 else f"the median of the last {runs} runs"
    return f"{told} of {', '.join(hosts)}, as this host has none" if hosts else f"{told} of this host"


def _phases(records: Iterable[dict[str, Any]]) -> dict[str, float]:
    taken: dict[str, list[Any]] = {}
    for record in records:
        for phase in record["phases"]:
            if isinstance(phase, dict) and isinstance(phase.get("name"), str):
                taken.setdefault(phase["name"], []).append(phase.get("seconds"))
    medians = {name: _median(seconds) for name, seconds in taken.items()}
    return {name: seconds for name, seconds in medians.items() if seconds is not None}


def _load(record: dict[str, Any]) -> Any:
    """The model's load. A record without it has the phase that consists of little else."""
    if _measured(record.get("load_seconds")):
        return record["load_seconds"]
    return _phases([record]).get("start and prove")


def _measured(value: Any) -> bool:
    # 0 is what is written where nothing was stopped.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def _median(values: Iterable[Any]) -> Optional[float]:
    measured = [float(value) for value in values if _measured(value)]
    return round(median(measured), 1) if measured else None
