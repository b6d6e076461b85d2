# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which records are out of date: those of the drift watch that looked and changed nothing, and only those."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import read_file

# A run's id begins with the time at which it began.
_NAME = re.compile(r"(\d{8}T\d{6}Z)[A-Za-z0-9._-]*\.json")


def outdated(folder: str, before: float) -> list[str]:
    """The files of records that ended before that time and are not worth keeping, a record's JSON after its Markdown.

    What a run has changed, or tried to, stays for ever, and so does what cannot be read as a record.

    :raises OSError: the folder is there and cannot be read.
    """
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    since = datetime.fromtimestamp(before, timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    found: list[str] = []
    for name in names:
        # By the name alone most are known to be younger, and need not be read.
        began = _NAME.fullmatch(name)
        if began is None or began[1] >= since or not _done_with(_record(os.path.join(folder, name)), name, before):
            continue
        text = os.path.join(folder, f"{name.removesuffix('.json')}.md")
        found += [text] if os.path.lexists(text) else []
        found.append(os.path.join(folder, name))
    return found


def remove(paths: Iterable[str]) -> dict[str, str]:
    """Remove them, and tell which could not be, and why."""
    problems: dict[str, str] = {}
    for path in paths:
        if f"{path.removesuffix('.json')}.md" in problems:
            # Without it nobody would know the Markdown for what it is.
            problems[path] = "its Markdown is still there"
            continue
        try:
            os.unlink(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            problems[path] = error.strerror or str(error)
    return problems


def _record(path: str) -> Optional[dict[str, Any]]:
    try:
        record = json.loads(read_file(path))
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _done_with(record: Optional[dict[str, Any]], name: str, before: float) -> bool:
    if record is None or f"{record.get('run_id')}.json" != name:
        return False
    ended = record.get("finished_epoch")
    kind = record.get("playbook"), record.get("outcome")
    return kind == ("drift", "checked") and isinstance(ended, (int, float)) and ended < before
