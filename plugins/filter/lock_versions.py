# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the versions out of a lock."""

from __future__ import annotations

from typing import Any, Callable

from ansible.errors import AnsibleFilterError
from ansible_collections.pristine.vllm.plugins.module_utils.lock import LockError
from ansible_collections.pristine.vllm.plugins.module_utils.lock_changes import lock_versions

DOCUMENTATION = r"""
name: lock_versions
short_description: Read the versions out of a lock
version_added: 0.1.0
author: Pristine vLLM maintainers (@pristine-vllm)
description:
  - Returns the version that a requirements file pins of each package. Fails where it is no complete lock, and names
    every row that is not right.
positional: source
options:
  _input:
    description: The text of the lock.
    type: str
    required: true
  source:
    description: What to call the lock in errors.
    type: str
    default: lock
"""

EXAMPLES = r"""
- name: Which torch does the lock pin?
  ansible.builtin.debug:
    msg: "{{ (lookup('ansible.builtin.file', vllm_lock) | pristine.vllm.lock_versions).torch }}"
"""

RETURN = r"""
_value:
  description: Versions by normalised name.
  type: dict
"""


def _versions(text: str, source: str = "lock") -> dict[str, str]:
    try:
        return lock_versions(text, source)
    except LockError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """Offers the filter to Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"lock_versions": _versions}
