# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read from the inventory how a play goes over its hosts."""

from __future__ import annotations

DOCUMENTATION = r"""
name: rollout
short_description: Read from the inventory how a play goes over its hosts
version_added: 0.1.0
author: Pristine vLLM maintainers (@pristine-vllm)
description:
  - Returns keywords of a play over the group C(vllm_hosts), from the variables C(reinstall_serial),
    C(reinstall_max_fail_percentage) and C(reinstall_canary) of its hosts. Extra variables win, as everywhere.
  - Canaries go first, one by one.
  - Ansible knows no variables of hosts before the first play of a run. A play that comes first must be there, and
    look at V(problems).
options:
  _terms:
    description:
      - V(hosts), V(serial) or V(max_fail_percentage), each the value of that keyword.
      - V(problems) for a list of what stands in the way. The others fail where there is any.
    choices: [hosts, serial, max_fail_percentage, problems]
    required: true
"""

EXAMPLES = r"""
- name: Reinstall
  hosts: "{{ lookup('pristine.vllm.rollout', 'hosts') }}"
  serial: "{{ lookup('pristine.vllm.rollout', 'serial') }}"
  max_fail_percentage: "{{ lookup('pristine.vllm.rollout', 'max_fail_percentage') }}"
"""

RETURN = r"""
_raw:
  description: For each term its value.
  type: list
  elements: raw
"""

from typing import Any, Optional

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.pristine.vllm.plugins.plugin_utils.rollout import GROUP, VARIABLES, decide


class LookupModule(LookupBase):
    """The lookup."""

    def run(self, terms: list[str], variables: Optional[dict[str, Any]] = None, **kwargs: Any) -> list[Any]:
        self.set_options(var_options=variables, direct=kwargs)
        known = variables or {}
        members = (known.get("groups") or {}).get(GROUP, [])
        # Not there where Ansible only lists or checks the syntax.
        everything = known.get("hostvars") or {}
        chosen = [name for name in known.get("ansible_play_hosts_all") or [] if name in members and everything]
        rollout = decide({name: told(everything[name]) for name in chosen}, members)
        if rollout.problems and terms != ["problems"]:
            raise AnsibleLookupError(" ".join(rollout.problems))
        return [getattr(rollout, term) for term in terms]


def told(variables: Any) -> dict[str, Any]:
    """What a host says about the rollout."""
    return {name: variables[name] for name in VARIABLES if name in variables}
