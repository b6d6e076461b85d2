# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a run as operator and record have it: decisions, their price, and what else could be done. Pure."""

from __future__ import annotations

from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.run_plan import as_dict, plan
from ansible_collections.pristine.vllm.plugins.module_utils.run_record.ways import (
    expected_seconds,
    expected_text,
    ways_out,
)


def decide(
    releases: dict[str, Any],
    pin: dict[str, Any],
    scan: dict[str, Any],
    *,
    config_differs: bool,
    unit_differs: bool,
    ready: bool,
    estimates: Optional[dict[str, Any]] = None,
    package_changes: Optional[list[str]] = None,
    **optional: Any,
) -> dict[str, Any]:
    """Return :func:`run_plan.plan` as plain data, with ``pin``, ``expected`` and ``ways``.

    :param estimates: what :func:`history.forecast` returned
    :param package_changes: a line for each package that the pin changes
    """
    decided = as_dict(
        plan(releases, pin, scan, config_differs=config_differs, unit_differs=unit_differs, ready=ready, **optional)
    )
    known = estimates or {}
    return {
        **decided,
        "pin": pin,
        "expected": {
            "downtime_seconds": expected_seconds(known) if decided["stop"] else 0.0,
            "downtime": expected_text(known) if decided["stop"] else "none",
            "phases": known.get("phases") or {},
        },
        "ways": ways_out(decided, releases, pin, scan, known, ready=ready, package_changes=package_changes),
    }
