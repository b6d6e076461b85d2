#!/usr/bin/python
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List releases."""

from __future__ import annotations

DOCUMENTATION = r"""
module: env_release_info
short_description: List the releases of a Python environment
version_added: 0.1.0
description:
  - Reads what M(pristine.vllm.env_release) has built and where its links lead. Nothing of an environment is run.
  - A root that is not there has no releases. That is an answer and not a failure.
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
    description: The directory that holds C(releases), C(current) and C(previous).
    type: path
    required: true
  environment:
    description:
      - An environment that served before there was a C(current), to be adopted.
      - It is what RV(environment) describes for as long as there is no such link.
    type: path
  version:
    description: The version to find an unused release id for.
    type: str
author:
  - Pristine vLLM maintainers (@pristine-vllm)
"""

EXAMPLES = r"""
- name: See what serves and what the next release is called
  pristine.vllm.env_release_info:
    root: /opt/vllm
    environment: /root/ml-env
    version: 0.16.0rc2.dev313+g662205d34
  register: releases
"""

RETURN = r"""
environment:
  description: The live environment. That is C(<root>/current), or O(environment) where there is no such link.
  returned: success
  type: dict
  contains:
    path:
      description: The path as given, without a slash at its end.
      type: str
    real_path:
      description: The path with every link followed.
      type: str
    exists:
      description: Whether there is anything under that path, a dangling link included.
      type: bool
    is_environment:
      description: Whether it has C(pyvenv.cfg), C(bin/python) and C(lib/python3*/site-packages).
      type: bool
    problem:
      description: Why it is not an environment. V(none) when it is.
      type: str
    version:
      description: The installed version of vLLM, as its C(.dist-info) is named. V(none) without one or with several.
      type: str
    distributions:
      description:
        - The installed version of each distribution by its normalised name, as the C(.dist-info) are named.
        - Of one with several C(.dist-info), all versions in one text, such as V(1.0, 2.0).
      type: dict
      sample:
        torch: 2.10.0
current:
  description: Where C(current) leads. V(none) when there is no such link.
  returned: success
  type: dict
  contains:
    id:
      description: The release's id. V(none) for an environment elsewhere.
      type: str
    path:
      description: Where it is.
      type: str
    metadata:
      description: What its C(release.json) holds. V(none) without one.
      type: dict
previous:
  description: The same for C(previous).
  returned: success
  type: dict
previous_problem:
  description: Why what C(previous) leads to is no environment. V(none) when it is one, or there is no such link.
  returned: success
  type: str
releases:
  description: All releases with C(id), C(path) and C(metadata), oldest first. One without metadata was never finished.
  returned: success
  type: list
  elements: dict
next_id:
  description: The id for a new release of O(version). V(none) without O(version).
  returned: success
  type: str
  sample: 0.16.0rc2.dev313.g662205d34-1
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pristine.vllm.plugins.module_utils.release import (
    Layout,
    ReleaseError,
    describe_environment,
    environment_problem,
)


def main() -> None:
    """Uses of ``module``: params, exit_json, fail_json."""
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "required": True},
            "environment": {"type": "path"},
            "version": {"type": "str"},
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        layout = Layout(params["root"])
        links = {name: layout.link(name) for name in ("current", "previous")}
        live = os.path.join(layout.root, "current")
        if links["current"] is None and params["environment"]:
            # As all else names it: without a slash at its end.
            live = os.path.normpath(params["environment"])
        module.exit_json(
            changed=False,
            environment=describe_environment(live),
            releases=[place.describe() for place in layout.releases()],
            next_id=layout.next_id(params["version"]) if params["version"] else None,
            **{name: place.describe() if place else None for name, place in links.items()},
            previous_problem=environment_problem(links["previous"].path) if links["previous"] else None,
        )
    except ReleaseError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"{params['root']} cannot be read: {error}. Run as root.")


if __name__ == "__main__":
    main()
