# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Puts the record of a run together from what the play noted and what the host's own transaction wrote. Pure."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.run_record.checklist import checklist
from ansible_collections.pristine.vllm.plugins.module_utils.run_record.phases import merge_phases

SCHEMA = 2
#: Of lists that have no bound of their own: the first so many, and the count of all.
SHOWN = 200
_TEXT = 20_000
# What an earlier playbook calls the same.
_OUTCOMES = {"failed before anything was stopped": "nothing was stopped"}


def compose(
    about: dict[str, Any],
    *,
    marks: list[dict[str, Any]],
    plan: dict[str, Any],
    before: dict[str, Any],
    journal: Optional[dict[str, Any]] = None,
    after: Optional[dict[str, Any]] = None,
    outcome: str = "",
    failure: str = "",
    downtime_seconds: float = 0.0,
) -> dict[str, Any]:
    """Return the record, as docs/run-record.md describes it.

    :param about: ``run_id``, ``host``, ``playbook``, ``reason``, ``operator``, ``root``, ``started`` and ``finished``
        (seconds since the epoch)
    :param marks: the play's phases, ``name`` and ``started`` (epoch), in their order
    :param plan: what ``reinstall_plan`` returned; empty where the run did not come to it
    :param before: what the evidence phase found; empty likewise
    :param journal: what the transaction on the host wrote; empty where none ran
    :param after: what the play itself knows of the end; goes before what follows from the journal
    :param outcome: goes before what follows from the journal, as do ``failure`` and ``downtime_seconds``
    """
    noted = journal or {}
    ended = outcome or _outcome(noted, plan)
    told = failure or noted.get("failure") or ""
    root, run_id = str(about["root"]), str(about["run_id"])
    was = _before(before)
    downtime = noted.get("downtime_seconds") if noted else downtime_seconds
    if was["serving"] is False:
        # What did not serve was not taken from anybody.
        downtime = 0.0
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "run_id": run_id,
        "host": about["host"],
        "playbook": about.get("playbook") or "reinstall",
        "reason": about.get("reason") or "",
        "operator": about.get("operator") or "",
        "outcome": _OUTCOMES.get(ended, ended),
        "failure": told[:_TEXT],
        "started": iso(about["started"]),
        "finished": iso(about["finished"]),
        "started_epoch": round(float(about["started"]), 3),
        "finished_epoch": round(float(about["finished"]), 3),
        "phases": merge_phases(marks, noted.get("phases") or [], float(about["finished"])),
        "downtime_seconds": round(float(downtime or 0.0), 1),
        "load_seconds": _number(noted.get("load_seconds")),
        "drain_seconds": _number(noted.get("drain_seconds")),
        "requests_left": noted.get("requests_left"),
        "plan": plan,
        "before": was,
        "quarantine": f"{root}/quarantine/{run_id}",
        "host_copy": f"{root}/records/{run_id}.md",
        "controller_problem": "",
    }
    record["after"] = _after(record, before, noted, after or {})
    record["checklist"] = checklist(record)
    return record


def iso(epoch: Any) -> str:
    """Seconds since the epoch as ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(float(epoch), tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _number(value: Any) -> Optional[float]:
    return None if value is None else round(float(value), 1)


def _outcome(journal: dict[str, Any], plan: dict[str, Any]) -> str:
    ended = str(journal.get("outcome") or "nothing was stopped")
    if ended != "done":
        return ended
    if plan.get("switch_back"):
        return "switched back"
    if plan.get("build"):
        return "reinstalled"
    return "restored" if plan.get("restore") else "remediated"


def _commit(version: str, metadata: dict[str, Any]) -> str:
    """The full commit where a release tells it, else the one that the version ends with."""
    local = version.partition("+")[2].partition(".")[0]
    return str(metadata.get("commit") or (local[1:] if local.startswith("g") else ""))


def _bounded(name: str, items: Optional[list[Any]], left_out: int = 0) -> dict[str, Any]:
    every = items or []
    return {name: every[:SHOWN], f"{name}_count": len(every) + left_out}


def _before(before: dict[str, Any]) -> dict[str, Any]:
    metadata: dict[str, Any] = before.get("metadata") or {}
    version = str(metadata.get("version") or before.get("version") or "")
    summary: dict[str, Any] = before.get("summary") or {}
    return {
        "release": before.get("release") or "",
        "version": version,
        "commit": _commit(version, metadata),
        "serving": before.get("serving"),
        "pristine": before.get("pristine"),
        "summary": summary,
        **_bounded("findings", before.get("findings"), int(summary.get("truncated") or 0)),
        **_bounded("probes", before.get("probes")),
        **_bounded("artifacts", before.get("artifacts")),
        **_bounded("package_changes", before.get("package_changes")),
        "model_config_differs": before.get("model_config_differs"),
        "unit_differs": before.get("unit_differs"),
    }


def _after(
    record: dict[str, Any], found: dict[str, Any], journal: dict[str, Any], given: dict[str, Any]
) -> dict[str, Any]:
    """The state at the end. What went back, or never went, is as it was before."""
    plan, before = record["plan"], record["before"]
    done = journal.get("outcome") == "done"
    pin: dict[str, Any] = plan.get("pin") or {}
    adapted = before["model_config_differs"]
    after: dict[str, Any] = {
        "release": (done and plan.get("release")) or before["release"],
        "serving": before["serving"],
        "pristine": before["pristine"],
        "summary": before["summary"],
        "adaptations": True if done else (None if adapted is None else not adapted),
        "config": journal.get("config") or [],
        "completion": journal.get("completion") or "",
    }
    if done:
        scan: dict[str, Any] = journal.get("scan") or {}
        after.update(serving=True, pristine=scan.get("pristine"), summary=scan.get("summary") or {})
    elif journal.get("outcome") == "going back failed":
        after["serving"] = False
    elif journal.get("outcome") == "rolled back":
        after["serving"] = bool(after["completion"]) or before["serving"]
    after.update({key: value for key, value in given.items() if key not in ("artifacts", "completion")})
    after["completion"] = str(given.get("completion") or after["completion"])[:_TEXT]
    artifacts: list[dict[str, Any]] = given.get("artifacts") or journal.get("artifacts") or []
    after.update(_bounded("artifacts", artifacts))
    after["artifacts_bytes"] = sum(int(artifact.get("size") or 0) for artifact in artifacts)
    # A release that stayed is what it was; a new one is the pin, for nothing else is built.
    built = (plan.get("build") or plan.get("switch_back")) and after["release"] == plan.get("release")
    metadata: dict[str, Any] = pin if built else found.get("metadata") or {}
    after["version"] = str(given.get("version") or (pin.get("version") if built else before["version"]) or "")
    after["commit"] = str(given.get("commit") or _commit(after["version"], metadata))
    return after
