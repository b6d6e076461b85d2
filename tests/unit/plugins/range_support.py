# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real HTTP server of files that knows Range requests, and that can be made to misbehave in every way."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import pathlib
import re
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Union


@dataclass
class Answer:
    """What goes out.

    ``send``: only so many bytes of the body; ``length``: whether Content-Length is announced; ``drip``: seconds between
    bytes.
    """

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    send: Optional[int] = None
    length: bool = True
    drip: float = 0.0


@dataclass
class Asked:
    """A request: ``number`` counts those of its path from 1; ``start`` and ``stop`` are of its Range, else None."""

    number: int
    path: str
    headers: Any
    start: Optional[int]
    stop: Optional[int]


# Makes something else of a right answer.
Twist = Callable[[Asked, Answer], Answer]


@dataclass
class Served:
    """A file, and how its server twists the right answers; ``data`` is its content or where that is.

    Validators may depend on the number of the request.
    """

    data: Union[bytes, pathlib.Path]
    content_type: str = "application/zip"
    etag: Union[str, Callable[[int], str]] = '"one"'
    modified: Union[str, Callable[[int], str]] = ""
    twist: Optional[Twist] = None
    ranges: bool = True
    heeds_if_range: bool = True

    @property
    def size(self) -> int:
        return len(self.data) if isinstance(self.data, bytes) else self.data.stat().st_size

    def part(self, start: int, stop: int) -> bytes:
        if isinstance(self.data, bytes):
            return self.data[start:stop]
        descriptor = os.open(self.data, os.O_RDONLY)
        try:
            return os.pread(descriptor, stop - start, start)
        finally:
            os.close(descriptor)

    def answer(self, asked: Asked) -> Answer:
        """As RFC 9110 wants it, but for the twist."""
        etag = self.etag if isinstance(self.etag, str) else self.etag(asked.number)
        modified = self.modified if isinstance(self.modified, str) else self.modified(asked.number)
        validators = {"ETag": etag, "Last-Modified": modified}
        headers = {"Content-Type": self.content_type, **{name: value for name, value in validators.items() if value}}
        condition = asked.headers.get("If-Range")
        fresh = condition is None or not self.heeds_if_range or condition in (etag, modified)
        if not self.ranges or asked.start is None or asked.stop is None or not fresh:
            right = Answer(200, self.part(0, self.size), headers)
        elif asked.start >= self.size:
            right = Answer(416, b"", {"Content-Range": f"bytes */{self.size}"})
        else:
            body = self.part(asked.start, min(asked.stop, self.size))
            place = f"bytes {asked.start}-{asked.start + len(body) - 1}/{self.size}"
            right = Answer(206, body, {**headers, "Content-Range": place})
        return right if self.twist is None else self.twist(asked, right)


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers from the server's files."""

    server: FileServer

    def do_GET(self) -> None:
        self.server.log.append(f"{self.path} {self.headers.get('Range', '')}".strip())
        self.server.seen.append(self.headers)
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        start, stop = (int(match[1]), int(match[2] or sys.maxsize - 1) + 1) if match else (None, None)
        number = sum(entry.partition(" ")[0] == self.path for entry in self.server.log)
        served = self.server.files.get(self.path)
        asked = Asked(number, self.path, self.headers, start, stop)
        answer = Answer(404) if served is None else served.answer(asked)
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.length and "Content-Length" not in answer.headers:
            self.send_header("Content-Length", str(len(answer.body)))
        self.server.sent += sum(map(len, getattr(self, "_headers_buffer", [])))
        self.end_headers()
        rest = memoryview(answer.body if answer.send is None else answer.body[: answer.send])
        step = 1 if answer.drip else 65536
        while rest:
            # Before it goes: who has read it all finds it counted.
            self.server.sent += len(rest[:step])
            self.wfile.write(rest[:step])
            rest = rest[step:]
            time.sleep(answer.drip)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class calls it so)
        """Stay quiet."""


class FileServer(http.server.ThreadingHTTPServer):
    """On a free port of the loopback; ``sent`` counts the bytes that went out, those of headers included."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, Served] = {}
        self.log: list[str] = []
        self.seen: list[Any] = []
        self.sent = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is what some tests want."""

    def add(self, path: pathlib.Path, **how: Any) -> Served:
        """Serve a wheel, as nightly indexes do below a folder of its own."""
        self.files[f"/files/{urllib.parse.quote(path.name)}"] = served = Served(path, **how)
        return served

    def html(self, project: str, *names: str, fragment: str = "", prefix: str = "/simple") -> str:
        """A page as the nightly index writes it: relative links in which + is %2B. The index's address."""
        links = [f'<a href="../../files/{urllib.parse.quote(name)}{fragment}">{name}</a><br/>' for name in names]
        self.files[f"{prefix}/{project}/"] = Served(f"<!DOCTYPE html>{''.join(links)}".encode(), "text/html")
        return self.url + prefix

    def json(self, project: str, *entries: dict[str, Any], version: str = "1.1") -> str:
        """A page of the JSON API (PEP 691) whose entries are completed by a URL."""
        files = [
            {"url": f"../../files/{urllib.parse.quote(entry['filename'])}", "hashes": {}, **entry} for entry in entries
        ]
        body = json.dumps({"meta": {"api-version": version}, "name": project, "files": files}).encode()
        self.files[f"/simple/{project}/"] = Served(body, "application/vnd.pypi.simple.v1+json")
        return self.url + "/simple"


@contextlib.contextmanager
def file_server() -> Iterator[FileServer]:
    """Run a server for the length of a test."""
    with FileServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
