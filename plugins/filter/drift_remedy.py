# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what puts the findings of a drift scan right in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.drift.remedy import Host, as_dict, plan_of, remedy

DOCUMENTATION = r"""
name: drift_remedy
short_description: Decide what puts the findings of a drift scan right in place
version_added: 0.1.0
author: Pristine vLLM maintainers (@pristine-vllm)
description:
  - Returns what one switchover has to do about the findings of M(pristine.vllm.drift_state), and whether the service
    has to be restarted for it. It does, where the running process has, or may have, read what is put right.
options:
  _input:
    description: The findings.
    type: list
    elements: dict
    required: true
  kinds:
    description: The kinds that are to be put right, as RV(pristine.vllm.drift_state#module:decision.kinds) has them.
    type: list
    elements: str
    required: true
  provisioned:
    description: Whether the inventory says what the host should be.
    type: bool
    required: true
  releases:
    description: What M(pristine.vllm.env_release_info) returned.
    type: dict
    default: {}
  unit_file:
    description: Where the unit belongs.
    type: str
    required: true
  expected:
    description: Id of the release that should be live.
    type: str
    default: ""
  main_pid:
    description: The service's main process; none where nothing runs.
    type: int
  started:
    description: When that began, in seconds since the epoch.
    type: float
  changed_at:
    description: When files were changed, by path.
    type: dict
    default: {}
  estimates:
    description: What earlier runs took, as P(pristine.vllm.run_estimates#lookup) tells it.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Decide
  ansible.builtin.set_fact:
    remedy: >-
      {{ watch.findings | pristine.vllm.drift_remedy(kinds=watch.decision.kinds, provisioned=true,
           unit_file='/etc/systemd/system/vllm-kimi-k25.service') }}
"""

RETURN = r"""
_value:
  description:
    - C(code), C(unit), C(adapt) and C(clean) tell what is put right, C(release) which one C(current) is to lead to,
      C(remove) which files must go, and C(restart) whether the service is restarted.
    - C(refused) tells what cannot be put right in place. C(plan) is the whole in the form of
      P(pristine.vllm.reinstall_plan#filter).
  type: dict
"""


def drift_remedy(
    findings: Sequence[Mapping[str, Any]],
    kinds: Sequence[str],
    provisioned: bool,
    unit_file: str,
    *,
    releases: Optional[Mapping[str, Any]] = None,
    estimates: Optional[Mapping[str, Any]] = None,
    **known: Any,
) -> dict[str, Any]:
    """Return :func:`drift.remedy.remedy` as plain data, with ``plan``."""
    host = Host(provisioned, releases or {}, unit_file, **known)
    done = remedy(findings, kinds, host)
    return {**as_dict(done), "plan": plan_of(done, kinds, host, estimates)}


class FilterModule:
    """Offers the filter to Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"drift_remedy": drift_remedy}
