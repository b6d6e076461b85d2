# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn the start times of phases into durations."""

from __future__ import annotations

from typing import Any, Callable

from ansible_collections.pristine.vllm.plugins.module_utils.report import phase_seconds

DOCUMENTATION = r"""
name: phase_seconds
short_description: Turn the start times of phases into durations
version_added: 0.1.0
author: Pristine vLLM maintainers (@pristine-vllm)
description:
  - Each phase ends where the next one begins.
positional: end
options:
  _input:
    description: The phases, each with C(name) and C(started) in seconds since the epoch.
    type: list
    elements: dict
    required: true
  end:
    description: When the last one ended, in seconds since the epoch.
    type: float
    required: true
"""

EXAMPLES = r"""
- name: Show the phases
  ansible.builtin.debug:
    msg: "{{ marks | pristine.vllm.phase_seconds(now().timestamp()) }}"
"""

RETURN = r"""
_value:
  description: Dicts with C(name) and C(seconds).
  type: list
  elements: dict
"""


class FilterModule:
    """Offers the filter to Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"phase_seconds": phase_seconds}
