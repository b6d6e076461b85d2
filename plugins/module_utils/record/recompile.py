# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Comparing bytecode with what the environment's own version of Python makes of the source, in processes of it.

They are started from the Python that the environment was made from, isolated (``-I -S -B``), so that nothing of the
environment runs: neither ``.pth`` files nor ``sitecustomize``, nor any module.
"""

from __future__ import annotations

import functools
import json
import os
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.messages import tail
from ansible_collections.pristine.vllm.plugins.module_utils.process import clean_environment
from ansible_collections.pristine.vllm.plugins.module_utils.record import recompiler
from ansible_collections.pristine.vllm.plugins.module_utils.record.bytecode import Cached, Version, magic_of, pyvenv
from ansible_collections.pristine.vllm.plugins.module_utils.record.environment import Environment
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import ScanError
from ansible_collections.pristine.vllm.plugins.module_utils.record.walk import Stray

# One that kills the process is reported, and the rest goes on in another; so many are no accident any more.
_DEATHS = 100


def recompiled(environment: Environment, cached: list[Cached], workers: Optional[int]) -> list[Stray]:
    """What is wrong with bytecode whose header Python takes for its source's.

    :param workers: processes; default the number of usable cores.
    :raises ScanError: there is no Python to compile with.
    """
    strays: list[Stray] = []
    for version in sorted({item.version for item in cached}):
        python = base_python(environment, version)
        items = [item for item in cached if item.version == version]
        count = max(1, min(workers or len(os.sched_getaffinity(0)), len(items)))
        compared = functools.partial(_compared, python, version)
        with ThreadPoolExecutor(count) as pool:
            for part in pool.map(compared, [items[number::count] for number in range(count)]):
                strays += part
    return strays


def base_python(environment: Environment, version: Version) -> str:
    """The Python that an environment was made from, as its ``pyvenv.cfg`` names it.

    That file lies in the environment, so what it names is run only if nobody but root and the user who scans could
    have put it there.

    :raises ScanError: there is none that can be used.
    """
    settings = pyvenv(environment.root)
    home = settings.get("home", "")
    places = [os.path.join(home, f"python{version[0]}.{version[1]}"), settings.get("executable", "")]
    places += [os.path.join(home, "python3"), os.path.join(home, "python")]
    problems = []
    for place in places:
        if os.path.isabs(place) and os.path.lexists(place):
            problem = _distrust(environment, place)
            if not problem:
                return place
            problems.append(f"{place} {problem}")
    raise ScanError(
        f"recompile: no Python {version[0]}.{version[1]} to compile with: {environment.root}/pyvenv.cfg names "
        f"{home or 'no home'}{''.join(f'; {problem}' for problem in problems)}. Install that Python where it says, "
        "or leave recompile out: headers are checked without it"
    )


def _distrust(environment: Environment, place: str) -> str:
    """Why a program is not run, or nothing."""
    real = os.path.realpath(place)
    if environment.contains(real):
        return "is in the environment itself"
    for path in (real, os.path.dirname(real)):
        try:
            info = os.stat(path)
        except OSError as error:
            return f"cannot be used: {error.strerror}"
        if info.st_uid not in (0, os.geteuid()):
            return f"is not run, because {path} belongs to user {info.st_uid}"
        if info.st_mode & stat.S_IWOTH or (info.st_mode & stat.S_IWGRP and info.st_gid != 0):
            return f"is not run, because others may write to {path}"
        if path == real and not (stat.S_ISREG(info.st_mode) and os.access(path, os.X_OK)):
            return "is no program"
    return ""


def _compared(python: str, version: Version, items: list[Cached]) -> list[Stray]:
    strays: list[Stray] = []
    deaths = 0
    while items:
        verdicts, status = _run(python, version, items)
        strays += [_stray(item, verdict) for item, verdict in zip(items, verdicts) if verdict]
        items = items[len(verdicts) :]
        if not items:
            break
        deaths += 1
        if deaths > _DEATHS:
            raise ScanError(f"recompile: {python} died {deaths} times (last with status {status}): run it without")
        detail = f"{python} dies of it (status {status}) when it compiles the source or loads the bytecode"
        strays.append(Stray(items[0].path, "bytecode", detail))
        del items[0]
    return strays


def _stray(item: Cached, verdict: str) -> Stray:
    if verdict.startswith("?"):
        return Stray(item.path, "unverifiable", f"it could not be compared with its source: {verdict[1:]}")
    return Stray(item.path, "bytecode", f"its header is its source's, but {verdict}")


def _run(python: str, version: Version, items: list[Cached]) -> tuple[list[str], int]:
    """The verdicts on as many of them as one process lived for, and its exit status."""
    lines = "".join(json.dumps([item.path, item.source, item.level]) + "\n" for item in items)
    try:
        # Without warnings of the sources: only the verdicts are of interest.
        ran = subprocess.run(
            [python, "-I", "-S", "-B", "-W", "ignore", "-c", _script()],
            input=lines,
            capture_output=True,
            env=clean_environment("/", "/tmp"),
            cwd="/",
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise ScanError(f"recompile: {python} does not run: {error}; leave recompile out, or install it") from error
    said = ran.stdout.split("\n")
    # What follows the last line end was cut off when the process died.
    answers: list[Any] = [json.loads(line) for line in said[:-1]]
    magic = magic_of(version)
    expected = [list(version), magic.hex() if magic else None, "cpython"]
    if not answers or (answers[0] != expected and (magic or answers[0][0] != expected[0])):
        raise ScanError(
            f"recompile: {python} is not the CPython {version[0]}.{version[1]} that the environment needs "
            f"(it says {answers[:1] or tail(ran.stderr)}): install that one, or leave recompile out"
        )
    return answers[1:], ran.returncode


def _script() -> str:
    """The other Python's program: the text of a module, wherever this collection is (Ansible packs it into a zip)."""
    loader: Any = recompiler.__loader__
    return str(loader.get_source(recompiler.__name__))
