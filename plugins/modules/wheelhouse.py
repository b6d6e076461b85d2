#!/usr/bin/python
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep a folder with the pinned wheel for each row of a lock."""

from __future__ import annotations

DOCUMENTATION = r"""
module: wheelhouse
short_description: Keep a folder with the pinned wheel for each row of a lock
version_added: 0.1.0
description:
  - Reads every wheel of the folder that a row of the lock could mean, and fetches those that are not there. A wheel
    counts by its sha256 alone, at every run.
  - Fetches with the pip of a fresh temporary environment that the system's Python makes, by exact pin and digest,
    without dependencies and without a cache.
  - A wheel with a wrong digest is moved aside and fetched again. Wheels that the lock does not name are left alone.
  - May be killed at any moment. A wheel gets its name when it is complete, checked and on disk.
  - C(PIP_*) settings for indexes, certificates and time limits, pip's configuration files and proxies apply. No other
    variable for pip or Python does.
extends_documentation_fragment:
  - pristine.vllm.attributes
attributes:
  check_mode:
    support: full
    details: A lock that an earlier task of the same check would have written is taken as new, with a warning.
  diff_mode:
    support: full
options:
  path:
    description: The folder. It is made when it is not there.
    type: path
    required: true
  lock:
    description:
      - A requirements file on the host. Every row is C(name==version) with a C(--hash=sha256:...) for each wheel that
        will do.
      - Options, links, markers and ranges are refused.
    type: path
    required: true
  builder:
    description: The text of a lock in the same form, for what is needed besides. Nightly builds need a row for uv.
    type: str
  index_url:
    description:
      - The index to fetch from, instead of those of the host's pip settings.
      - An C(http) address is taken as trusted, because the digests vouch for what comes from it.
    type: str
  find_links:
    description:
      - Pages and folders that pip looks at besides.
      - The page that M(pristine.vllm.nightly_index_info) returns is one.
    type: list
    elements: str
    default: []
  no_index:
    description: Fetch from O(find_links) only.
    type: bool
    default: false
  python:
    description: The system's interpreter. One that belongs to an environment is refused.
    type: path
    default: /usr/bin/python3
  quarantine:
    description: Where wheels with a wrong digest are moved. By default C(.rejected) in O(path).
    type: path
  timeout:
    description: How many seconds the downloads may take in all.
    type: float
    default: 3600
author:
  - Pristine vLLM maintainers (@pristine-vllm)
"""

EXAMPLES = r"""
- name: Have every pinned wheel on the host
  pristine.vllm.wheelhouse:
    path: /opt/vllm/wheels
    lock: /opt/vllm/lock.txt
    find_links:
      - "{{ pinned.page }}"

- name: The same without a network
  pristine.vllm.wheelhouse:
    path: /opt/vllm/wheels
    lock: /opt/vllm/lock.txt
    find_links:
      - /mnt/wheels
    no_index: true
"""

RETURN = r"""
downloaded:
  description: The pins whose wheels were fetched, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample:
    - vllm==0.16.0rc2.dev313+g662205d34
bytes:
  description: The size of what was fetched. 0 in check mode.
  returned: success
  type: int
present:
  description: How many rows had their wheel before.
  returned: success
  type: int
rejected:
  description: The wheels that had a row's name and version and another digest.
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: Where the wheel was.
      type: str
    sha256:
      description: Its digest. V(none) for a symlink.
      type: str
    kept:
      description: Where it is now. V(none) in check mode.
      type: str
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import BusyError
from ansible_collections.pristine.vllm.plugins.module_utils.lock import (
    LockError,
    LockRow,
    merge_rows,
    parse_lock,
    read_lock,
)
from ansible_collections.pristine.vllm.plugins.module_utils.wheelhouse import Outcome, complete
from ansible_collections.pristine.vllm.plugins.module_utils.wheelhouse_fetch import Source, WheelhouseError


def _diff(rows: list[LockRow], outcome: Outcome) -> dict[str, str]:
    absent = set(outcome.downloaded)
    before = "".join(f"{row.pin}\n" for row in rows if row.pin not in absent)
    before += "".join(f"{entry['path']} (wrong sha256)\n" for entry in outcome.rejected)
    return {"before": before, "after": "".join(f"{row.pin}\n" for row in rows)}


def _rows(module: AnsibleModule) -> list[LockRow]:
    builder = parse_lock(module.params["builder"], "builder") if module.params["builder"] else []
    if module.check_mode and not os.path.lexists(module.params["lock"]):
        module.warn(f"lock {module.params['lock']} is not there yet: its rows are not checked")
        return builder
    return merge_rows(read_lock(module.params["lock"]), builder)


def main() -> None:
    """Uses of ``module``: params, check_mode, warn, exit_json, fail_json."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "lock": {"type": "path", "required": True},
            "builder": {"type": "str"},
            "index_url": {"type": "str"},
            "find_links": {"type": "list", "elements": "str", "default": []},
            "no_index": {"type": "bool", "default": False},
            "python": {"type": "path", "default": "/usr/bin/python3"},
            "quarantine": {"type": "path"},
            "timeout": {"type": "float", "default": 3600},
        },
        supports_check_mode=True,
    )
    params = module.params
    names = ("python", "index_url", "find_links", "no_index", "timeout")
    source = Source(**{name: params[name] for name in names})
    try:
        rows = _rows(module)
        outcome = complete(params["path"], rows, source, params["quarantine"], module.check_mode)
    except (LockError, WheelhouseError, BusyError) as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"wheelhouse {params['path']} cannot be filled: {error}. Fix that and run again.")
    module.exit_json(
        changed=outcome.changed or not os.path.lexists(params["lock"]),
        downloaded=outcome.downloaded,
        bytes=outcome.bytes,
        present=outcome.present,
        rejected=outcome.rejected,
        diff=_diff(rows, outcome),
    )


if __name__ == "__main__":
    main()
