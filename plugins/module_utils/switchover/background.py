# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A switchover as a systemd service of its own: it outlives the play, the connection, its own death and a reboot."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.command import Run, run
from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import BusyError, exclusive, sweep
from ansible_collections.pristine.vllm.plugins.module_utils.files import TEMPORARY, atomic_write, fsync_directory
from ansible_collections.pristine.vllm.plugins.module_utils.switchover import host_record, places, reserve
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.back import KEY
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.bundle import CODE, TRIAL, save_code
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.journal import UNTOUCHED, Journal, load_journal
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.order import ORDER, Order, load_order
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.places import service_name
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.service import ServiceError, systemctl
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.transaction import Transaction
from ansible_collections.pristine.vllm.plugins.module_utils.systemd_text import quote_argument

#: Journals of ended switchovers that stay.
KEPT = 10
_BOOT = "/proc/sys/kernel/random/boot_id"
_DAMAGED = 2

_UNIT = f"""\
# Written by pristine.vllm, and removed by it when the switchover has ended.
[Unit]
Description=Switchover of {{unit}}, run {{run_id}}
RequiresMountsFor={{mounts}}
# Started again when it is killed, and at boot when the host went down in it: then it goes back.
StartLimitIntervalSec=3600
StartLimitBurst=5

[Service]
Type=exec
ExecStart={{words}}
Restart=on-failure
RestartSec=1
# An order or a journal that cannot be read is not read any better the next time.
RestartPreventExitStatus={_DAMAGED}
OOMScoreAdjust=-900

[Install]
WantedBy=multi-user.target
"""


def folder(root: str, run_id: str = "") -> str:
    """Where a run's order and journal are; without a run, where all of them are."""
    return os.path.join(root, "switchover", run_id) if run_id else os.path.join(root, "switchover")


def begin(order: Order, python: str = sys.executable, run_command: Run = run) -> str:
    """Save the order with the code that carries it out, and start the service; returns the run's folder.

    What cannot be begun is ended here: its journal says that nothing was stopped.

    :raises OSError: the host cannot keep it; nothing was changed.
    :raises ServiceError: systemd cannot start it, or the run id was used before; nothing was changed.
    :raises BusyError: another switchover runs.
    """
    directory = folder(order.root, order.run_id)
    # Its journal names no secret, what lies beside it may.
    os.makedirs(folder(order.root), mode=0o700, exist_ok=True)
    with exclusive(folder(order.root), wait=10):
        _refuse(order)
        os.mkdir(directory, 0o700)
        try:
            _prepare(order, directory, python, run_command)
        except Exception as error:
            _give_up(order, directory, str(error), run_command)
            raise
    try:
        systemctl(["enable", "--", service_name(order.unit)], run_command)
        fsync_directory(os.path.dirname(places.wants_link(order.unit)))
        systemctl(["daemon-reload"], run_command)
        # One that systemd has not loaded has nothing to forget, and it says so with an error.
        run_command(["systemctl", "reset-failed", "--", service_name(order.unit)])
        systemctl(["start", "--", service_name(order.unit)], run_command)
    except (ServiceError, OSError) as error:
        # Never let it begin by itself later, when nobody waits for it.
        if not _runs_all_the_same(order, directory, str(error), run_command):
            raise
    return directory


def _refuse(order: Order) -> None:
    """
    :raises ServiceError: another one has not ended, or there was a run of that id.
    """
    pending = unfinished(order.root)
    if pending is not None:
        raise ServiceError(
            f"{pending} is of a switchover that has not ended. Nothing was stopped. "
            "Next: run again, which waits for it, or puts back what it left."
        )
    if os.path.lexists(folder(order.root, order.run_id)):
        raise ServiceError(
            f"{folder(order.root, order.run_id)} is there: run id {order.run_id} was used before. Nothing was stopped. "
            "Next: run again with another one."
        )


def _prepare(order: Order, directory: str, python: str, run_command: Run) -> None:
    reserve.take(directory)
    order.save(directory)
    Journal(order.run_id, boot=boot_id()).save(directory)
    words = save_code(directory, python)
    # Better now than with the service half stopped.
    tried = run_command([*words, TRIAL])
    if tried.failure is not None:
        raise ServiceError(f"the switchover's own program does not run: {tried.failure}. Nothing was stopped.")
    text = _UNIT.format(
        unit=order.unit.replace("%", "%%"),
        run_id=order.run_id,
        mounts=" ".join(quote_argument(path, False) for path in (order.root, order.quarantine)),
        words=" ".join(quote_argument(word) for word in [*words, directory]),
    )
    atomic_write(os.path.join(places.UNITS, service_name(order.unit)), text.encode(), mode=0o644)


