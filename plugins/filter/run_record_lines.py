# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell what came of a run."""

from __future__ import annotations

from typing import Any, Callable

from ansible_collections.pristine.vllm.plugins.module_utils.run_record.markdown import summary_lines

DOCUMENTATION = r"""
name: run_record_lines
short_description: Tell what came of a run
version_added: 0.1.0
author: Pristine vLLM maintainers (@pristine-vllm)
description:
  - Returns the outcome, the downtime, the versions, the checklist and the phases of a run as short lines.
options:
  _input:
    description: What P(pristine.vllm.compose_run_record#filter) returned.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Report the run
  ansible.builtin.debug:
    msg: "{{ record | pristine.vllm.run_record_lines }}"
"""

RETURN = r"""
_value:
  description: The lines.
  type: list
  elements: str
"""


class FilterModule:
    """Offers the filter to Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"run_record_lines": summary_lines}
