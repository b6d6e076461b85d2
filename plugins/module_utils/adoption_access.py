# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What to tell about the modes of an environment that others made: they are looked at and never changed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.release import site_packages

_READ = stat.S_IROTH | stat.S_IXOTH


def access_notes(path: str, environment: str) -> list[str]:
    """Who cannot run from the environment that is at ``path`` and calls itself ``environment``.

    :param path: where its files are, before or after they are moved.
    """
    notes = []
    shut = next(_shut(path), None)
    if shut:
        notes.append(
            f"users other than the owner cannot run from it: {shut} has mode {_mode(shut)}, which was left so. "
            "A unit that is to run it as another user needs `chmod o+rX` there"
        )
    closed = next((parent for parent in _parents(environment) if not _allows(parent, stat.S_IXOTH)), None)
    if closed:
        notes.append(
            f"its scripts start {environment}/bin/python, which only those reach whom {closed} lets in (mode "
            f"{_mode(closed)}). In the releases its files can be reached by all whom their own modes let"
        )
    return notes


def _shut(path: str) -> Iterator[str]:
    """What others may not read of that which every start needs."""
    python = os.path.realpath(os.path.join(path, "bin", "python"))
    folders = [path, os.path.join(path, "bin"), os.path.join(path, "lib"), *site_packages(path)]
    for site in site_packages(path):
        folders += sorted(entry.path for entry in os.scandir(site) if entry.is_dir(follow_symlinks=False))
    for folder in (*folders, python):
        if not _allows(folder, _READ):
            yield folder
    # Of a Python in the environment itself, what lies above is about to change.
    outside = [] if python.startswith(os.path.realpath(path) + os.sep) else _parents(python)
    for parent in outside:
        if not _allows(parent, stat.S_IXOTH):
            yield parent


def _parents(path: str) -> list[str]:
    """The directories above a path, the nearest first."""
    found = []
    while os.path.dirname(path) != path:
        path = os.path.dirname(path)
        found.append(path)
    return found


def _allows(path: str, bits: int) -> bool:
    mode = _stat_mode(path)
    return mode is None or mode & bits == bits


def _mode(path: str) -> str:
    return f"{stat.S_IMODE(_stat_mode(path) or 0):04o}"


def _stat_mode(path: str) -> Optional[int]:
    try:
        return os.stat(path).st_mode
    except OSError:
        return None
