# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A switchover as a systemd service of its own: it outlives the play, the connection, its own death and a reboot."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Callable, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.command import Run, run
from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import exclusive
from ansible_collections.pristine.vllm.plugins.module_utils.files import atomic_write, fsync_directory
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.back import KEY
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.journal import Journal, load_journal
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.order import ORDER, Order, load_order
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.service import ServiceError, systemctl
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.transaction import Transaction
from ansible_collections.pristine.vllm.plugins.module_utils.systemd_text import quote_argument

_PACKAGE = "ansible_collections.pristine.vllm.plugins.module_utils"
_UNITS = "/etc/systemd/system"
_CODE = "code"
_MAIN = "main.py"
_TRIAL = "--trial"
#: Journals of ended switchovers that stay.
KEPT = 10

_PROGRAM = f"""\
import sys

sys.path.insert(0, sys.argv[1])
from {_PACKAGE}.switchover.background import main

if sys.argv[2] != "{_TRIAL}":
    sys.exit(main(sys.argv[2]))
"""

_UNIT = """\
# Written by pristine.vllm, and removed by it when the switchover has ended.
[Unit]
Description=Switchover of {unit}, run {run_id}
# Started again when it is killed, and at boot when the host went down in it: then it goes back.
StartLimitIntervalSec=3600
StartLimitBurst=5

[Service]
Type=exec
ExecStart={words}
Restart=on-failure
RestartSec=1
OOMScoreAdjust=-900

[Install]
WantedBy=multi-user.target
"""


def service_name(unit: str) -> str:
    """The name of the service that switches a unit over."""
    return f"{unit.removesuffix('.service')}-switchover.service"


def folder(root: str, run_id: str = "") -> str:
    """Where a run's order and journal are; without a run, where all of them are."""
    return os.path.join(root, "switchover", run_id) if run_id else os.path.join(root, "switchover")


def begin(order: Order, python: str = sys.executable, run_command: Run = run) -> str:
    """Save the order with the code that carries it out, and start the service; returns the run's folder.

    :raises OSError: the host cannot keep it; nothing was changed.
    :raises ServiceError: systemd cannot start it; nothing was changed.
    :raises BusyError: another switchover runs.
    """
    directory = folder(order.root, order.run_id)
    # Its journal names no secret, what lies beside it may.
    os.makedirs(folder(order.root), mode=0o700, exist_ok=True)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    with exclusive(folder(order.root), wait=10):
        order.save(directory)
        _save_code(os.path.join(directory, _CODE))
        name = service_name(order.unit)
        words = [os.path.realpath(python), "-I", "-S", "-B"]
        words += [os.path.join(directory, _CODE, _MAIN), os.path.join(directory, _CODE)]
        # Better now than with the service half stopped.
        tried = run_command([*words, _TRIAL])
        if tried.failure is not None:
            raise ServiceError(f"the switchover's own program does not run: {tried.failure}. Nothing was stopped.")
        words.append(directory)
        text = _UNIT.format(
            unit=order.unit, run_id=order.run_id, words=" ".join(quote_argument(word) for word in words)
        )
        atomic_write(os.path.join(_UNITS, name), text.encode(), mode=0o644)
    try:
        systemctl(["enable", "--", name], run_command)
        systemctl(["daemon-reload"], run_command)
        systemctl(["reset-failed", "--", name], run_command)
        systemctl(["start", "--", name], run_command)
    except ServiceError:
        # Never let it begin by itself later, when nobody waits for it.
        forget(order.unit, run_command)
        raise
    return directory


def main(directory: str, begun_only: bool = False) -> int:
    """What the service runs: the switchover of a folder, and then its own removal.

    :param begun_only: one that has not begun is given up, rather than begun with nobody to see it.
    """
    order = load_order(directory)
    patience = order.drain.timeout + order.drain.stop_timeout + 3 * order.serving.timeout
    with exclusive(folder(order.root), wait=patience):
        if not os.path.lexists(os.path.join(directory, ORDER)):
            return 0  # The one that held the lock has ended it.
        journal = load_journal(directory) or Journal(order.run_id)
        Transaction(order, journal, directory).run(begun_only)
        forget(order.unit)
        shutil.rmtree(os.path.join(directory, _CODE), ignore_errors=True)
        _prune(folder(order.root), order.run_id)
        # The order last: as long as it is there, a switchover is not over.
        for name in (KEY, ORDER):
            path = os.path.join(directory, name)
            if os.path.lexists(path):
                os.unlink(path)
    return 0


def forget(unit: str, run_command: Run = run) -> None:
    """Remove the service's unit: no boot starts it again."""
    name = service_name(unit)
    for path in (os.path.join(_UNITS, "multi-user.target.wants", name), os.path.join(_UNITS, name)):
        if os.path.lexists(path):
            os.unlink(path)
    fsync_directory(_UNITS)
    run_command(["systemctl", "daemon-reload"])


def settle(root: str) -> Optional[Journal]:
    """End a switchover that was interrupted and that nothing has put back yet; its journal, None when there is none.

    Waits for one that is at it.

    :raises OSError, ValueError: its folder cannot be read.
    """
    directory = unfinished(root)
    if directory is None:
        return None
    main(directory, begun_only=True)
    return load_journal(directory)


def unfinished(root: str) -> Optional[str]:
    """The folder of a switchover that has neither ended nor been given up; None when there is none."""
    try:
        names = sorted(os.listdir(folder(root)))
    except FileNotFoundError:
        return None
    for name in names:
        directory = os.path.join(folder(root), name)
        if os.path.lexists(os.path.join(directory, ORDER)):
            return directory
    return None


def _save_code(directory: str) -> None:
    """Write the source of every module of ours that is loaded: the play's temporary files will be gone by then."""
    shutil.rmtree(directory, ignore_errors=True)
    for name, module in sorted(sys.modules.items()):
        if not name.startswith(f"{_PACKAGE}."):
            continue
        parts = name.split(".")
        path = os.path.join(directory, *parts) + ".py"
        if hasattr(module, "__path__"):
            path = os.path.join(directory, *parts, "__init__.py")
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(_source(name, module))
    with open(os.path.join(directory, _MAIN), "w", encoding="utf-8") as stream:
        stream.write(_PROGRAM)


def _source(name: str, module: object) -> str:
    # Of a file as well as of the archive that Ansible runs a module from.
    loader = getattr(module, "__loader__", None)
    get_source: Optional[Callable[[str], Optional[str]]] = getattr(loader, "get_source", None)
    return (get_source(name) if get_source else None) or ""


def _prune(directory: str, own: str) -> None:
    """Journals are small; those of the last runs stay."""
    names = sorted(name for name in os.listdir(directory) if name != own)
    for name in names[: max(0, len(names) - KEPT + 1)]:
        if not os.path.lexists(os.path.join(directory, name, ORDER)):
            shutil.rmtree(os.path.join(directory, name), ignore_errors=True)
