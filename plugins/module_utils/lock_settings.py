# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host's pip settings in uv's words: uv reads neither pip.conf nor PIP_*, and must ask the same indexes as pip."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Optional

# Each later one of them overrides the earlier, as for the `pip download` that fetches the wheels.
_SECTIONS = ("global", "download", ":env:")
_LINE = re.compile(r"(?P<section>[^.=\s]+)\.(?P<key>[a-z-]+)=(?P<value>.*)")
_LISTS = {"extra-index-url": ("UV_EXTRA_INDEX_URL", " "), "find-links": ("UV_FIND_LINKS", ",")}
_LISTS["trusted-host"] = ("UV_INSECURE_HOST", " ")
_SINGLE = {
    "index-url": ("UV_DEFAULT_INDEX",),
    "cert": ("SSL_CERT_FILE",),
    "client-cert": ("SSL_CLIENT_CERT",),
    "proxy": ("HTTP_PROXY", "HTTPS_PROXY"),
    "default-timeout": ("UV_HTTP_TIMEOUT",),
    "timeout": ("UV_HTTP_TIMEOUT",),
    "retries": ("UV_HTTP_RETRIES",),
}


def parse_settings(listing: str) -> dict[str, str]:
    """What ``pip config list`` prints, as the settings that hold for ``pip download``."""
    sections: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in listing.splitlines():
        match = _LINE.fullmatch(line.strip())
        if match and match["section"] in sections:
            sections[match["section"]][match["key"]] = _literal(match["value"])
    return {key: value for section in _SECTIONS for key, value in sections[section].items()}


def uv_variables(settings: Mapping[str, str], index_url: Optional[str] = None) -> dict[str, str]:
    """Variables that make uv look where pip looks; in variables, because addresses may hold passwords.

    :param index_url: takes the place of the settings' index.
    """
    # As pip on the host does; uv would trust its own list alone.
    variables = {"UV_SYSTEM_CERTS": "1"}
    for key, names in _SINGLE.items():
        if settings.get(key, "").strip():
            variables.update({name: settings[key].strip() for name in names})
    for key, (name, separator) in _LISTS.items():
        if settings.get(key, "").split():
            variables[name] = separator.join(settings[key].split())
    if index_url:
        variables["UV_DEFAULT_INDEX"] = index_url
    return variables


def without_index(settings: Mapping[str, str]) -> bool:
    """Whether pip is told to look into its folders and pages alone."""
    return settings.get("no-index", "").strip().lower() in ("1", "true", "yes", "on")


def _literal(value: str) -> str:
    """pip prints each value as Python writes it."""
    try:
        return str(ast.literal_eval(value))
    except (SyntaxError, ValueError):
        return value
