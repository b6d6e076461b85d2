# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what a rollback does on a host."""

from __future__ import annotations

from typing import Any, Callable

from ansible_collections.pristine.vllm.plugins.module_utils.run_record.rollback import plan_rollback

DOCUMENTATION = r"""
name: rollback_plan
short_description: Decide what a rollback does on a host
version_added: 0.1.0
author: Pristine vLLM maintainers (@pristine-vllm)
description:
  - Returns the plan of going back to the previous release, in the form of F(pristine.vllm.reinstall_plan).
  - There must be one, see F(pristine.vllm.rollback_problem).
options:
  _input:
    description: What M(pristine.vllm.env_release_info) returned.
    type: dict
    required: true
  ready:
    description: Whether the service answers now.
    type: bool
    required: true
  estimates:
    description: What earlier runs took, as P(pristine.vllm.run_estimates#lookup) tells it.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Decide
  ansible.builtin.set_fact:
    plan: "{{ releases | pristine.vllm.rollback_plan(ready=true) }}"
"""

RETURN = r"""
_value:
  description: As F(pristine.vllm.reinstall_plan), with C(switch_back).
  type: dict
"""


class FilterModule:
    """Offers the filter to Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"rollback_plan": plan_rollback}
