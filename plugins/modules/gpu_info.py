#!/usr/bin/python
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell what nvidia-smi and the driver say, as data."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_info
short_description: Tell what nvidia-smi and the driver say, as data
version_added: 0.1.0
description:
  - Asks C(nvidia-smi) for the GPUs and for the processes that compute on them, and reads which kernel module drives
    them.
  - Never fails because of the driver. RV(problem) says what could not be read.
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
  command:
    description: The program to ask, by name or path.
    type: str
    default: nvidia-smi
  driver_file:
    description: The file in which the kernel module tells its version and its kind.
    type: path
    default: /proc/driver/nvidia/version
author:
  - Pristine vLLM maintainers (@pristine-vllm)
"""

EXAMPLES = r"""
- name: Ask the GPUs
  pristine.vllm.gpu_info:
  register: gpus

- name: Tell how much memory is in use
  ansible.builtin.debug:
    msg: "{{ gpus.gpus | map(attribute='memory_used_mib') | list }}"
"""

RETURN = r"""
gpus:
  description: The GPUs. A value that the driver does not tell is V(none).
  returned: always
  type: list
  elements: dict
  contains:
    index:
      description: Number of the GPU.
      type: int
    name:
      description: Name of the product.
      type: str
    compute_cap:
      description: Compute capability, V(12.0) for SM120.
      type: str
    memory_total_mib:
      description: Memory in MiB.
      type: int
    memory_used_mib:
      description: Memory in use in MiB.
      type: int
    driver_version:
      description: Version of the driver.
      type: str
    persistence_mode:
      description: Whether the driver stays loaded while nobody uses the GPU.
      type: bool
    power_limit_watts:
      description: Power limit in watts.
      type: float
driver:
  description: The kernel module.
  returned: always
  type: dict
  contains:
    version:
      description: Its version, V(none) when it is not known.
      type: str
    open_kernel_module:
      description: Whether it is the open one, which Blackwell requires. V(none) when it is not known.
      type: bool
compute_apps:
  description: The processes that compute on a GPU, one entry for each process and GPU.
  returned: always
  type: list
  elements: dict
  contains:
    pid:
      description: The process.
      type: int
    used_mib:
      description: Memory that it holds on that GPU in MiB.
      type: int
problem:
  description: What could not be read and why, V(none) when all could.
  returned: always
  type: str
"""

import dataclasses

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pristine.vllm.plugins.module_utils.gpu import read_report


def main() -> None:
    """Uses of ``module``: params, exit_json."""
    module = AnsibleModule(
        argument_spec={
            "command": {"type": "str", "default": "nvidia-smi"},
            "driver_file": {"type": "path", "default": "/proc/driver/nvidia/version"},
        },
        supports_check_mode=True,
    )
    report = read_report(module.params["command"], module.params["driver_file"])
    module.exit_json(changed=False, **dataclasses.asdict(report))


if __name__ == "__main__":
    main()
