#!/usr/bin/python
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find a pinned wheel in a vLLM nightly index."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nightly_index_info
short_description: Find a pinned wheel in a vLLM nightly index
version_added: 0.1.0
description:
  - Reads the page of one commit, C(<index>/<commit>/[<variant>/]vllm/), and finds the one wheel that has exactly the
    pinned version, local part included, for the machine.
  - Never takes another version, another variant or another machine's wheel instead.
  - Never fails because of the index or of the pin. RV(problem) says what is wrong, so that a play can report it
    together with its other blockers.
  - Works where the wheel is to be installed as well as on the controller. Proxies are those of the environment;
    credentials come from the URL or from C(.netrc).
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
  index_url:
    description: The C(http) or C(https) address of the index, above the folders of the commits.
    type: str
    required: true
  version:
    description: The version with its local part, such as V(0.16.0rc2.dev313+g662205d34).
    type: str
    required: true
  commit:
    description: The full commit, 40 hexadecimal digits. The hash in O(version) must be its start.
    type: str
    required: true
  variant:
    description: The variant, such as V(cu130). By default the commit's default variant.
    type: str
    default: ""
  sha256:
    description:
      - The digest that the wheel must have.
      - Nightly indexes list none. It is compared where an index does, and else returned as it is.
    type: str
    default: ""
  machine:
    description: The machine to find a wheel for, as C(uname -m) says it. By default that of the host.
    type: str
  timeout:
    description: How many seconds the index may stay silent. What may pass is tried three times.
    type: float
    default: 20
author:
  - Pristine vLLM maintainers (@pristine-vllm)
"""

EXAMPLES = r"""
- name: Find the pinned nightly
  pristine.vllm.nightly_index_info:
    index_url: "{{ vllm_index_url }}"
    version: 0.16.0rc2.dev313+g662205d34
    commit: 662205d34eb1bb42228768d7a69a1ac4abf38c89
  register: pinned

- name: Say what the index offers instead
  ansible.builtin.fail:
    msg: "{{ pinned.problem }}"
  when: not pinned.resolved
"""

RETURN = r"""
resolved:
  description: Whether the index has the wheel, and delivers it.
  returned: always
  type: bool
url:
  description: Where the wheel is, without credentials. V(none) when the page does not list it.
  returned: always
  type: str
filename:
  description: The wheel's file name. V(none) when the page does not list it.
  returned: always
  type: str
page:
  description: The address of the page that lists it, after redirects. It serves as a C(find-links) page for pip.
  returned: always
  type: str
sha256:
  description: The digest that the index gives, else O(sha256), else V(none).
  returned: always
  type: str
size:
  description: The wheel's size in bytes, V(none) when the server does not tell.
  returned: always
  type: int
offers:
  description: The file names of all vllm wheels on the page.
  returned: always
  type: list
  elements: str
problem:
  description: What is wrong, where, why, and what to do next, in one message. V(none) when RV(resolved).
  returned: always
  type: str
  sample: >-
    vllm 0.16.0rc2.dev313+g662205d34 (x86_64) cannot be had:
    the index has nothing for commit 662205d34eb1bb42228768d7a69a1ac4abf38c89:
    https://index.example/662205d34eb1bb42228768d7a69a1ac4abf38c89/vllm/ answers HTTP 404 Not Found.
    Check the commit; if its wheels were removed, keep using the wheel in the wheelhouse or pin another.
    Nothing on this host was changed.
"""

import dataclasses
import platform

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pristine.vllm.plugins.module_utils.index_http import IndexClient
from ansible_collections.pristine.vllm.plugins.module_utils.nightly_index import Pin, resolve


def main() -> None:
    """Uses of ``module``: params, exit_json."""
    module = AnsibleModule(
        argument_spec={
            "index_url": {"type": "str", "required": True},
            "version": {"type": "str", "required": True},
            "commit": {"type": "str", "required": True},
            "variant": {"type": "str", "default": ""},
            "sha256": {"type": "str", "default": ""},
            "machine": {"type": "str"},
            "timeout": {"type": "float", "default": 20},
        },
        supports_check_mode=True,
    )
    params = module.params
    pin = Pin(
        index_url=params["index_url"].strip(),
        version=params["version"].strip(),
        commit=params["commit"].strip(),
        variant=params["variant"].strip(),
        sha256=params["sha256"].strip(),
        machine=params["machine"] or platform.machine(),
    )
    module.exit_json(changed=False, **dataclasses.asdict(resolve(pin, IndexClient(params["timeout"]))))


if __name__ == "__main__":
    main()
