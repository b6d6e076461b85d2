# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other programs' words and addresses, made fit for an operator's message."""

from __future__ import annotations

import re

_CREDENTIALS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s'\"]*@")
_NOISE = re.compile(r"^\s*(?:\[notice\]|WARNING: (?:Retrying|Cache entry)|Looking in|Collecting |Saved )")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def redact_urls(text: str) -> str:
    """The text without the user and password of any URL in it."""
    return _CREDENTIALS.sub(r"\g<scheme>***@", text)


def tail(text: str, lines: int = 12, width: int = 400) -> str:
    """The last lines that say something, each cut to ``width`` characters, redacted, without colours."""
    kept = [line.rstrip() for line in _COLOUR.sub("", text).splitlines() if line.strip() and not _NOISE.match(line)]
    cut = [line if len(line) <= width else line[: width - 3] + "..." for line in map(redact_urls, kept[-lines:])]
    return "\n".join(cut)


def human_bytes(count: float) -> str:
    """A number of bytes for reading, in decimal units as disks are sold."""
    units = ["bytes", "kB", "MB", "GB"]
    power = 0
    while abs(count) >= 1000 and power < len(units) - 1:
        count /= 1000
        power += 1
    return f"{count:.1f} {units[power]}" if power else f"{count:.0f} bytes"
