# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the rows of a RECORD lead: to a place in the environment, or out of it."""

from __future__ import annotations

import os
import posixpath
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.record.environment import Environment, resolved


def locate(site: str, root: str, row: str) -> Optional[str]:
    """The absolute path that a RECORD row means, or None when it leads out of the environment or nowhere.

    By its text alone: links are looked at where the path is about to be opened.
    """
    if not row or "\0" in row:
        return None
    path = f"{site}/{row}"
    if row[0] in "./" or "/." in row or "//" in row:
        # posixpath.join: an absolute row stands for itself.
        path = posixpath.normpath(posixpath.join(site, row))
    return path if path.startswith(root + "/") else None


def place(environment: Environment, site: str, row: str) -> Optional[str]:
    """As `locate`, for rows that go by another name of site-packages or of the environment too, such as ``lib64``.

    Links are resolved, and nothing is opened. Rows with the backslashes of another system mean slashes, unless there is
    such a file.
    """
    root, aliases = environment.root, environment.aliases
    path = locate(site, root, row)
    if "\\" in row and not (path is not None and os.path.lexists(path)):
        other = place(environment, site, row.replace("\\", "/"))
        if other is not None and os.path.lexists(other):
            return other
    if path is not None and not (aliases and row[0] in "./"):
        return path
    inside = [] if path is None else [path]
    for alias, real in aliases.items():
        other = locate(alias, root, row) if real == site else None
        inside += [] if other is None else [other]
    if not inside:
        folder, name = posixpath.split(posixpath.normpath(posixpath.join(site, row)))
        inside = [f"{resolved(folder)}/{name}"]
    found = next((one for one in inside if os.path.lexists(one)), inside[0])
    for alias, real in aliases.items():
        if found.startswith(alias + "/"):
            found = real + found[len(alias) :]
    return found if environment.contains(found) else None
