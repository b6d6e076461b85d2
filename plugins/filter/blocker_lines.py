# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell blockers or cautions to an operator."""

from __future__ import annotations

from typing import Any, Callable

from ansible_collections.pristine.vllm.plugins.module_utils.report import blocker_lines

DOCUMENTATION = r"""
name: blocker_lines
short_description: Tell blockers or cautions to an operator
version_added: 0.1.0
author: Pristine vLLM maintainers (@pristine-vllm)
description:
  - Returns one line for each blocker or caution of M(pristine.vllm.host_preflight_info).
options:
  _input:
    description: The blockers or cautions.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what deserves a look
  ansible.builtin.debug:
    msg: "{{ preflight.cautions | pristine.vllm.blocker_lines }}"
"""

RETURN = r"""
_value:
  description: One line for each.
  type: list
  elements: str
"""


class FilterModule:
    """Offers the filter to Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"blocker_lines": blocker_lines}
