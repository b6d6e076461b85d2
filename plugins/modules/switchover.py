#!/usr/bin/python
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Switch a host over to a release, in one transaction on the host that outlives the play."""

from __future__ import annotations

DOCUMENTATION = r"""
module: switchover
short_description: Switch a host over to a release, in one transaction that outlives the play
version_added: 0.1.0
description:
  - Drains and stops the service, switches the release, writes files and model configuration, starts the service, proves
    it with a completion, and verifies what is live. When any of that fails, puts back what was, starts and proves it.
  - All of it runs on the host, in a systemd service C(<unit>-switchover) of its own. A play that is killed and a
    connection that is cut change nothing about it. Killed itself, it is started again, at the next boot too, and then
    goes back.
  - What an order needs is read and decided before the service is stopped.
extends_documentation_fragment:
  - pristine.vllm.attributes
attributes:
  check_mode:
    support: full
    details: Starts nothing and waits for nothing.
  diff_mode:
    support: none
    details: What it will change is told by the tasks that planned it.
options:
  state:
    description:
      - V(started) hands the order over and returns when the transaction runs.
      - V(awaited) waits until it has passed the phase O(until), and fails with its reason when it went back instead.
      - V(settled) ends a transaction that was interrupted and is still to be put back, if there is one.
    type: str
    choices:
      - started
      - awaited
      - settled
    required: true
  root:
    description: The directory that holds C(releases) and C(current). Orders and journals are in its C(switchover).
    type: path
    required: true
  run_id:
    description: Id of the run, a name of a folder, which must be new for V(started).
    type: str
  unit:
    description: The systemd unit that serves.
    type: str
  until:
    description: The phase to wait for, or the end of the transaction, whatever it is.
    type: str
    choices:
      - drain and stop
      - switch
      - start and prove
      - verify
      - end
    default: end
  timeout:
    description: With O(state=awaited), how many seconds to wait at most.
    type: float
    default: 3600
  restart:
    description: Whether the service is stopped and started. Without it only artifacts are moved and files written.
    type: bool
    default: true
  release:
    description: Id of the release to make live. Without it the live one stays.
    type: str
    default: ""
  adopt:
    description: An environment elsewhere that serves until now. It becomes the way back where there is no C(current).
    type: path
    default: ""
  quarantine:
    description: Where everything is kept that is replaced or removed.
    type: path
  serving:
    description: How to reach the service and what to ask it.
    type: dict
    suboptions:
      url:
        description: Where it serves.
        type: str
        required: true
      model:
        description: The name under which it serves the model.
        type: str
        required: true
      prompt:
        description: What to complete.
        type: str
        default: The capital of France is
      max_tokens:
        description: How many tokens to ask for.
        type: int
        default: 8
      timeout:
        description: How many seconds a start may take.
        type: float
        default: 1200
      api_key:
        description: The key that the server wants.
        type: str
  drain:
    description: How the service is stopped.
    type: dict
    default: {}
    suboptions:
      timeout:
        description: How many seconds to wait for requests to end.
        type: float
        default: 300
      stop_timeout:
        description: How many seconds the unit has to stop before its processes are killed.
        type: float
        default: 120
      gpu_command:
        description: The program to ask for processes on GPUs.
        type: str
        default: nvidia-smi
      before:
        description: Commands to run before the drain, each a list of words. One that fails ends the switchover there.
        type: list
        elements: list
        default: []
      after:
        description: Commands to run when the service serves again. One that fails is told.
        type: list
        elements: list
        default: []
      command_timeout:
        description: How many seconds each command may take.
        type: float
        default: 60
  files:
    description:
      - Files that must have a content. With neither O(files[].content) nor O(files[].source), must be absent.
      - Their directories must be there.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Where the file is.
        type: path
        required: true
      content:
        description: Its content.
        type: str
      source:
        description: A file on the host that has its content.
        type: path
      mode:
        description: Its permissions, as an octal number.
        type: str
        default: "0644"
  configs:
    description: Model configuration to edit, as M(pristine.vllm.model_config) does.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: The file.
        type: path
        required: true
      edits:
        description: The edits.
        type: list
        elements: dict
        required: true
  keep_config:
    description: Whether what served before needs O(configs) too. Then the way back keeps them, if it starts so.
    type: bool
    default: false
  artifacts:
    description: What debug code wrote, as M(pristine.vllm.debug_artifacts) finds it.
    type: dict
    default: {}
    suboptions:
      globs:
        description: Patterns of files.
        type: list
        elements: str
        default: []
      suggested_globs:
        description: Patterns that were read from debug code. One that reaches too far is left aside.
        type: list
        elements: str
        default: []
      protect:
        description: Directories in which nothing is taken.
        type: list
        elements: str
        default: []
  wipe:
    description: Directories of compiled kernels to remove. They come back where the switchover goes back.
    type: list
    elements: path
    default: []
  restore:
    description:
      - Options of M(pristine.vllm.wheel_record), such as C(environment), C(wheels), C(lock), C(adaptations), C(ignore)
        and C(remove_unexpected). The files of that environment are put back to what their wheels hold.
      - What that takes is decided before the stop. When a byte is not to be had, or something would still differ
        afterwards, nothing is stopped.
      - With O(restart=false) files are put back while the service runs, for such that it does not run.
    type: dict
  verify:
    description:
      - Options of M(pristine.vllm.wheel_record_info) for the scan at the end. By default those of O(restore). Without
        either nothing is scanned.
    type: dict
