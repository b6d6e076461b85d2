# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of an environment put back to what their wheels hold, as a part of a switchover: undone with all the rest."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from ansible_collections.pristine.vllm.plugins.module_utils.quarantine import Quarantine
from ansible_collections.pristine.vllm.plugins.module_utils.record import restore
from ansible_collections.pristine.vllm.plugins.module_utils.record.change import Plan
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import printable
from ansible_collections.pristine.vllm.plugins.module_utils.record.options import scan_options
from ansible_collections.pristine.vllm.plugins.module_utils.switchover import snapshot
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.journal import Journal

_SHOWN = 5


class RestoringError(Exception):
    """The restore would not lead out. The text says which files stay as they are, and what to do instead."""


@contextlib.contextmanager
def planned(options: dict[str, Any], quarantine: str) -> Iterator[Plan]:
    """Decide what is put back and what is removed, and keep others from changing the environment meanwhile.

    :param options: those of `wheel_record`.
    :raises RestoreError, ScanError: a byte that is needed is not to be had, or nothing can be scanned.
    :raises RestoringError: something would still differ: that is known before the service is stopped for it.
    """
    request = restore.Request(scan_options(options), quarantine, bool(options.get("remove_unexpected")))
    with restore.writing(request.options.environment), restore.plan(request) as decided:
        staying = [
            f"{printable(finding.path)} ({finding.status}: {reason})"
            for finding, reason in decided.left
            if finding.counts
        ]
        if staying:
            more = f" and {len(staying) - _SHOWN} more" if len(staying) > _SHOWN else ""
            raise RestoringError(
                f"a restore of {request.options.environment} would leave what is not pristine: "
                f"{'; '.join(staying[:_SHOWN])}{more}. Nothing was stopped. Next: run the playbook reinstall."
            )
        yield decided


def keep(decided: Plan, quarantine: str) -> list[snapshot.Saved]:
    """Keep all that is to be replaced or removed, as it is, and the directories that may come or go with it.

    :raises OSError: something cannot be kept.
    """
    every = [change.file for change in decided.restored + decided.removed]
    folders = {file for file in every if os.path.isdir(file) and not os.path.islink(file)}
    files = [file for file in every if file not in folders]
    for file in every:
        folder = os.path.dirname(file)
        while folder.startswith(decided.root + "/") and folder not in folders:
            folders.add(folder)
            folder = os.path.dirname(folder)
    return snapshot.take_folders(sorted(folders)) + snapshot.take(files, Quarantine(quarantine))


def apply(decided: Plan, quarantine: str, journal: Journal) -> None:
    """Put everything back, each file by a rename, and drop the bytecode of what was wrong.

    :raises ScanError: something cannot be replaced or removed.
    """
    restore.apply(decided, quarantine)
    told = decided.to_dict()
    journal.restored = {name: told[name] for name in ("counts", "restored", "removed")}
