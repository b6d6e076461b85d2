# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the one wheel that a pin names in a per-commit nightly index.

The index is a tree of PEP 503 pages, ``<index>/<commit>/[<variant>/]vllm/``. A page lists the wheels of every machine,
without hashes, by links that are relative to the page's URL after redirects and in which ``+`` is ``%2B``.
Nothing but the pinned version, variant and machine will do: see https://github.com/vllm-project/vllm/issues/28340 and
42338 for what a lenient choice installs.
"""

from __future__ import annotations

import html.parser
import posixpath
import re
import urllib.parse
from dataclasses import dataclass, field
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.index_http import (
    Answer,
    FetchError,
    IndexClient,
    split_credentials,
)
from ansible_collections.pristine.vllm.plugins.module_utils.messages import redact_urls
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_name import (
    WheelName,
    canonical_version,
    parse_wheel_name,
)

_HTML = ("text/html", "application/xhtml+xml", "application/vnd.pypi.simple.v1+html")
_NOT_LOCAL = "Nothing on this host was changed."


@dataclass(frozen=True)
class Pin:
    """What is wanted. ``sha256`` is empty when it is not known; ``variant`` is empty for the default one."""

    index_url: str
    version: str
    commit: str
    variant: str = ""
    sha256: str = ""
    machine: str = "x86_64"

    @property
    def page_url(self) -> str:
        """The page that should list the wheel."""
        parts = [self.index_url.rstrip("/"), self.commit, self.variant, "vllm", ""]
        return "/".join(part for index, part in enumerate(parts) if part or index == len(parts) - 1)


@dataclass
class Resolution:
    """What was found. ``problem`` is None exactly when ``resolved``; ``offers`` is what the page lists."""

    resolved: bool = False
    url: Optional[str] = None
    filename: Optional[str] = None
    size: Optional[int] = None
    sha256: Optional[str] = None
    page: Optional[str] = None
    problem: Optional[str] = None
    offers: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ListedWheel:
    """A wheel on a page: its absolute URL without fragment, its parsed name, and the sha256 and size that it tells."""

    url: str
    name: WheelName
    sha256: Optional[str] = None
    size: Optional[int] = None


class _UnresolvedError(Exception):
    """Carries the problem up to `resolve`."""


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


def resolve(pin: Pin, client: IndexClient) -> Resolution:
    """Find the pinned wheel. Never raises for what an index or a pin can get wrong: that is the ``problem``."""
    found = Resolution()
    try:
        _check_pin(pin)
        answer = _fetch_page(pin, client)
        found.page = answer.url
        wheels = list_wheels(answer)
        found.offers = sorted({wheel.name.filename for wheel in wheels})
        if not wheels:
            raise _UnresolvedError(
                _say(
                    pin,
                    f"{found.page} lists no vllm wheels",
                    "what it holds links to none, if it is HTML at all: a proxy or a portal may answer in its place",
                )
            )
        wheel = choose(pin, wheels)
        found.url, found.filename = wheel.url, wheel.name.filename
        found.sha256 = wheel.sha256 or pin.sha256.lower() or None
        found.size = _probe(pin, wheel, client)
        found.resolved = True
    except _UnresolvedError as error:
        found.problem = redact_urls(str(error))
    return found


def list_wheels(answer: Answer, distribution: str = "vllm") -> list[ListedWheel]:
    """The wheels of a distribution (normalised name) that a PEP 503 page links to."""
    parser = _Links()
    parser.feed(answer.body.decode("utf-8", "replace"))
    base = urllib.parse.urljoin(answer.url, parser.base or "")
    wheels = []
    for href in parser.hrefs:
        parts = urllib.parse.urlsplit(urllib.parse.urljoin(base, href))
        name = parse_wheel_name(urllib.parse.unquote(posixpath.basename(parts.path)))
        if name is None or name.name != distribution:
            continue
        digest = re.fullmatch(r"sha256=([0-9a-fA-F]{64})", parts.fragment)
        url = split_credentials(urllib.parse.urlunsplit(parts._replace(fragment="")))[0]
        wheels.append(ListedWheel(url, name, digest[1].lower() if digest else None))
    return wheels


def choose(pin: Pin, wheels: list[ListedWheel]) -> ListedWheel:
    """The wheel of exactly this version (local part included) for this machine.

    :raises _UnresolvedError: there is none, or its digest is another one, with what there is.
    """
    wanted = canonical_version(pin.version)
    same = [wheel for wheel in wheels if canonical_version(wheel.name.version) == wanted]
    if not same:
        versions = _some({wheel.name.version for wheel in wheels})
        raise _UnresolvedError(
            _say(
                pin, f"{pin.page_url} does not list that version", f"it lists {versions}", "Pin one of those or fix it"
            )
        )
    fitting = [wheel for wheel in same if wheel.name.fits_machine(pin.machine)]
    if not fitting:
        tags = _some({wheel.name.platform_tag for wheel in same})
        why = f"the version is there for {tags} only"
        raise _UnresolvedError(_say(pin, f"{pin.page_url} has no wheel for Linux on {pin.machine}", why))
    wheel = fitting[0]
    if pin.sha256 and wheel.sha256 and wheel.sha256 != pin.sha256.lower():
        why = f"the index says {wheel.sha256}, the pin says {pin.sha256.lower()}"
        raise _UnresolvedError(_say(pin, f"{wheel.url} has another sha256", why, "Find out which of the two is wrong"))
    return wheel


def _check_pin(pin: Pin) -> None:
    if urllib.parse.urlsplit(pin.index_url).scheme not in ("http", "https"):
        raise _UnresolvedError(
            _say(pin, f"index_url {pin.index_url!r} is no http(s) address", "the index cannot be asked")
        )
    if not re.fullmatch(r"[0-9a-f]{40}", pin.commit):
        why = f"it has {len(pin.commit)} characters, and the index knows full commits only"
        raise _UnresolvedError(
            _say(pin, f"commit {pin.commit!r} is not 40 lower-case hexadecimal digits", why, "Pin the full commit")
        )
    if pin.sha256 and not re.fullmatch(r"[0-9a-fA-F]{64}", pin.sha256):
        raise _UnresolvedError(_say(pin, f"sha256 {pin.sha256!r} is not 64 hexadecimal digits", "no wheel can have it"))
    if not re.fullmatch(r"[A-Za-z0-9._-]*", pin.variant):
        raise _UnresolvedError(_say(pin, f"variant {pin.variant!r} is no variant's name", "it would leave the index"))
    # setuptools-scm's local part: the g and the start of the commit's hash.
    short = re.search(r"\+(?:.*\.)?g([0-9a-f]{7,40})(?:\.|$)", pin.version.lower())
    if short and not pin.commit.startswith(short[1]):
        why = f"the version was built from {short[1]}..., the pinned commit is {pin.commit}"
        raise _UnresolvedError(_say(pin, "version and commit contradict each other", why, "Fix one of the two"))


def _fetch_page(pin: Pin, client: IndexClient) -> Answer:
    """The page of the pin, wherever the server keeps it.

    :raises _UnresolvedError: it is not there, there is no answer, or what came is not HTML.
    """
    try:
        try:
            answer = client.page(pin.page_url)
        except FetchError as error:
            if not error.absent:
                raise
            # Plain object stores do not serve a folder's index.html for the folder.
            answer = client.page(pin.page_url + "index.html")
    except FetchError as error:
        raise _UnresolvedError(_say_no_page(pin, error, client)) from error
    if answer.content_type not in _HTML:
        why = f"it answered with {answer.content_type or 'no content type'} instead of an HTML page"
        raise _UnresolvedError(_say(pin, f"{answer.url} is no index page", why, "Check vllm_index_url and any proxy"))
    return answer


def _say_no_page(pin: Pin, error: FetchError, client: IndexClient) -> str:
    if not error.absent:
        next_step = "Check the network, the proxy and vllm_index_url"
        return _say(pin, f"the index {pin.page_url} cannot be read", error.reason, next_step)
    if pin.variant:
        plain = Pin(pin.index_url, pin.version, pin.commit)
        try:
            client.page(plain.page_url)
        except FetchError:
            pass
        else:
            why = f"{pin.page_url} answers {error.reason}, while the commit's default variant is there"
            next_step = "Pin a variant that was built for this commit, or a commit that has it; none is chosen for you"
            return _say(pin, f"the index has no variant {pin.variant!r} of this commit", why, next_step)
    why = f"{pin.page_url} answers {error.reason}"
    next_step = "Check the commit; if its wheels were removed, pin a commit that is still there"
    return _say(pin, f"the index has nothing for commit {pin.commit}", why, next_step)


def _probe(pin: Pin, wheel: ListedWheel, client: IndexClient) -> Optional[int]:
    """The wheel's size in bytes, or None where the server does not tell.

    :raises _UnresolvedError: the index lists the wheel and does not have it.
    """
    try:
        return client.probe(wheel.url).length
    except FetchError as error:
        what = f"the index lists {wheel.name.filename} and does not deliver it"
        next_step = "Use a copy of the wheel (the wheelhouse of another host has one) or pin another commit"
        raise _UnresolvedError(_say(pin, what, f"{wheel.url} answers {error.reason}", next_step)) from error


def _say(pin: Pin, what: str, why: str, next_step: str = "Check vllm_index_url, vllm_version and vllm_commit") -> str:
    variant = f", variant {pin.variant}" if pin.variant else ""
    return f"vllm {pin.version} ({pin.machine}{variant}) cannot be had: {what}: {why}. {next_step}. {_NOT_LOCAL}"


def _some(values: set[str], limit: int = 8) -> str:
    shown = sorted(values)
    more = f" and {len(shown) - limit} more" if len(shown) > limit else ""
    return ", ".join(shown[:limit]) + more