author:
  - Pristine vLLM maintainers (@pristine-vllm)
"""

EXAMPLES = r"""
- name: Hand the switchover over to the host
  pristine.vllm.switchover:
    state: started
    root: /opt/vllm
    run_id: 20261130T020000Z
    unit: vllm-kimi-k25
    release: 0.16.0rc2.dev313.g662205d34-2
    quarantine: /opt/vllm/quarantine/20261130T020000Z
    serving:
      url: http://127.0.0.1:8000
      model: kimi-k2.5

- name: Wait until the service is stopped
  pristine.vllm.switchover:
    state: awaited
    root: /opt/vllm
    run_id: 20261130T020000Z
    unit: vllm-kimi-k25
    until: drain and stop
"""

RETURN = r"""
journal:
  description:
    - What has happened so far. C(outcome) is V(none) while it runs, else V(done), V(nothing was stopped),
      V(rolled back) or V(going back failed), with the reason in C(failure).
    - C(phases) with C(name), C(started) and C(finished), in seconds since the epoch.
    - C(downtime_seconds) from the stop to the completion, and C(load_seconds) of it from the start of the unit.
    - C(drain_seconds), C(requests_left), C(artifacts), C(config), C(restored), C(completion),
      C(scan) and C(cautions).
    - V(none) where there is nothing to tell.
  returned: always
  type: dict
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import BusyError
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.background import begin, settle, unfinished
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.journal import PHASES
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.order import Order, OrderError, order_of
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.service import ServiceError
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.wait import WaitError, Watched, told, wait

