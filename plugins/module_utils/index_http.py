# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bounded requests to a package index: pages, the presence of files, and answers whose body is read by who asked."""

from __future__ import annotations

import base64
import http.client
import netrc
import os
import re
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any, Callable, Optional, TypeVar

# An index page with every wheel of a commit is a few kilobytes; what is larger is something else.
PAGE_LIMIT = 8 * 1024 * 1024
ATTEMPTS = 3
_TRANSIENT_STATUS = (408, 425, 429, 500, 502, 503, 504)
_Got = TypeVar("_Got")


class FetchError(Exception):
    """No answer could be had. ``reason`` is short and without credentials; ``status`` is the HTTP status or None."""

    def __init__(self, reason: str, status: Optional[int] = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status

    @property
    def absent(self) -> bool:
        """Whether the server said that it is not there. A bucket without the right to list answers 403 for that."""
        return self.status in (403, 404, 410)

    @property
    def transient(self) -> bool:
        """Whether it may pass."""
        return self.status is None or self.status in _TRANSIENT_STATUS


@dataclass(frozen=True)
class Answer:
    """What a server sent: the URL after redirects (without credentials), the media type, the body, the length."""

    url: str
    content_type: str
    body: bytes
    length: Optional[int]


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, with the credentials only as long as it is the same server."""

    def __init__(self, count: Callable[[], None]) -> None:
        self._count = count

    def http_error_308(self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any) -> Any:
        """As 307, which is the same for a request without a body; urllib knows it from Python 3.11 on."""
        return self.http_error_302(req, fp, {308: 307}.get(code, code), msg, headers)

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Optional[urllib.request.Request]:
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        if new is None:
            return None
        self._count()
        if _origin(new.full_url) == _origin(req.full_url) and req.has_header("Authorization"):
            new.add_unredirected_header("Authorization", req.get_header("Authorization") or "")
        # The default turns a redirected HEAD into a GET, and would fetch the wheel.
        new.method = req.get_method()
        return new


class IndexClient:
    """Fetches with a time limit for each request and a few attempts for what may pass.

    Credentials come from the URL or, as with pip, from the user's ``.netrc``. Proxies are those of the environment.
    ``requests`` counts what was sent, redirects that were followed included, ``received`` the bytes of bodies.
    """

    def __init__(self, timeout: float, sleep: Callable[[float], None] = time.sleep, attempts: int = ATTEMPTS) -> None:
        """
        :param timeout: seconds that a server may stay silent.
        :param sleep: waits between attempts.
        :param attempts: how often what may pass is tried.
        """
        self._timeout = timeout
        self._sleep = sleep
        self._attempts = attempts
        self._opener = urllib.request.build_opener(_Redirects(self._count))
        self._credentials: dict[str, str] = {}
        self.requests = 0
        self.received = 0

    def page(self, url: str, headers: Optional[dict[str, str]] = None) -> Answer:
        """Fetch a page of at most `PAGE_LIMIT` bytes.

        :raises FetchError: there is no such page, or no answer.
        """
        return self.retry(lambda: self._request("GET", url, PAGE_LIMIT, headers))

    def probe(self, url: str) -> Answer:
        """Ask for a file without fetching it.

        :raises FetchError: there is no such file, or no answer.
        """
        try:
            return self.retry(lambda: self._request("HEAD", url, 0))
        except FetchError as error:
            # 403 as well: some signed stores allow a GET only.
            if error.status not in (403, 405, 501):
                raise
        return self.retry(lambda: self._request("GET", url, 0, {"Range": "bytes=0-0"}))

    def retry(self, request: Callable[[], _Got]) -> _Got:
        """Do what raises `FetchError` again, as long as it may pass.

        :raises FetchError: the last one.
        """
        for attempt in range(self._attempts):
            try:
                return request()
            except FetchError as error:
                if attempt == self._attempts - 1 or not error.transient:
                    raise
            self.pause(attempt)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def pause(self, attempt: int) -> None:
        """Wait before the next attempt, the longer the more there were (from 0)."""
        self._sleep(0.5 * 2**attempt)

    def trust(self, url: str) -> None:
        """Take the user and password of a URL for all that is asked of the same server."""
        bare, credentials = split_credentials(url)
        if credentials:
            self._credentials[_origin(bare)] = credentials

    def stream(self, url: str, headers: Optional[dict[str, str]] = None, method: str = "GET") -> Any:
        """The response to one request, its body unread: close it. Who reads counts in ``received``.

        :raises FetchError: there is no such file, or no answer.
        """
        bare, credentials = split_credentials(url)
        # Links of a page that needed credentials need them too, and do not carry them.
        credentials = credentials or self._credentials.get(_origin(bare)) or _from_netrc(bare)
        # The opener knows file: and ftp: too, and an index has no business there.
        if urllib.parse.urlsplit(bare).scheme not in ("http", "https"):
            raise FetchError(f"{bare} is no http(s) address", 400)
        request = urllib.request.Request(bare, method=method, headers=headers or {})  # noqa: S310 (checked above)
        if credentials:
            self._credentials[_origin(bare)] = credentials
            token = base64.b64encode(credentials.encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {token}")
        self._count()
        try:
            return self._opener.open(request, timeout=self._timeout)
        except urllib.error.HTTPError as error:
            with error:
                raise FetchError(f"HTTP {error.code} {error.reason}", error.code) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise FetchError(why(error)) from error

    def _count(self) -> None:
        self.requests += 1

    def _request(self, method: str, url: str, limit: int, headers: Optional[dict[str, str]] = None) -> Answer:
        try:
            with self.stream(url, headers, method) as response:
                body = _read(response, limit, self._timeout)
                length = _length(response.headers)
                final, content_type = response.geturl(), response.headers.get_content_type()
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise FetchError(why(error)) from error
        self.received += len(body)
        return Answer(split_credentials(final)[0], content_type, body, length)


def _read(response: Any, limit: int, seconds: float) -> bytes:
    """The body, in bounded time and size: a server that sends a byte now and then is no index.

    :raises FetchError: there is more, or it takes longer.
    """
    body = b""
    deadline = time.monotonic() + seconds
    while limit:
        piece = response.read1(65536)
        body += piece
        if len(body) > limit:
            raise FetchError(f"the answer is larger than {limit} bytes", 200)
        if time.monotonic() > deadline:
            raise TimeoutError
        if not piece:
            break
    # read1 takes the end of the connection for the end of the body.
    if limit and response.length:
        raise FetchError(f"the connection ended {response.length} bytes early")
    return body


def split_credentials(url: str) -> tuple[str, str]:
    """The URL without user and password, and ``user:password`` (decoded, empty when there is none)."""
    parts = urllib.parse.urlsplit(url)
    userinfo, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, ""
    credentials = urllib.parse.unquote(userinfo)
    return urllib.parse.urlunsplit(
        parts._replace(netloc=host)
    ), credentials if ":" in credentials else credentials + ":"


def secrets_of(urls: list[str]) -> set[str]:
    """The passwords in URLs, as written and decoded, for who masks them in results."""
    found = set()
    for url in urls:
        scheme, _separator, rest = url.partition("://")
        userinfo, at, _host = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")
        password = userinfo.partition(":")[2] or userinfo
        if at and scheme.lower() in ("http", "https"):
            found |= {password, urllib.parse.unquote(password)} - {""}
    return found


def _origin(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _from_netrc(url: str) -> str:
    try:
        entry = netrc.netrc(os.environ.get("NETRC")).authenticators(urllib.parse.urlsplit(url).hostname or "")
    except (OSError, netrc.NetrcParseError):
        # As pip does: a file that is absent or cannot be used counts as none.
        return ""
    return f"{entry[0]}:{entry[2]}" if entry else ""


def _length(headers: Any) -> Optional[int]:
    """The size of the whole file in bytes, also when one byte of it was asked for."""
    total = headers.get("Content-Range", "").rpartition("/")[2] or headers.get("Content-Length", "")
    return int(total) if total.isdigit() else None


def why(error: Exception) -> str:
    """An exception of the HTTP stack in words."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    # Up to Python 3.9 a socket's time-out was an exception of its own.
    if isinstance(reason, (TimeoutError, socket.timeout)):
        return "no answer in time"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return str(reason) or type(reason).__name__
