# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages of a simple index (PEP 503, PEP 691), and which of its wheels a distribution was installed from."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import posixpath
import re
import urllib.parse
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import read_file
from ansible_collections.pristine.vllm.plugins.module_utils.index_http import (
    Answer,
    FetchError,
    IndexClient,
    split_credentials,
)
from ansible_collections.pristine.vllm.plugins.module_utils.nightly_index import ListedWheel, list_wheels
from ansible_collections.pristine.vllm.plugins.module_utils.record.environment import Distribution
from ansible_collections.pristine.vllm.plugins.module_utils.record.http_range import RemoteError, shown
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_name import canonical_version, parse_wheel_name

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_JSON = ("application/vnd.pypi.simple.v1+json", "application/json")
_HTML = ("application/vnd.pypi.simple.v1+html", "text/html", "application/xhtml+xml")


def direct(url: str) -> Optional[ListedWheel]:
    """The wheel that a URL is the address of, None where it is another address; its fragment may have a digest."""
    parts = urllib.parse.urlsplit(url)
    name = parse_wheel_name(urllib.parse.unquote(posixpath.basename(parts.path)))
    if name is None:
        return None
    digest = re.fullmatch(r"sha256=([0-9a-fA-F]{64})", parts.fragment)
    bare = urllib.parse.urlunsplit(parts._replace(fragment=""))
    return ListedWheel(bare, name, digest[1].lower() if digest else None)


def listed(client: IndexClient, index: str, distribution: str) -> list[ListedWheel]:
    """The wheels that a simple index has of a distribution (normalised name), none where it does not know it.

    :raises FetchError: the index does not answer.
    :raises RemoteError: what it answers is no page of an index.
    """
    parts = urllib.parse.urlsplit(index)
    page = urllib.parse.urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{distribution}/", fragment=""))
    try:
        answer = client.page(page, {"Accept": _ACCEPT})
    except FetchError as error:
        if not error.absent:
            raise
        try:
            # Plain object stores do not serve a folder's index.html for the folder.
            answer = client.page(urllib.parse.urljoin(page, "index.html"), {"Accept": _ACCEPT})
        except FetchError as second:
            if not second.absent:
                raise
            return []
    return wheels_on(answer, distribution)


def wheels_on(answer: Answer, distribution: str) -> list[ListedWheel]:
    """The wheels of a distribution (normalised name) that a page lists.

    :raises RemoteError: it is no page of an index.
    """
    try:
        if answer.content_type in _JSON:
            return _of_json(answer, distribution)
        if answer.content_type in _HTML:
            return list_wheels(answer, distribution)
    except (ValueError, AssertionError) as error:
        # A link that is no address; older parsers of HTML give up by an assertion.
        raise RemoteError(f"{shown(answer.url)} is no page of a simple index: {error!r:.100}") from error
    raise RemoteError(f"{shown(answer.url)} is {answer.content_type} and no page of a simple index")


def _of_json(answer: Answer, distribution: str) -> list[ListedWheel]:
    """:raises RemoteError: it is no project page of version 1 of the API; ValueError: a link is no address."""
    try:
        page = json.loads(answer.body)
        version = str(page["meta"]["api-version"])
        files = [(entry["filename"], entry["url"], entry.get("hashes"), entry.get("size")) for entry in page["files"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RemoteError(f"{shown(answer.url)} is no page of a simple index (PEP 691): {error!r:.100}") from error
    if not version.startswith("1."):
        raise RemoteError(f"{shown(answer.url)} has version {version[:20]} of the index API, and 1 is known here")
    wheels = []
    for filename, url, hashes, size in files:
        name = parse_wheel_name(str(filename))
        if name is None or name.name != distribution:
            continue
        address = urllib.parse.urlunsplit(
            urllib.parse.urlsplit(urllib.parse.urljoin(answer.url, str(url)))._replace(fragment="")
        )
        known = size if isinstance(size, int) and size > 0 else None
        wheels.append(ListedWheel(split_credentials(address)[0], name, _sha256_of(hashes), known))
    return wheels


def _sha256_of(hashes: Any) -> Optional[str]:
    digest = hashes.get("sha256") if isinstance(hashes, dict) else None
    return digest.lower() if isinstance(digest, str) and re.fullmatch(r"[0-9a-fA-F]{64}", digest) else None


def ranked(wheels: list[ListedWheel], distribution: Distribution, pins: Optional[set[str]]) -> list[ListedWheel]:
    """Those of the installed version that fit this machine, the likeliest first.

    A digest that the lock names decides, then the tags that the installed WHEEL file has: a build for another
    Python or another C library is another wheel. Tags of the platform decide last, because some builders get theirs
    wrong (vLLM's says ``linux_x86_64`` and its file name ``manylinux``).
    """
    version = canonical_version(distribution.version)
    tags = _installed_tags(distribution)

    def likeness(wheel: ListedWheel) -> tuple[bool, bool, bool]:
        name = wheel.name
        own = {
            (python, abi, system)
            for python in name.python_tag.split(".")
            for abi in name.abi_tag.split(".")
            for system in name.platform_tag.split(".")
        }
        interpreters = {tag[:2] for tag in own} & {tag[:2] for tag in tags}
        return bool(pins) and wheel.sha256 in (pins or ()), bool(interpreters), bool(own & tags)

    fitting = [
        wheel
        for wheel in wheels
        if canonical_version(wheel.name.version) == version and wheel.name.fits_machine(platform.machine())
    ]
    return sorted(fitting, key=likeness, reverse=True)


def _installed_tags(distribution: Distribution) -> set[tuple[str, str, str]]:
    content = b""
    with contextlib.suppress(OSError):
        content = read_file(os.path.join(distribution.directory, "WHEEL"), 65536)
    found = re.findall(r"(?m)^Tag:\s*([^-\s]+)-([^-\s]+)-([^-\s]+)\s*$", content.decode("utf-8", "replace"))
    return {(python, abi, system.lower()) for python, abi, system in found}
