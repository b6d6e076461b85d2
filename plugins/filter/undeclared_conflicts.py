# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leave out the conflicts that somebody has declared."""

from __future__ import annotations

from typing import Any, Callable

from ansible_collections.pristine.vllm.plugins.module_utils.lock_changes import undeclared_conflicts

DOCUMENTATION = r"""
name: undeclared_conflicts
short_description: Leave out the conflicts that somebody has declared
version_added: 0.1.0
author: Pristine vLLM maintainers (@pristine-vllm)
description:
  - Returns the lines of C(uv pip check) that are not accepted.
positional: accepted
options:
  _input:
    description: The lines, as RV(pristine.vllm.env_release#module:conflicts) has them.
    type: list
    elements: str
    required: true
  accepted:
    description: Whole lines, or names of the packages whose requirements may be contradicted.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Show what nobody has declared
  ansible.builtin.debug:
    msg: "{{ built.conflicts | pristine.vllm.undeclared_conflicts(['compressed-tensors']) }}"
"""

RETURN = r"""
_value:
  description: What is left of the lines.
  type: list
  elements: str
"""


class FilterModule:
    """Offers the filter to Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"undeclared_conflicts": undeclared_conflicts}
