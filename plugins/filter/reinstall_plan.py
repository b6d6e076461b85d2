# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what a reinstall does on a host."""

from __future__ import annotations

from typing import Any, Callable

from ansible_collections.pristine.vllm.plugins.module_utils.run_record.decision import decide

DOCUMENTATION = r"""
name: reinstall_plan
short_description: Decide what a reinstall does on a host
version_added: 0.1.0
author: Pristine vLLM maintainers (@pristine-vllm)
description:
  - Takes what the preflight and evidence phases of C(pristine.vllm.reinstall) found.
  - Returns what the run does and why.
options:
  _input:
    description: What M(pristine.vllm.env_release_info) returned.
    type: dict
    required: true
  pin:
    description:
      - The wanted release.
      - Its keys are C(version), C(commit), C(variant), C(wheel_sha256), C(lock_sha256) and C(python).
    type: dict
    required: true
  scan:
    description:
      - What M(pristine.vllm.wheel_record_info) returned for the live environment, or an empty dict.
      - Of a damaged environment that cannot be scanned, C(problem) says why.
    type: dict
    required: true
  config_differs:
    description: Whether a declared adaptation of the model configuration is missing.
    type: bool
    required: true
  unit_differs:
    description: Whether the unit file is not the declared one.
    type: bool
    required: true
  ready:
    description: Whether the service answered a completion.
    type: bool
    required: true
  not_ready_reason:
    description: Why it did not.
    type: str
    default: ""
  artifacts:
    description: Number of debug artifacts found.
    type: int
    default: 0
  force:
    description: Build a new release even where the live one is pristine, and take up none that an earlier run left.
    type: bool
    default: false
  estimates:
    description: What earlier runs took, as P(pristine.vllm.run_estimates#lookup) tells it.
    type: dict
    default: {}
  package_changes:
    description: One line for each package that the pin changes.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Decide
  ansible.builtin.set_fact:
    plan: >-
      {{ releases | pristine.vllm.reinstall_plan(
           pin=pin, scan=scan, config_differs=false, unit_differs=false, ready=true) }}
"""

RETURN = r"""
_value:
  description:
    - The decisions C(build), C(adapt), C(install_unit), C(clean), C(stop), C(restart), C(change) and C(wipe_caches).
    - The C(release) that serves at the end, and the C(reasons).
    - The C(pin), C(expected) (C(downtime_seconds), which is V(none) where nothing was measured, C(downtime) in words,
      and C(phases), the seconds by name), and C(ways), the two ways out of a dirty environment.
  type: dict
"""


class FilterModule:
    """Offers the filter to Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"reinstall_plan": decide}
