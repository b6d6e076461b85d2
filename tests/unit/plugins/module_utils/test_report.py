# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the operator is told."""

from __future__ import annotations

from typing import Any

from ansible_collections.pristine.vllm.plugins.module_utils.report import (
    blockers_text,
    findings_lines,
    plan_lines,
)

PLAN: dict[str, Any] = {
    "build": True,
    "adapt": False,
    "install_unit": False,
    "clean": False,
    "stop": True,
    "restart": True,
    "change": True,
    "wipe_caches": False,
    "release": "one-2",
    "reasons": ["the live environment is not pristine: 4 modified"],
    "expected": {"downtime_seconds": 542.0, "downtime": "about 542 s", "phases": {}},
    "ways": [],
}


def test_every_blocker_is_in_the_one_message() -> None:
    blockers = [
        {"check": "disk", "where": "/opt", "what": "3 GB free, 30 needed.", "next": "free 27 GB"},
        {"check": "pin", "where": "", "what": "the index lists no such version.", "next": "pin one of: 1, 2"},
    ]
    lines = blockers_text(blockers, "gpu-1").splitlines()
    assert lines[0].startswith("2 things stand in the way on gpu-1.")
    assert lines[1:] == [
        "1. [disk] /opt: 3 GB free, 30 needed. Next: free 27 GB",
        "2. [pin]: the index lists no such version. Next: pin one of: 1, 2",
    ]


def test_findings_that_count_come_first_and_the_rest_is_counted() -> None:
    findings: list[dict[str, Any]] = [
        {"status": "declared", "path": "a.json", "detail": None},
        {"status": "modified", "path": "z.py", "detail": "2 lines"},
        {"status": "missing", "path": "b.py", "detail": ""},
    ]
    assert [line.split()[:2] for line in findings_lines(findings)] == [
        ["missing", "b.py"],
        ["modified", "z.py"],
        ["declared", "a.json"],
    ]
    assert findings_lines(findings, limit=1)[1].startswith("... and 2 more")


def test_a_plan_says_why_what_and_what_it_costs() -> None:
    lines = plan_lines(PLAN)
    assert lines[0] == "because the live environment is not pristine: 4 modified"
    assert "release one-2" in lines[1]
    assert lines[-1] == "downtime: about 542 s"
    assert plan_lines({**PLAN, "stop": False})[-1] == "no downtime"
    assert plan_lines({**PLAN, "change": False}) == [
        "nothing to do: the pinned release is live, pristine, adapted and serving"
    ]
