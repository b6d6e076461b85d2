# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell an operator what changes, package by package."""

from __future__ import annotations

from typing import Any, Callable

from ansible_collections.pristine.vllm.plugins.module_utils.lock_changes import package_changes

DOCUMENTATION = r"""
name: package_changes
short_description: Tell an operator what changes, package by package
version_added: 0.1.0
author: Pristine vLLM maintainers (@pristine-vllm)
description:
  - Returns one line for each package that is not the same, sorted by name.
positional: after
options:
  _input:
    description: Versions by name, as RV(pristine.vllm.env_release_info#module:environment.distributions) has them.
    type: dict
    required: true
  after:
    description: The versions that are to be, such as those of F(pristine.vllm.lock_versions).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what the lock changes
  ansible.builtin.debug:
    msg: "{{ releases.environment.distributions | pristine.vllm.package_changes(lock | pristine.vllm.lock_versions) }}"
"""

RETURN = r"""
_value:
  description: Lines such as C(torch 2.9.1 -> 2.10.0), C(+ foo 1.2) for a new one and C(- bar 3) for one that goes.
  type: list
  elements: str
"""


class FilterModule:
    """Offers the filter to Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"package_changes": package_changes}
