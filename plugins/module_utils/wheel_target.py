# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a wheel is for: a machine, a Python and a C library, compared with the tags of its file name.

The tags are those of https://packaging.python.org/en/latest/specifications/platform-compatibility-tags/.
"""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.wheel_name import WheelName

Version = tuple[int, int]
# The names that manylinux had before it was called by the version of glibc.
_LEGACY = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}


@dataclass(frozen=True)
class Target:
    """A host as wheels see it. What is None is not compared."""

    machine: str = "x86_64"
    python: Optional[Version] = None
    glibc: Optional[Version] = None

    def misfit(self, name: WheelName) -> str:
        """Why the wheel cannot be installed there: ``machine``, ``glibc``, ``python``, or nothing where it can."""
        if not name.fits_machine(self.machine):
            return "machine"
        if self.glibc and not any(self._runs(tag) for tag in name.platform_tag.split(".")):
            return "glibc"
        if self.python and not fits_python(name, self.python):
            return "python"
        return ""

    @property
    def words(self) -> str:
        """For messages."""
        return f"Python {'.'.join(map(str, self.python))} on {self.machine}" if self.python else self.machine

    @property
    def platforms(self) -> list[str]:
        """The platform tags that a wheel for it may have, the closest first, as pip is to be told."""
        newest = self.glibc[1] if self.glibc and self.glibc[0] == 2 else 0
        tags = [f"manylinux_2_{minor}_{self.machine}" for minor in range(newest, 4, -1)]
        tags += [f"{name}_{self.machine}" for name, glibc in reversed(_LEGACY.items()) if glibc[1] <= newest]
        return [*tags, f"linux_{self.machine}"]

    def _runs(self, tag: str) -> bool:
        match = re.fullmatch(rf"(?:manylinux_(\d+)_(\d+)|(manylinux\d+)|(linux))_{re.escape(self.machine)}", tag)
        if match is None:
            return tag == "any"
        needs = _LEGACY.get(match[3], (2, 17)) if match[3] else (int(match[1] or 0), int(match[2] or 0))
        return self.glibc is not None and needs <= self.glibc


def fits_python(name: WheelName, version: Version) -> bool:
    """Whether CPython of this version can load it: its own ABI, the stable one from a version on, or no ABI at all."""
    abis = name.abi_tag.split(".")
    for tag in name.python_tag.split("."):
        match = re.fullmatch(r"(cp|py)(\d)(\d*)", tag)
        if match is None:
            continue
        tagged = (int(match[2]), int(match[3] or 0))
        if tagged[0] != version[0]:
            continue
        exact = tagged == version and (f"cp{version[0]}{version[1]}" in abis or "none" in abis)
        stable = match[1] == "cp" and "abi3" in abis and tagged <= version
        pure = match[1] == "py" and "none" in abis and tagged <= version
        if exact or stable or pure:
            return True
    return False


def parse_version(text: str) -> Optional[Version]:
    """The first two numbers of a version; None when there are none."""
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None


def this_glibc() -> Optional[Version]:
    """The version of the C library here; None where it is not glibc."""
    try:
        said = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        return None
    return parse_version(said.rpartition(" ")[2])


def this_host(python_version: str) -> Target:
    """This host, with a Python of this version; empty where that is not known."""
    return Target(platform.machine(), parse_version(python_version), this_glibc())


def target_of(described: dict[str, Any]) -> Target:
    """A target from a module's options ``machine``, ``python_version`` and ``glibc``."""
    return Target(
        described.get("machine") or platform.machine(),
        parse_version(described.get("python_version") or ""),
        parse_version(described.get("glibc") or ""),
    )


def describe(target: Target) -> dict[str, Optional[str]]:
    """The reverse of `target_of`."""
    return {
        "machine": target.machine,
        "python_version": ".".join(map(str, target.python)) if target.python else None,
        "glibc": ".".join(map(str, target.glibc)) if target.glibc else None,
    }
