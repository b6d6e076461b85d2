# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps the modules' payloads from one run of ansible-playbook in this checkout to the next.

Ansible puts a module together with all that it imports once in each run, which is half of what a run costs the
controller, and `make test` has some eighty of them. It keeps them in a folder that goes with the run; here they are
linked from and to .cache/payloads/<what they were made from>. Where anything of that changes on Ansible's side, they
are put together as ever.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.plugins.callback import CallbackBase
from ansible.release import __version__

DOCUMENTATION = """
name: keep_payloads
type: aggregate
short_description: Keep the modules' payloads between runs
description: For this checkout alone, by its ansible.cfg.
requirements: [a checkout]
"""

ROOT = Path(__file__).resolve().parents[2]
# Two versions of Ansible have their runs at the same time; what was made of sources that were edited since goes.
LAST = 4


class CallbackModule(CallbackBase):
    """Links them in when a playbook begins, and out when it ends."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "keep_payloads"

    def __init__(self) -> None:
        super().__init__()
        self._kept = ROOT / ".cache/payloads" / fingerprint()
        # See modify_module in ansible/executor/module_common.py.
        self._of_run = Path(constants.DEFAULT_LOCAL_TMP) / "ansiballz_cache"

    def v2_playbook_on_start(self, _playbook: Any) -> None:
        link(self._kept, self._of_run)

    def v2_playbook_on_stats(self, _stats: Any) -> None:
        link(self._of_run, self._kept)
        with contextlib.suppress(OSError):
            for old in sorted(self._kept.parent.iterdir(), key=os.path.getmtime)[:-LAST]:
                shutil.rmtree(old, ignore_errors=True)


def fingerprint() -> str:
    """Of all that payloads are made from: Ansible, what was installed with it, and our own sources."""
    digest = hashlib.sha256(__version__.encode())
    with contextlib.suppress(OSError):
        digest.update((Path(sys.prefix) / ".made-from").read_bytes())
    for folder in ("modules", "module_utils"):
        for path in sorted((ROOT / "plugins" / folder).rglob("*.py")):
            data = path.read_bytes()
            digest.update(f"{path.relative_to(ROOT)} {len(data)}\n".encode() + data)
    return digest.hexdigest()[:16]


def link(source: Path, target: Path) -> None:
    """Hard links, as neither Ansible nor we ever write to one that has its name; what cannot be linked is left out."""
    with contextlib.suppress(OSError):
        target.mkdir(parents=True, exist_ok=True)
        for name in os.listdir(source):
            if not name.endswith(".lock"):
                with contextlib.suppress(OSError):
                    os.link(source / name, target / name)
