# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a record is kept: two files beside each other, JSON for programs and Markdown for people."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import atomic_write, read_file
from ansible_collections.pristine.vllm.plugins.module_utils.run_record.markdown import markdown


@dataclass(frozen=True)
class Change:
    """One file: its path, what it holds (None: it is not there) and what it should hold."""

    path: str
    before: Optional[str]
    after: str

    @property
    def changed(self) -> bool:
        return self.before != self.after

    def diff(self) -> dict[str, str]:
        """For Ansible's ``--diff``."""
        return {
            "before_header": self.path,
            "after_header": self.path,
            "before": self.before or "",
            "after": self.after,
        }


def plan(folder: str, record: dict[str, Any]) -> list[Change]:
    """Decide which files are to be written. Reads only.

    :raises OSError: what is there cannot be read.
    """
    texts = {
        "json": json.dumps(record, indent=2, ensure_ascii=False) + "\n",
        "md": markdown(record),
    }
    paths = {kind: os.path.join(folder, f"{record['run_id']}.{kind}") for kind in texts}
    return [Change(paths[kind], _read(paths[kind]), text) for kind, text in texts.items()]


def _read(path: str) -> Optional[str]:
    try:
        return read_file(path).decode("utf-8", "replace")
    except FileNotFoundError:
        return None


def apply(changes: list[Change]) -> None:
    """Write them, each whole or not at all.

    :raises OSError: as the system says; what was written before stands.
    """
    for change in changes:
        if change.changed:
            os.makedirs(os.path.dirname(change.path), mode=0o755, exist_ok=True)
            atomic_write(change.path, change.after.encode("utf-8", "backslashreplace"), mode=0o644)
