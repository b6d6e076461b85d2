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
    pinned version, local part included, for the machine, its C library and the Python.
  - Never takes another version, another variant or another machine's wheel instead.
  - The page leads, because it is what pip and uv read and because it can carry digests. C(metadata.json) beside it is
    taken where the page is missing, is no HTML or lists no wheels; of that file only C(filename) counts. Where both
    list wheels and differ, RV(cautions) says so.
  - Where O(wheels) holds the wheel already, by O(sha256), the index is not needed. It is looked at once, and what is
    wrong with it is a caution.
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
    description:
      - The C(http) or C(https) address of the index, above the folders of the commits.
      - Or a folder, as an absolute path or a C(file) address, for where there is no network. It is laid out as the
        index is, or just holds wheels.
      - Without it only O(wheels) is looked at.
    type: str
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
      - Nightly indexes list none. It is compared where an index does and with the file in a folder, and else returned
        as it is.
    type: str
    default: ""
  wheels:
    description: A folder of wheels that were kept. One with O(sha256) needs no index.
    type: path
  python:
    description:
      - The interpreter that the wheel is for. It is asked for its version, isolated and without C(site).
      - Where it is not there yet, tags of Python are not compared, and RV(cautions) says so.
    type: path
  machine:
    description: The machine to find a wheel for, as C(uname -m) says it. By default that of the host.
    type: str
  python_version:
    description: The version of the Python that the wheel is for, such as V(3.12), in place of O(python).
    type: str
  glibc:
    description: The version of the C library of O(machine), such as V(2.36). By default that of the host.
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

- name: The same where the wheel may have been kept, from a folder
  pristine.vllm.nightly_index_info:
    index_url: /mnt/wheels
    version: 0.16.0rc2.dev313+g662205d34
    commit: 662205d34eb1bb42228768d7a69a1ac4abf38c89
    sha256: "{{ vllm_wheel_sha256 }}"
    wheels: /opt/vllm/wheels
    python: /usr/bin/python3

- name: Say what the index offers instead
  ansible.builtin.fail:
    msg: "{{ pinned.problem }}"
  when: not pinned.resolved
"""

RETURN = r"""
resolved:
  description: Whether the wheel is kept, or the index has it and delivers it.
  returned: always
  type: bool
url:
  description: Where the index has the wheel, without credentials. V(none) when it does not.
  returned: always
  type: str
filename:
  description: The wheel's file name. V(none) when it is not kept and the page does not list it.
  returned: always
  type: str
page:
  description: The address of what lists it, after redirects. A page serves as C(find-links) for pip.
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
kept:
  description: The path of the wheel in O(wheels). V(none) where none there has O(sha256).
  returned: always
  type: str
offers:
  description: The file names of all vllm wheels on the page.
  returned: always
  type: list
  elements: str
target:
  description: What the wheel was looked for, in the form that M(pristine.vllm.wheelhouse) takes.
  returned: always
  type: dict
  contains:
    machine:
      description: The machine.
      type: str
    python_version:
      description: The version of Python. V(none) where it is not known.
      type: str
    glibc:
      description: The version of the C library. V(none) where it is not known, or another one.
      type: str
cautions:
  description: What deserves a look and does not stand in the way.
  returned: always
  type: list
  elements: dict
  contains:
    check:
      description: Always V(pin).
      type: str
    where:
      description: Where, the index.
      type: str
    what:
      description: What was found.
      type: str
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
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pristine.vllm.plugins.module_utils.index_folder import open_index
from ansible_collections.pristine.vllm.plugins.module_utils.index_http import ATTEMPTS, secrets_of
from ansible_collections.pristine.vllm.plugins.module_utils.interpreter import InterpreterError, check_interpreter
from ansible_collections.pristine.vllm.plugins.module_utils.messages import redact_urls
from ansible_collections.pristine.vllm.plugins.module_utils.nightly_index import Pin, find_kept, resolve
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_target import describe, target_of, this_glibc


def _described(params: dict[str, Any], cautions: list[str]) -> dict[str, Any]:
    """What the wheel is for, from the options and this host."""
    found = {name: params[name] for name in ("machine", "python_version", "glibc")}
    if not params["machine"] and not params["glibc"]:
        found["glibc"] = ".".join(map(str, this_glibc() or ()))
    if params["python"] and not params["python_version"]:
        try:
            found["python_version"] = check_interpreter(params["python"])
        except InterpreterError as error:
            cautions.append(f"the wheel's tags of Python are not compared: {error}")
    return found


def main() -> None:
    """Uses of ``module``: params, no_log_values, exit_json."""
    module = AnsibleModule(
        argument_spec={
            "index_url": {"type": "str"},
            "version": {"type": "str", "required": True},
            "commit": {"type": "str", "required": True},
            "variant": {"type": "str", "default": ""},
            "sha256": {"type": "str", "default": ""},
            "wheels": {"type": "path"},
            "python": {"type": "path"},
            "machine": {"type": "str"},
            "python_version": {"type": "str"},
            "glibc": {"type": "str"},
            "timeout": {"type": "float", "default": 20},
        },
        supports_check_mode=True,
    )
    params = module.params
    module.no_log_values.update(secrets_of([params["index_url"] or ""]))
    cautions: list[str] = []
    target = target_of(_described(params, cautions))
    pin = Pin(
        index_url=(params["index_url"] or "").strip(),
        version=params["version"].strip(),
        commit=params["commit"].strip(),
        variant=params["variant"].strip(),
        sha256=params["sha256"].strip(),
        target=target,
    )
    kept = find_kept(pin, params["wheels"]) if params["wheels"] else None
    # An index that is not needed is not waited for.
    index = open_index(pin.index_url, params["timeout"], 1 if kept else ATTEMPTS) if pin.index_url else None
    found = resolve(pin, index, kept)
    where = redact_urls(pin.index_url)
    told = [{"check": "pin", "where": where, "what": what} for what in cautions + found.cautions]
    module.exit_json(changed=False, target=describe(target), **{**dataclasses.asdict(found), "cautions": told})


if __name__ == "__main__":
    main()
