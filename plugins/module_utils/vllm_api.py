# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The few calls to vLLM's server that prove it alive, each with a limit that a hung server cannot stretch."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterable
from typing import Any, Optional
from urllib.parse import urlsplit

from ansible_collections.pristine.vllm.plugins.module_utils.redact import redact

RUNNING = "vllm:num_requests_running"
WAITING = "vllm:num_requests_waiting"
# Both grow with each engine step that produces tokens; which of them a server exports depends on its version.
TOKEN_COUNTERS = ("vllm:iteration_tokens_total_count", "vllm:generation_tokens_total")
# /metrics of eight ranks with histograms is some 300 KB; more than this is no answer of vLLM.
_BODY_LIMIT = 16 * 1024 * 1024


class ApiError(Exception):
    """A call had no useful answer. ``status`` is the HTTP status, or None where there was no answer at all."""

    def __init__(self, text: str, status: Optional[int] = None) -> None:
        super().__init__(text)
        self.status = status

    @property
    def permanent(self) -> bool:
        """Whether asking the same again cannot help: the request itself is at fault."""
        return self.status is not None and 400 <= self.status < 500 and self.status not in (408, 425, 429)


class VllmApi:
    """One server. ``timeout`` is the limit in seconds of each call as a whole, not of each read."""

    def __init__(self, url: str, api_key: Optional[str] = None, timeout: float = 10.0) -> None:
        """:raises ValueError: the URL is not one of an HTTP server, or carries credentials."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url {redact(url)!r} is not the URL of a server: give one such as http://127.0.0.1:8000")
        if parts.username or parts.password:
            raise ValueError("url carries a user or a password: leave them out, and give api_key instead")
        self.url = url.rstrip("/")
        self.timeout = timeout
        self._https = parts.scheme == "https"
        self._host = parts.hostname
        self._port = parts.port or (443 if self._https else 80)
        self._base = parts.path.rstrip("/")
        self._secrets = [api_key] if api_key else []
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def connect(self) -> None:
        """Open a TCP connection and close it. vLLM binds its port early but refuses until the model is loaded."""
        try:
            socket.create_connection((self._host, self._port), self.timeout).close()
        except OSError as error:
            raise ApiError(f"no TCP connection to {self._host}:{self._port}: {_why(error)}") from error

    def health(self) -> None:
        """:raises ApiError: ``/health`` does not answer 200."""
        self._call("GET", "/health")

    def models(self) -> list[str]:
        """The names that the server gives its models."""
        answer = self._json("GET", "/v1/models")
        try:
            return [str(model["id"]) for model in answer["data"]]
        except (KeyError, TypeError) as error:
            raise ApiError(f"GET {self.url}/v1/models gave no list of models: {_short(answer)}") from error

    def complete(self, model: str, prompt: str, max_tokens: int, timeout: float) -> str:
        """The text of one greedy completion."""
        request = {"model": model, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0}
        answer = self._json("POST", "/v1/completions", request, timeout)
        try:
            text = answer["choices"][0]["text"]
        except (KeyError, IndexError, TypeError) as error:
            raise ApiError(f"POST {self.url}/v1/completions gave no choices: {_short(answer)}") from error
        if not isinstance(text, str):
            raise ApiError(f"POST {self.url}/v1/completions gave no text: {_short(answer)}")
        return text

    def metrics(self, names: Iterable[str]) -> dict[str, float]:
        """Those of the named metrics that ``/metrics`` has, each summed over its labels."""
        body = self._call("GET", "/metrics")
        return parse_metrics(body.decode("utf-8", "replace"), names)

    def _json(self, method: str, path: str, body: Optional[dict[str, Any]] = None, timeout: float = 0) -> Any:
        answer = self._call(method, path, body, timeout)
        try:
            return json.loads(answer)
        except ValueError as error:
            raise ApiError(f"{method} {self.url}{path} gave no JSON: {self._redact(_short(answer))}") from error

    def _call(self, method: str, path: str, body: Optional[dict[str, Any]] = None, timeout: float = 0) -> bytes:
        limit = timeout or self.timeout
        where = f"{method} {self.url}{path}"
        begun = time.monotonic()
        try:
            status, answer = self._exchange(method, path, body, limit)
        except (OSError, http.client.HTTPException, ValueError) as error:
            if time.monotonic() - begun >= limit:
                raise ApiError(f"{where} gave no answer within {limit:g} seconds") from error
            raise ApiError(f"{where} failed: {self._redact(_why(error))}") from error
        if time.monotonic() - begun >= limit:
            # The watchdog may have cut a body without a length short, which looks like its end.
            raise ApiError(f"{where} gave no complete answer within {limit:g} seconds")
        if status != 200:
            raise ApiError(f"{where} answered {status}: {self._redact(_short(answer))}", status)
        return answer

    def _exchange(self, method: str, path: str, body: Optional[dict[str, Any]], limit: float) -> tuple[int, bytes]:
        kind = http.client.HTTPSConnection if self._https else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=limit)
        try:
            connection.connect()
            # A socket's time-out is for each read: a server that sends a byte now and then would never meet it.
            watchdog = threading.Timer(limit, _cut, [connection.sock])
            watchdog.daemon = True
            watchdog.start()
            try:
                headers = dict(self._headers, **({"Content-Type": "application/json"} if body is not None else {}))
                data = json.dumps(body).encode() if body is not None else None
                connection.request(method, self._base + path, data, headers)
                response = connection.getresponse()
                answer = response.read(_BODY_LIMIT)
                response.close()
                return response.status, answer
            finally:
                watchdog.cancel()
        finally:
            connection.close()

    def _redact(self, text: str) -> str:
        return redact(text, self._secrets)


def parse_metrics(text: str, names: Iterable[str]) -> dict[str, float]:
    """Sum the named samples of a Prometheus text page over their labels; a name that is not on it is left out.

    Format: https://prometheus.io/docs/instrumenting/exposition_formats/
    """
    wanted = set(names)
    sums: dict[str, float] = {}
    for line in text.splitlines():
        name = line.replace("{", " ", 1).split(" ", 1)[0]
        if name not in wanted:
            continue
        # A label's value may hold spaces and braces: what counts comes after the last one.
        rest = line.rpartition("}")[2] if "{" in line else line[len(name) :]
        with contextlib.suppress(ValueError, IndexError):
            sums[name] = sums.get(name, 0.0) + float(rest.split()[0])
    return sums


def _cut(connection: socket.socket) -> None:
    # It may be closed already.
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _short(answer: Any) -> str:
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else str(answer)
    return " ".join(text.split())[:300] or "(an empty answer)"
