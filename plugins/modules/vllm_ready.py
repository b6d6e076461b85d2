#!/usr/bin/python
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove that the service answers a real completion."""

from __future__ import annotations

DOCUMENTATION = r"""
module: vllm_ready
short_description: Prove that the service answers a real completion
version_added: 0.1.0
description:
  - Climbs a ladder. The unit is active with one main process; that runs from O(environment); its port takes
    connections; C(/health) answers; C(/v1/models) names the model; a completion has a text; the engine's own token
    counter rose; the journal of this start has no line after which no engine recovers. All before the completion can be
    answered by a server whose engine hangs.
  - Gives up at once when the unit dies, restarts or is stopped, when its journal has a fatal line, or when an answer
    says that asking again cannot help. The message then holds the journal lines that tell why.
  - Changes nothing, apart from the tokens that the service computes.
extends_documentation_fragment:
  - pristine.vllm.attributes
attributes:
  check_mode:
    support: full
    details: Climbs the ladder in check mode as well.
  diff_mode:
    support: none
    details: Changes nothing.
options:
  unit:
    description: The systemd unit that serves.
    type: str
    required: true
  url:
    description: Where it serves, without credentials.
    type: str
    default: http://127.0.0.1:8000
  model:
    description: The name under which it serves the model.
    type: str
    required: true
  timeout:
    description:
      - How many seconds to wait at most until all is proven. Loading a large model takes minutes.
      - With V(0) each step is tried once. See also O(patient).
    type: float
    default: 1200
  interval:
    description: How many seconds to wait between two looks.
    type: float
    default: 1
  request_timeout:
    description: How many seconds a request other than the completion may take.
    type: float
    default: 10
  completion_timeout:
    description: How many seconds the completion may take. The first one after a start may compile kernels.
    type: float
    default: 120
  environment:
    description:
      - The virtual environment from which the main process must run, or a link to it.
      - Where it runs from is read from the first two words of its command line. An interpreter that belongs to an
        environment decides, else the script does. A mismatch is not waited for.
      - By default that is not looked at.
    type: path
  patient:
    description:
      - Whether O(timeout) counts from the start of the unit rather than from now. Each step is tried at least once.
      - So a service that is in the middle of its load is waited for, and one that has been up for longer gets one look.
      - A request then has all of O(request_timeout) or O(completion_timeout), so the last one may end after O(timeout).
    type: bool
    default: false
  prompt:
    description: What to complete.
    type: str
    default: The capital of France is
  max_tokens:
    description: How many tokens to ask for.
    type: int
    default: 8
  api_key:
    description: The key that the server wants.
    type: str
  required:
    description: Whether to fail when it is not ready. Otherwise RV(ready) and RV(reason) tell.
    type: bool
    default: true
  since:
    description:
      - From when on to take the journal's lines for RV(reason), as C(journalctl --since) has it, in UTC.
      - By default those of the start that was found.
    type: str
  fatal_patterns:
    description:
      - Regular expressions, as Python has them, for lines of the journal after which no engine recovers.
      - By default those that are known of vLLM. With an empty list the journal is not looked at.
    type: list
    elements: str
author:
  - Pristine vLLM maintainers (@pristine-vllm)
"""

EXAMPLES = r"""
- name: Wait until the service has answered a completion
  pristine.vllm.vllm_ready:
    unit: vllm-kimi-k25
    model: kimi-k2.5
    timeout: 2400

- name: Ask once whether it serves
  pristine.vllm.vllm_ready:
    unit: vllm-kimi-k25
    model: kimi-k2.5
    timeout: 0
    required: false
  register: serving

- name: Tell whether it serves, and wait for a load that is on its way
  pristine.vllm.vllm_ready:
    unit: vllm-kimi-k25
    model: kimi-k2.5
    environment: /opt/vllm/current
    patient: true
    required: false
  register: serving
"""

RETURN = r"""
ready:
  description: Whether every step was passed.
  returned: always
  type: bool
