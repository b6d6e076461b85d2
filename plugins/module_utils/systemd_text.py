# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Quoting for systemd unit files.

Source of the rules: systemd.service(5), COMMAND LINES, and systemd.syntax(7), QUOTING: ``%`` starts a specifier, ``$``
a variable, and quotes and backslashes are taken as in C. A line feed would end the line.
"""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[A-Za-z0-9_@:,./=+-]+")


def quote_argument(value: str, expand_variables: bool = True) -> str:
    """Return ``value`` as one word of ``ExecStart=`` (or, with ``expand_variables`` false, of ``Environment=``).

    :param expand_variables: whether systemd would replace ``$``, as in ``ExecStart=`` and not in ``Environment=``
    :raises ValueError: for a NUL or another control character, which no unit file can hold
    """
    if any(ord(char) < 32 and char not in "\n\t" for char in value):
        raise ValueError(f"{value!r} holds a control character, which a systemd unit cannot: remove it from the value")
    text = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t").replace("%", "%%")
    if expand_variables:
        text = text.replace("$", "$$")
    return text if _PLAIN.fullmatch(text) else f'"{text}"'
