#!/usr/bin/python
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Move the files that debug code left behind to the quarantine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: debug_artifacts
short_description: Move the files that debug code left behind to the quarantine
version_added: 0.1.0
description:
  - Finds files by pattern and moves each one to the quarantine. Each is there in full before it goes.
  - Takes regular files only, none with several hard links, and none that a process has open or mapped. Follows no
    symlink.
  - A pattern names a directory, as in V(/tmp/embed_debug_tp*.pt). It is refused when it is not absolute, has no fixed
    directory, would take every file of one, or reaches into a directory of the system or into one of O(protect).
extends_documentation_fragment:
  - pristine.vllm.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
options:
  globs:
    description:
      - Absolute patterns with C(*), C(?) and C([...]), as a shell has them. A C(*) matches no slash and no leading dot.
      - The module fails when it refuses one.
    type: list
    elements: str
    default: []
  suggested_globs:
    description: Patterns derived from debug code, which nobody has looked at. A refused one is told in RV(left).
    type: list
    elements: str
    default: []
  protect:
    description: Directories from which nothing is taken, besides those of the system.
    type: list
    elements: path
    default: []
  quarantine:
    description: The directory to move the files to.
    type: path
    required: true
author:
  - Pristine vLLM maintainers (@pristine-vllm)
"""

EXAMPLES = r"""
- name: Clean up after the debug code
  pristine.vllm.debug_artifacts:
    globs:
      - /tmp/nomla_debug_tp*.pt
      - /tmp/embed_debug_tp*.pt
    quarantine: /opt/vllm/quarantine/20261130T032512Z
"""

RETURN = r"""
files:
  description: The files that were (or in check mode would be) moved, sorted by path.
  returned: always
  type: list
  elements: dict
  contains:
    path:
      description: Where it was.
      type: str
    size:
      description: Size in bytes.
      type: int
    sha256:
      description: Digest of its content.
      type: str
    kept:
      description: Where it is now. V(none) in check mode.
      type: str
bytes:
  description: The size of all of them.
  returned: always
  type: int
left:
  description: What matches and was left where it is, sorted by path.
  returned: always
  type: list
  elements: dict
  contains:
    path:
      description: The file, or the pattern that was refused.
      type: str
    reason:
      description: Why it was left.
      type: str
"""

import dataclasses
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pristine.vllm.plugins.module_utils.debug_artifacts import (
    Artifact,
    CleanPlan,
    GlobError,
    MoveError,
    apply,
    plan,
)
from ansible_collections.pristine.vllm.plugins.module_utils.quarantine import Quarantine

ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "globs": {"type": "list", "elements": "str", "default": []},
    "suggested_globs": {"type": "list", "elements": "str", "default": []},
    "protect": {"type": "list", "elements": "path", "default": []},
    "quarantine": {"type": "path", "required": True},
}


def result_of(found: CleanPlan, files: tuple[Artifact, ...]) -> dict[str, Any]:
    """The result for Ansible."""
    return {
        "changed": bool(files),
        "files": [dataclasses.asdict(entry) for entry in files],
        "bytes": sum(entry.size for entry in files),
        # Not "skipped": Ansible would take the whole task for skipped.
        "left": [dataclasses.asdict(entry) for entry in found.left],
        "diff": found.diff(),
    }


def main() -> None:
    """Uses of ``module``: params, check_mode, warn, exit_json, fail_json."""
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    params = module.params
    try:
        quarantine = Quarantine(params["quarantine"])
        found = plan(params["globs"], params["suggested_globs"], [*params["protect"], quarantine.directory])
    except (GlobError, ValueError) as error:
        module.fail_json(msg=f"{error}. Nothing was moved")
    if found.unseen_processes:
        module.warn(
            f"{found.unseen_processes} processes could not be looked into: a file that one of them has open counts as "
            "closed. Run this as root"
        )
    try:
        files = found.files if module.check_mode else apply(found, quarantine)
    except MoveError as error:
        module.fail_json(msg=str(error), **result_of(found, error.moved))
    module.exit_json(**result_of(found, files))


if __name__ == "__main__":
    main()
