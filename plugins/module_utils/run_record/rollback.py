# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rollback does: the same shape as the plan of a reinstall, so that phases and record take either. Pure."""

from __future__ import annotations

import dataclasses
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.run_plan import Plan
from ansible_collections.pristine.vllm.plugins.module_utils.run_record.ways import expected_seconds, expected_text


def rollback_problem(releases: dict[str, Any]) -> Optional[str]:
    """Why there is nothing to go back to, and what to do instead; None when there is.

    :param releases: what ``env_release_info`` returned.
    """
    previous: Optional[dict[str, Any]] = releases.get("previous")
    live: dict[str, Any] = releases.get("current") or {}
    instead = "Next: reinstall with the pin of the version that is wanted (playbook reinstall)."
    if previous is None:
        return f"there is no previous release: {_live(live)} was never switched to from another one. {instead}"
    if previous.get("path") == live.get("path"):
        return f"the previous release is the live one, {_live(live)}. {instead}"
    if releases.get("previous_problem"):
        return f"the previous release is no environment any more: {releases['previous_problem']}. {instead}"
    return None


def plan_rollback(
    releases: dict[str, Any], *, ready: bool, estimates: Optional[dict[str, Any]] = None
) -> dict[str, Any]:
    """The plan of going back to the previous release.

    :param releases: what ``env_release_info`` returned, with a way back (see `rollback_problem`).
    :param ready: the service answers now.
    :param estimates: what :func:`history.forecast` returned
    """
    previous: dict[str, Any] = releases["previous"]
    live: dict[str, Any] = releases.get("current") or {}
    before: dict[str, Any] = live.get("metadata") or {}
    after: dict[str, Any] = previous.get("metadata") or {}
    target = str(previous.get("id") or previous["path"])
    reason = f"the operator asked to go back from {_live(live)}" + ("" if ready else ", which does not serve")
    decided = Plan(
        build=False,
        adapt=True,
        install_unit=False,
        clean=False,
        stop=True,
        restart=True,
        change=True,
        release=target,
        wipe_caches=before.get("version") != after.get("version"),
        reasons=[reason],
    )
    known = estimates or {}
    return {
        **dataclasses.asdict(decided),
        "switch_back": True,
        "pin": after,
        "expected": {
            "downtime_seconds": expected_seconds(known),
            "downtime": expected_text(known),
            "phases": known.get("phases") or {},
        },
        "ways": [],
    }


def _live(live: dict[str, Any]) -> str:
    return str(live.get("id") or live.get("path") or "what is live")
