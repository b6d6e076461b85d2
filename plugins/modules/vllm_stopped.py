#!/usr/bin/python
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let the service's requests end, stop it, and prove that nothing of it is left."""

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_stopped
short_description: Let the service's requests end, stop it, and prove that nothing of it is left
version_added: 0.1.0
description:
  - Waits until no request runs or waits according to C(/metrics), at most O(drain_timeout). Then stops the unit.
  - Proves that the unit's control group is empty, and that none of its former processes is among those that compute on
    a GPU.
  - A process that outlives the stop is killed by its pid, inside that control group only.
  - A unit that is stopped already is not stopped again, but proven in the same way.
  - At the end systemd forgets how often the unit was started and how it ended (C(systemctl reset-failed)), or its start
    limit could refuse the next start. That does not count as a change.
extends_documentation_fragment:
  - pristine.vllm.attributes
attributes:
  check_mode:
    support: full
    details: Looks once at the requests and does not wait for them.
  diff_mode:
    support: none
    details: Changes no files.
options:
  unit:
    description: The systemd unit to stop.
    type: str
    required: true
  url:
    description: Where it serves, without credentials. With an empty one nothing is waited for.
    type: str
    default: http://127.0.0.1:8000
  drain_timeout:
    description: How many seconds to wait for the requests to end. With V(0) they are only counted.
    type: float
    default: 300
  stop_timeout:
    description: How many seconds the unit has to stop before its processes are killed.
    type: float
    default: 120
  gpu_command:
    description: The program to ask for processes on GPUs, by name or path. With an empty one no GPU is asked.
    type: str
    default: nvidia-smi
  missing_ok:
    description:
      - Whether a unit that systemd does not know is nothing to stop. Then RV(drained) is true and RV(pids) is empty.
      - Otherwise the task fails for such a unit.
    type: bool
    default: false
author:
  - Pristine vLLM maintainers (@pristine-vllm)
"""

EXAMPLES = r"""
- name: Drain and stop
  pristine.vllm.vllm_stopped:
    unit: vllm-kimi-k25
    drain_timeout: 600
"""

RETURN = r"""
drained:
  description: Whether no request was in flight any more when the unit was stopped.
  returned: always
  type: bool
drain_problem:
  description: Why that is not so or not known. V(none) when RV(drained).
  returned: always
  type: str
drain_seconds:
  description: How long the requests took to end.
  returned: always
  type: float
stop_seconds:
  description: How long stopping and proving took.
  returned: always
  type: float
requests_left:
  description: How many requests still ran or waited. V(none) when the server did not tell or there was none.
  returned: always
  type: int
pids:
  description: The unit's processes before the stop.
  returned: always
  type: list
  elements: int
pids_killed:
  description: Those that had to be killed.
  returned: always
  type: list
  elements: int
gpu_checked:
  description: Whether the GPUs could be asked. They are not when the unit had no processes.
  returned: always
  type: bool
gpu_problem:
  description: Why they could not be asked. The processes are gone nevertheless.
  returned: always
  type: str
"""

import dataclasses
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pristine.vllm.plugins.module_utils.drain import StopAsk, StopError, apply, plan, predict
from ansible_collections.pristine.vllm.plugins.module_utils.unit import UnitError

ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "unit": {"type": "str", "required": True},
    "url": {"type": "str", "default": "http://127.0.0.1:8000"},
    "drain_timeout": {"type": "float", "default": 300},
    "stop_timeout": {"type": "float", "default": 120},
    "gpu_command": {"type": "str", "default": "nvidia-smi"},
    "missing_ok": {"type": "bool", "default": False},
}


def main() -> None:
    """Uses of ``module``: params, check_mode, warn, exit_json, fail_json."""
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    ask = StopAsk(**module.params)
    try:
        found = plan(ask)
        result = predict(ask, found) if module.check_mode else apply(ask, found)
    except (UnitError, StopError, ValueError) as error:
        module.fail_json(msg=str(error))
    if result.gpu_problem is not None:
        module.warn(f"the GPUs could not be asked whether they are free again: {result.gpu_problem}")
    module.exit_json(**dataclasses.asdict(result))


if __name__ == "__main__":
    main()
