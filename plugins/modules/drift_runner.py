#!/usr/bin/python
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep a pinned ansible-core and this collection on a host that scans itself."""

from __future__ import annotations

DOCUMENTATION = r"""
module: drift_runner
short_description: Keep a pinned ansible-core and this collection on a host that scans itself
version_added: 0.1.0
description:
  - Makes an environment with the host's Python, installs what O(lock) pins with its hashes, wheels only, and the
    collection from a tarball whose digest is O(sha256). A runner that is there and whole stays.
  - Each is a folder of its own, C(<path>/runners/<id>), and nothing uses a new one before a unit names it. One that was
    damaged stays beside its successor until O(state=pruned).
  - Beside the collection lies C(tick.py), which compares all of it with its own lists and refuses to run one that
    differs.
extends_documentation_fragment:
  - pristine.vllm.attributes
attributes:
  check_mode:
    support: full
    details: What a build would say is not known in check mode.
  diff_mode:
    support: full
    details: Shows which runners there are.
options:
  path:
    description: The folder that holds the runners. Nothing else should be in it.
    type: path
    required: true
  state:
    description:
      - With V(present), the runner of this lock and tarball is there.
      - With V(pruned), no other than O(keep) is.
    type: str
    choices: [present, pruned]
    default: present
  lock:
    description: Requirements with hashes of ansible-core and all that it needs.
    type: str
  collection:
    description: The tarball of this collection, on the host. In check mode it may be missing or another one still.
    type: path
  sha256:
    description: The digest that it must have.
    type: str
  python:
    description: The Python that makes the environment, 3.11 or newer.
    type: path
    default: /usr/bin/python3
  find_links:
    description: Folders and pages with wheels. Then no index is asked. By default what the host has set for pip counts.
    type: list
    elements: str
    default: []
  keep:
    description: The folders of the runners that stay.
    type: list
    elements: path
    default: []
  timeout:
    description: How many seconds each step of a build may take.
    type: float
    default: 900
author:
  - Pristine vLLM maintainers (@pristine-vllm)
"""

EXAMPLES = r"""
- name: Have a runner
  pristine.vllm.drift_runner:
    path: /opt/vllm/pull
    lock: "{{ lookup('ansible.builtin.file', 'runner.txt') }}"
    collection: /opt/vllm/pull/collection.tar.gz
    sha256: 5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03
  register: runner

- name: Remove all others
  pristine.vllm.drift_runner:
    path: /opt/vllm/pull
    state: pruned
    keep: ["{{ runner.folder }}"]
"""

RETURN = r"""
folder:
  description: The runner's folder. Empty in check mode when the tarball is missing.
  returned: state is present
  type: str
manifest_sha256:
  description: The digest of the collection's C(MANIFEST.json), which C(tick.py) is given.
  returned: state is present
  type: str
reasons:
  description: Why it was built.
  returned: state is present
  type: list
  elements: str
removed:
  description: The runners that were removed, or would be in check mode.
  returned: state is pruned
  type: list
  elements: str
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pristine.vllm.plugins.module_utils.files import sha256_file
from ansible_collections.pristine.vllm.plugins.module_utils.index_http import secrets_of
from ansible_collections.pristine.vllm.plugins.module_utils.runner.build import (
    Ask,
    Plan,
    RunnerError,
    apply,
    plan,
    prune,
    runners,
)


def _present(module: AnsibleModule) -> None:
    params = module.params
    # An earlier task of this check would have brought it.
    if module.check_mode and not _brought(params["collection"], params["sha256"]):
        module.exit_json(
            changed=True,
            folder="",
            manifest_sha256="",
            reasons=["the tarball is not there yet"],
            diff=_diff([], ["new"]),
        )
    links = params["find_links"]
    ask = Ask(
        **{name: params[name] for name in ("path", "lock", "collection", "sha256", "python", "timeout")},
        pip_arguments=("--no-index", *(f"--find-links={link}" for link in links)) if links else (),
    )
    todo: Plan = plan(ask)
    before = runners(params["path"])
    if todo.reasons and not module.check_mode:
        apply(ask, todo)
    module.exit_json(
        changed=bool(todo.reasons),
        folder=todo.folder,
        manifest_sha256=todo.manifest_sha256,
        reasons=todo.reasons,
        diff=_diff(before, sorted({*before, todo.folder})),
    )


def _brought(path: str, sha256: str) -> bool:
    return os.path.isfile(path) and sha256_file(path) == sha256.lower()


def _diff(before: list[str], after: list[str]) -> dict[str, str]:
    return {"before": "".join(f"{folder}\n" for folder in before), "after": "".join(f"{folder}\n" for folder in after)}


def main() -> None:
    """Uses of ``module``: params, check_mode, no_log_values, exit_json, fail_json."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["present", "pruned"], "default": "present"},
            "lock": {"type": "str"},
            "collection": {"type": "path"},
            "sha256": {"type": "str"},
            "python": {"type": "path", "default": "/usr/bin/python3"},
            "find_links": {"type": "list", "elements": "str", "default": []},
            "keep": {"type": "list", "elements": "path", "default": []},
            "timeout": {"type": "float", "default": 900},
        },
        required_if=[("state", "present", ("lock", "collection", "sha256"))],
        supports_check_mode=True,
    )
    params = module.params
    module.no_log_values.update(secrets_of(params["find_links"]))
    try:
        if params["state"] == "present":
            _present(module)
        before = runners(params["path"])
        removed = prune(params["path"], params["keep"], remove=not module.check_mode)
        after = [folder for folder in before if folder not in removed]
        module.exit_json(changed=bool(removed), removed=removed, diff=_diff(before, after))
    except RunnerError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"the runners in {params['path']} cannot be kept: {error}. Fix that and run again.")


if __name__ == "__main__":
    main()
