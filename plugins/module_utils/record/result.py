# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module returns of a scan: small enough for a log and a run record, whatever was found."""

from __future__ import annotations

from typing import Any

from ansible_collections.pristine.vllm.plugins.module_utils.record.evidence import diff_of, probes_of
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import Finding, Probe
from ansible_collections.pristine.vllm.plugins.module_utils.record.scan import Scan

MAX_FINDINGS = 1000


def result_of(scan: Scan, limit: int = MAX_FINDINGS, diff: bool = False) -> dict[str, Any]:
    """The result of ``wheel_record_info``. The verdict and the counts are always of all that was found.

    :param limit: how many findings, and how many probes of them, are in it; 0 for all.
    """
    findings = chosen(scan.result.findings, limit)
    probes = foremost(probes_of(scan, findings), limit)
    result: dict[str, Any] = {
        "changed": False,
        "pristine": scan.result.pristine,
        "findings": [finding.to_dict() for finding in findings],
        "probes": [probe.to_dict() for probe in probes],
    }
    if diff:
        result["diff"] = diff_of(scan)
    # Both may have fetched something.
    scan.count_transfer()
    result["summary"] = {**scan.result.summary.to_dict(), "truncated": len(scan.result.findings) - len(findings)}
    return result


def chosen(findings: list[Finding], limit: int) -> list[Finding]:
    """So many findings in their order; those that count against pristine before others."""
    if not limit or len(findings) <= limit:
        return findings
    kept = {id(finding) for finding in sorted(findings, key=lambda finding: not finding.counts)[:limit]}
    return [finding for finding in findings if id(finding) in kept]


def foremost(probes: list[Probe], limit: int) -> list[Probe]:
    """So many probes in their order; those that someone has to act on before others."""
    if not limit or len(probes) <= limit:
        return probes
    rank = {"tensor_dump": 0, "other": 2}
    kept = {id(probe) for probe in sorted(probes, key=lambda probe: rank.get(probe.kind, 1))[:limit]}
    return [probe for probe in probes if id(probe) in kept]
