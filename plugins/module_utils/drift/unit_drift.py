# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a unit is what it should be, as systemd sees it: its file, its drop-ins, and whether they were read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.drift.findings import Finding
from ansible_collections.pristine.vllm.plugins.module_utils.files import sha256_file
from ansible_collections.pristine.vllm.plugins.module_utils.unit import UnitState, unit_problem

# Drop-ins for every service of a host, which packages and container managers bring.
_VENDOR = ("/usr/lib/systemd/", "/lib/systemd/", "/run/systemd/")
_GLOBAL = "/service.d/"


def unit_findings(state: UnitState, expected: Optional[Mapping[str, str]]) -> list[Finding]:
    """What differs.

    :param expected: for each file of the unit, drop-ins included, the sha256 that it must have, empty for any. None
        when nobody knows what the unit should be: then its files are only shown.
    """
    return list(_findings(state, expected))


def _findings(state: UnitState, expected: Optional[Mapping[str, str]]) -> Iterator[Finding]:
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
    for path in filter(None, [fragment, *dropins]):
        if expected is not None and path in expected:
            continue
        if expected is None or (_GLOBAL in path and path.startswith(_VENDOR)):
            yield _file(path, "unverifiable", "nothing to compare it with")
        else:
            what = "another file than expected" if path == fragment else "a drop-in that nobody declared"
            yield _file(path, "unexpected", f"systemd takes {name} from it: {what}")
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
