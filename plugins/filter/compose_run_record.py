# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put the record of a run together."""

from __future__ import annotations

from typing import Any, Callable

from ansible_collections.pristine.vllm.plugins.module_utils.run_record.compose import compose

DOCUMENTATION = r"""
name: compose_run_record
short_description: Put the record of a run together
version_added: 0.1.0
author: Pristine vLLM maintainers (@pristine-vllm)
description:
  - Returns the record of a run with the keys that C(docs/run-record.md) of this collection describes, from what the
    play noted and from what the transaction on the host wrote.
options:
  _input:
    description:
      - What the run is.
      - Its keys are C(run_id), C(host), C(playbook), C(reason), C(operator), C(started) and C(finished) in seconds
        since the epoch, and C(root).
    type: dict
    required: true
  marks:
    description: The play's phases in their order, each with C(name) and C(started) in seconds since the epoch.
    type: list
    elements: dict
    required: true
  plan:
    description: What P(pristine.vllm.reinstall_plan#filter) returned. Empty where the run did not come to it.
    type: dict
    required: true
  before:
    description: What the evidence phase found. Empty where the run did not come to it.
    type: dict
    required: true
  journal:
    description: What the transaction on the host wrote. Empty where none ran.
    type: dict
    default: {}
  after:
    description: What the play itself knows of the end. Goes before what follows from O(journal).
    type: dict
    default: {}
  outcome:
    description: How it ended. By default what follows from O(journal).
    type: str
    default: ""
  failure:
    description: Why it failed. By default what O(journal) says.
    type: str
    default: ""
  downtime_seconds:
    description: How long the service was away. What O(journal) says goes before it.
    type: float
    default: 0
"""

EXAMPLES = r"""
- name: Compose the record
  ansible.builtin.set_fact:
    record: >-
      {{ about | pristine.vllm.compose_run_record(marks=marks, plan=plan, before=before, journal=journal) }}
"""

RETURN = r"""
_value:
  description: The record.
  type: dict
"""


class FilterModule:
    """Offers the filter to Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"compose_run_record": compose}
