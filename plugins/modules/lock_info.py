#!/usr/bin/python
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve a lock for this host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: lock_info
short_description: Resolve a lock for this host
version_added: 0.1.0
description:
  - Returns the text of a requirements file that pins every package with the digests of its wheels, for the Python and
    the platform of the host. Writes nothing.
  - Resolves with the pinned uv, against the indexes of the host's pip settings, and with a cache that is thrown away.
  - Names in one message every package that no index has, is installed without a wheel or contradicts another.
  - Works in a directory of its own in C(/var/tmp), which is removed. Wheels that O(wheels) lacks pass through it.
extends_documentation_fragment:
  - pristine.vllm.attributes
attributes:
  check_mode:
    support: full
    details: Only reads.
  diff_mode:
    support: none
    details: Changes nothing.
options:
  version:
    description: The pinned version of vLLM, with its local part.
    type: str
    required: true
  sha256:
    description: The SHA-256 of its wheel. That is the digest of its row, whatever an index says.
    type: str
    required: true
  origin:
    description:
      - V(wheel) resolves what the pinned wheel asks for anew.
      - V(environment) takes the versions of O(environment) as they are, by the names of its C(.dist-info), and looks
        for their digests only. Whether they fit each other is not judged. vLLM must be of the pinned version there.
    type: str
    choices:
      - wheel
      - environment
    default: wheel
  environment:
    description: With O(origin=environment), the root of the environment. Nothing of it is run.
    type: path
  wheels:
    description: A folder that may hold the wheels of vLLM and uv already. They count by their digests.
    type: path
    required: true
  builder:
    description: The text of a lock that pins uv.
    type: str
    required: true
  python:
    description: The interpreter to resolve for, the system's. One that belongs to an environment is refused.
    type: path
    default: /usr/bin/python3
  index_url:
    description: The index of the dependencies, instead of the one in the host's pip settings.
    type: str
  find_links:
    description:
      - Pages and folders that may have the wheel of vLLM.
      - The page that M(pristine.vllm.nightly_index_info) returns is one.
    type: list
    elements: str
    default: []
  timeout:
    description: How many seconds it may take in all.
    type: float
    default: 3600
author:
  - Pristine vLLM maintainers (@pristine-vllm)
"""

EXAMPLES = r"""
- name: Lock the versions that serve
  pristine.vllm.lock_info:
    version: 0.16.0rc2.dev313+g662205d34
    sha256: "{{ vllm_wheel_sha256 }}"
    origin: environment
    environment: /root/ml-env
    wheels: /opt/vllm/wheels
    builder: "{{ lookup('ansible.builtin.file', 'builder.txt') }}"
  register: made
"""

RETURN = r"""
text:
  description: The lock. Equal for equal packages, so that it may be compared.
  returned: success
  type: str
distributions:
  description: The pinned version of each package by its normalised name.
  returned: success
  type: dict
  sample:
    torch: 2.10.0
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pristine.vllm.plugins.module_utils.index_http import secrets_of
from ansible_collections.pristine.vllm.plugins.module_utils.lock import LockError
from ansible_collections.pristine.vllm.plugins.module_utils.lock_changes import lock_versions
from ansible_collections.pristine.vllm.plugins.module_utils.lock_make import Request, make
from ansible_collections.pristine.vllm.plugins.module_utils.wheelhouse_fetch import Source


def main() -> None:
    """Uses of ``module``: params, exit_json, fail_json; no_log_values is added to."""
    module = AnsibleModule(
        argument_spec={
            "version": {"type": "str", "required": True},
            "sha256": {"type": "str", "required": True},
            "origin": {"type": "str", "choices": ["wheel", "environment"], "default": "wheel"},
            "environment": {"type": "path"},
            "wheels": {"type": "path", "required": True},
            "builder": {"type": "str", "required": True},
            "python": {"type": "path", "default": "/usr/bin/python3"},
            "index_url": {"type": "str"},
            "find_links": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "float", "default": 3600},
        },
        required_if=[("origin", "environment", ("environment",))],
        supports_check_mode=True,
    )
    params = module.params
    module.no_log_values.update(secrets_of([*params["find_links"], params["index_url"] or ""]))
    source = Source(params["python"], params["index_url"], params["find_links"], timeout=params["timeout"])
    wanted = {name: params[name] for name in ("version", "sha256", "origin", "wheels", "builder")}
    try:
        text = make(Request(source=source, environment=params["environment"] or "", **wanted))
    except LockError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"no lock can be made: {error}. Nothing was written. Correct that and run again.")
    module.exit_json(changed=False, text=text, distributions=lock_versions(text))


if __name__ == "__main__":
    main()
