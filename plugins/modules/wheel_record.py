#!/usr/bin/python
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put the files of a Python environment back to what their wheels hold."""

from __future__ import annotations

DOCUMENTATION = r"""
module: wheel_record
short_description: Put the installed files of a Python environment back to what their wheels hold
version_added: 0.1.0
description:
  - Scans as M(pristine.vllm.wheel_record_info) does, and puts right what it finds - files that were changed, are
    gone, or are links out of the environment, and RECORD itself. Afterwards it scans again, to prove it.
  - Everything that it replaces or removes is in the quarantine first, as a file and, where it is text, as a patch.
  - Refuses, and changes nothing, when any byte that it would need is not to be had, and says which and why.
  - Each file is written beside the old one, compared with the wheel, and renamed over it - never through a hard link or
    a symlink. It keeps its mode and owner. Whatever moment a run is killed at, each file is the old one or the new one.
  - Bytecode of each restored source is removed, and so is bytecode that is not its source's.
  - A script that an installer made for an entry point, or whose first line it rewrote, is made again, as its hash in
    RECORD tells. Where that was edited too, it is made as other scripts of the environment are, and gets a new row.
  - Processes that run go on with what they loaded. Restart what should use the restored files.
extends_documentation_fragment:
  - pristine.vllm.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: Shows the differences from what is there to what will be.
