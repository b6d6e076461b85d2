# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Say why a host cannot go back."""

from __future__ import annotations

from typing import Any, Callable

from ansible_collections.pristine.vllm.plugins.module_utils.run_record.rollback import rollback_problem

DOCUMENTATION = r"""
name: rollback_problem
short_description: Say why a host cannot go back
version_added: 0.1.0
author: Pristine vLLM maintainers (@pristine-vllm)
description:
  - Returns why there is nothing to go back to, and what to do instead.
options:
  _input:
    description: What M(pristine.vllm.env_release_info) returned.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Refuse
  ansible.builtin.fail:
    msg: "{{ releases | pristine.vllm.rollback_problem }}"
  when: releases | pristine.vllm.rollback_problem is not none
"""

RETURN = r"""
_value:
  description: The reason. V(none) when there is a way back.
  type: str
"""


class FilterModule:
    """Offers the filter to Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"rollback_problem": rollback_problem}
