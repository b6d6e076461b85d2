# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real parts for the tests of the service: a server that answers as vLLM does, programs that answer as systemd does."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import pathlib
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, Callable, Optional

ROOT = pathlib.Path(__file__).resolve().parents[3]
UNIT = "vllm-kimi-k25"
MODEL = "kimi-k2.5"


class VllmHandler(http.server.BaseHTTPRequestHandler):
    """Answers as the server's settings say."""

    protocol_version = "HTTP/1.1"
    server: FakeVllm

    def do_GET(self) -> None:
        self.server.log.append(f"GET {self.path}")
        if self.path == "/health":
            self._answer(self.server.health, b"")
        elif self.path == "/v1/models" and self._allowed():
            self._json(200, {"object": "list", "data": [{"id": name} for name in self.server.models]})
        elif self.path == "/metrics":
            self._answer(200, self.server.metrics_page().encode(), "text/plain")
        elif self.path == "/trickle":
            self._trickle()

    def do_POST(self) -> None:
        self.server.log.append(f"POST {self.path}")
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(request)
        if not self._allowed():
            return
        if self.server.completion is None:
            self.server.released.wait(30)
            self.close_connection = True
            return
        if isinstance(self.server.completion, int):
            self._json(
                self.server.completion, {"error": {"message": "EngineCore encountered an issue", "key": "s3cret"}}
            )
            return
        if self.server.counting:
            self.server.tokens += request["max_tokens"]
        self._json(200, {"choices": [{"text": self.server.completion}]})

    def _allowed(self) -> bool:
        if self.server.api_key and self.headers.get("Authorization") != f"Bearer {self.server.api_key}":
            self._json(401, {"error": "Unauthorized", "got": self.headers.get("Authorization")})
            return False
        return True

    def _trickle(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        while not self.server.released.wait(0.05):
            self.wfile.write(b".")
            self.wfile.flush()

    def _json(self, status: int, value: Any) -> None:
        self._answer(status, json.dumps(value).encode(), "application/json")

    def _answer(self, status: int, body: bytes, kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""


class FakeVllm(http.server.ThreadingHTTPServer):
    """Stands for vLLM's API server. ``completion`` is a text, an HTTP status, or None to hang."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), VllmHandler)
        self.health = 200
        self.models = [MODEL]
        self.completion: Optional[object] = " Paris"
        self.api_key = ""
        self.counters = True
        self.counting = True
        self.tokens = 100
        self.in_flight: list[tuple[int, int]] = [(0, 0)]
        self.log: list[str] = []
        self.requests: list[dict[str, Any]] = []
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def metrics_page(self) -> str:
        """As much of vLLM's page as matters. Each look takes the next of ``in_flight``, the last one stays."""
        running, waiting = self.in_flight[0]
        if len(self.in_flight) > 1:
            self.in_flight.pop(0)
        labels = f'{{engine="0",model_name="{MODEL} {{x}}"}}'
        lines = ["# HELP vllm:num_requests_running Number of requests in model execution batches."]
        if running >= 0:
            lines += [
                f"vllm:num_requests_running{labels} {running}.0",
                f"vllm:num_requests_waiting{labels} {waiting}.0",
            ]
        if self.counters:
            lines += [
                f"vllm:iteration_tokens_total_count{labels} {self.tokens}.0",
                f"vllm:generation_tokens_total{labels} {self.tokens * 2}.0",
            ]
        return "\n".join(lines) + "\n"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gives up on a hanging answer is what is tested here."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


@contextlib.contextmanager
def fake_vllm() -> Iterator[FakeVllm]:
    server = FakeVllm()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


def closed_port() -> str:
    """The URL of a port that refuses."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


class FakeSystemd:
    """A ``systemctl`` and a ``journalctl`` on the PATH that answer from files; ``stop`` runs the test's commands."""

    def __init__(self, directory: pathlib.Path, put_path: Callable[[str, str], None]) -> None:
        self.directory = directory
        self.bin = directory / "bin"
        self.bin.mkdir(parents=True)
        self.properties = {
            "Id": f"{UNIT}.service",
            "LoadState": "loaded",
            "ActiveState": "active",
            "SubState": "running",
            "MainPID": "4242",
            "NRestarts": "0",
            "ControlGroup": "/system.slice/fake-unit-of-a-test.service",
            "Slice": "system.slice",
            "ExecMainStatus": "0",
            "Result": "success",
            "ActiveEnterTimestamp": "Mon 2026-11-30 03:25:12 UTC",
            "ActiveEnterTimestampMonotonic": "1000000",
            "ExecMainStartTimestampMonotonic": "1000000",
            "InvocationID": "0123456789abcdef0123456789abcdef",
            "FragmentPath": f"/etc/systemd/system/{UNIT}.service",
            "DropInPaths": "",
            "UnitFileState": "enabled",
            "NeedDaemonReload": "no",
        }
        self.journal("INFO 11-30 03:25:13 [api_server.py:100] vLLM API server version 0.16.0")
        where = shlex.quote(str(directory))
        self.program(
            "systemctl",
            f"""echo "$*" >> {where}/calls
case $1 in
  show) cat {where}/properties ;;
  stop) sh {where}/on-stop ;;
esac
""",
        )
        self.program("journalctl", f'echo "$*" >> {where}/journal-calls\n[ "$1" = --sync ] || cat {where}/journal\n')
        self.on_stop("ActiveState=inactive SubState=dead MainPID=0 ControlGroup=")
        self.set()
        put_path("PATH", f"{self.bin}{os.pathsep}{os.environ['PATH']}")

    def program(self, name: str, script: str) -> pathlib.Path:
        """Put an executable shell script on the PATH."""
        path = self.bin / name
        path.write_text("#!/bin/sh\n" + script, encoding="utf-8")
        path.chmod(0o755)
        return path

    def set(self, **properties: str) -> None:
        """Change what the unit is, all at once."""
        self.properties.update(properties)
        temporary = self.directory / "properties.new"
        temporary.write_text("".join(f"{key}={value}\n" for key, value in self.properties.items()), encoding="utf-8")
        temporary.rename(self.directory / "properties")

    def on_stop(self, changes: str, *commands: str) -> None:
        """What ``systemctl stop`` does: shell commands, then properties that it sets."""
        edits = " ".join(f"-e 's|^{pair.split('=')[0]}=.*|{pair}|'" for pair in changes.split())
        where = shlex.quote(str(self.directory))
        lines = [*commands]
        if changes:
            lines += [f"sed {edits} {where}/properties > {where}/stopped", f"mv {where}/stopped {where}/properties"]
        (self.directory / "on-stop").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def journal(self, *lines: str) -> None:
        (self.directory / "journal").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def calls(self, name: str = "calls") -> list[str]:
        path = self.directory / name
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


class FakeProc:
    """A /proc with real processes, whose control groups are as the test says."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.path = directory / "proc"
        self.path.mkdir()
        self.processes: list[subprocess.Popen[bytes]] = []
        (self.path / "1").mkdir()
        (self.path / "1" / "cgroup").write_text("0::/init.scope\n", encoding="utf-8")

    def start(self, lines: str, *argv: str) -> int:
        """Start a process that is in these groups, written as in /proc/<pid>/cgroup; return its pid."""
        process = subprocess.Popen(argv or ("sleep", "60"))
        self.processes.append(process)
        self.adopt(process.pid, lines)
        return process.pid

    def adopt(self, pid: int, lines: str) -> None:
        own = self.path / str(pid)
        own.mkdir()
        (own / "cgroup").write_text(lines, encoding="utf-8")
        for name in ("stat", "task"):
            (own / name).symlink_to(f"/proc/{pid}/{name}")

    def ended(self, pid: int) -> bool:
        """Whether it ends within ten seconds."""
        return wait_until(lambda: any(one.pid == pid and one.poll() is not None for one in self.processes))

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True
