#!/usr/bin/python
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep every file of an environment that is not pristine, with a patch, before anything is replaced."""

from __future__ import annotations

DOCUMENTATION = r"""
module: drift_archive
short_description: Keep what is not pristine in an environment, before anything is replaced
version_added: 0.1.0
description:
  - Copies each file that a scan found and that counts against pristine to C(files/<absolute path>) in the quarantine,
    with its mode and owner. A symlink is kept as a symlink; what lies out of the environment is not opened.
  - Where the wheel is at hand, saves the patch from its text to the installed one as C(patches/<absolute path>.patch),
    for C(patch -p1) in site-packages.
  - Writes all findings and probes to C(findings.json).
  - The quarantine is for its owner's eyes only. What is in it is never overwritten, and the same content is kept once.
extends_documentation_fragment:
  - pristine.vllm.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: Shows which files the quarantine holds of these findings, before and after.
options:
  environment:
    description: The root of the virtual environment that was scanned.
    type: path
    required: true
  wheels:
    description:
      - Where pristine text may come from, as in O(pristine.vllm.wheel_record_info#module:wheels), addresses included.
    type: list
    elements: str
    default: []
  lock:
    description: As O(pristine.vllm.wheel_record_info#module:lock).
    type: path
  findings:
    description:
      - The RV(pristine.vllm.wheel_record_info#module:findings) of a scan, as they are.
      - Without them the environment is scanned, and all that is found is kept. This is for results that were truncated.
    type: list
    elements: dict
  probes:
    description: The RV(pristine.vllm.wheel_record_info#module:probes) of the same scan.
    type: list
    elements: dict
    default: []
  adaptations:
    description: As O(pristine.vllm.wheel_record_info#module:adaptations), for when O(findings) is not given.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: The file, as findings name it.
        type: str
        required: true
      sha256:
        description: What the adapted file must be, as 64 hexadecimal digits.
        type: str
        required: true
      reason:
        description: Why.
        type: str
        required: true
  ignore:
    description: As O(pristine.vllm.wheel_record_info#module:ignore), for when O(findings) is not given.
    type: list
    elements: str
    default: []
  max_findings:
    description: How many entries of RV(archived) are returned at most; V(0) for all. All are kept in any case.
    type: int
    default: 1000
  quarantine:
    description: An absolute path. It is made when there is something to keep.
    type: path
    required: true
author:
  - Pristine vLLM maintainers (@pristine-vllm)
"""

EXAMPLES = r"""
- name: Scan the live environment
  pristine.vllm.wheel_record_info:
    environment: /opt/vllm/current
    wheels:
      - /opt/vllm/wheels
  register: scan

- name: Keep what is not pristine
  pristine.vllm.drift_archive:
    environment: /opt/vllm/current
    wheels:
      - /opt/vllm/wheels
    findings: "{{ scan.findings }}"
    probes: "{{ scan.probes }}"
    quarantine: /opt/vllm/quarantine/20261130T032512Z
"""

RETURN = r"""
archived:
  description: The findings that count against pristine, in their order, at most O(max_findings).
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: As the finding names it.
      type: str
    file:
      description: The absolute path.
      type: str
    status:
      description: As in the finding.
      type: str
    kept:
      description: Where the file is (or in check mode would be) kept. V(none) where there is no file to keep.
      type: str
    patch:
      description: Where the patch is, or would be. V(none) where the pristine text is not known, or there is no text.
      type: str
    note:
      description: Why nothing is kept, or why there is no patch where a wheel was at hand. Else empty.
      type: str
truncated:
  description: How many entries were left out of RV(archived).
  returned: success
  type: int
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pristine.vllm.plugins.module_utils.index_http import secrets_of
from ansible_collections.pristine.vllm.plugins.module_utils.record.archive import Plan, apply, plan
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import ScanError, ScanOptions
from ansible_collections.pristine.vllm.plugins.module_utils.record.options import (
    result_argument_spec,
    result_limit,
    scan_argument_spec,
    scan_options,
)
from ansible_collections.pristine.vllm.plugins.module_utils.record.result import result_of
from ansible_collections.pristine.vllm.plugins.module_utils.record.scan import scan


def _diff(decided: Plan, quarantine: str, limit: int) -> dict[str, str]:
    shown = decided.items[:limit] if limit else decided.items
    more = f"... and {len(decided.items) - len(shown)} more\n" if len(shown) < len(decided.items) else ""
    there = [item.kept for item in shown if item.kept is not None and not item.new]
    after = [item.kept for item in shown if item.kept is not None]
    return {
        "before_header": quarantine,
        "after_header": quarantine,
        "before": "".join(f"{place}\n" for place in there),
        "after": "".join(f"{place}\n" for place in after) + (more if decided.changed else ""),
    }


def _found(options: ScanOptions) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Findings and probes of a scan, all of them."""
    done = scan(options)
    try:
        result = result_of(done, 0)
    finally:
        done.close()
    return result["findings"], result["probes"]


def main() -> None:
    """Uses of the module: params, check_mode and _diff are read, warn, fail_json and exit_json called.

    And no_log_values is added to.
    """
    shared = scan_argument_spec()
    names = ("environment", "wheels", "lock", "adaptations", "ignore")
    module = AnsibleModule(
        argument_spec={
            **{name: shared[name] for name in names},
            **result_argument_spec(),
            "findings": {"type": "list", "elements": "dict"},
            "probes": {"type": "list", "elements": "dict", "default": []},
            "quarantine": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    params = module.params
    module.no_log_values.update(secrets_of(params["wheels"]))
    result: dict[str, Any] = {}
    try:
        options, limit = scan_options(params), result_limit(params)
        findings, probes = params["findings"], params["probes"]
        if findings is None:
            findings, probes = _found(options)
        decided = plan(options, findings, probes, params["quarantine"])
        result["changed"] = decided.changed
        if module._diff:
            result["diff"] = _diff(decided, params["quarantine"], limit)
        if not module.check_mode:
            apply(decided, params["quarantine"])
    except (ScanError, ValueError) as error:
        module.fail_json(msg=str(error))
    for warning in decided.warnings:
        module.warn(warning)
    archived = decided.items[:limit] if limit else decided.items
    module.exit_json(
        archived=[item.to_dict() for item in archived], truncated=len(decided.items) - len(archived), **result
    )


if __name__ == "__main__":
    main()
