# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the module run_lock, and keeps the lock that it took as long as the playbook lives."""

from __future__ import annotations

import contextlib
import getpass
import logging
import os
import shlex
import socket
import uuid
from typing import Any

from ansible import context
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.pristine.vllm.plugins.module_utils.run_lock import RENEWALS
from ansible_collections.pristine.vllm.plugins.plugin_utils import keeper

# Both act on the lock that they opened and found to be ours; one that somebody put there since is never touched.
_OPEN = f"""
import fcntl, json, os, sys, time
path, mark = sys.argv[1:]
os.path.exists(path) or sys.exit({keeper.OVER})
lock = open(path)
json.load(lock)["mark"] == mark or sys.exit({keeper.OVER})
"""
RENEW = f"""{_OPEN}
now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
os.utime(lock.fileno(), ns=(now, now))
"""
GIVE_UP = f"""{_OPEN}
folder = os.open(os.path.dirname(path), os.O_RDONLY)
fcntl.flock(folder, fcntl.LOCK_EX)
os.path.samestat(os.stat(path), os.fstat(lock.fileno())) and os.unlink(path)
"""


class Silence:
    """Stands for the queue to the terminal."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_arguments, **_options: None


class ActionModule(ActionBase):
    """Adds to the module what only the controller knows, and a keeper to what it took."""

    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: Any = None) -> dict[str, Any]:
        """Returns what the module returns."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        # This is a worker of the ansible-playbook, which ends with its task.
        playbook = os.getppid()
        arguments = {
            "who": f"{user()}@{socket.gethostname()}",
            "playbook": " ".join(context.CLIARGS.get("args") or ()),
            "process": f"{socket.gethostname()}:{playbook}{started(playbook)}",
            "mark": uuid.uuid4().hex,
            **self._task.args,
        }
        result.update(
            self._execute_module(module_name="pristine.vllm.run_lock", module_args=arguments, task_vars=task_vars)
        )
        if result.get("held"):
            self._keep(playbook, result)
        return result

    def _keep(self, playbook: int, result: dict[str, Any]) -> None:
        lease = result["holder"]["lease"]
        where = (result["lock"], result["holder"]["mark"])
        command = [result["interpreter"], "-IS", "-c"]

        def errand(program: str) -> int:
            done = self._low_level_execute_command(shlex.join([*command, program, *where]))
            return int(done["rc"])

        keeper.start(
            pid=playbook,
            interval=lease / RENEWALS,
            # A connection that is cut costs two tries, and the lock outlives that.
            patience=lease / 4,
            prepare=hush,
            renew=lambda: errand(RENEW),
            give_up=lambda: errand(GIVE_UP),
        )


def hush() -> None:
    """Let nothing reach the terminal or the log: what they are written to is closed in the keeper."""
    logging.disable()
    Display()._final_q = Silence()


def user() -> str:
    """Who runs this; the person behind sudo where there is one."""
    with contextlib.suppress(KeyError, OSError):
        return os.environ.get("SUDO_USER") or getpass.getuser()
    return str(os.getuid())


def started(pid: int) -> str:
    """When a process was started, to tell it from a later one with its pid; empty where the system does not say."""
    with (
        contextlib.suppress(OSError, IndexError),
        open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream,
    ):
        # The name is in parentheses, and may hold anything.
        return ":" + stream.read().rpartition(")")[2].split()[19]
    return ""
