#!/usr/bin/python
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build, adopt, switch and remove releases."""

from __future__ import annotations

DOCUMENTATION = r"""
module: env_release
short_description: Build, adopt, switch and remove releases of a Python environment
version_added: 0.1.0
description:
  - A release is an environment in C(<root>/releases/<id>). The symlink C(<root>/current) leads to the live one and
    C(<root>/previous) to the way back.
  - A build uses the uv of the wheelhouse, the wheels of the lock by digest, and the system's Python. It uses no
    network, no cache, no configuration file and no variable of the host or its users, and copies instead of linking.
  - May be killed at any moment. A release that was not finished is never switched to, and the next build removes it.
  - Never removes what C(current) or C(previous) leads to, or what a process runs from.
extends_documentation_fragment:
  - pristine.vllm.attributes
attributes:
  check_mode:
    support: full
    details:
      - What an earlier task of the same check would have made (the lock, the release to switch to) is taken as made,
        with a warning.
  diff_mode:
    support: full
options:
  root:
    description: The directory that holds C(releases), C(current) and C(previous).
    type: path
    required: true
  state:
    description:
      - V(built) builds O(release) unless it is there with the same lock, Python and O(metadata). To make room for that,
        it removes releases that were never finished.
      - V(adopted) makes O(environment), which serves and was made by others, the live release without building it
        again. Its directory moves into C(<root>/releases) and in the same step a symlink to C(<root>/current) takes
        its place, so that its scripts, units and people that name the old path go on working and mean what is live.
        All that is added to it is its C(release.json). Where it cannot be moved (another file system, one without
        C(RENAME_EXCHANGE), a mount point, a symlink, one directory in the other), it stays where it is, C(current)
        leads to it, and RV(note) says why.
      - V(unadopted) is the way back from V(adopted). It puts the directory where it was and takes the links away that
        were not there. Only the live release goes back. What was not moved stays as it is.
      - V(current) makes C(current) lead to O(release) or O(environment).
      - V(absent) removes O(release).
      - V(pruned) removes all releases but the live one, the previous one, those that processes run from, and the
        O(keep) newest. Releases that were never finished go as well.
    type: str
    choices:
      - built
      - adopted
      - unadopted
      - current
      - absent
      - pruned
    required: true
  release:
    description:
      - The release's id. M(pristine.vllm.env_release_info) gives the next unused one.
      - O(state=adopted) makes an id of its own, such as V(adopted-ml-env-1).
    type: str
  environment:
    description:
      - With O(state=adopted) and O(state=unadopted), where the environment is, or was.
      - With O(state=current), an environment elsewhere to switch to instead of a release.
    type: path
  previous:
    description:
      - With O(state=current), what C(previous) is to lead to, an id or an absolute path. The empty string means none.
      - By default what C(current) led to before the switch. Where that is gone, or is damaged and the way back that
        there was is not, it stays what it was.
    type: str
  python:
    description: With O(state=built), the system's interpreter. One that belongs to an environment is refused.
    type: path
    default: /usr/bin/python3
  lock:
    description: With O(state=built), the requirements file on the host that pins every wheel with C(--hash=sha256:...).
    type: path
  wheels:
    description: With O(state=built), the wheelhouse.
    type: path
  builder:
    description:
      - With O(state=built), the text of a lock that pins uv. Its wheel must have one of these digests before it is run.
      - By default a row for uv in O(lock) counts. Without one the wheelhouse must hold exactly one uv for the machine.
    type: str
  import_check:
    description: With O(state=built), the modules that the release must be able to import. GPUs are hidden from them.
    type: list
    elements: str
    default:
      - vllm
  metadata:
    description:
      - With O(state=built), what to store in C(release.json) besides C(lock_sha256), C(python), C(python_version),
        C(created_at) and C(conflicts).
      - A release with other metadata is built again. C(run_id) is not compared.
      - With O(state=adopted), what to store besides C(adopted_from), C(version), which is the installed one of vLLM,
        C(created_at), which is when the environment was made, and C(current_before). It cannot be told by which wheels
        it was made, so give no pin.
    type: dict
    default: {}
  spare_bytes:
    description: With O(state=built), how many bytes must stay free on the disk at the peak of the build.
    type: int
    default: 1073741824
  build_timeout:
    description: With O(state=built), the seconds that each step of the build may take.
    type: float
    default: 1800
  import_timeout:
    description: With O(state=built), the seconds that importing may take.
    type: float
    default: 300
  keep:
    description: With O(state=pruned), how many of the newest releases to keep.
    type: int
    default: 2
