#!/usr/bin/python
# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the history of a host's drift, decide what to do about it, and write metrics."""

from __future__ import annotations

DOCUMENTATION = r"""
module: drift_state
short_description: Keep the history of a host's drift, decide what to do about it, and write metrics
version_added: 0.1.0
description:
  - Takes what a scan found, and remembers since when each finding is there. The same finding is news only once.
  - Decides by O(policy), O(windows), O(max_per_day), O(cool_down) and O(hold_file) whether something is to be
    remediated now. It remediates nothing itself.
  - Writes the state for the textfile collector of Prometheus' node exporter.
  - A damaged history begins anew, with a warning, and is kept beside the new one as C(<path>.damaged).
extends_documentation_fragment:
  - pristine.vllm.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: Shows the metrics.
options:
  path:
    description: The file that keeps the history. Its folder is made where it is missing.
    type: path
    required: true
  environment:
    description: The environment that the history is of. It is a label of every metric.
    type: str
    required: true
  findings:
    description:
      - What the scan found, as M(pristine.vllm.wheel_record_info) and M(pristine.vllm.process_freshness_info) tell it.
      - Each has a C(kind) (one of those of O(kinds)), a C(path) and a C(status), and may have C(distribution),
        C(detail), C(expected_sha256) and C(actual_sha256). Anything else is left aside.
      - What has the status V(declared) or V(unverifiable) is remembered and does not count as drift.
    type: list
    elements: dict
    default: []
  kinds:
    description:
      - The kinds that were looked at from end to end. Only of these a finding that is not in O(findings) is gone.
      - One of the kind V(artifacts) is not as long as there is something at its path.
    type: list
    elements: str
    choices: [code, model_config, unit, link, process, artifacts]
    default: []
  scan:
    description:
      - What the scan took, C(seconds), C(bytes_hashed), C(files) and C(from_cache), as
        RV(pristine.vllm.wheel_record_info#module:summary) has them.
      - While its C(truncated) is not 0, a finding of the kind V(code) is gone only if it counts and O(findings) holds
        one that does not, since those that count are listed first. How many of each status were left out is told by the
        metrics, as of the distribution C((not listed\)).
      - Left out where nothing was scanned, for instance to begin a history, so that an alert can tell a scan that never
        runs.
    type: dict
  errors:
    description: What could not be looked at, and why. With any, the scan has failed and nothing is due.
    type: list
    elements: str
    default: []
  policy:
    description:
      - For each kind what to do about its findings - V(report), V(restore) or V(reinstall). A kind that is not named is
        reported. What findings of several kinds ask for, the last of these does for all.
    type: dict
    default: {}
  windows:
    description: When remediations may begin. Without any, at any time.
    type: list
    elements: dict
    default: []
    suboptions:
      days:
        description: The days on which it opens, V(mon) to V(sun). By default all.
        type: list
        elements: str
      from:
        description: When it opens, such as V(22:00). Give it in quotes.
        type: str
        required: true
      to:
        description: When it closes. One that is not later than O(windows[].from) is of the next day.
        type: str
        required: true
      timezone:
        description: Whose clocks these times are of, such as V(Europe/Berlin).
        type: str
        default: UTC
  max_per_day:
    description: How many remediations there may be within any 24 hours, failed ones included.
    type: int
    default: 1
  cool_down:
    description: How many seconds there are none after a failed one.
    type: int
    default: 21600
  hold_file:
    description: A file that keeps the host from being remediated for as long as it is there. Its text is the reason.
    type: path
  remediation:
    description: One that this run has tried. Is RV(decision.verdict) not V(remediated), it counts as failed.
    type: dict
    suboptions:
      action:
        description: How it was tried.
        type: str
        required: true
        choices: [restore, reinstall]
      succeeded:
        description: Whether it ended well.
        type: bool
        required: true
      begun:
        description:
          - Whether it is only about to be handed over to the host. Until the same O(remediation.run_id) tells how it
            ended it counts as failed, but no metric tells of it.
          - A later run that has the host to itself, or four hours, make it one that failed.
        type: bool
        default: false
      time:
        description: When it ended, or began, in seconds since the epoch. By default O(now).
        type: float
      downtime_seconds:
        description: How long the service was away.
        type: float
        default: 0
      run_id:
        description: The run record that tells about it.
        type: str
        default: ""
  run_id:
    description:
      - The run that has the host to itself, as M(pristine.vllm.run_lock) sees to it. With O(scan) or O(errors), what
        another run has begun and never ended has failed then.
    type: str
    default: ""
  textfile:
    description: The file for the metrics, in the folder that node exporter reads. It must end in C(.prom).
    type: path
  interval:
    description:
      - How many seconds there are between two scheduled scans, for the alerts on missed ones. It is remembered.
      - Left out, what is remembered counts, so that a scan by hand changes nothing about it. Where nothing is, no
        metric tells of it. V(0) forgets it, as no scan is scheduled any more.
    type: int
  retention_days:
    description: How long runs, remediations and findings that are gone are remembered.
    type: int
    default: 90
  now:
    description: The time, in seconds since the epoch. By default that of the host.
    type: float
author:
  - Pristine vLLM maintainers (@pristine-vllm)
"""

