# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a run whose play may be gone by its end; one that lives writes over it."""

from __future__ import annotations

import os
import sys
import time

from ansible_collections.pristine.vllm.plugins.module_utils.run_record import place
from ansible_collections.pristine.vllm.plugins.module_utils.run_record.compose import compose
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.journal import Journal, told
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.order import Order


def write(order: Order, journal: Journal) -> None:
    """Write what the play knew when it handed over, and what came of it.

    A record that cannot be written is no reason to end anything differently: the service's own journal says so.
    """
    known = order.record
    if not known:
        return
    try:
        record = compose(
            {**known["about"], "finished": time.time()},
            marks=known["marks"],
            plan=known["plan"],
            before=known["before"],
            journal=told(journal),
        )
        place.apply(place.plan(os.path.join(order.root, "records"), record))
    except Exception as error:  # noqa: BLE001 (as it says)
        sys.stderr.write(f"the record of run {order.run_id} cannot be written: {type(error).__name__}: {error}\n")
