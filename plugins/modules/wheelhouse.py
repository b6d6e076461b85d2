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
    counts when its sha256 is one of its row and its tags are those of the host that it is for, at every run.
  - Fetches with the pip of a fresh temporary environment that the system's Python makes, by exact pin and digest,
    without dependencies and without a cache.
  - The wheel of O(wheel_url) is fetched without pip, so that what has arrived of it is not lost when the connection
    breaks or the run is killed. The next run fetches the rest.
  - A wheel with a wrong digest is moved aside and fetched again. Wheels that the lock does not name are left alone, as
    are those for another Python or machine, whose digests a row may have too.
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
  lock_text:
    description: The text of the lock, in place of O(lock).
    type: str
  only:
    description: The pins of the rows to look at, as RV(missing) has them. By default all.
    type: list
    elements: str
  builder:
    description: The text of a lock in the same form, for what is needed besides. Nightly builds need a row for uv.
    type: str
  index_url:
    description:
      - The index to fetch from, instead of those of the host's pip settings.
      - An C(http) address is taken as trusted, because the digests vouch for what comes from it.
      - A folder, as an absolute path or a C(file) address, is a simple index. Or it holds wheels, and then it is the
        only source.
    type: str
  wheel_url:
    description:
      - The address of one wheel, as M(pristine.vllm.nightly_index_info) returns it. Its file name tells its row.
      - A C(file) address is copied.
    type: str
  wheel_index_url:
    description: The index that lists O(wheel_url). The user and password in it are used on the same server.
    type: str
  fetch:
    description:
      - Whether to fetch. If not, RV(missing) is what the folder lacks; wrong wheels are moved aside all the same.
    type: bool
    default: true
  target:
    description:
      - The host that the wheels are for, where it is another one. By default this one, with the Python of O(python).
      - RV(pristine.vllm.nightly_index_info#module:target) is one.
    type: dict
    suboptions:
      machine:
        description: The machine, as C(uname -m) says it.
        type: str
      python_version:
        description: The version of its Python, such as V(3.12).
        type: str
      glibc:
        description: The version of its C library, such as V(2.36).
        type: str
  find_links:
    description:
      - Pages and folders that pip looks at besides.
      - The page that M(pristine.vllm.nightly_index_info) returns is one, unless it is a C(metadata.json).
    type: list
    elements: str
    default: []
  no_index:
    description: Fetch from O(find_links) only.
    type: bool
    default: false
  python:
    description:
      - The system's interpreter, which the wheels are for. One that belongs to an environment is refused.
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
    wheel_url: "{{ pinned.url }}"

- name: The same without a network
  pristine.vllm.wheelhouse:
    path: /opt/vllm/wheels
    lock: /opt/vllm/lock.txt
    index_url: /mnt/wheels

- name: Once for all hosts of a site, on the controller
  pristine.vllm.wheelhouse:
    path: /srv/wheels
    lock_text: "{{ lookup('ansible.builtin.file', 'lock.txt') }}"
    target: "{{ pinned.target }}"
    wheel_url: "{{ pinned.url }}"
  delegate_to: localhost
  throttle: 1
"""

RETURN = r"""
downloaded:
  description: The pins whose wheels were fetched, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample:
    - vllm==0.16.0rc2.dev313+g662205d34
missing:
  description: The pins that have no wheel, where O(fetch=false).
  returned: success
  type: list
  elements: str
files:
  description: The file name of each wheel that is there, by pin. In check mode of those that were there before.
  returned: success
  type: dict
  sample:
    vllm==0.16.0rc2.dev313+g662205d34: vllm-0.16.0rc2.dev313+g662205d34-cp38-abi3-manylinux_2_31_x86_64.whl
bytes:
  description: The size of what was fetched by this run. 0 in check mode.
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
from typing import Any, Optional

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import BusyError
from ansible_collections.pristine.vllm.plugins.module_utils.index_http import secrets_of
from ansible_collections.pristine.vllm.plugins.module_utils.interpreter import InterpreterError, check_interpreter
from ansible_collections.pristine.vllm.plugins.module_utils.lock import (
    LockError,
    LockRow,
    merge_rows,
    parse_lock,
    read_lock,
)
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_target import Target, target_of, this_host
from ansible_collections.pristine.vllm.plugins.module_utils.wheelhouse import Outcome, complete
from ansible_collections.pristine.vllm.plugins.module_utils.wheelhouse_fetch import Source
from ansible_collections.pristine.vllm.plugins.module_utils.wheelhouse_resume import Direct, WheelhouseError

_ADDRESSES = ("index_url", "wheel_url", "wheel_index_url")


def _diff(rows: list[LockRow], outcome: Outcome) -> dict[str, str]:
    absent = {*outcome.downloaded, *outcome.missing}
    before = "".join(f"{row.pin}\n" for row in rows if row.pin not in absent)
    before += "".join(f"{entry['path']} (wrong sha256)\n" for entry in outcome.rejected)
    return {"before": before, "after": "".join(f"{row.pin}\n" for row in rows if row.pin not in outcome.missing)}


def _source(params: dict[str, Any]) -> Optional[Source]:
    if not params["fetch"]:
        return None
    names = ("python", "index_url", "find_links", "no_index", "timeout")
    url, index = params["wheel_url"], params["wheel_index_url"] or ""
    return Source(
        **{name: params[name] for name in names},
        target=target_of(params["target"]) if params["target"] else None,
        direct=Direct(url, index) if url else None,
    )


def _target(params: dict[str, Any]) -> Target:
    """The host that the wheels are for."""
    if params["target"]:
        return target_of(params["target"])
    try:
        return this_host(check_interpreter(params["python"]))
    except InterpreterError:
        # Who needs it says what is wrong with it.
        return this_host("")


def _unwritten(module: AnsibleModule) -> bool:
    """Whether an earlier task of this check would have written the lock."""
    return bool(module.check_mode and module.params["lock"] and not os.path.lexists(module.params["lock"]))


def _rows(module: AnsibleModule) -> list[LockRow]:
    params = module.params
    rows = parse_lock(params["builder"], "builder") if params["builder"] else []
    if _unwritten(module):
        module.warn(f"lock {params['lock']} is not there yet: its rows are not checked")
    elif params["lock"]:
        rows = merge_rows(read_lock(params["lock"]), rows)
    else:
        rows = merge_rows(parse_lock(params["lock_text"], "lock_text"), rows)
    return rows if params["only"] is None else [row for row in rows if row.pin in params["only"]]


def main() -> None:
    """Uses of ``module``: params, check_mode, no_log_values, warn, exit_json, fail_json."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "lock": {"type": "path"},
            "lock_text": {"type": "str"},
            "only": {"type": "list", "elements": "str"},
            "builder": {"type": "str"},
            "index_url": {"type": "str"},
            "find_links": {"type": "list", "elements": "str", "default": []},
            "no_index": {"type": "bool", "default": False},
            "wheel_url": {"type": "str"},
            "wheel_index_url": {"type": "str"},
            "fetch": {"type": "bool", "default": True},
            "target": {
                "type": "dict",
                "options": {name: {"type": "str"} for name in ("machine", "python_version", "glibc")},
            },
            "python": {"type": "path", "default": "/usr/bin/python3"},
            "quarantine": {"type": "path"},
            "timeout": {"type": "float", "default": 3600},
        },
        mutually_exclusive=[("lock", "lock_text")],
        required_one_of=[("lock", "lock_text")],
        supports_check_mode=True,
    )
    params = module.params
    addresses = [params[name] or "" for name in _ADDRESSES] + params["find_links"]
    module.no_log_values.update(secrets_of(addresses))
    try:
        rows = _rows(module)
        quarantine, target = params["quarantine"], _target(params)
        outcome = complete(params["path"], rows, _source(params), quarantine, module.check_mode, target)
    except (LockError, WheelhouseError, BusyError) as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"wheelhouse {params['path']} cannot be filled: {error}. Fix that and run again.")
    module.exit_json(
        changed=outcome.changed or _unwritten(module),
        downloaded=outcome.downloaded,
        missing=outcome.missing,
        files=outcome.files,
        bytes=outcome.bytes,
        present=outcome.present,
        rejected=outcome.rejected,
        diff=_diff(rows, outcome),
    )


if __name__ == "__main__":
    main()
