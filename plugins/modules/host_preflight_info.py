#!/usr/bin/python
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find everything that keeps a host from serving."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_preflight_info
short_description: Find everything that keeps a host from serving
version_added: 0.1.0
description:
  - Looks at the interpreter, the disk, the memory, the GPUs and their driver, the model's files, the unit and the
    environment, and returns all that stands in the way at once.
  - Never fails because of what it finds. It is for the play to refuse when RV(blockers) is not empty.
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
  root:
    description: The directory for releases, wheels and records. It need not be there yet for its disk to be measured.
    type: path
    default: ""
  python:
    description: The interpreter that builds environments. It must be 3.9 or newer and have C(venv) and C(ensurepip).
    type: path
    default: ""
  model_path:
    description: The model's folder. Its C(config.json) must be JSON, and each shard that its index names be there.
    type: path
    default: ""
  user:
    description:
      - The user that serves. It must be able to read C(config.json) and each shard in O(model_path), and to pass every
        folder on the way, which is tried as that user.
      - Not looked at where the user is not there yet, or the task does not run as root.
    type: str
    default: ""
  unit:
    description: The systemd unit that serves.
    type: str
    default: ""
  unit_required:
    description: Whether systemd must know O(unit) already.
    type: bool
    default: false
  environment:
    description:
      - The virtual environment that serves. Whatever is there must be one.
      - Where C(<root>/current) is there, that is what serves. A damaged one, or a damaged release that O(environment)
        leads to, is a caution and no blocker, for another release is what mends it.
    type: path
    default: ""
  environment_required:
    description: Whether O(environment) must be there already.
    type: bool
    default: false
  gpu_count:
    description: How many GPUs are needed. With V(0) neither GPUs nor driver are looked at.
    type: int
    default: 0
  min_driver:
    description: The oldest driver that will do.
    type: str
    default: 580.95.05
  min_compute_cap:
    description: The least compute capability that will do.
    type: str
    default: "12.0"
  min_disk_bytes:
    description: How many bytes must be free for O(root).
    type: int
    default: 0
  min_memory_bytes:
    description: How many bytes of memory the host must have.
    type: int
    default: 0
  gpu_command:
    description: The program to ask for GPUs, by name or path.
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
- name: Look for everything that stands in the way
  pristine.vllm.host_preflight_info:
    root: /opt/vllm
    python: /usr/bin/python3
    model_path: /models/kimi-k2.5
    user: vllm
    gpu_count: 8
    min_disk_bytes: 30000000000
  register: preflight

- name: Refuse
  ansible.builtin.fail:
    msg: "{{ preflight.blockers | pristine.vllm.blockers_text(inventory_hostname) }}"
  when: preflight.blockers | length > 0
"""

RETURN = r"""
blockers:
  description: What stands in the way. Empty when nothing does.
  returned: always
  type: list
  elements: dict
  contains:
    check:
      description: What was checked.
      type: str
      sample: weights
    where:
      description: The path, name or program that it is about.
      type: str
      sample: /models/kimi-k2.5
    what:
      description: What is wrong there.
      type: str
      sample: "1 of 64 shards cannot be loaded: model-00007-of-00064.safetensors is empty"
    next:
      description: What to do about it.
      type: str
      sample: Download the model again, or correct vllm_model_path
cautions:
  description: What deserves a look and stands in nobody's way.
  returned: always
  type: list
  elements: dict
  contains:
    check:
      description: What was checked.
      type: str
      sample: iommu
    where:
      description: The path, name or program that it is about.
      type: str
      sample: /proc/cmdline
    what:
      description: What is wrong there.
      type: str
      sample: an IOMMU is on, and traffic between GPUs can hang or crawl behind it
    next:
      description: What to do about it.
      type: str
      sample: On bare metal boot with iommu=off
"""

import dataclasses
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pristine.vllm.plugins.module_utils.preflight import Need, inspect
from ansible_collections.pristine.vllm.plugins.module_utils.preflight_gpus import GpuNeed

ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "root": {"type": "path", "default": ""},
    "python": {"type": "path", "default": ""},
    "model_path": {"type": "path", "default": ""},
    "user": {"type": "str", "default": ""},
    "unit": {"type": "str", "default": ""},
    "unit_required": {"type": "bool", "default": False},
    "environment": {"type": "path", "default": ""},
    "environment_required": {"type": "bool", "default": False},
    "gpu_count": {"type": "int", "default": 0},
    "min_driver": {"type": "str", "default": "580.95.05"},
    "min_compute_cap": {"type": "str", "default": "12.0"},
    "min_disk_bytes": {"type": "int", "default": 0},
    "min_memory_bytes": {"type": "int", "default": 0},
    "gpu_command": {"type": "str", "default": "nvidia-smi"},
    "driver_file": {"type": "path", "default": "/proc/driver/nvidia/version"},
}


def need_of(params: dict[str, Any]) -> Need:
    """The options as what the host must have."""
    gpus = GpuNeed(
        count=params["gpu_count"],
        min_driver=params["min_driver"],
        min_compute_cap=params["min_compute_cap"],
        command=params["gpu_command"],
        driver_file=params["driver_file"],
    )
    return Need(
        root=params["root"],
        python=params["python"],
        model_path=params["model_path"],
        user=params["user"],
        unit=params["unit"],
        unit_required=params["unit_required"],
        environment=params["environment"],
        environment_required=params["environment_required"],
        min_disk_bytes=params["min_disk_bytes"],
        min_memory_bytes=params["min_memory_bytes"],
        gpus=gpus,
    )


def main() -> None:
    """Uses of ``module``: params, exit_json."""
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    blockers, cautions = inspect(need_of(module.params))
    module.exit_json(
        changed=False,
        blockers=[dataclasses.asdict(finding) for finding in blockers],
        # Not "warnings": Ansible keeps that name of a result for itself.
        cautions=[dataclasses.asdict(finding) for finding in cautions],
    )


if __name__ == "__main__":
    main()
