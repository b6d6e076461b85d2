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
  record:
    description: The record, as P(pristine.vllm.compose_run_record#filter) returns it.
    type: dict
    required: true
author:
  - Pristine vLLM maintainers (@pristine-vllm)
"""

EXAMPLES = r"""
- name: Keep the record
  pristine.vllm.run_record:
    path: /opt/vllm/records
    record: "{{ record }}"
"""

RETURN = r"""
files:
  description: The paths of the two files.
  returned: success
  type: list
  elements: str
  sample:
    - /opt/vllm/records/20261130T032512Z.json
    - /opt/vllm/records/20261130T032512Z.md
"""

import os
import re

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pristine.vllm.plugins.module_utils.run_record.place import apply, plan


def main() -> None:
    """Uses of the module: params, check_mode and _diff are read, fail_json and exit_json called."""
    module = AnsibleModule(
        argument_spec={"path": {"type": "path", "required": True}, "record": {"type": "dict", "required": True}},
        supports_check_mode=True,
    )
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
