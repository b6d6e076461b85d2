#!/usr/bin/python
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep a host for one run at a time, with a lock that a killed run cannot leave behind."""

from __future__ import annotations

DOCUMENTATION = r"""
module: run_lock
short_description: Keep a host for one run at a time, with a lock that a killed run cannot leave behind
version_added: 0.1.0
description:
  - Takes the host for the C(ansible-playbook) that runs the task, or says who has it.
  - The lock is a lease. A keeper, a small process on the controller, renews it through the task's own connection as
    long as that C(ansible-playbook) lives. It gives the lock back at once when the playbook ends, however it ends,
    and ends with it.
  - Where the keeper cannot do that, because the controller died or the connection is cut, the lock lapses by itself
    after O(lease) seconds. When the connection comes back the keeper goes on, unless somebody else took the lock
    meanwhile.
  - A lock that was not renewed when it should have been is waited for until it is renewed or has lapsed. One of an
    earlier boot of the host is void.
  - The task does not fail when another run has the host. It returns that as RV(blockers), to be shown with all others.
  - A second task of the same C(ansible-playbook) with O(state=held) confirms the lock.
  - Taking and giving back the lock does not count as a change, as the host is as it was when the run ends.
notes:
  - Made for the connections V(ssh), V(local) and V(community.docker.docker), which start a program for each command.
extends_documentation_fragment:
  - pristine.vllm.attributes
attributes:
  check_mode:
    support: full
    details: A check run takes no lock and is not refused. It returns who has the host as RV(cautions).
  diff_mode:
    support: none
    details: Changes no files but the lock itself.
options:
  state:
    description: Whether this run has the lock afterwards. Nobody else's is ever removed.
    type: str
    choices: [held, absent]
    default: held
  run_id:
    description: A name for the run, for messages.
    type: str
    default: ""
  unit:
    description:
      - The service's systemd unit. While a switchover of it is under way (C(<unit>-switchover.service)), which goes
        on by itself after its play was killed, the host counts as taken. With an empty one that is not looked for.
    type: str
    default: ""
  path:
    description:
      - The lock, in a folder of its own that is made when needed. The default is one for the host, whatever it
        serves, and vanishes when the host is booted.
    type: path
    default: /run/pristine-vllm/run.json
  lease:
    description: How many seconds the lock is valid without being renewed. It is renewed six times as often.
    type: float
    default: 60
  who:
    description: Who runs this. By default the user and the controller's name.
    type: str
  playbook:
    description: What is run. By default the playbooks that C(ansible-playbook) was started with.
    type: str
  process:
    description: What tells this run from others. By default controller, pid and start of the C(ansible-playbook).
    type: str
  mark:
    description: What tells this taking of the lock from others, for the keeper. Random by default.
    type: str
author:
  - Pristine vLLM maintainers (@pristine-vllm)
"""

EXAMPLES = r"""
- name: Take the host
  pristine.vllm.run_lock:
    unit: vllm-kimi-k25
  register: lock

- name: Refuse when another run has it
  ansible.builtin.fail:
    msg: "{{ lock.blockers | pristine.vllm.blockers_text(inventory_hostname) }}"
  when: lock.blockers | length > 0

- name: Give it back
  pristine.vllm.run_lock:
    state: absent
"""

RETURN = r"""
held:
  description: Whether this run has the lock now.
  returned: always
  type: bool
holder:
  description:
    - Who has it now, or in check mode and with O(state=absent) had it. Among other things C(who), C(playbook),
      C(run_id), C(process) and C(acquired).
  returned: always
  type: dict
blockers:
  description: The run or switchover that has the host, as RV(pristine.vllm.host_preflight_info#module:blockers).
  returned: always
  type: list
  elements: dict
cautions:
  description: The same in check mode.
  returned: always
  type: list
  elements: dict
note:
  description: From whom the lock was taken over, and why. Empty when it was free.
  returned: always
  type: str
confirmed:
  description:
    - Whether this run had taken the lock before, and it has been there ever since.
    - Where it is V(false) for a run that had, the lock had lapsed or was gone, and another run may have come and gone.
  returned: always
  type: bool
lock:
  description: The lock's path.
  returned: always
  type: str
interpreter:
  description: The Python that ran the module, which the keeper uses too.
  returned: always
  type: str
"""

import dataclasses
import datetime
import sys
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import BusyError
from ansible_collections.pristine.vllm.plugins.module_utils.run_lock import (
    Holder,
    Outcome,
    boot_id,
    hold,
    predict,
    release,
)

ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "state": {"type": "str", "choices": ["held", "absent"], "default": "held"},
    "run_id": {"type": "str", "default": ""},
    "unit": {"type": "str", "default": ""},
    "path": {"type": "path", "default": "/run/pristine-vllm/run.json"},
    "lease": {"type": "float", "default": 60},
    "who": {"type": "str"},
    "playbook": {"type": "str"},
    "process": {"type": "str"},
    "mark": {"type": "str"},
}


def main() -> None:
    """Uses of ``module``: params, check_mode, exit_json, fail_json."""
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    params = module.params
    path, names = params["path"], ("who", "playbook", "process", "mark", "run_id")
    if params["lease"] < 1:
        module.fail_json(
            msg=f"lease: {params['lease']:g} s is too short to be renewed in time. Give at least 1, better 60"
        )
    acquired = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    # The action plugin fills in what the controller knows.
    ask = Holder(
        **{name: params[name] or "" for name in names}, acquired=acquired, lease=params["lease"], boot=boot_id()
    )
    try:
        if module.check_mode:
            outcome = predict(path, ask, params["unit"])
        elif params["state"] == "held":
            outcome = hold(path, ask, params["unit"])
        else:
            outcome = Outcome(False, release(path, ask.process))
    except (BusyError, OSError) as error:
        module.fail_json(
            msg=f"the lock {path} that keeps a host for one run at a time cannot be read or written: {error}. "
            "Nothing was changed. Run as root (become), and see that the folder is one and not full"
        )
    module.exit_json(
        changed=False,
        held=outcome.held,
        holder=dataclasses.asdict(outcome.holder) if outcome.holder else None,
        blockers=[] if module.check_mode else outcome.in_the_way,
        cautions=outcome.in_the_way if module.check_mode else [],
        note=outcome.note,
        confirmed=outcome.confirmed,
        # Not "path": Ansible would add what it knows of the file.
        lock=path,
        interpreter=sys.executable,
    )


if __name__ == "__main__":
    main()
