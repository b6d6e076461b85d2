# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wheels that a nightly index lists for one commit and variant: by its page, its ``metadata.json``, or a folder.

The page leads: it is what pip and uv read, and the only one of the two that can carry digests. ``metadata.json`` beside
it stands in where the page is missing, is no HTML or lists nothing; where both list wheels and differ, that is said. Of
``metadata.json`` only ``filename`` is believed: ``version`` lacks the variant there, and ``path`` has been written in
several ways.
"""

from __future__ import annotations

import html.parser
import json
import posixpath
import re
import urllib.parse
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.index_folder import FolderIndex, Index
from ansible_collections.pristine.vllm.plugins.module_utils.index_http import Answer, FetchError, split_credentials
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_name import WheelName, parse_wheel_name

_HTML = ("text/html", "application/xhtml+xml", "application/vnd.pypi.simple.v1+html")


@dataclass(frozen=True)
class ListedWheel:
    """A wheel on a page: its absolute URL without fragment, its parsed name, and the sha256 and size that it tells."""

    url: str
    name: WheelName
    sha256: Optional[str] = None
    size: Optional[int] = None


@dataclass
class Listing:
    """Where the wheels are listed (after redirects), which, and what an operator should know about that."""

    page: str
    wheels: list[ListedWheel]
    cautions: list[str] = field(default_factory=list)


class NoListingError(Exception):
    """Nothing lists wheels: the index does not know the commit or the variant (``absent``), it cannot be read
    (``unreachable``), or what is there is no list."""

    def __init__(self, page: str, reason: str, absent: bool = False, unreachable: bool = False) -> None:
        super().__init__(reason)
        self.page = page
        self.reason = reason
        self.absent = absent
        self.unreachable = unreachable


class _Links(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.hrefs: list[str] = []
        self.base: Optional[str] = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, Optional[str]]]) -> None:
        href = dict(attrs).get("href")
        if href and tag == "a":
            self.hrefs.append(href)
        elif href and tag == "base" and self.base is None:
            self.base = href


def list_wheels(answer: Answer, distribution: str = "vllm") -> list[ListedWheel]:
    """The wheels of a distribution (normalised name) that a PEP 503 page links to."""
    wheels = []
    for url in _links(answer):
        parts = urllib.parse.urlsplit(url)
        name = parse_wheel_name(urllib.parse.unquote(posixpath.basename(parts.path)))
        if name is None or name.name != distribution:
            continue
        digest = re.fullmatch(r"sha256=([0-9a-fA-F]{64})", parts.fragment)
        bare = split_credentials(urllib.parse.urlunsplit(parts._replace(fragment="")))[0]
        wheels.append(ListedWheel(bare, name, digest[1].lower() if digest else None))
    return wheels


def list_metadata(answer: Answer, place: str, distribution: str = "vllm") -> list[ListedWheel]:
    """The wheels of a ``metadata.json``.

    :param place: address of the folder where the index keeps a commit's wheels, for a ``path`` that names another file.
    :raises ValueError: it is no such list.
    """
    try:
        rows = [(str(row["filename"]), str(row.get("path") or "")) for row in json.loads(answer.body)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it is no list of wheels ({error!r:.100})") from error
    wheels = []
    for filename, path in rows:
        name = None if "/" in filename else parse_wheel_name(filename)
        if name is None or name.name != distribution:
            continue
        url = urllib.parse.urljoin(answer.url, path)
        if urllib.parse.unquote(posixpath.basename(urllib.parse.urlsplit(url).path)) != filename:
            url = place + urllib.parse.quote(filename)
        wheels.append(ListedWheel(split_credentials(url)[0], name))
    return wheels


def read_listing(index: Index, page: str, place: str) -> Listing:
    """What lists the wheels of a commit and variant.

    :param page: address of the page, with its final slash; ``place``: of the folder with the commit's wheels.
    :raises NoListingError: nothing does.
    """
    problem: Optional[NoListingError] = None
    try:
        found = _read_page(index, page)
    except NoListingError as error:
        if error.unreachable:
            raise
        found, problem = Listing(page, []), error
    address = urllib.parse.urljoin(found.page, "metadata.json")
    wheels, caution = _read_metadata(index, address, place)
    if not found.wheels and wheels:
        reason = problem.reason if problem else f"{found.page} lists no vllm wheels"
        return Listing(address, wheels, [f"{reason}: {address} was taken in its place"])
    if problem:
        raise problem
    if wheels:
        caution = _difference(found, address, wheels)
    return Listing(found.page, found.wheels, [caution] if caution else [])


def read_folder(index: FolderIndex, folder: str) -> Listing:
    """The wheels that lie in a folder without pages.

    :raises NoListingError: there is no such folder.
    """
    try:
        urls = index.wheels(folder)
    except FetchError as error:
        raise NoListingError(folder, error.reason, error.absent) from error
    names = [(url, parse_wheel_name(urllib.parse.unquote(posixpath.basename(url)))) for url in urls]
    return Listing(folder, [ListedWheel(url, name) for url, name in names if name and name.name == "vllm"])


def variant_of(version: str) -> str:
    """What the index sorts a version by: ``cu130`` of ``0.1.dev1+gabc.cu130`` and of ``0.1+cu130``, else nothing."""
    public, _plus, local = version.partition("+")
    return local.partition(".")[2] if ".dev" in public else local


def variants(index: Index, commit_page: str) -> list[str]:
    """The variants that the page of a commit names; none where there is no such page."""
    try:
        answer = index.page(commit_page)
    except FetchError:
        return []
    folders = {urllib.parse.urlsplit(url).path for url in _links(answer)} if answer.content_type in _HTML else set()
    base = urllib.parse.urlsplit(answer.url).path
    names = {path[len(base) :].strip("/") for path in folders if path.startswith(base) and path.endswith("/")}
    return sorted(name for name in names if name and "/" not in name)


def _read_page(index: Index, page: str) -> Listing:
    """:raises NoListingError: it is not there, there is no answer, or what came is not HTML."""
    try:
        try:
            answer = index.page(page)
        except FetchError as error:
            if not error.absent:
                raise
            # Plain object stores do not serve a folder's index.html for the folder.
            answer = index.page(page + "index.html")
    except FetchError as error:
        if not error.absent:
            raise NoListingError(page, error.reason, unreachable=True) from error
        raise NoListingError(page, f"{page} answers {error.reason}", absent=True) from error
    if answer.content_type not in _HTML:
        what = answer.content_type or "no content type"
        raise NoListingError(answer.url, f"{answer.url} answered with {what} instead of an HTML page")
    try:
        return Listing(answer.url, list_wheels(answer))
    except (ValueError, AssertionError) as error:
        # A link that is no address; older parsers of HTML give up by an assertion.
        raise NoListingError(answer.url, f"{answer.url} is no page of an index: {error!r:.100}") from error


def _links(answer: Answer) -> list[str]:
    """The addresses that a page links to."""
    parser = _Links()
    parser.feed(answer.body.decode("utf-8", "replace"))
    base = urllib.parse.urljoin(answer.url, parser.base or "")
    return [urllib.parse.urljoin(base, href) for href in parser.hrefs]


def _read_metadata(index: Index, address: str, place: str) -> tuple[list[ListedWheel], str]:
    """Its wheels, none where it is not there or no such list; and what to say about that."""
    try:
        return list_metadata(index.page(address), place), ""
    except FetchError:
        # It is not needed where the page is good.
        return [], ""
    except ValueError as error:
        return [], f"{address} is not used: {error}"


def _difference(found: Listing, address: str, wheels: list[ListedWheel]) -> str:
    page, metadata = ({wheel.name.filename for wheel in side} for side in (found.wheels, wheels))
    only = [(found.page, page - metadata), (address, metadata - page)]
    told = "; ".join(f"only {where} has {some(names)}" for where, names in only if names)
    return f"the index contradicts itself: {told}. The page was taken" if told else ""


def some(values: Iterable[str], limit: int = 8) -> str:
    """The first few of the values, and how many more there are."""
    shown = sorted(values)
    more = f" and {len(shown) - limit} more" if len(shown) > limit else ""
    return ", ".join(shown[:limit]) + more
