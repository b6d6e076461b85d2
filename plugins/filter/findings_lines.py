# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell findings to an operator."""

from __future__ import annotations

from typing import Any, Callable

from ansible_collections.pristine.vllm.plugins.module_utils.report import findings_lines

DOCUMENTATION = r"""
name: findings_lines
short_description: Tell findings to an operator
version_added: 0.1.0
author: Pristine vLLM maintainers (@pristine-vllm)
description:
  - Returns one line for each finding of M(pristine.vllm.wheel_record_info), those that count against pristine first.
positional: limit
options:
  _input:
    description: The findings.
    type: list
    elements: dict
    required: true
  limit:
    description: How many lines at the most.
    type: int
    default: 20
"""

EXAMPLES = r"""
- name: Show the findings
  ansible.builtin.debug:
    msg: "{{ scan.findings | pristine.vllm.findings_lines }}"
"""

RETURN = r"""
_value:
  description: One line for each finding.
  type: list
  elements: str
"""


class FilterModule:
    """Offers the filter to Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"findings_lines": findings_lines}
