# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names, versions and file names of wheels, compared as the packaging standards say."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Optional

# PEP 440, appendix B, without the epoch's and the separators' free forms that no wheel file name can hold.
_VERSION = re.compile(
    r"v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<pre>alpha|beta|preview|pre|rc|a|b|c)[-_.]?(?P<pre_n>\d*))?"
    r"(?:-(?P<post_implicit>\d+)|[-_.]?(?P<post>post|rev|r)[-_.]?(?P<post_n>\d*))?"
    r"(?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_n>\d*))?"
    r"(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?"
)
_PRE = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}
_FILE = re.compile(
    r"(?P<name>[^-]+)-(?P<version>[^-]+)(?:-(?P<build>\d[^-]*))?-(?P<python>[^-]+)-(?P<abi>[^-]+)-(?P<platform>[^-]+)\.whl"
)


@dataclass(frozen=True)
class WheelName:
    """A wheel's file name taken apart (PEP 427): ``name`` is normalised, ``version`` and the tags are as written."""

    filename: str
    name: str
    version: str
    python_tag: str
    abi_tag: str
    platform_tag: str

    def fits_machine(self, machine: str) -> bool:
        """Whether one of the platform tags is for Linux on this machine, such as ``x86_64``, or for any."""
        tags = self.platform_tag.split(".")
        return any(tag == "any" or re.fullmatch(rf"(?:many|musl)?linux.*_{re.escape(machine)}", tag) for tag in tags)


def normalise(name: str) -> str:
    """A distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def canonical_version(version: str) -> str:
    """A version in one spelling, so that equal versions (PEP 440) are equal strings; the local part is kept.

    What is no PEP 440 version is only lowercased: it equals nothing but itself.
    """
    match = _VERSION.fullmatch(version.strip().lower())
    if match is None:
        return version.strip().lower()
    part = match.groupdict()
    release = [int(number) for number in part["release"].split(".")]
    while len(release) > 1 and not release[-1]:
        release.pop()
    text = f"{int(part['epoch'])}!" if int(part["epoch"] or 0) else ""
    text += ".".join(map(str, release))
    if part["pre"]:
        text += f"{_PRE.get(part['pre'], part['pre'])}{int(part['pre_n'] or 0)}"
    if part["post"] or part["post_implicit"]:
        text += f".post{int(part['post_n'] or part['post_implicit'] or 0)}"
    if part["dev"]:
        text += f".dev{int(part['dev_n'] or 0)}"
    if part["local"]:
        pieces = re.split(r"[-_.]", part["local"])
        text += "+" + ".".join(str(int(piece)) if piece.isdigit() else piece for piece in pieces)
    return text


def parse_wheel_name(filename: str) -> Optional[WheelName]:
    """Take a file name apart; None when it is not a wheel's."""
    match = _FILE.fullmatch(filename)
    if match is None:
        return None
    part = match.groupdict()
    return WheelName(
        filename, normalise(part["name"]), part["version"], part["python"], part["abi"], part["platform"].lower()
    )
