#!/usr/bin/python
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the files of a Python environment with what its wheels say."""

from __future__ import annotations

DOCUMENTATION = r"""
module: wheel_record_info
short_description: Compare the installed files of a Python environment with their wheels' RECORD
version_added: 0.1.0
description:
  - Reads every file of a virtual environment, and says which are not byte for byte what their wheels hold, which are
    gone, and which nobody's RECORD lists although Python could run them.
  - Changes nothing, and neither imports nor runs anything from the environment.
  - The installed RECORD is only an index that anyone could have edited along with the file. Give O(wheels), and better
    O(lock) too, to compare with the wheels themselves; RV(summary.verified_against) tells what the answer rests on.
  - Bytecode is looked at too, as far as its header tells whether Python would take it for its source's. That it is made
    from its source, only O(recompile) can tell.
extends_documentation_fragment:
  - pristine.vllm.attributes
attributes:
  check_mode:
    support: full
    details: Nothing is changed in either mode, O(cache) aside.
  diff_mode:
    support: full
    details: Shows the differences that were found, from the wheel's text to the installed one. Needs O(wheels).
options:
  environment:
    description: The root of the virtual environment. A symlink to it is followed.
    type: path
    required: true
  distributions:
    description:
      - Only these distributions, and what nobody lists in their packages. By default all, and the whole environment.
      - One that is not installed is an error.
    type: list
    elements: str
    default: []
  files:
    description:
      - Only these files, as RECORD has them, for instance V(vllm/model_executor/models/deepseek_v2.py).
      - One that no RECORD lists and that is not there either is an error.
    type: list
    elements: str
    default: []
  wheels:
    description:
      - Where pristine content may come from, tried in order - a wheel file, a folder of wheels, the http(s) address of
        a wheel, or that of a simple index (PEP 503 or PEP 691). Addresses are asked only for what is not found locally.
      - Of a wheel on a server only the parts that are needed are fetched, by Range requests. Where the server knows
        none, the wheel is downloaded to a temporary file, up to 2 GiB in all, else left aside with a warning. So is a
        wheel that is replaced twice while it is read, or whose server sends anything but what was asked for.
      - A wheel that was read by parts counts as V(wheel_record) at most; only a whole one can be V(pinned_wheel).
      - Credentials may be part of an address or in C(.netrc). They are masked in what is returned.
      - A distribution whose wheel is not among them is compared with its installed RECORD, with a warning where a
        server was asked for it.
    type: list
    elements: str
    default: []
  lock:
    description:
      - A requirements file with C(--hash=sha256:...) for every row.
      - A wheel whose digest it names counts as pinned. One that it gives other digests for is refused, with a warning.
      - A wheel that is read by parts has no digest to check. It is refused where its index gives it another digest.
    type: path
  adaptations:
    description: Declared differences, which must be there.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: The file, as RV(findings[].path) names it.
        type: str
        required: true
      sha256:
        description: What the adapted file must be, as 64 hexadecimal digits.
        type: str
        required: true
      reason:
        description: Why. It is the detail of the finding.
        type: str
        required: true
  ignore:
    description:
      - Globs of paths, as RV(findings[].path) names them, that are never reported, only counted in RV(summary.ignored).
      - A C(*) or C(?) matches no slash, C(**) does. C([...]) is a set. A backslash makes the next character literal.
      - A pattern that is a path, letter by letter, always matches it, whatever brackets or commas it holds. Give a YAML
        list, since Ansible splits a string at its commas.
    type: list
    elements: str
    default: []
  recompile:
    description:
      - Compile the source of each bytecode file that Python would run, and compare the two. This takes about 2.5 ms of
        processor time for each file.
      - It is done by the CPython that the environment's C(pyvenv.cfg) names as its origin, started isolated
        (C(-I -S -B)). One that lies in the environment, or that others than root and this user could have put there, is
        not started, and that is an error.
      - Bytecode that another patch release of the same Python wrote may differ.
    type: bool
    default: false
  cache:
    description:
      - A file that remembers what this scan reads, so that the next one reads only what changed. By default none.
      - A file is taken for unchanged while its inode, size, mode and times are the same, which root can forge. Only
        files whose times were a minute old when they were read are remembered, and none reached through a link.
      - RV(summary.from_cache) counts the files that were not read. Whole wheels that O(lock) pins are remembered too.
      - It is ignored, with a warning, and written anew when it is damaged, belongs to someone else than root or the
        user who scans, could be written by others, is of another environment or release, or the clock was set since.
      - Not used when O(files) is given.
    type: path
  max_findings:
    description:
      - How many findings, and how many probes of them, are returned at most; V(0) for all. Those that count against
        RV(pristine) are preferred to others, and probes that dump tensors to other probes.
      - RV(pristine) and the counts in RV(summary) are of all of them, and M(pristine.vllm.drift_archive) keeps all of
        them when it is not told which.
    type: int
    default: 1000
  workers:
    description: How many processes hash files. By default as many as there are usable cores, or one in O(background).
    type: int
  background:
    description:
      - Give way to all else on the host, with a scan by one process that has processor (C(SCHED_IDLE)) and disk
        (C(ionice -c 3)) only while nobody else wants them.
      - A priority that the host refuses is a warning, and the scan goes on.
    type: bool
    default: false
