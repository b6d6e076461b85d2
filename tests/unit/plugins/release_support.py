# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real parts for the tests of wheelhouse and releases: small wheels, an HTTP server, the pinned uv."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import http.server
import io
import json
import os
import pathlib
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Union

import pytest
from ansible.module_utils.testing import patch_module_args

ROOT = pathlib.Path(__file__).resolve().parents[3]
# What PYTHONPATH must name for another process to import the collection: the way here, not where its link leads.
COLLECTIONS = pathlib.Path(__file__).parents[6]
BUILDER = ROOT / "roles/nightly_wheel/files/builder.txt"
# The interpreter that the test environment was made from: not an environment's own.
PYTHON = os.path.join(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")


def ansible_environment(home: pathlib.Path, **more: str) -> dict[str, str]:
    """For a command of Ansible: this collection, and no setting of this checkout, its user or its machine."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
        "ANSIBLE_HOME": str(home),
        # But these, which have no effect besides time.
        "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "dev/callback"),
        "ANSIBLE_CALLBACKS_ENABLED": "keep_payloads",
        "ANSIBLE_PIPELINING": "true",
        "LC_ALL": "C.UTF-8",
        **more,
    }


@dataclass
class Reply:
    """What a server answers; ``body`` is cut to ``send`` bytes although the length that it announces is whole."""

    body: bytes = b""
    status: int = 200
    content_type: str = "text/html"
    headers: dict[str, str] = field(default_factory=dict)
    send: Optional[int] = None


Route = Union[Reply, Callable[["Handler"], Reply]]


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers from the server's routes and logs ``METHOD path``."""

    server: Server

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.server.log.append(f"{self.command} {self.path}")
        route = self.server.routes.get(self.path, Reply(status=404))
        reply = route if isinstance(route, Reply) else route(self)
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body if reply.send is None else reply.body[: reply.send])

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class calls it so)
        """Stay quiet."""


class Server(http.server.ThreadingHTTPServer):
    """A server on a free port of the loopback."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.routes: dict[str, Route] = {}
        self.log: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is part of some tests."""

    def serve_simple(self, wheels: pathlib.Path, prefix: str = "/simple") -> str:
        """Serve a folder of wheels as a package index; return its address."""
        pages: dict[str, list[str]] = {}
        for wheel in sorted(wheels.glob("*.whl")):
            quoted = wheel.name.replace("+", "%2B")
            self.routes[f"/files/{quoted}"] = Reply(wheel.read_bytes(), content_type="application/zip")
            name = wheel.name.split("-")[0].replace("_", "-").lower()
            pages.setdefault(name, []).append(f'<a href="/files/{quoted}">{wheel.name}</a>')
        for name, links in pages.items():
            self.routes[f"{prefix}/{name}/"] = Reply(f"<!DOCTYPE html><html>{''.join(links)}</html>".encode())
        return self.url + prefix


@contextlib.contextmanager
def http_server() -> Iterator[Server]:
    """Run a server for the length of a test."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def make_wheel(
    folder: pathlib.Path,
    name: str,
    version: str,
    files: dict[str, str],
    scripts: Optional[dict[str, str]] = None,
    requires: tuple[str, ...] = (),
    tag: str = "py3-none-any",
) -> pathlib.Path:
    """Write a small wheel that pip and uv install; ``scripts`` are console entry points."""
    info = f"{name}-{version}.dist-info"
    members = dict(files)
    metadata = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    metadata += [f"Requires-Dist: {requirement}" for requirement in requires]
    members[f"{info}/METADATA"] = "\n".join(metadata) + "\n"
    members[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n"
    if scripts:
        entries = "".join(f"{script} = {target}\n" for script, target in scripts.items())
        members[f"{info}/entry_points.txt"] = f"[console_scripts]\n{entries}"
    record = ""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in members.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(text.encode())}\n"
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
    wheel = folder / f"{name}-{version}-{tag}.whl"
    folder.mkdir(parents=True, exist_ok=True)
    wheel.write_bytes(packed.getvalue())
    return wheel


def sha256(path: pathlib.Path) -> str:
    """The digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def lock_text(*wheels: pathlib.Path) -> str:
    """The lock that pins exactly these wheels."""
    rows = []
    for wheel in wheels:
        name, version = wheel.name.split("-")[:2]
        rows.append(f"{name}=={version} --hash=sha256:{sha256(wheel)}\n")
    return "".join(rows)


def uv_wheel() -> pathlib.Path:
    """The wheel of the pinned uv, fetched once into the checkout's cache by the machine's own pip settings."""
    cache = ROOT / ".cache" / "wheels"
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = sorted(cache.glob("uv-*.whl"))
        if not any(sha256(wheel) in BUILDER.read_text() for wheel in found):
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
            command += ["--require-hashes", "--dest", str(cache), "--requirement", str(BUILDER)]
            subprocess.run(command, check=True, cwd=cache)
            found = sorted(cache.glob("uv-*.whl"))
        return next(wheel for wheel in found if sha256(wheel) in BUILDER.read_text())


class Ran(dict[str, Any]):
    """The result of a module run."""

    @property
    def failed(self) -> bool:
        return bool(self.get("failed"))


def run_module(
    capfd: pytest.CaptureFixture[str], main: Callable[[], None], check: bool = False, diff: bool = False, **params: Any
) -> Ran:
    """Run a module in this process with these options and return what it says to Ansible."""
    capfd.readouterr()
    arguments = {**params, "_ansible_check_mode": check, "_ansible_diff": diff}
    with patch_module_args(arguments), pytest.raises(SystemExit):
        main()
    return Ran(json.loads(capfd.readouterr().out))


def fake_release(root: pathlib.Path, release: str, created: str = "", **metadata: Any) -> pathlib.Path:
    """A directory that passes for a release (``created``) or for one that was never finished."""
    path = fake_environment(root / "releases" / release)
    if created:
        (path / "release.json").write_text(json.dumps({"created_at": created, **metadata}))
    return path


def fake_environment(path: pathlib.Path) -> pathlib.Path:
    """The least that passes for a virtual environment."""
    (path / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    (path / "bin").mkdir()
    (path / "bin" / "python").symlink_to(PYTHON)
    (path / "pyvenv.cfg").touch()
    return path
