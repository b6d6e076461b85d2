# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the module drift_state, and what it makes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.drift.findings import KINDS, Finding, from_dict
from ansible_collections.pristine.vllm.plugins.module_utils.drift.history import Look
from ansible_collections.pristine.vllm.plugins.module_utils.drift.policy import DAY, Remediation, Rules
from ansible_collections.pristine.vllm.plugins.module_utils.drift.state import Scan
from ansible_collections.pristine.vllm.plugins.module_utils.drift.tick import Ask
from ansible_collections.pristine.vllm.plugins.module_utils.drift.windows import parse_windows
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import STATUSES

ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "path": {"type": "path", "required": True},
    "environment": {"type": "str", "required": True},
    "findings": {"type": "list", "elements": "dict", "default": []},
    "kinds": {"type": "list", "elements": "str", "choices": list(KINDS), "default": []},
    "scan": {"type": "dict"},
    "errors": {"type": "list", "elements": "str", "default": []},
    "policy": {"type": "dict", "default": {}},
    "windows": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "days": {"type": "list", "elements": "str"},
            "from": {"type": "str", "required": True},
            "to": {"type": "str", "required": True},
            "timezone": {"type": "str", "default": "UTC"},
        },
    },
    "max_per_day": {"type": "int", "default": 1},
    "cool_down": {"type": "int", "default": 21600},
    "hold_file": {"type": "path"},
    "remediation": {
        "type": "dict",
        "options": {
            "action": {"type": "str", "required": True, "choices": ["restore", "reinstall"]},
            "succeeded": {"type": "bool", "required": True},
            "time": {"type": "float"},
            "downtime_seconds": {"type": "float", "default": 0},
            "run_id": {"type": "str", "default": ""},
            "begun": {"type": "bool", "default": False},
        },
    },
    "run_id": {"type": "str", "default": ""},
    "textfile": {"type": "path"},
    "interval": {"type": "int"},
    "retention_days": {"type": "int", "default": 90},
    "now": {"type": "float"},
}


def ask_of(params: Mapping[str, Any], now: float) -> Ask:
    """What the options ask for.

    :raises ValueError: an option cannot be what it is.
    """
    textfile = params["textfile"] or ""
    if textfile and not textfile.endswith(".prom"):
        raise ValueError(f"textfile {textfile} does not end in .prom: node exporter would not read it")
    scan = params["scan"]
    findings = [from_dict(one) for one in params["findings"]]
    cut = scan is not None and _number(scan, "truncated") > 0
    return Ask(
        path=params["path"],
        environment=params["environment"],
        look=Look(findings, params["kinds"], _scan(scan, now, findings), params["errors"], cut),
        rules=Rules(params["policy"], parse_windows(params["windows"]), params["max_per_day"], params["cool_down"]),
        interval=_interval(params["interval"]),
        retention=params["retention_days"] * DAY,
        hold_file=params["hold_file"] or "",
        textfile=textfile,
        remediation=_remediation(params["remediation"], now),
        run_id=params["run_id"],
    )


def _interval(seconds: Optional[int]) -> Optional[float]:
    if seconds is not None and seconds < 0:
        raise ValueError(f"interval is {seconds}: give the seconds between two scheduled scans, or 0 where none is")
    return None if seconds is None else float(seconds)


def _scan(scan: Optional[Mapping[str, Any]], now: float, findings: Iterable[Finding]) -> Optional[Scan]:
    if scan is None:
        return None
    size, files, cached = (int(_number(scan, name)) for name in ("bytes_hashed", "files", "from_cache"))
    return Scan(now, _number(scan, "seconds"), size, files, cached, _unlisted(scan, findings))


def _unlisted(scan: Mapping[str, Any], findings: Iterable[Finding]) -> dict[str, int]:
    """Of each status that counts, how many findings the scan counted and left out of its list."""
    if not _number(scan, "truncated"):
        return {}
    listed = Counter(one.status for one in findings if one.kind == "code")
    left = {status: int(_number(scan, status)) - listed[status] for status, counts in STATUSES.items() if counts}
    return {status: count for status, count in left.items() if count > 0}


def _number(scan: Mapping[str, Any], name: str) -> float:
    # What comes through a template may be the text of a number.
    try:
        return float(scan.get(name) or 0)
    except (TypeError, ValueError) as error:
        raise ValueError(f"scan has {name} {scan[name]!r}: give the summary of a scan") from error


def _remediation(done: Optional[Mapping[str, Any]], now: float) -> Optional[Remediation]:
    if done is None:
        return None
    if done["begun"] and (done["succeeded"] or not done["run_id"]):
        raise ValueError("remediation has only begun: give its run_id, by which its end is known, and succeeded false")
    when = now if done["time"] is None else done["time"]
    return Remediation(when, done["action"], done["succeeded"], done["downtime_seconds"], done["run_id"], done["begun"])