options:
  environment:
    description: As O(pristine.vllm.wheel_record_info#module:environment).
    type: path
    required: true
  state:
    description: What the files shall be.
    type: str
    choices: [pristine]
    default: pristine
  quarantine:
    description: An absolute path out of the environment. It is made when there is something to keep.
    type: path
    required: true
  remove_unexpected:
    description:
      - Also remove what nobody's RECORD lists although it could be imported or executed, and what interrupted
        installations have left. Without this it is only reported, in RV(left).
      - A script of an entry point whose row was taken out of RECORD is not removed, but gets its row back.
    type: bool
    default: false
  caches:
    description:
      - Directories that may hold other names of replaced files, to be named in RV(other_links). They are only listed.
      - By default uv's cache.
    type: list
    elements: path
    default:
      - ~/.cache/uv
  distributions:
    description: As O(pristine.vllm.wheel_record_info#module:distributions).
    type: list
    elements: str
    default: []
  files:
    description: As O(pristine.vllm.wheel_record_info#module:files).
    type: list
    elements: str
    default: []
  wheels:
    description: As O(pristine.vllm.wheel_record_info#module:wheels).
    type: list
    elements: str
    default: []
  lock:
    description: As O(pristine.vllm.wheel_record_info#module:lock).
    type: path
  adaptations:
    description:
      - As O(pristine.vllm.wheel_record_info#module:adaptations). A file that is exactly as declared stays as it is.
      - One that is neither pristine nor as declared is put back to pristine, to be adapted again.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: As O(pristine.vllm.wheel_record_info#module:adaptations[].path).
        type: str
        required: true
      sha256:
        description: As O(pristine.vllm.wheel_record_info#module:adaptations[].sha256).
        type: str
        required: true
      reason:
        description: As O(pristine.vllm.wheel_record_info#module:adaptations[].reason).
        type: str
        required: true
  ignore:
    description: As O(pristine.vllm.wheel_record_info#module:ignore). What is ignored stays as it is.
    type: list
    elements: str
    default: []
  cache:
    description: As O(pristine.vllm.wheel_record_info#module:cache). The scan that proves the result does not use it.
    type: path
  recompile:
    description: As O(pristine.vllm.wheel_record_info#module:recompile).
    type: bool
    default: false
  workers:
    description: As O(pristine.vllm.wheel_record_info#module:workers).
    type: int
author:
  - Pristine vLLM maintainers (@pristine-vllm)
"""

EXAMPLES = r"""
- name: Put back what debugging has left in the model's code
  pristine.vllm.wheel_record:
    environment: /root/ml-env
    files:
      - vllm/model_executor/models/deepseek_v2.py
    wheels:
      - /opt/vllm/wheels
    lock: /opt/vllm/lock.txt
    quarantine: /opt/vllm/quarantine/20261130T032512Z
  diff: true

- name: Put the whole environment right
  pristine.vllm.wheel_record:
    environment: /opt/vllm/current
    wheels:
      - /opt/vllm/wheels
    lock: /opt/vllm/lock.txt
    quarantine: /opt/vllm/quarantine/20261130T032512Z
    remove_unexpected: true
"""

RETURN = r"""
pristine:
  description: Whether nothing that counts against pristine is left, as in RV(left).
  returned: success
  type: bool
restored:
  description: Files that were (in check mode, would be) replaced or made, at most 200 of them.
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: As RV(pristine.vllm.wheel_record_info#module:findings[].path).
      type: str
    file:
      description: The absolute path.
      type: str
    distribution:
      description: Normalised name of the distribution it belongs to.
      type: str
    status:
      description: What was wrong, as RV(pristine.vllm.wheel_record_info#module:findings[].status).
      type: str
    kept:
      description: Where the quarantine keeps what was there. V(none) where nothing was.
      type: str
    patch:
      description: Where the quarantine keeps the patch from the pristine text to what was there. V(none) if not text.
      type: str
    sha256:
      description: What the file is now.
      type: str
    origin:
      description: File name of the wheel that the bytes are from, or V(installer) for what installers write themselves.
      type: str
    verified_against:
      description: As RV(pristine.vllm.wheel_record_info#module:findings[].verified_against).
      type: str
  sample:
    - path: vllm/model_executor/models/deepseek_v2.py
      file: /root/ml-env/lib/python3.12/site-packages/vllm/model_executor/models/deepseek_v2.py
      distribution: vllm
      status: modified
      kept: /q/files/root/ml-env/lib/python3.12/site-packages/vllm/model_executor/models/deepseek_v2.py
      patch: /q/patches/root/ml-env/lib/python3.12/site-packages/vllm/model_executor/models/deepseek_v2.py.patch
      sha256: 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881
      origin: vllm-0.16.0rc2.dev313+g662205d34-cp38-abi3-manylinux_2_31_x86_64.whl
      verified_against: pinned_wheel
removed:
  description: Files that were (would be) removed, at most 200 of them - bytecode, and with O(remove_unexpected) others.
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: As in RV(restored).
      type: str
    file:
      description: The absolute path.
      type: str
    distribution:
      description: Normalised name of the distribution whose packages it lay in.
      type: str
    status:
      description: What was wrong with it.
      type: str
    kept:
      description: Where the quarantine keeps it.
      type: str
left:
  description:
    - Findings that stay as they are, at most 200 of them. Each is as in
      RV(pristine.vllm.wheel_record_info#module:findings), and has a C(reason).
  returned: success
  type: list
  elements: dict
other_links:
  description:
    - Replaced files that have other names, such as those that uv has linked from its cache. What was wrong with them is
      still wrong under those names, in the cache and in other environments.
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: As in RV(restored).
      type: str
    file:
      description: The absolute path.
      type: str
    count:
      description: How many other names it has (had, before it was replaced).
      type: int
    found:
      description: Those of them that lie in O(caches), at most 20.
      type: list
      elements: str
counts:
  description: Length of each of the lists, before they were cut. The quarantine's C(restored.json) has all of it.
  returned: success
  type: dict
refused:
  description: What stands in the way, and why, at most 200 entries.
  returned: when it refuses
  type: list
  elements: dict
  contains:
    path:
      description: As in RV(restored).
      type: str
    reason:
      description: Why it cannot be put right, and what to do.
      type: str
diff:
  description: For each file, a C(prepared) unified diff from what is there to what will be, capped.
  returned: in diff mode
  type: list
  elements: dict
"""

import contextlib
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pristine.vllm.plugins.module_utils.index_http import secrets_of
from ansible_collections.pristine.vllm.plugins.module_utils.record.change import RestoreError
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import ScanError
from ansible_collections.pristine.vllm.plugins.module_utils.record.options import scan_argument_spec, scan_options
from ansible_collections.pristine.vllm.plugins.module_utils.record.restore import (
    Request,
    apply,
    diff_of,
    plan,
    prove,
    writing,
)


def argument_spec() -> dict[str, dict[str, Any]]:
    """The options of the scan, and what to do about its findings."""
    return {
        **scan_argument_spec(),
        "state": {"type": "str", "choices": ["pristine"], "default": "pristine"},
        "quarantine": {"type": "path", "required": True},
        "remove_unexpected": {"type": "bool", "default": False},
        "caches": {"type": "list", "elements": "path", "default": ["~/.cache/uv"]},
    }


def main() -> None:
    """Uses of the module: params, check_mode and _diff are read, warn, fail_json and exit_json called.

    And no_log_values is added to.
    """
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    params = module.params
    module.no_log_values.update(secrets_of(params["wheels"]))
    result: dict[str, Any] = {}
    try:
        request = Request(
            scan_options(params), params["quarantine"], params["remove_unexpected"], tuple(params["caches"])
        )
        with contextlib.ExitStack() as stack:
            if not module.check_mode:
                stack.enter_context(writing(params["environment"]))
            decided = stack.enter_context(plan(request))
            for warning in decided.warnings:
                module.warn(warning)
            if module._diff:
                result["diff"] = diff_of(decided)
            if not module.check_mode and decided.changed:
                apply(decided, params["quarantine"])
                prove(request, decided)
            result.update(decided.to_dict())
    except RestoreError as error:
        module.fail_json(msg=str(error), refused=error.to_list())
    except (ScanError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
