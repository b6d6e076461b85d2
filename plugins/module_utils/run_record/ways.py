# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two ways out of a dirty environment, restore and reinstall, with what each costs and leaves. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.record.model import INSTALLED_RECORD, STATUSES

# What wheel_record puts back from a wheel, and what it removes only where it is told to.
_PUT_BACK = ("modified", "missing", "redirected", "record_edited")
_REMOVED = ("unexpected", "leftover", "bytecode")
_CODE = (".py", ".pyc", ".so", ".pth")


@dataclass(frozen=True)
class Way:
    """One way out. ``downtime_seconds`` is None where nothing like it was measured yet."""

    name: str
    possible: bool
    taken: bool
    steps: list[str]
    downtime_seconds: Optional[float]
    downtime: str
    why: str
    leaves: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def expected_seconds(estimates: dict[str, Any]) -> Optional[float]:
    """The downtime of a stop, a change of files and a start: measured as a whole, or by its larger part, the load."""
    downtime: Optional[float] = estimates.get("downtime_seconds")
    load: Optional[float] = estimates.get("load_seconds")
    overhead: Optional[float] = estimates.get("overhead_seconds")
    if load is not None and overhead is not None:
        return round(load + overhead, 1)
    return downtime if downtime is not None else load


def expected_text(estimates: dict[str, Any]) -> str:
    """The same in words, with what it is taken from."""
    seconds, load = expected_seconds(estimates), estimates.get("load_seconds")
    if seconds is None:
        return "one model load, not measured on this host yet"
    if estimates.get("downtime_seconds") is None:
        return f"one model load, about {seconds:.0f} s by {estimates['source']}, and the stop, not measured yet"
    of_it = f", {load:.0f} s of it the model's load," if load is not None else ""
    return f"about {seconds:.0f} s{of_it} by {estimates['source']}"


def _downtime_text(estimates: dict[str, Any]) -> str:
    seconds = expected_seconds(estimates)
    return "one model load, not measured yet" if seconds is None else f"about {seconds:.0f} s"


def ways_out(
    decided: dict[str, Any],
    releases: dict[str, Any],
    pin: dict[str, Any],
    scan: dict[str, Any],
    estimates: dict[str, Any],
    *,
    ready: bool = True,
    package_changes: Optional[list[str]] = None,
) -> list[dict[str, Any]]:
    """Both ways out for a run that has something to mend in the environment; none where there is nothing or no choice.

    :param decided: the plan, as data
    :param releases: what ``env_release_info`` returned
    :param scan: what ``wheel_record_info`` returned
    :param estimates: what :func:`history.forecast` returned
    :param ready: the service answered a completion
    :param package_changes: a line for each package that the pin changes
    """
    if not decided["build"] or not (releases.get("environment") or {}).get("is_environment"):
        return []
    found = [finding for finding in scan.get("findings") or [] if STATUSES.get(finding["status"], False)]
    restart = not ready or decided["adapt"] or decided["install_unit"] or any(map(may_be_run, found))
    # Of findings that were left out nobody knows what they are.
    restart = restart or bool((scan.get("summary") or {}).get("truncated"))
    counts = _counts(scan, found)
    obstacle = _obstacle(_version(releases), pin, scan, found, sum(counts[status] for status in _PUT_BACK))
    restore = _restore(counts, obstacle, restart, estimates, len(package_changes or []))
    return [restore.to_dict(), _reinstall(decided, restore, releases, estimates).to_dict()]


def _version(releases: dict[str, Any]) -> str:
    metadata: dict[str, Any] = (releases.get("current") or {}).get("metadata") or {}
    return str(metadata.get("version") or releases["environment"].get("version") or "")


def _restore(counts: Counter[str], obstacle: str, restart: bool, estimates: dict[str, Any], packages: int) -> Way:
    wrong = sum(counts[status] for status in _PUT_BACK)
    steps = [f"put {_files(wrong)} back from their wheels, in place"]
    steps.append("restart the service" if restart else "no restart: the running process runs none of them")
    leaves = [f"{counts[status]} {status}" for status in (*_REMOVED, "duplicate", "unreadable") if counts[status]]
    if packages:
        leaves.append(
            "1 package that is not the pin's" if packages == 1 else f"{packages} packages that are not the pin's"
        )
    leaves.append("nothing to go back to but the quarantine")
    return Way(
        name="restore",
        possible=not obstacle,
        taken=False,
        steps=steps,
        downtime_seconds=expected_seconds(estimates) if restart else 0.0,
        downtime=_downtime_text(estimates) if restart else "none",
        why=obstacle or "this playbook reinstalls; the playbook drift restores, where its policy says so",
        leaves=leaves,
    )


def _counts(scan: dict[str, Any], findings: list[dict[str, Any]]) -> Counter[str]:
    summary = scan.get("summary") or {}
    if summary.get("truncated"):
        return Counter({status: int(summary.get(status) or 0) for status in STATUSES})
    return Counter(finding["status"] for finding in findings)


def _obstacle(
    version: str, pin: dict[str, Any], scan: dict[str, Any], findings: list[dict[str, Any]], wrong: int
) -> str:
    """Why restoring does not lead out; empty where it does."""
    if version and version != pin.get("version"):
        return f"it keeps version {version}, and only a build brings {pin.get('version')}"
    if not scan:
        return "the environment was not compared with its wheels"
    without = [
        finding
        for finding in findings
        if finding["status"] in _PUT_BACK and finding.get("verified_against", INSTALLED_RECORD) == INSTALLED_RECORD
    ]
    if without:
        return f"no wheel is at hand for {len(without)} of the {_files(wrong)}, {without[0]['path']} for one"
    unreadable = [finding["path"] for finding in findings if finding["status"] == "unreadable"]
    return f"{unreadable[0]} cannot be read, and what cannot be kept is not replaced" if unreadable else ""


def may_be_run(finding: Mapping[str, Any]) -> bool:
    """Whether a running process may have read what is at the path: then only a restart rids it of that."""
    path = str(finding["path"])
    if finding["status"] == "record_edited":
        return False
    return path.endswith(_CODE) or ".so." in path or path.startswith("bin/") or "/bin/" in path


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def _reinstall(decided: dict[str, Any], restore: Way, releases: dict[str, Any], estimates: dict[str, Any]) -> Way:
    stage = (estimates.get("phases") or {}).get("stage")
    about = f" (about {stage:.0f} s)" if stage else ""
    live = (releases.get("current") or {}).get("id") or releases["environment"].get("path")
    if not restore.possible:
        why = "the only way to the pin here"
    elif restore.downtime_seconds == 0:
        why = "restore needs no restart, but leaves an environment that was edited; this playbook builds a clean one"
    else:
        why = "the same downtime as restore, for an environment that is the pin's and nothing else"
    return Way(
        name="reinstall",
        possible=True,
        taken=True,
        steps=[
            f"build and verify {decided['release']} while the service serves{about}",
            "switch",
            "restart the service",
        ],
        downtime_seconds=expected_seconds(estimates),
        downtime=_downtime_text(estimates),
        why=why,
        leaves=[f"{live} as the way back"],
    )