EXAMPLES = r"""
- name: Decide
  pristine.vllm.drift_state:
    path: /opt/vllm/drift/state.json
    environment: /opt/vllm/current
    findings: "{{ scan.findings | map('combine', {'kind': 'code'}) }}"
    kinds: [code]
    scan: "{{ scan.summary }}"
    policy:
      code: reinstall
      artifacts: restore
    windows:
      - days: [sat, sun]
        from: "22:00"
        to: "04:00"
        timezone: Europe/Berlin
    hold_file: /etc/pristine-vllm.hold
    textfile: /var/lib/prometheus/node-exporter/pristine_vllm.prom
  register: watch
"""

RETURN = r"""
decision:
  description: What is to be done.
  returned: success
  type: dict
  contains:
    verdict:
      description:
        - V(pristine), nothing counts as drift. V(reported), something does, and nothing is to be done about it now.
        - V(held), a remediation would be due, but for O(hold_file). V(due), it is to be done now.
        - V(remediated) and V(remediation_failed), with O(remediation). V(scan_failed), with O(errors).
      type: str
    action:
      description: V(none), V(report), V(restore) or V(reinstall). One of the latter two only when it is due.
      type: str
    wanted:
      description: What the policy asks for, now or later.
      type: str
    kinds:
      description: The kinds of findings that it is about.
      type: list
      elements: str
    reason:
      description: Why, for a human.
      type: str
    next_possible:
      description: When it can be done, in seconds since the epoch. V(none) when never, or there is nothing to do.
      type: float
    next_possible_utc:
      description: The same, to be read.
      type: str
findings:
  description: What is there, in the order in which it is shown. What was not looked at now is as it was.
  returned: success
  type: list
  elements: dict
  contains:
    first_seen:
      description: The scan that first saw it, in seconds since the epoch.
      type: float
    new:
      description: Whether that is this one.
      type: bool
    counts:
      description: Whether it is drift.
      type: bool
gone:
  description: What the scan before saw and this one did not.
  returned: success
  type: list
  elements: dict
hold:
  description: Why the host is held. V(none) when it is not.
  returned: success
  type: str
last_remediation:
  description: >-
    The last one, with C(time), C(action), C(succeeded), C(downtime_seconds), C(run_id) and C(begun). V(none) without
    any.
  returned: success
  type: dict
"""

import dataclasses
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.pristine.vllm.plugins.module_utils.drift.ask import ARGUMENT_SPEC, ask_of
from ansible_collections.pristine.vllm.plugins.module_utils.drift.state import StateError
from ansible_collections.pristine.vllm.plugins.module_utils.drift.tick import Ask, Plan, apply, locked, plan
from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import BusyError


def result_of(ask: Ask, planned: Plan) -> dict[str, Any]:
    """The result for Ansible."""
    past = planned.state.remediations
    return {
        "changed": planned.changed,
        "decision": planned.decision.to_dict(),
        "findings": planned.findings(),
        "gone": [finding.to_dict() for finding in planned.gone()],
        "hold": planned.state.hold,
        "last_remediation": dataclasses.asdict(past[-1]) if past else None,
        "diff": {
            "before_header": ask.textfile,
            "after_header": ask.textfile,
            "before": planned.metrics_before,
            "after": planned.metrics_after,
        },
    }


def run(ask: Ask, now: float, check_mode: bool) -> Plan:
    """Decide, and unless in check mode write it down."""
    if check_mode:
        return plan(ask, now)
    with locked(ask.path):
        planned = plan(ask, now)
        apply(ask, planned)
        return planned


def main() -> None:
    """Uses of ``module``: params, check_mode, warn, exit_json, fail_json."""
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, supports_check_mode=True)
    now = module.params["now"] if module.params["now"] is not None else time.time()
    try:
        ask = ask_of(module.params, now)
        planned = run(ask, now, module.check_mode)
    except (StateError, BusyError, ValueError) as error:
        module.fail_json(msg=str(error))
    if planned.damage is not None:
        module.warn(planned.damage)
    module.exit_json(**result_of(ask, planned))


if __name__ == "__main__":
    main()
