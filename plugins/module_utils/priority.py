# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The priority of work that is never urgent, on a host that has something better to do."""

from __future__ import annotations

import os

from ansible_collections.pristine.vllm.plugins.module_utils.command import Run, run

# Of ionice(1): as SCHED_IDLE for the processor, see sched(7).
_IO_IDLE = "3"


def give_way(start: Run = run) -> list[str]:
    """Let this process, and what it forks from now on, have processor and disk only while nobody else wants them.

    There is no way back without privileges.

    :returns: why it could not be done, in a sentence for each of the two.
    """
    problems = []
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except OSError as error:
        problems.append(f"the processor is used at normal priority, as SCHED_IDLE was refused: {error.strerror}")
    failure = start(["ionice", "--class", _IO_IDLE, "--pid", str(os.getpid())]).failure
    if failure:
        problems.append(f"the disk is used at normal priority: {failure}")
    return problems