_SERVING: dict[str, Any] = {
    "url": {"type": "str", "required": True},
    "model": {"type": "str", "required": True},
    "prompt": {"type": "str", "default": "The capital of France is"},
    # Its name looks like a secret's to Ansible.
    "max_tokens": {"type": "int", "default": 8, "no_log": False},
    "timeout": {"type": "float", "default": 1200},
    "api_key": {"type": "str", "no_log": True},
}
_COMMANDS: dict[str, Any] = {"type": "list", "elements": "list", "default": []}
_DRAIN: dict[str, Any] = {
    "timeout": {"type": "float", "default": 300},
    "stop_timeout": {"type": "float", "default": 120},
    "gpu_command": {"type": "str", "default": "nvidia-smi"},
    "before": _COMMANDS,
    "after": _COMMANDS,
    "command_timeout": {"type": "float", "default": 60},
}
_FILE: dict[str, Any] = {
    "path": {"type": "path", "required": True},
    # A unit or a key: neither is for a log.
    "content": {"type": "str", "no_log": True},
    "source": {"type": "path"},
    "mode": {"type": "str", "default": "0644"},
}
_CONFIG: dict[str, Any] = {
    "path": {"type": "path", "required": True},
    "edits": {"type": "list", "elements": "dict", "required": True},
}
_TEXTS: dict[str, Any] = {"type": "list", "elements": "str", "default": []}
ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "state": {"type": "str", "choices": ["started", "awaited", "settled"], "required": True},
    "root": {"type": "path", "required": True},
    "run_id": {"type": "str"},
    "unit": {"type": "str"},
    "until": {"type": "str", "choices": [*PHASES, "end"], "default": "end"},
    "timeout": {"type": "float", "default": 3600},
    "restart": {"type": "bool", "default": True},
    "release": {"type": "str", "default": ""},
    "adopt": {"type": "path", "default": ""},
    "quarantine": {"type": "path"},
    "serving": {"type": "dict", "options": _SERVING},
    "drain": {"type": "dict", "default": {}, "options": _DRAIN},
    "files": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": _FILE,
        "mutually_exclusive": [("content", "source")],
    },
    "configs": {"type": "list", "elements": "dict", "default": [], "options": _CONFIG},
    "keep_config": {"type": "bool", "default": False},
    "artifacts": {
        "type": "dict",
        "default": {},
        "options": {"globs": _TEXTS, "suggested_globs": _TEXTS, "protect": _TEXTS},
    },
    "wipe": {"type": "list", "elements": "path", "default": []},
    "restore": {"type": "dict"},
    "verify": {"type": "dict"},
}
_NOT_THE_ORDERS = ("state", "until", "timeout")


def order_from(params: dict[str, Any]) -> Order:
    """The options as an order.

    :raises OrderError: one means nothing.
    """
    values = {name: value for name, value in params.items() if name not in _NOT_THE_ORDERS}
    try:
        values["files"] = [{**entry, "mode": int(entry["mode"], 8)} for entry in values["files"]]
    except ValueError as error:
        raise OrderError(f"files: a mode is no octal number ({error}): give one such as 0644") from error
    return order_of(values)


def act(params: dict[str, Any], check: bool) -> dict[str, Any]:
    """Bring the state about; the result for Ansible.

    :raises ServiceError, WaitError, BusyError, ValueError, OSError: it could not be.
    """
    state = params["state"]
    if state == "started":
        order = order_from(params)
        if not check:
            begin(order)
        return {"changed": True, "journal": None}
    if state == "settled":
        pending = unfinished(params["root"])
        journal = None if check else settle(params["root"])
        return {"changed": pending is not None, "journal": told(journal)}
    if check:
        return {"changed": False, "journal": None}
    watched = Watched(params["root"], params["run_id"], params["unit"])
    return {"changed": False, "journal": told(wait(watched, params["until"], params["timeout"]))}


def main() -> None:
    """Uses of ``module``: params, check_mode, exit_json, fail_json."""
    module = AnsibleModule(
        argument_spec=ARGUMENT_SPEC,
        required_if=[
            ("state", "started", ("run_id", "unit", "quarantine", "serving")),
            ("state", "awaited", ("run_id", "unit")),
        ],
        supports_check_mode=True,
    )
    try:
        result = act(module.params, module.check_mode)
    except WaitError as error:
        module.fail_json(msg=str(error), journal=told(error.journal))
    except (ServiceError, BusyError, ValueError) as error:
        module.fail_json(msg=str(error), journal=None)
    except OSError as error:
        where = f"{module.params['root']}/switchover"
        stopped = " Nothing was stopped." if module.params["state"] == "started" else ""
        module.fail_json(msg=f"{where} cannot be read or written: {error}.{stopped}", journal=None)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
