# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of a file on an HTTP server, by Range requests (RFC 9110, section 14), as bytes that surely are of one file."""

from __future__ import annotations

import http.client
import re
import time
import urllib.parse
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.index_http import FetchError, IndexClient, why

# How often a server may send less than it was asked for, which is its right, before that leads nowhere.
_PIECES = 32
# The slowest answer to wait for, in bytes a second, after the time that the server may stay silent.
_SLOWEST = 32 * 1024
# What servers answer that do not know the Range header and say so.
_UNKNOWN_RANGE = (400, 405, 501)
# Nobody's file has more than 18 digits of bytes, and Python refuses numbers of thousands.
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)", re.IGNORECASE)


class RemoteError(RuntimeError):
    """A remote file cannot be used; says why, without credentials.

    No OSError: zipfile takes those for a file that is no archive.
    """


class NoRangesError(RemoteError):
    """The server sends the whole file and nothing else; its body was not read."""


class ChangedError(RemoteError):
    """The file is another one than it was a request ago."""


def shown(url: str) -> str:
    """A URL for messages: without user, password, query and fragment, all of which may hold a secret."""
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        return url.partition("://")[0] + "://..."
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class RangeReader:
    """Fetches parts of one file; ``size`` is its length in bytes, None until that is known."""

    def __init__(self, client: IndexClient, url: str, timeout: float, size: Optional[int] = None) -> None:
        """
        :param timeout: seconds that the server may stay silent.
        :param size: what the index says; the server has to agree.
        """
        self.size = size
        self._client = client
        self._url = url
        self._timeout = timeout
        self._target = ""
        self._etag = ""
        self._modified = ""
        self._answered = False

    def measure(self) -> int:
        """The file's size, asked for where it is not known. A suffix range would save that, but many do not know it.

        :raises RemoteError: as `fetch`.
        """
        if self.size is None:
            self.fetch(0, 1)
        if self.size is None:
            raise RemoteError("the server does not tell the size of the file")
        return self.size

    def fetch(self, start: int, stop: int) -> bytes:
        """The bytes from ``start`` to before ``stop``.

        :raises NoRangesError: the server knows no ranges.
        :raises ChangedError: the file was replaced since the first request.
        :raises RemoteError: there is no answer, or one that is not what was asked for.
        """
        found = b""
        for _piece in range(_PIECES):
            begin = start + len(found)
            try:
                found += self._client.retry(lambda begin=begin: self._piece(begin, stop))  # type: ignore[misc]
            except FetchError as error:
                if error.status in _UNKNOWN_RANGE and not self._answered:
                    raise NoRangesError(f"the server refuses a Range request: {error.reason}") from error
                raise RemoteError(f"bytes {begin} to {stop - 1} cannot be had: {error.reason}") from error
            if len(found) == stop - start:
                return found
        raise RemoteError(f"after {_PIECES} requests for bytes {start} to {stop - 1} only {len(found)} bytes came")

    def _piece(self, start: int, stop: int) -> bytes:
        headers = {"Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
        # A weak ETag must not be used here (RFC 9110, 13.1.5); answers are compared by it all the same.
        validator = self._modified if self._etag.startswith("W/") else self._etag or self._modified
        if validator:
            headers["If-Range"] = validator
        with self._open(headers) as response:
            if response.status == 200:
                self._refuse_whole()
            count = self._check(response, start, stop)
            body = read_exactly(self._client, response, count, self._timeout)
            # A length that the header gives was compared; without one, only the end of the body tells.
            if response.headers.get("Content-Length") is None and _more(response):
                raise RemoteError("the server sends more bytes than its Content-Range says")
            self._target = response.geturl()
        self._answered = True
        return body

    def _open(self, headers: dict[str, str]) -> Any:
        """Go straight to where a redirect led before: the next one may lead to another mirror."""
        if self._target and self._target != self._url:
            try:
                return self._client.stream(self._target, headers)
            except FetchError:
                # A signed address is good for minutes only.
                self._target = ""
        return self._client.stream(self._url, headers)

    def _refuse_whole(self) -> None:
        """Closing the connection keeps the body from being sent on."""
        if self._answered:
            raise ChangedError("the server sends a whole file where it sent parts before: the file was replaced")
        raise NoRangesError("the server knows no Range requests")

    def _check(self, response: Any, start: int, stop: int) -> int:
        """How many bytes the answer has: at most what was asked for, from where it was asked for.

        :raises RemoteError: it is anything else than a part of the file that this began with.
        """
        headers = response.headers
        if response.status != 206:
            raise RemoteError(f"the server answers a Range request with HTTP {response.status}")
        said = headers.get("Content-Range", "")
        match = _CONTENT_RANGE.fullmatch(said.strip())
        asked = f"bytes {start} to {stop - 1} were asked for"
        if match is None:
            raise RemoteError(f"{asked}, and the answer's Content-Range is {said[:80]!r}")
        first, last = int(match[1]), int(match[2])
        if first != start or not first <= last < stop:
            raise RemoteError(f"{asked}, and the server sends bytes {first} to {last}")
        encoding = headers.get("Content-Encoding", "identity")
        if encoding != "identity":
            raise RemoteError(f"the server encodes parts of the file ({encoding[:40]}), which cannot be put together")
        count = last - first + 1
        length = headers.get("Content-Length")
        if length is not None and length.strip() != str(count):
            raise RemoteError(f"the server announces {length[:20]} bytes for bytes {first} to {last}")
        self._same_file(headers, match[3])
        return count

    def _same_file(self, headers: Any, total: str) -> None:
        """Compare size, ETag and Last-Modified with those of the first answer, as far as both have them."""
        if total != "*":
            if self.size is not None and int(total) != self.size:
                if not self._answered:
                    raise RemoteError(f"the index says that it has {self.size} bytes, the server says {total}")
                raise ChangedError(f"its size was {self.size} bytes and is {total}: the file was replaced")
            self.size = int(total)
        etag, modified = headers.get("ETag", ""), headers.get("Last-Modified", "")
        if self._etag and etag:
            if etag != self._etag:
                raise ChangedError(f"its ETag was {self._etag[:80]} and is {etag[:80]}: the file was replaced")
        elif self._modified and modified and modified != self._modified:
            raise ChangedError(f"it was last modified {self._modified[:40]} and is {modified[:40]}: it was replaced")
        self._etag = self._etag or etag
        self._modified = self._modified or modified


def read_exactly(client: IndexClient, response: Any, count: int, timeout: float) -> bytes:
    """So many bytes of a body, in bounded time.

    :raises FetchError: the connection ended early, or is too slow.
    """
    body = bytearray()
    most = timeout + count / _SLOWEST
    began = time.monotonic()
    try:
        while len(body) < count:
            piece = response.read1(min(count - len(body), 1 << 18))
            if not piece:
                raise FetchError(f"the connection ended {count - len(body)} bytes early")
            client.received += len(piece)
            body += piece
            if time.monotonic() - began > most:
                raise FetchError(f"only {len(body)} of {count} bytes came in {most:.0f} s")
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise FetchError(why(error)) from error
    return bytes(body)


def _more(response: Any) -> bool:
    try:
        return bool(response.read1(1))
    except (OSError, http.client.HTTPException, ValueError):
        return False
