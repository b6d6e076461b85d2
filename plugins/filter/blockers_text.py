# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put all blockers of a host into one message."""

from __future__ import annotations

from typing import Any, Callable

from ansible_collections.pristine.vllm.plugins.module_utils.report import blockers_text

DOCUMENTATION = r"""
name: blockers_text
short_description: Put all blockers of a host into one message
version_added: 0.1.0
author: Pristine vLLM maintainers (@pristine-vllm)
description:
  - Returns what M(pristine.vllm.host_preflight_info) and other checks found in the way as one message.
positional: host
options:
  _input:
    description: The blockers.
    type: list
    elements: dict
    required: true
  host:
    description: Name of the host.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Refuse
  ansible.builtin.fail:
    msg: "{{ blockers | pristine.vllm.blockers_text(inventory_hostname) }}"
  when: blockers | length > 0
"""

RETURN = r"""
_value:
  description: The message.
  type: str
"""


class FilterModule:
    """Offers the filter to Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"blockers_text": blockers_text}
