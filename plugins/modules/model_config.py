#!/usr/bin/python
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Edit a model's JSON configuration, and nothing else in it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: model_config
short_description: Edit a model's JSON configuration, and nothing else in it
version_added: 0.1.0
description:
  - Makes sure that members of a JSON file such as a model's C(config.json) are absent or have a value.
  - Every byte that an edit is not about stays, so order, indentation, separators, escapes and the final newline do too.
  - What is replaced is in the quarantine first, with a patch of the edit. The new file lands by renaming.
  - A symlink, as in the Hugging Face cache, is replaced by a file. What it leads to is not touched, for other
    revisions of the model share it.
extends_documentation_fragment:
  - pristine.vllm.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
options:
  path:
    description: The file.
    type: path
    required: true
  edits:
    description: What must hold, in this order.
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: The keys that lead to the member, from the outermost object.
        type: list
        elements: str
        required: true
      state:
        description: Whether the member must be there with O(edits[].value), or not be there.
        type: str
        choices: [absent, present]
        default: absent
      value:
        description: The value of a member that must be present. Without one it is JSON's C(null).
        type: raw
      reason:
        description: Why, for whoever reads the result.
        type: str
        default: ""
  keep_null:
    description: Leave a member alone that should be absent and is C(null). vLLM takes that for absent.
    type: bool
    default: true
  missing_ok:
    description: Whether there may be no such file, which then needs no edit.
    type: bool
    default: false
  quarantine:
    description: The directory that keeps what is replaced.
    type: path
    required: true
author:
  - Pristine vLLM maintainers (@pristine-vllm)
"""

EXAMPLES = r"""
- name: Remove the KV cache type that SM120 cannot serve
  pristine.vllm.model_config:
    path: /models/kimi-k2.5/config.json
    edits:
      - path: [quantization_config, kv_cache_scheme]
        reason: SM120 serves MLA with an unquantised KV cache only
    quarantine: /opt/vllm/quarantine/20261130T032512Z
"""

RETURN = r"""
exists:
  description: Whether there is such a file.
  returned: always
  type: bool
edits:
  description: What each edit came to.
  returned: always
  type: list
  elements: dict
  contains:
    path:
      description: The keys that lead to the member.
      type: list
      elements: str
    outcome:
      description: One of V(removed), V(set), V(unchanged), and V(null_kept) for a null that was left alone.
      type: str
    before:
      description: The value before, V(none) when there was none.
      type: raw
    reason:
      description: The reason that was given.
      type: str
removed:
  description: The members that were removed, their keys joined by dots.
  returned: always
  type: list
  elements: str
  sample: [quantization_config.kv_cache_scheme]
link_target:
  description: Where the symlink at O(path) leads that is (or would be) replaced. V(none) when it is none.
  returned: always
  type: str
sha256_before:
  description: Digest of the content before. V(none) when there is no file.
  returned: always
  type: str
sha256_after:
  description: Digest of the content after.
  returned: always
  type: str
kept:
  description: The quarantine's copy of the content before. V(none) when nothing was changed, and in check mode.
  returned: always
  type: str
kept_link:
  description: The quarantine's copy of the symlink. V(none) when there was none.
  returned: always
  type: str
patch:
  description: The edit as a patch, in the quarantine.
  returned: always
  type: str
"""

import dataclasses
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pristine.vllm.plugins.module_utils.model_config import (
    Edit,
    ModelConfigError,
    apply,
    plan,
    sha256,
)
from ansible_collections.pristine.vllm.plugins.module_utils.quarantine import Quarantine

ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "path": {"type": "path", "required": True},
    "edits": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "path": {"type": "list", "elements": "str", "required": True},
            "state": {"type": "str", "choices": ["absent", "present"], "default": "absent"},
            "value": {"type": "raw"},
            "reason": {"type": "str", "default": ""},
        },
    },
    "keep_null": {"type": "bool", "default": True},
    "missing_ok": {"type": "bool", "default": False},
    "quarantine": {"type": "path", "required": True},
}


def run(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Decide, and unless in check mode do it; the result for Ansible.

    :raises ModelConfigError: nothing was changed.
    """
    edits = [
        Edit(tuple(edit["path"]), edit["state"] == "present", edit["value"], edit["reason"]) for edit in params["edits"]
    ]
    found = plan(params["path"], edits, params["keep_null"])
    result: dict[str, Any] = {"changed": False, "exists": found is not None, "edits": [], "removed": []}
    result.update(dict.fromkeys(("link_target", "sha256_before", "sha256_after", "kept", "kept_link", "patch")))
    if found is None:
        if not params["missing_ok"]:
            raise ModelConfigError(f"{params['path']} does not exist: give the path of a model's config.json")
        return result
    result.update(
        changed=found.changes,
        edits=[dataclasses.asdict(outcome) for outcome in found.outcomes],
        removed=[".".join(outcome.path) for outcome in found.outcomes if outcome.outcome == "removed"],
        link_target=found.link_target,
        sha256_before=sha256(found.before),
        sha256_after=sha256(found.after),
        diff=found.diff(),
    )
    if found.changes and not check_mode:
        result.update(dataclasses.asdict(apply(found, Quarantine(params["quarantine"]))))
    return result


def main() -> None:
    """Uses of ``module``: params, check_mode, exit_json, fail_json."""
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    try:
        result = run(module.params, module.check_mode)
    except (ModelConfigError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
