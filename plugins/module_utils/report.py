# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Text for the operator: findings, plans and blockers as short lines. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

#: Statuses that do not count against pristine (see ``wheel_record_info``).
HARMLESS = frozenset({"declared", "unverifiable"})


def blockers_text(blockers: list[dict[str, Any]], host: str) -> str:
    """Return one message that names every blocker: what, where, why and what to do next.

    :param blockers: dicts with ``check``, ``where``, ``what`` and ``next``
    """
    many = "1 thing stands" if len(blockers) == 1 else f"{len(blockers)} things stand"
    lines = [f"{many} in the way on {host}. Nothing was changed and the service was not touched."]
    lines += [f"{number}. {line}" for number, line in enumerate(blocker_lines(blockers), start=1)]
    return "\n".join(lines)


def blocker_lines(blockers: Iterable[dict[str, Any]]) -> list[str]:
    """Return one line for each blocker or caution."""
    lines = []
    for blocker in blockers:
        where = f" {blocker['where']}" if blocker.get("where") else ""
        following = f" Next: {blocker['next']}" if blocker.get("next") else ""
        lines.append(f"[{blocker['check']}]{where}: {blocker['what']}{following}")
    return lines


def findings_lines(findings: Iterable[dict[str, Any]], limit: int = 20) -> list[str]:
    """Return one line for each finding, those that count against pristine first.

    :param limit: at most so many lines, and one more that says how many are left
    """
    ordered = sorted(findings, key=lambda finding: (finding["status"] in HARMLESS, finding["path"]))
    lines = [
        f"{finding['status']:<13} {finding['path']}" + (f" ({finding['detail']})" if finding.get("detail") else "")
        for finding in ordered[:limit]
    ]
    if len(ordered) > limit:
        lines.append(f"... and {len(ordered) - limit} more: see the run record")
    return lines


def plan_lines(plan: dict[str, Any], package_changes: Sequence[str] = ()) -> list[str]:
    """Return the plan as lines: why, what, what it costs, and what else could be done.

    :param plan: what the filter ``reinstall_plan`` returned
    :param package_changes: a line for each package that changes
    """
    if not plan["change"]:
        return ["nothing to do: the pinned release is live, pristine, adapted and serving"]
    steps = (
        ("switch_back", f"switch back to release {plan['release']}, with the unit with which it served"),
        ("build", f"build release {plan['release']} beside the running one, verify it, switch to it"),
        ("restore", "put files back to what their wheels hold, in place"),
        ("adapt", "apply the declared adaptations to the model configuration"),
        ("install_unit", "write the systemd unit"),
        ("clean", "move the debug artifacts to the quarantine"),
        ("wipe_caches", "throw away kernels that another version compiled"),
        ("stop", "drain and stop the service"),
        ("restart", "start the service and prove it with a completion; put everything back if it does not answer"),
    )
    lines = [f"because {reason}" for reason in plan["reasons"]]
    lines += [text for key, text in steps if plan.get(key)]
    lines.append(f"downtime: {plan['expected']['downtime']}" if plan["stop"] else "no downtime")
    lines += [line for way in plan["ways"] for line in way_lines(way)]
    if package_changes:
        lines.append(f"packages that change: {len(package_changes)}")
        lines += [f"  {change}" for change in package_changes]
    return lines


def way_lines(way: dict[str, Any]) -> list[str]:
    """Return one way out as lines: whether it is taken and why, what it does, costs and leaves."""
    taken = "taken" if way["taken"] else "not taken" if way["possible"] else "not possible"
    return [
        f"way out {way['name']}, {taken}: {way['why']}",
        f"  {'; '.join(way['steps'])}",
        f"  downtime: {way['downtime']}",
        f"  leaves: {'; '.join(way['leaves'])}",
    ]