author:
  - Pristine vLLM maintainers (@pristine-vllm)
"""

EXAMPLES = r"""
- name: Build a release beside the running one
  pristine.vllm.env_release:
    root: /opt/vllm
    state: built
    release: 0.16.0rc2.dev313.g662205d34-1
    lock: /opt/vllm/lock.txt
    wheels: /opt/vllm/wheels
    metadata:
      version: 0.16.0rc2.dev313+g662205d34

- name: Switch to it
  pristine.vllm.env_release:
    root: /opt/vllm
    state: current
    release: 0.16.0rc2.dev313.g662205d34-1

- name: Make the environment that serves the first release
  pristine.vllm.env_release:
    root: /opt/vllm
    state: adopted
    environment: /root/ml-env

- name: Switch back to it
  pristine.vllm.env_release:
    root: /opt/vllm
    state: current
    release: adopted-ml-env-1

- name: Put it back where it was
  pristine.vllm.env_release:
    root: /opt/vllm
    state: unadopted
    environment: /root/ml-env

- name: Remove what is not needed any more
  pristine.vllm.env_release:
    root: /opt/vllm
    state: pruned
    keep: 2
"""

RETURN = r"""
release:
  description: The id of the release that was asked for. V(none) for an environment elsewhere and for V(pruned).
  returned: success
  type: str
path:
  description: Where the release or environment is. V(none) for V(pruned).
  returned: success
  type: str
metadata:
  description: What the release's C(release.json) holds. In check mode without what only a build can tell.
  returned: success
  type: dict
current:
  description: Where C(current) leads now, or would, as C(id), C(path) and C(metadata). V(none) when there is no link.
  returned: success
  type: dict
previous:
  description: The same for C(previous).
  returned: success
  type: dict
removed:
  description: The ids of the releases that were removed, or would be.
  returned: success
  type: list
  elements: str
conflicts:
  description:
    - With O(state=built), what C(uv pip check) said about the requirements of the release when it was built, be it now
      or by an earlier run.
  returned: success
  type: list
  elements: str
note:
  description:
    - With O(state=adopted), why the environment stays where it is, and which users its modes keep out. May be empty.
  returned: success
  type: str
seconds:
  description: How long it took.
  returned: success
  type: float
"""

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import BusyError
from ansible_collections.pristine.vllm.plugins.module_utils.lock import LockError
from ansible_collections.pristine.vllm.plugins.module_utils.release import Layout, ReleaseError
from ansible_collections.pristine.vllm.plugins.module_utils.release_actions import Actions

_STATES = ("built", "adopted", "unadopted", "current", "absent", "pruned")


def _argument_spec() -> dict[str, Any]:
    return {
        "root": {"type": "path", "required": True},
        "state": {"type": "str", "required": True, "choices": list(_STATES)},
        "release": {"type": "str"},
        "environment": {"type": "path"},
        "previous": {"type": "str"},
        "python": {"type": "path", "default": "/usr/bin/python3"},
        "lock": {"type": "path"},
        "wheels": {"type": "path"},
        "builder": {"type": "str"},
        "import_check": {"type": "list", "elements": "str", "default": ["vllm"]},
        "metadata": {"type": "dict", "default": {}},
        "spare_bytes": {"type": "int", "default": 1073741824},
        "build_timeout": {"type": "float", "default": 1800},
        "import_timeout": {"type": "float", "default": 300},
        "keep": {"type": "int", "default": 2},
    }


def main() -> None:
    """Uses of ``module``: params, check_mode, warn, exit_json, fail_json."""
    module = AnsibleModule(
        argument_spec=_argument_spec(),
        required_if=[
            ("state", "built", ("release", "lock", "wheels")),
            ("state", "adopted", ("environment",)),
            ("state", "unadopted", ("environment",)),
            ("state", "current", ("release", "environment"), True),
            ("state", "absent", ("release",)),
        ],
        mutually_exclusive=[("release", "environment")],
        supports_check_mode=True,
    )
    params = module.params
    start = time.monotonic()
    try:
        actions = Actions(Layout(params["root"]), params, module.check_mode, module.warn)
        result = actions.run(params["state"])
    except (ReleaseError, LockError, BusyError) as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"{params['root']}: state {params['state']} failed: {error}. Fix that and run again.")
    module.exit_json(**result, seconds=round(time.monotonic() - start, 3))


if __name__ == "__main__":
    main()
