# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run as the incident would have had it: what the play noted and what the transaction on the host wrote."""

from __future__ import annotations

from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.run_record.compose import compose
from ansible_collections.pristine.vllm.plugins.module_utils.run_record.decision import decide

VERSION = "0.16.0rc2.dev313+g662205d34"
COMMIT = "662205d34eb1bb42228768d7a69a1ac4abf38c89"
SUSPECT = "vllm/model_executor/models/deepseek_v2.py"
PIN = {
    "version": VERSION,
    "commit": COMMIT,
    "variant": "",
    "wheel_sha256": "a" * 64,
    "lock_sha256": "b" * 64,
    "python": "/usr/bin/python3",
}
SUMMARY = {"files": 35695, "distributions": 163, "verified_against": "pinned_wheel", "truncated": 0, "unverifiable": 0}
FINDING: dict[str, Any] = {
    "path": SUSPECT,
    "status": "modified",
    "detail": "size is 60312 bytes, recorded 58834",
    "verified_against": "pinned_wheel",
}
ARTIFACT: dict[str, Any] = {
    "path": "/tmp/nomla_debug_tp0.pt",
    "size": 2_000_000,
    "sha256": "c" * 64,
    "kept": "/q/nomla_debug_tp0.pt",
}
PROBE = {
    "path": SUSPECT,
    "line": 60,
    "kind": "tensor_dump",
    "code": "_t.save(x)",
    "artifact_glob": "/tmp/nomla_debug_tp*.pt",
}
RELEASES: dict[str, Any] = {
    "environment": {"path": "/root/ml-env", "is_environment": True, "version": VERSION},
    "current": None,
    "previous": None,
    "releases": [],
    "next_id": "one-1",
}
SCAN: dict[str, Any] = {
    "pristine": False,
    "findings": [FINDING],
    "summary": {**SUMMARY, "modified": 1},
    "probes": [PROBE],
}
ABOUT: dict[str, Any] = {
    "run_id": "20261130T032512Z",
    "host": "gpu-01",
    "playbook": "reinstall",
    "reason": "a pristine codebase",
    "operator": "ada@control01",
    "root": "/opt/vllm",
    "started": 1_796_009_112.5,
    "finished": 1_796_009_112.5 + 700,
}
START: float = ABOUT["started"]
MARKS = [
    {"name": "preflight", "started": START},
    {"name": "evidence", "started": START + 10},
    {"name": "stage", "started": START + 30},
    {"name": "record", "started": START + 690},
]
# The host's clock is an hour ahead.
JOURNAL: dict[str, Any] = {
    "outcome": "done",
    "failure": "",
    "phases": [
        {"name": "drain and stop", "started": START + 3700, "finished": START + 3712},
        {"name": "switch", "started": START + 3712, "finished": START + 3712.4},
        {"name": "start and prove", "started": START + 3712.4, "finished": START + 4254.4},
        {"name": "verify", "started": START + 4254.4, "finished": START + 4260},
    ],
    "downtime_seconds": 550.04,
    "load_seconds": 541.96,
    "drain_seconds": 4.0,
    "requests_left": 0,
    "artifacts": [ARTIFACT],
    "config": [],
    "completion": "Paris",
    "scan": {"pristine": True, "summary": SUMMARY},
}


def planned(
    scan: Optional[dict[str, Any]] = None, releases: Optional[dict[str, Any]] = None, **changes: Any
) -> dict[str, Any]:
    """The plan for the host of the incident."""
    found = {"config_differs": False, "unit_differs": False, "ready": True, **changes}
    return decide(RELEASES if releases is None else releases, PIN, SCAN if scan is None else scan, **found)


def before(**changes: Any) -> dict[str, Any]:
    """What the evidence phase notes."""
    return {
        "release": "/root/ml-env",
        "metadata": {},
        "version": VERSION,
        "serving": True,
        "pristine": False,
        "summary": SCAN["summary"],
        "findings": SCAN["findings"],
        "probes": SCAN["probes"],
        "package_changes": [],
        "model_config_differs": False,
        "unit_differs": True,
        "artifacts": [ARTIFACT],
        **changes,
    }


def recorded(**changes: Any) -> dict[str, Any]:
    """The record of the run, with some of its parts changed."""
    parts = {"marks": MARKS, "plan": planned(), "before": before(), "journal": JOURNAL, **changes}
    return compose({**ABOUT, **parts.pop("about", {})}, **parts)
