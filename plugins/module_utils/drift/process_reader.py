# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at the processes of a service and at the files that they may have loaded, for `process`."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.control_group import control_group_pids
from ansible_collections.pristine.vllm.plugins.module_utils.drift.process import (
    Mapping,
    Running,
    Stamp,
    parse_maps,
    parse_start,
)
from ansible_collections.pristine.vllm.plugins.module_utils.main_process import command_words, home_of, runs_from

# What the import system and the dynamic linker load. Not .pyc: the process itself writes those.
_CODE = (".py", ".pth", ".so")
# Where the interpreter and the libraries of system and driver lie. Of other folders nothing is taken: JIT compilers map
# files that they delete at once.
_SYSTEM = ("/usr/", "/lib/", "/lib64/", "/opt/", "/bin/")


@dataclass(frozen=True)
class Looked:
    """What was found: ``running`` is None when no process runs, ``problems`` what could not be looked at."""

    running: Optional[Running]
    problems: tuple[str, ...] = ()


def look_at_process(
    name: str, pid: int, control_group: str, environment: str, proc: str = "/proc", boot_time: Optional[float] = None
) -> Looked:
    """Look at the main process ``pid`` and at the others of its control group.

    :param name: what findings are called by, the unit's name.
    """
    words = command_words(pid, proc)
    started = start_time(pid, proc, boot_time)
    if started is None:
        return Looked(None)
    if not words:
        return Looked(None, (f"{name}: the command line of pid {pid} cannot be read. Run as root",))
    mappings, unread = read_mappings({pid, *control_group_pids(control_group, proc)}, proc)
    problems = (
        [f"{name}: what {len(unread)} processes have mapped cannot be read (pid {unread[0]}). Run as root"]
        if unread
        else []
    )
    root = os.path.realpath(environment)
    files = code_files(root)
    roots = (f"{root}/", *_SYSTEM)
    mapped = [
        one for one in mappings if one.path.startswith(roots) and (one.executable or one.path.startswith(roots[0]))
    ]
    stamps = [stamp for stamp in map(stamp_of, {*files, *(one.path for one in mapped)}) if stamp is not None]
    if not files:
        problems.append(f"{name}: there is no Python code in {environment}. Name an environment")
    running = Running(
        name=name,
        pid=pid,
        started=started,
        environment=environment,
        root=root,
        home=home_of(words),
        elsewhere=not runs_from(words, environment),
        mappings=mapped,
        stamps=stamps,
    )
    return Looked(running, tuple(problems))


def start_time(pid: int, proc: str = "/proc", boot_time: Optional[float] = None) -> Optional[float]:
    """When the process began, by the clock as it is set now; None when there is none."""
    if pid <= 0:
        return None
    try:
        with open(f"{proc}/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            text = stream.read()
    except OSError:
        return None
    boot = boot_time if boot_time is not None else time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return parse_start(text, os.sysconf("SC_CLK_TCK"), boot)


def code_files(root: str) -> list[str]:
    """The files of an environment that Python could load."""
    found: list[str] = []
    for folder, folders, names in os.walk(root):
        # Bytecode lies there, and what is in it is judged by its source.
        folders[:] = [name for name in folders if name != "__pycache__"]
        found += [os.path.join(folder, name) for name in names if name.endswith(_CODE) or ".so." in name]
    return found


def stamp_of(path: str) -> Optional[Stamp]:
    """The file's stamp, of what a link leads to: that is what was loaded. None when it is not there or no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    device = os.major(found.st_dev), os.minor(found.st_dev)
    return Stamp(path, device, found.st_ino, found.st_ctime_ns / 1e9, found.st_mtime_ns / 1e9)


def read_mappings(pids: Iterable[int], proc: str) -> tuple[list[Mapping], list[int]]:
    """What the processes have mapped, each file once, and the processes that could not be looked into."""
    found: dict[tuple[str, int], Mapping] = {}
    unread: list[int] = []
    for pid in sorted(pids):
        try:
            with open(f"{proc}/{pid}/maps", encoding="utf-8", errors="surrogateescape") as stream:
                text = stream.read()
        except PermissionError:
            unread.append(pid)
            continue
        except OSError:
            continue  # It ended meanwhile.
        for one in parse_maps(text):
            before = found.get((one.path, one.inode))
            if before is None or (one.executable and not before.executable):
                found[one.path, one.inode] = one
    return list(found.values()), unread
