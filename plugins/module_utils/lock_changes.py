# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a lock changes, package by package, and which contradictions in it nobody has declared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ansible_collections.pristine.vllm.plugins.module_utils.lock import parse_lock
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_name import canonical_version, normalise

# As `uv pip check` begins its lines.
_ABOUT = re.compile(r"The package `(?P<name>[^`]+)`")


def lock_versions(text: str, source: str = "lock") -> dict[str, str]:
    """The version that a lock pins of each distribution, by normalised name.

    :param source: what to call the lock in errors.
    :raises LockError: it is not complete.
    """
    return {row.name: row.version for row in parse_lock(text, source)}


def package_changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """A line for each distribution that is not the same on both sides: ``+ name 1``, ``- name 1``, ``name 1 -> 2``.

    Sorted by name. Two spellings of one version (PEP 440) are the same.
    """
    old = {normalise(name): version for name, version in before.items()}
    new = {normalise(name): version for name, version in after.items()}
    lines = []
    for name in sorted(old.keys() | new.keys()):
        if name not in old:
            lines.append(f"+ {name} {new[name]}")
        elif name not in new:
            lines.append(f"- {name} {old[name]}")
        elif canonical_version(old[name]) != canonical_version(new[name]):
            lines.append(f"{name} {old[name]} -> {new[name]}")
    return lines


def undeclared_conflicts(conflicts: Iterable[str], accepted: Iterable[str]) -> list[str]:
    """The lines of ``uv pip check`` that are accepted neither as a whole nor by the package they begin with."""
    lines = {entry.strip() for entry in accepted}
    packages = {normalise(entry) for entry in lines}
    left = []
    for conflict in conflicts:
        about = _ABOUT.match(conflict)
        if conflict.strip() not in lines and not (about and normalise(about["name"]) in packages):
            left.append(conflict)
    return left
