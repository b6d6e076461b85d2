# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell a plan to an operator."""

from __future__ import annotations

from typing import Any, Callable

from ansible_collections.pristine.vllm.plugins.module_utils.report import plan_lines

DOCUMENTATION = r"""
name: plan_lines
short_description: Tell a plan to an operator
version_added: 0.1.0
author: Pristine vLLM maintainers (@pristine-vllm)
description:
  - Returns the plan of P(pristine.vllm.reinstall_plan#filter) as lines. The reasons, the steps, the expected downtime,
    both ways out of a dirty environment, and what changes package by package.
positional: package_changes
options:
  _input:
    description: The plan.
    type: dict
    required: true
  package_changes:
    description: One line for each package that changes.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Show the plan
  ansible.builtin.debug:
    msg: "{{ plan | pristine.vllm.plan_lines(package_changes) }}"
"""

RETURN = r"""
_value:
  description: One line for each reason and step.
  type: list
  elements: str
"""


class FilterModule:
    """Offers the filter to Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"plan_lines": plan_lines}
