# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last look before a switchover is done: what is live is what its wheels hold, and adapted."""

from __future__ import annotations

from ansible_collections.pristine.vllm.plugins.module_utils.record.options import scan_options
from ansible_collections.pristine.vllm.plugins.module_utils.record.result import result_of
from ansible_collections.pristine.vllm.plugins.module_utils.record.scan import scan
from ansible_collections.pristine.vllm.plugins.module_utils.report import findings_lines
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.changes import config_plan
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.journal import Journal
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.order import Order

_FINDINGS = 200


class NotPristineError(Exception):
    """What was verified is not what it must be."""


def verify(order: Order, journal: Journal) -> None:
    """Scan what is live and look at the configuration once more.

    :raises NotPristineError: something is not what it must be.
    :raises ScanError: it cannot be scanned.
    """
    wanted = order.verify or order.restore
    if wanted:
        done = scan(scan_options(wanted))
        try:
            result = result_of(done, _FINDINGS)
        finally:
            done.close()
        journal.scan = {name: result[name] for name in ("pristine", "summary", "findings")}
        if not result["pristine"]:
            raise NotPristineError(
                f"{wanted['environment']} is not what its wheels hold: "
                f"{'; '.join(findings_lines(result['findings'], limit=5))}. Next: find what writes there "
                "(`ls -l --time-style=full-iso` on the first file), then run again."
            )
    for config in order.configs:
        plan = config_plan(config)
        if plan is not None and plan.changes:
            raise NotPristineError(
                f"{config.path} lost its adaptation again during the run: something wrote it back. "
                "Next: find what writes there (a model refresh?), then run again."
            )