author:
  - Pristine vLLM maintainers (@pristine-vllm)
"""

EXAMPLES = r"""
- name: Is anything in the environment not what its wheel says?
  pristine.vllm.wheel_record_info:
    environment: /opt/vllm/current
    wheels:
      - /opt/vllm/wheels
    lock: /opt/vllm/lock.txt
    ignore:
      - vllm/model_executor/layers/fused_moe/configs/**
      - 'my_tools/table[1],[2].py'
  register: scan

- name: Show what was changed in one file, with less than a megabyte from the package index
  pristine.vllm.wheel_record_info:
    environment: /root/ml-env
    files:
      - vllm/model_executor/models/deepseek_v2.py
    wheels:
      - https://packages.example.com/simple/
  diff: true

- name: Show what was changed in one file
  pristine.vllm.wheel_record_info:
    environment: /root/ml-env
    files:
      - vllm/model_executor/models/deepseek_v2.py
    wheels:
      - /opt/vllm/wheels
  diff: true
"""

RETURN = r"""
pristine:
  description: Nothing but declared differences was found. What nobody can verify does not count, but is a finding.
  returned: success
  type: bool
findings:
  description: What is not as the wheels say, sorted by path.
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: >-
        Relative to site-packages where the file lies in it, else to the environment. Bytes that are no UTF-8 are
        C(\xNN).
      type: str
    file:
      description: The absolute path.
      type: str
    distribution:
      description: Normalised name of the distribution it belongs to, V(none) where it belongs to none.
      type: str
    status:
      description:
        - V(modified), size or content differs, or it is no regular file any more. With O(wheels) also a script that
          does not start what its wheel says, or starts it with another interpreter than that of the environment.
        - V(missing), recorded and not there.
        - V(unexpected), nobody's RECORD lists it, and it could be imported or executed.
        - V(redirected), a symlink, or reached through one, that leads out of the environment. It was not opened.
        - V(record_edited), the installed RECORD is not what the wheel's RECORD says.
        - V(outside), a RECORD row that points out of the environment. It was not opened.
        - V(duplicate), several C(.dist-info) of one distribution.
        - V(leftover), remains of an interrupted installation, such as pip's C(~name) and an empty RECORD.
        - V(bytecode), bytecode that Python would run although it is not its source's, or without a source. Bytecode
          that Python ignores and writes anew is no finding.
        - V(unreadable), it could not be read.
        - V(unadapted), a declared adaptation is not there.
        - V(declared), an adaptation, exactly as declared. Does not count against RV(pristine).
        - V(unverifiable), there is nothing to compare it with, or it is what the wheel holds although the wheel's own
          RECORD says otherwise. Does not count against RV(pristine).
      type: str
    detail:
      description: What was seen, for a human.
      type: str
    expected_sha256:
      description: What it should be, where that is known.
      type: str
    actual_sha256:
      description: What it is, where it was read.
      type: str
    verified_against:
      description:
        - V(installed_record), which anyone could have edited.
        - V(wheel_record), a wheel whose own digest was not checked.
        - V(pinned_wheel), a wheel that matched the digest in O(lock).
      type: str
  sample:
    - path: vllm/model_executor/models/deepseek_v2.py
      file: /opt/vllm/releases/1/lib/python3.12/site-packages/vllm/model_executor/models/deepseek_v2.py
      distribution: vllm
      status: modified
      detail: size is 60312 bytes, recorded 58834
      expected_sha256: 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881
      actual_sha256: 9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab
      verified_against: pinned_wheel
summary:
  description: How much was looked at. Besides the keys below, it has the number of findings of each status.
  returned: success
  type: dict
  contains:
    distributions:
      description: Distributions whose files were compared.
      type: int
    files:
      description: Files that were compared.
      type: int
    bytes_hashed:
      description: Bytes that were read and hashed.
      type: int
    seconds:
      description: Wall time.
      type: float
    verified_against:
      description:
        - The weakest of RV(findings[].verified_against) that the answer rests on.
        - What installers add to C(.dist-info) themselves (such as C(INSTALLER)) is in no wheel, and is left aside here.
      type: str
    from_cache:
      description: Files that were not read, because a cache knew them.
      type: int
    ignored:
      description: Findings that were left out because of O(ignore).
      type: int
    truncated:
      description: Findings that are counted here and were left out of RV(findings) because of O(max_findings).
      type: int
    remote_requests:
      description: HTTP requests that wheels on servers took, redirects included. Differences and probes count too.
      type: int
    remote_bytes:
      description: Bytes of the bodies that were received for them.
      type: int
probes:
  description:
    - What was added to each modified Python source whose pristine text is known. Names are resolved through imports.
    - The code of a probe has what looks like a secret masked, and so has the diff.
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: As in RV(findings).
      type: str
    line:
      description: Line in the installed file.
      type: int
    kind:
      description: One of V(tensor_dump), V(counter), V(print), V(breakpoint), V(env_read), V(other).
      type: str
    code:
      description: The statement, of a compound one its head.
      type: str
    artifact_glob:
      description: For a dump, the files that it writes, as far as that can be told.
      type: str
diff:
  description: For each finding, a C(prepared) unified diff from the wheel's text to the installed one, capped.
  returned: in diff mode
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pristine.vllm.plugins.module_utils.index_http import secrets_of
from ansible_collections.pristine.vllm.plugins.module_utils.priority import give_way
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import ScanError
from ansible_collections.pristine.vllm.plugins.module_utils.record.options import (
    result_argument_spec,
    result_limit,
    scan_argument_spec,
    scan_options,
)
from ansible_collections.pristine.vllm.plugins.module_utils.record.result import result_of
from ansible_collections.pristine.vllm.plugins.module_utils.record.scan import scan


def main() -> None:
    """Uses of the module: params, check_mode and _diff are read, warn, fail_json and exit_json called.

    And no_log_values is added to.
    """
    spec = {**scan_argument_spec(), **result_argument_spec(), "background": {"type": "bool", "default": False}}
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    params = module.params
    module.no_log_values.update(secrets_of(params["wheels"]))
    if params["background"]:
        params["workers"] = 1 if params["workers"] is None else params["workers"]
        for problem in give_way():
            module.warn(problem)
    try:
        limit = result_limit(params)
        done = scan(scan_options(params))
    except ScanError as error:
        module.fail_json(msg=str(error))
    result = result_of(done, limit, module._diff)
    done.close()
    for warning in done.result.warnings:
        module.warn(warning)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