def _runs_all_the_same(order: Order, directory: str, reason: str, run_command: Run) -> bool:
    """Give up what could not be started, unless it did start: a systemctl that hangs has not failed."""
    try:
        with exclusive(folder(order.root), wait=1):
            if not os.path.lexists(os.path.join(directory, ORDER)):
                return True
            journal = load_journal(directory)
            if journal is not None and journal.phases:
                return True
            _give_up(order, directory, reason, run_command)
            return False
    except BusyError:
        return True


def _give_up(order: Order, directory: str, reason: str, run_command: Run) -> None:
    """End what was not begun. Only the holder of the lock may."""
    with contextlib.suppress(OSError):
        Journal(order.run_id, outcome=UNTOUCHED, failure=reason).save(directory)
    with contextlib.suppress(OSError):
        forget(order.unit, run_command)
    _clear(directory)


def _clear(directory: str) -> None:
    """Remove what only a switchover that runs needs. The order last: as long as it is there, it is not over."""
    shutil.rmtree(os.path.join(directory, CODE), ignore_errors=True)
    # One that was killed while it wrote an order or a key has left it half written.
    sweep(directory, TEMPORARY)
    for name in (reserve.RESERVE, KEY, ORDER):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(directory, name))


def main(directory: str) -> int:
    """What the service runs; returns its exit status."""
    try:
        journal = carry_out(directory)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return _DAMAGED
    if journal is not None:
        sys.stdout.write(f"{journal.outcome}{': ' if journal.failure else ''}{journal.failure or ''}\n")
    return 0


def carry_out(directory: str, begun_only: bool = False) -> Optional[Journal]:
    """Carry out, or back, the switchover of a folder, then remove its service; its journal, None when there is none.

    :param begun_only: one that has not begun is given up, rather than begun with nobody to see it.
    :raises OSError, ValueError: its folder cannot be read.
    :raises BusyError: another process is at it for longer than it may take.
    """
    try:
        order = load_order(directory)
    except FileNotFoundError:
        return load_journal(directory)  # Another process has ended it.
    patience = order.drain.timeout + order.drain.stop_timeout + 3 * order.serving.timeout
    with exclusive(folder(order.root), wait=patience):
        if not os.path.lexists(os.path.join(directory, ORDER)):
            return load_journal(directory)  # The one that held the lock has ended it.
        journal = load_journal(directory) or Journal(order.run_id)
        # The play that handed it over is long gone when the host has been booted since.
        begun_only = begun_only or journal.boot not in ("", boot_id())
        Transaction(order, journal, directory).run(begun_only)
        host_record.write(order, journal)
        forget(order.unit)
        _prune(folder(order.root), order.run_id)
        _clear(directory)
    return journal


def forget(unit: str, run_command: Run = run) -> None:
    """Remove the service's unit: no boot starts it again."""
    name = service_name(unit)
    for path in (places.wants_link(name), os.path.join(places.UNITS, name)):
        if os.path.lexists(path):
            os.unlink(path)
    fsync_directory(places.UNITS)
    run_command(["systemctl", "daemon-reload"])


def settle(root: str) -> Optional[Journal]:
    """End a switchover that was interrupted and that nothing has put back yet; its journal, None when there is none.

    Waits for one that is at it.

    :raises OSError, ValueError: its folder cannot be read.
    """
    directory = unfinished(root)
    return None if directory is None else carry_out(directory, begun_only=True)


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


def boot_id() -> str:
    """Which boot of the host this is; empty where the kernel does not tell."""
    try:
        with open(_BOOT, encoding="ascii") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def _prune(directory: str, own: str) -> None:
    """Journals are small; those of the last runs stay."""
    names = sorted(name for name in os.listdir(directory) if name != own)
    for name in names[: max(0, len(names) - KEPT + 1)]:
        if not os.path.lexists(os.path.join(directory, name, ORDER)):
            shutil.rmtree(os.path.join(directory, name), ignore_errors=True)
