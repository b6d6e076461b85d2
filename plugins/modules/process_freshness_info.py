#!/usr/bin/python
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell whether a service runs what is on disk, and whether its unit and its link are as they should be."""

from __future__ import annotations

DOCUMENTATION = r"""
module: process_freshness_info
short_description: Tell whether a service runs what is on disk
version_added: 0.1.0
description:
  - Compares the start of the unit's main process with the change times (ctime) of the code in its environment, and what
    its processes have mapped with what is under those paths now. A time of modification that was put back hides
    nothing.
  - Compares the unit, with its drop-ins, as systemd has it loaded, with what it should be.
  - Looks where C(<root>/current) leads.
  - Changes nothing, and runs nothing but C(systemctl show).
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
  unit:
    description: The systemd unit. Without one, neither unit nor process is looked at.
    type: str
  unit_files:
    description:
      - The unit's files by their path, drop-ins included, each with the sha256 that it must have, or an empty text for
        any.
      - Any other file that systemd takes for the unit is a finding. Drop-ins for all services that packages and
        container managers bring (C(service.d) below C(/usr/lib), C(/lib) and C(/run)) are only shown.
      - Left out where nobody knows what the unit should be. Then its files are only shown.
    type: dict
  environment:
    description: The environment that the service should run from. Without one, the process is not looked at.
    type: path
  root:
    description: The folder whose C(current) is looked at.
    type: path
  release:
    description: The release (by its id) or environment (by its path) that C(current) should lead to. By default any.
    type: str
author:
  - Pristine vLLM maintainers (@pristine-vllm)
"""

EXAMPLES = r"""
- name: Does the service run what is on disk?
  pristine.vllm.process_freshness_info:
    unit: vllm-kimi-k25
    unit_files:
      /etc/systemd/system/vllm-kimi-k25.service: 6ad43f7e3a01af81a1f9a4a4ad3a9ec4a4a4c1f0ad0c4e6a3f0e3c6df80ba41d
    environment: /opt/vllm/current
    root: /opt/vllm
  register: freshness
"""

RETURN = r"""
findings:
  description: What is not as it should be, in the form that M(pristine.vllm.drift_state) takes.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: V(unit), V(link) or V(process).
      type: str
    path:
      description: The file, the link, or the unit.
      type: str
    status:
      description:
        - Of a unit V(modified), V(missing), V(unexpected), V(unused) (another file is taken in its place),
          V(redirected), V(unreadable), V(masked), V(reload_needed), or V(unverifiable), which does not count.
        - Of the link V(missing), V(dangling), V(redirected), or V(modified) (it is no link).
        - Of a process V(changed) (a file that it may have loaded is newer than its start), V(touched) (the same,
          although the file's mtime is older), V(replaced) (a file that it has mapped), or V(other_environment).
      type: str
    detail:
      description: What was seen, for a human.
      type: str
    expected_sha256:
      description: What the file should be.
      type: str
    actual_sha256:
      description: What it is.
      type: str
kinds:
  description: The kinds of which all could be looked at.
  returned: success
  type: list
  elements: str
errors:
  description: What could not be looked at, and why.
  returned: success
  type: list
  elements: str
restart_needed:
  description: Whether a process runs something else than what is on disk. V(none) when that is not known.
  returned: success
  type: bool
main_pid:
  description: The main process. V(none) when there is none.
  returned: success
  type: int
started:
  description: When it began, in seconds since the epoch, by the clock as it is set now.
  returned: success
  type: float
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pristine.vllm.plugins.module_utils.drift.freshness import Ask, look

ARGUMENT_SPEC: dict[str, dict[str, Any]] = {
    "unit": {"type": "str"},
    "unit_files": {"type": "dict"},
    "environment": {"type": "path"},
    "root": {"type": "path"},
    "release": {"type": "str"},
}


def main() -> None:
    """Uses of ``module``: params, exit_json."""
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    found = look(Ask(**module.params))
    module.exit_json(
        changed=False,
        findings=[finding.to_dict() for finding in found.findings],
        kinds=found.kinds,
        errors=found.errors,
        restart_needed=found.restart_needed,
        main_pid=found.main_pid,
        started=found.started,
    )


if __name__ == "__main__":
    main()
