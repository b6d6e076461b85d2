# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a unit is what it should be, as systemd sees it: its file, its drop-ins, and whether they were read."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.drift.findings import Finding
from ansible_collections.pristine.vllm.plugins.module_utils.files import sha256_file
from ansible_collections.pristine.vllm.plugins.module_utils.unit import UnitState, unit_problem

# Drop-ins for every service of a host, which packages and container managers bring.
_VENDOR = ("/usr/lib/systemd/", "/lib/systemd/", "/run/systemd/")
_GLOBAL = "/service.d/"
# systemd.unit(5), UNIT FILE LOAD PATH, as far as units of the system may have drop-ins from people and packages.
UNIT_FOLDERS = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)


def unit_findings(
    state: UnitState, expected: Optional[Mapping[str, str]], folders: Sequence[str] = UNIT_FOLDERS
) -> list[Finding]:
    """What differs.

    :param expected: for each file of the unit, drop-ins included, the sha256 that it must have, empty for any. None
        when nobody knows what the unit should be: then its files are only shown.
    """
    return list(_findings(state, expected, folders))


def waiting_dropins(unit: str, known: Iterable[str], folders: Sequence[str] = UNIT_FOLDERS) -> list[str]:
    """Drop-ins on disk that systemd has not read yet, and will at the next reload, whoever asks for one.

    It does not say so itself: NeedDaemonReload knows no folder of drop-ins that was made since the last reload.
    """
    stem, _dot, suffix = unit.rpartition(".")
    # For a-b.service also those of a-.service (systemd.unit(5)), and those of all services.
    names = [unit, *(f"{stem[: end + 1]}.{suffix}" for end, letter in enumerate(stem) if letter == "-"), suffix]
    seen = {os.path.realpath(path) for path in known}
    found: dict[str, str] = {}
    for folder in folders:
        for name in names:
            for path in glob.glob(os.path.join(glob.escape(folder), glob.escape(f"{name}.d"), "*.conf")):
                found.setdefault(os.path.realpath(path), path)
    return sorted(path for real, path in found.items() if real not in seen)


def _findings(state: UnitState, expected: Optional[Mapping[str, str]], folders: Sequence[str]) -> Iterator[Finding]:
    name = state.unit
    problem = unit_problem(state)
    if state.load_state == "masked":
        yield Finding("unit", name, "masked", detail="nothing can start it: systemctl unmask it, or find who masked it")
    elif problem is not None:
        yield Finding("unit", name, "missing" if state.load_state == "not-found" else "modified", detail=problem)
    if state.need_daemon_reload:
        detail = "systemd still runs what was there before a change on disk: systemctl daemon-reload, and restart"
        yield Finding("unit", name, "reload_needed", detail=detail)
    # A masked unit's fragment is the mask.
    fragment = "" if state.load_state == "masked" else state.fragment_path
    dropins = state.drop_in_paths.split()
    waiting = waiting_dropins(name, dropins, folders)
    for path in filter(None, [fragment, *dropins, *waiting]):
        if expected is not None and path in expected:
            continue
        if expected is None or (_GLOBAL in path and path.startswith(_VENDOR)):
            yield _file(path, "unverifiable", "nothing to compare it with")
        else:
            what = "another file than expected" if path == fragment else "a drop-in that nobody declared"
            when = "systemd will read it at its next reload" if path in waiting else f"systemd takes {name} from it"
            yield _file(path, "unexpected", f"{when}: {what}")
    for path, wanted in sorted((expected or {}).items()):
        yield from _compare(path, wanted.lower(), path in (fragment, *dropins) or problem is not None, name)


def _compare(path: str, wanted: str, used: bool, name: str) -> Iterator[Finding]:
    """A file that must be there: its content, and that systemd takes it for the unit."""
    try:
        actual = sha256_file(path)
    except FileNotFoundError:
        yield Finding("unit", path, "missing", detail="it is not there", expected_sha256=wanted or None)
        return
    except OSError as error:
        # A symlink, or a mask: what it leads to could be anything.
        status = "redirected" if os.path.islink(path) else "unreadable"
        detail = f"leads to {os.readlink(path)}" if status == "redirected" else error.strerror or str(error)
        yield Finding("unit", path, status, detail=detail, expected_sha256=wanted or None)
        return
    if wanted and actual != wanted:
        detail = "its content is not what was declared"
        yield Finding("unit", path, "modified", detail=detail, expected_sha256=wanted, actual_sha256=actual)
    elif not used:
        yield Finding(
            "unit", path, "unused", detail=f"it is there, but systemd does not take it for {name}", actual_sha256=actual
        )


def _file(path: str, status: str, detail: str) -> Finding:
    try:
        actual: Optional[str] = sha256_file(path)
    except OSError:
        actual = None
    return Finding("unit", path, status, detail=detail, actual_sha256=actual)
