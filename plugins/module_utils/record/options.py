# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options that the modules round the scan share."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.pristine.vllm.plugins.module_utils.record.model import Adaptation, ScanError, ScanOptions


def scan_argument_spec() -> dict[str, dict[str, Any]]:
    """The options of the scan, as ``wheel_record_info`` has them."""
    adaptation = {name: {"type": "str", "required": True} for name in ("path", "sha256", "reason")}
    texts = {"type": "list", "elements": "str", "default": []}
    return {
        "environment": {"type": "path", "required": True},
        "distributions": texts,
        "files": texts,
        "wheels": texts,
        "lock": {"type": "path"},
        "adaptations": {"type": "list", "elements": "dict", "default": [], "options": adaptation},
        "ignore": texts,
        "recompile": {"type": "bool", "default": False},
        "cache": {"type": "path"},
        "workers": {"type": "int"},
    }


def result_argument_spec() -> dict[str, dict[str, Any]]:
    """The options of modules that return findings: how many at most, 0 for all."""
    return {"max_findings": {"type": "int", "default": 1000}}


def result_limit(params: dict[str, Any]) -> int:
    """The option ``max_findings``.

    :raises ScanError: it means nothing.
    """
    limit: int = params["max_findings"]
    if limit < 0:
        raise ScanError(f"max_findings: {limit} is less than none: give 0 for all of them")
    return limit


def scan_options(params: dict[str, Any]) -> ScanOptions:
    """A module's parameters as the scan takes them; those that the module does not have are as by default.

    :raises ScanError: one has a value that means nothing.
    """
    params = {**{name: spec.get("default") for name, spec in scan_argument_spec().items()}, **params}
    if params["workers"] is not None and params["workers"] < 1:
        raise ScanError(f"workers: {params['workers']} processes cannot hash anything: give 1 or more, or leave it out")
    adaptations = []
    for number, entry in enumerate(params["adaptations"], 1):
        adaptation = Adaptation(entry["path"], entry["sha256"].strip().lower(), entry["reason"])
        if not re.fullmatch(r"[0-9a-f]{64}", adaptation.sha256):
            raise ScanError(
                f"adaptations: number {number} ({adaptation.path}) has sha256 {entry['sha256']!r}, which is not 64 "
                "hexadecimal digits: give what sha256sum prints for the adapted file"
            )
        adaptations.append(adaptation)
    return ScanOptions(
        environment=params["environment"],
        distributions=params["distributions"],
        files=params["files"],
        wheels=params["wheels"],
        lock=params["lock"],
        adaptations=adaptations,
        ignore=params["ignore"],
        recompile=params["recompile"],
        cache=params["cache"],
        workers=params["workers"],
    )