reason:
  description: Why not, where, what the journal says about it, and what to do next. V(none) when ready.
  returned: unless the task fails, whose message holds it
  type: str
step:
  description: The last step that was passed, V(none) when not even the first was.
  returned: always
  type: str
  sample: health
steps:
  description: The steps that were passed, in their order.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: One of V(unit), V(release) (with O(environment)), V(tcp), V(health), V(models), V(completion),
        V(tokens), V(journal).
      type: str
    seconds:
      description: How long it took.
      type: float
    note:
      description: What there is to say about it, e.g. that it could not be checked and why.
      type: str
main_pid:
  description: The unit's main process.
  returned: always
  type: int
n_restarts:
  description: How often systemd has restarted the unit by itself.
  returned: always
  type: int
enabled:
  description: Whether the unit starts with the host. V(none) when systemd does not know it.
  returned: always
  type: bool
serves:
  description: What the main process's command line says. V(none) when there is no such process.
  returned: always
  type: dict
  contains:
    host:
      description: The value of C(--host), V(none) where it is not given.
      type: str
    port:
      description: The value of C(--port), V(none) where it is not given.
      type: int
    model:
      description: The first value of C(--served-model-name), V(none) where it is not given.
      type: str
  sample: {"host": "127.0.0.1", "port": 8000, "model": "kimi-k2.5"}
completion:
  description: The text that the service answered.
  returned: always
  type: str
journal:
  description: The lines of the journal that tell most about the failure, at most 20, secrets taken out.
  returned: unless the task fails, whose message holds it
  type: list
  elements: str
seconds:
  description: How long all of it took.
  returned: always
  type: float
"""

import dataclasses
import re
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pristine.vllm.plugins.module_utils.journal_lines import FATAL_PATTERNS
from ansible_collections.pristine.vllm.plugins.module_utils.readiness import Ladder
from ansible_collections.pristine.vllm.plugins.module_utils.readiness_ask import Ask
from ansible_collections.pristine.vllm.plugins.module_utils.unit import UnitError

ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "unit": {"type": "str", "required": True},
    "url": {"type": "str", "default": "http://127.0.0.1:8000"},
    "model": {"type": "str", "required": True},
    "timeout": {"type": "float", "default": 1200},
    "interval": {"type": "float", "default": 1},
    "request_timeout": {"type": "float", "default": 10},
    "completion_timeout": {"type": "float", "default": 120},
    "environment": {"type": "path"},
    "patient": {"type": "bool", "default": False},
    "prompt": {"type": "str", "default": "The capital of France is"},
    # Its name looks like a secret's to Ansible.
    "max_tokens": {"type": "int", "default": 8, "no_log": False},
    "api_key": {"type": "str", "no_log": True},
    "required": {"type": "bool", "default": True},
    "since": {"type": "str"},
    "fatal_patterns": {"type": "list", "elements": "str"},
}


def ask_of(params: dict[str, Any]) -> Ask:
    """The options as what ready means.

    :raises ValueError: a pattern is no regular expression.
    """
    values = {name: value for name, value in params.items() if name != "required"}
    if values["fatal_patterns"] is None:
        values["fatal_patterns"] = FATAL_PATTERNS
    for pattern in values["fatal_patterns"]:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"fatal_patterns: {pattern!r} is no regular expression ({error}): correct it") from error
    return Ask(**values)


def main() -> None:
    """Uses of ``module``: params, exit_json, fail_json."""
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    try:
        readiness = Ladder(ask_of(module.params)).climb()
    except (UnitError, ValueError) as error:
        module.fail_json(msg=str(error))
    result = dataclasses.asdict(readiness)
    if module.params["required"] and not readiness.ready:
        # The message holds both already, and Ansible shows all that a failed task returns.
        told = {key: value for key, value in result.items() if key not in ("reason", "journal")}
        module.fail_json(msg=readiness.reason, **told)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
