# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the inventory of a host that scans itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional

import yaml
from ansible.errors import AnsibleError, AnsibleFilterError
from jinja2.exceptions import UndefinedError

DOCUMENTATION = r"""
name: pull_inventory
short_description: Write the inventory of a host that scans itself
version_added: 0.1.0
author: Pristine vLLM maintainers (@pristine-vllm)
description:
  - Takes the variables of a host as the controller has them and returns an inventory, as YAML, in which that host is
    the only one. Their templates are resolved, secrets of a vault with them.
positional: host, prefixes, more, leave_out
options:
  _input:
    description: The host's variables, C(hostvars[inventory_hostname]).
    type: dict
    required: true
  host:
    description: The host's name.
    type: str
    required: true
  prefixes:
    description: How the names of variables begin that are taken over.
    type: list
    elements: str
    required: true
  more:
    description: Variables that are to have another value on the host, or that only it has.
    type: dict
    default: {}
  leave_out:
    description: How the names of variables begin that are not taken over.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
# {{ hostvars['gpu-01'] | pristine.vllm.pull_inventory('gpu-01', ['vllm_'], {'ansible_connection': 'local'}) }}
"""

RETURN = r"""
_value:
  description: The inventory's text.
  type: str
"""


class _Text(str):
    """Text that has been resolved: braces in it are braces."""


class _Dumper(yaml.SafeDumper):
    """Writes no anchors, which Ansible reads and people do not."""

    def ignore_aliases(self, _data: Any) -> bool:
        """Nothing is shared."""
        return True


_Dumper.add_representer(_Text, lambda dumper, text: dumper.represent_scalar("!unsafe", str(text)))


def pull_inventory(
    variables: Mapping[str, Any],
    host: str,
    prefixes: Sequence[str],
    more: Optional[Mapping[str, Any]] = None,
    leave_out: Sequence[str] = (),
) -> str:
    """Return the inventory.

    :raises AnsibleFilterError: a variable has no value on the controller.
    """
    wanted = [
        name
        for name in sorted(variables)
        if name.startswith(tuple(prefixes)) and not name.startswith(tuple(leave_out)) and name not in (more or {})
    ]
    values = {**{name: _value(variables, host, name) for name in wanted}, **(more or {})}
    hosts = {str(host): {str(name): _plain(values[name]) for name in sorted(values)}}
    return yaml.dump({"vllm_hosts": {"hosts": hosts}}, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=1000)


def _value(variables: Mapping[str, Any], host: str, name: str) -> Any:
    try:
        value = variables[name]
        # Looked at in full: what is inside is resolved only then.
        json.dumps(_plain(value))
        return value
    except (AnsibleError, UndefinedError, TypeError, ValueError) as error:
        raise AnsibleFilterError(
            f"The variable {name} of {host} has no value outside of a run: {error}. Nothing was scheduled. Next: "
            "give it one, or name it in drift_watch_schedule_leave_out if scans do not need it."
        ) from error


def _plain(value: Any) -> Any:
    """Plain data, without what Ansible notes about where it came from."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inside) for name, inside in value.items()}
    if isinstance(value, bool) or value is None:
        return value
    for kind in (int, float):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, (list, tuple)):
        return [_plain(inside) for inside in value]
    text = str(value)
    return _Text(text) if any(mark in text for mark in ("{{", "{%", "{#")) else text


class FilterModule:
    """Offers the filter to Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"pull_inventory": pull_inventory}
