#!/usr/bin/python
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the record of a run, as JSON and as Markdown."""

from __future__ import annotations

DOCUMENTATION = r"""
module: run_record
short_description: Keep the record of a run, as JSON and as Markdown
version_added: 0.1.0
description:
  - Writes C(<run_id>.json) and C(<run_id>.md) into a folder, which it makes where it is missing. Each file is written
    whole or not at all.
  - Or removes from the folder the records of scans that are out of date.
  - C(docs/run-record.md) of this collection describes the record, C(docs/run-record.schema.json) is its JSON Schema.
extends_documentation_fragment:
  - pristine.vllm.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
options:
  path:
    description: The folder.
    type: path
    required: true
  state:
    description:
      - V(present) writes O(record).
      - V(pruned) removes records of the playbook C(drift) with the outcome C(checked) that are older than
        O(retention_days). All others stay, and so does what cannot be read as a record. What cannot be removed is a
        warning.
    type: str
    choices: [present, pruned]
    default: present
  record:
    description:
      - The record, as P(pristine.vllm.compose_run_record#filter) returns it. Required when O(state=present).
    type: dict
  retention_days:
    description: How many days a record of a scan is kept. Required when O(state=pruned).
    type: int
author:
  - Pristine vLLM maintainers (@pristine-vllm)
"""

EXAMPLES = r"""
- name: Keep the record
  pristine.vllm.run_record:
    path: /opt/vllm/records
    record: "{{ record }}"

- name: Remove the records of scans that nobody needs any more
  pristine.vllm.run_record:
    path: /opt/vllm/records
    state: pruned
    retention_days: 90
"""

RETURN = r"""
files:
  description: The paths of the two files, or of those that are removed.
  returned: success
  type: list
  elements: str
  sample:
    - /opt/vllm/records/20261130T032512Z.json
    - /opt/vllm/records/20261130T032512Z.md
"""

import os
import re
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pristine.vllm.plugins.module_utils.run_record.place import apply, plan
from ansible_collections.pristine.vllm.plugins.module_utils.run_record.prune import outdated, remove

ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "path": {"type": "path", "required": True},
    "state": {"type": "str", "choices": ["present", "pruned"], "default": "present"},
    "record": {"type": "dict"},
    "retention_days": {"type": "int"},
}


def prune(module: AnsibleModule) -> None:
    """Remove what is out of date. Uses of the module: as `main`, and warn is called."""
    folder, days = module.params["path"], module.params["retention_days"]
    if days < 0:
        module.fail_json(msg=f"retention_days is {days}: give 0 or more. Nothing was removed.")
    try:
        files = outdated(folder, time.time() - days * 24 * 60 * 60)
    except OSError as error:
        files = []
        module.warn(f"Old records in {folder} cannot be looked for, and stay: {error.strerror}")
    problems = {} if module.check_mode else remove(files)
    for path, why in list(problems.items())[:1]:
        module.warn(f"{len(problems)} of {len(files)} files of old records cannot be removed, such as {path}: {why}")
    files = [path for path in files if path not in problems]
    diff = {
        "before_header": folder,
        "after_header": folder,
        "before": "".join(f"{one}\n" for one in files),
        "after": "",
    }
    module.exit_json(changed=bool(files), files=files, **({"diff": diff} if module._diff and files else {}))


def main() -> None:
    """Uses of the module: params, check_mode and _diff are read, fail_json and exit_json called."""
    module = AnsibleModule(
        argument_spec=ARGUMENT_SPEC,
        required_if=[("state", "present", ["record"]), ("state", "pruned", ["retention_days"])],
        supports_check_mode=True,
    )
    if module.params["state"] == "pruned":
        prune(module)
    folder, record = module.params["path"], module.params["record"]
    # It names files: an id from elsewhere must not lead out of the folder.
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", str(record.get("run_id", ""))):
        module.fail_json(msg=f"record.run_id is {record.get('run_id')!r}: give letters, digits, '.', '_' and '-' only.")
    try:
        changes = plan(folder, record)
        if not module.check_mode:
            apply(changes)
    except OSError as error:
        module.fail_json(
            msg=f"The record of run {record['run_id']} cannot be written to {folder} on {os.uname().nodename}: {error}."
            " Next: see that the folder may be written to and that its disk has room (df)."
        )
    except (KeyError, TypeError) as error:
        module.fail_json(msg=f"record is not a run record: {type(error).__name__} {error}. See docs/run-record.md.")
    result = {"diff": [change.diff() for change in changes if change.changed]} if module._diff else {}
    module.exit_json(
        changed=any(change.changed for change in changes), files=[change.path for change in changes], **result
    )


if __name__ == "__main__":
    main()
