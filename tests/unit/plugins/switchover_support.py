# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host in a folder for the tests of the switchover: real files, links and processes, a systemd that starts them."""

from __future__ import annotations

import contextlib
import os
import pathlib
import py_compile
import shlex
import signal
import stat
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Callable

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils import drain
from ansible_collections.pristine.vllm.plugins.module_utils.switchover import (
    changes,
    places,
    service,
    transaction,
)
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.journal import Journal, load_journal
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.order import Order, load_order, order_of
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.transaction import Transaction
from ansible_collections.pristine.vllm.tests.unit.plugins.record_support import build_wheel
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import fake_environment, fake_release
from ansible_collections.pristine.vllm.tests.unit.plugins.service_support import MODEL, FakeSystemd, FakeVllm, fake_vllm

# No unit of that name runs in a container on the machine of the tests.
UNIT = "vllm-of-a-test"
RUN = "20261130T020000Z"
KILLED = 9
CONFIG = b'{"quantization_config": {"kv_cache_scheme": {"num_bits": 8}, "bits": 4}}\n'
EDITS = [{"path": ["quantization_config", "kv_cache_scheme"], "state": "absent", "reason": "SM120"}]


class Systemd(FakeSystemd):
    """Starts what the unit file says, in a process of its own, and makes the link that enables it."""

    def __init__(self, directory: pathlib.Path, units: pathlib.Path, put_path: Callable[[str, str], None]) -> None:
        self.units = units
        super().__init__(directory, put_path)
        where, file = shlex.quote(str(directory)), shlex.quote(str(units / f"{UNIT}.service"))
        link = shlex.quote(str(units / "multi-user.target.wants" / f"{UNIT}.service"))
        self.program(
            "systemctl",
            f"""echo "$*" >> {where}/calls
[ -f {where}/fail-"$1" ] && {{ echo "no answer"; exit 1; }}
for last; do :; done
put() {{ sed "$@" {where}/properties > {where}/new && mv {where}/new {where}/properties; }}
case $1 in
  show)
    case $last in
      *-switchover.service) cat {where}/switchover 2>/dev/null || echo ActiveState=inactive ;;
      *)
        cat {where}/properties
        if [ "$(readlink {file})" = /dev/null ]; then echo LoadState=masked
        elif [ -e {file} ]; then echo LoadState=loaded; else echo LoadState=not-found; fi
        if [ -L {link} ]; then echo UnitFileState=enabled; else echo UnitFileState=disabled; fi
      ;;
    esac ;;
  stop)
    sh {where}/on-stop
    kill "$(cat {where}/pid)" 2>/dev/null
    put -e s/^ActiveState=.*/ActiveState=inactive/ -e s/^SubState=.*/SubState=dead/ -e s/^MainPID=.*/MainPID=0/ ;;
  start)
    [ "$last" = {UNIT} ] || exit 0
    grep -q ^ActiveState=active {where}/properties && exit 0
    words=$(sed -n s/^ExecStart=//p {file}) || exit 1
    $words < /dev/null > /dev/null 2>&1 &
    until grep -q serve.py /proc/$!/cmdline || ! [ -d /proc/$! ]; do :; done
    echo $! | tee -a {where}/pids > {where}/pid
    put -e s/^ActiveState=.*/ActiveState=active/ -e s/^SubState=.*/SubState=running/ -e s/^MainPID=.*/MainPID=$!/ \\
      -e s/^InvocationID=.*/InvocationID=$(printf %032d $!)/ ;;
  enable) [ "$last" = {UNIT} ] && ln -sfn {file} {link} ;;
  disable) rm -f {link} ;;
esac
exit 0
""",
        )
        self.on_stop("")
        self.properties.pop("LoadState")
        self.properties.pop("UnitFileState")
        self.set(
            Id=f"{UNIT}.service", ActiveState="inactive", SubState="dead", MainPID="0", ControlGroup="", Slice="a.slice"
        )

    def break_command(self, name: str) -> None:
        """From now on ``systemctl <name>`` fails."""
        (self.directory / f"fail-{name}").touch()

    def mend_command(self, name: str) -> None:
        (self.directory / f"fail-{name}").unlink()

    def main_pid(self) -> int:
        text = (self.directory / "properties").read_text()
        return int(dict(line.split("=", 1) for line in text.splitlines())["MainPID"])

    def close(self) -> None:
        pids = self.directory / "pids"
        for pid in pids.read_text().split() if pids.exists() else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


@dataclass
class Host:
    """A host on which release v-1 serves and v-2 is built."""

    path: pathlib.Path
    systemd: Systemd
    server: FakeVllm
    values: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root = self.path / "vllm"
        for number in (1, 2):
            fake_release(self.root, f"v-{number}", f"2026-11-0{number}T00:00:00Z")
        (self.root / "current").symlink_to("releases/v-1")
        self.unit = self.systemd.units / f"{UNIT}.service"
        self.secrets = self.root / f"{UNIT}.env"
        self.cache = self.path / "cache"
        self.config = self.path / "model" / "config.json"
        self.directory = self.root / "switchover" / RUN
        self.directory.mkdir(parents=True)
        (self.path / "serve.py").write_text("import time\ntime.sleep(600)\n")
        self.unit.write_text(self.unit_text(self.root / "current", "the old one"))
        self.unit.chmod(0o640)
        (self.systemd.units / "multi-user.target.wants").mkdir()
        self.systemd.program("hook", f'echo "$*" >> {self.path}/hooks\n')
        self.cache.mkdir()
        (self.cache / "kernel").write_text("compiled")
        (self.path / "model" / "blobs").mkdir(parents=True)
        (self.path / "model" / "blobs" / "1f").write_bytes(CONFIG)
        self.config.symlink_to("blobs/1f")
        self.systemctl("enable")
        self.systemctl("start")

    def unit_text(self, environment: pathlib.Path, remark: str, *more: str) -> str:
        words = [str(environment / "bin/python"), str(self.path / "serve.py"), "--port", self.server.url.split(":")[2]]
        words += ["--served-model-name", MODEL, *more]
        return f"# {remark}\n[Service]\nExecStart={' '.join(words)}\n"

    def systemctl(self, *words: str) -> None:
        subprocess.run(["systemctl", *words, "--", UNIT], check=True)

    def order(self, **more: Any) -> Order:
        """All that an order can hold, less or more of it with ``more``."""
        data: dict[str, Any] = {
            "run_id": RUN,
            "root": str(self.root),
            "unit": UNIT,
            "quarantine": str(self.root / "quarantine" / RUN),
            "serving": {"url": self.server.url, "model": MODEL, "timeout": 10.0},
            "release": "v-2",
            "drain": {"timeout": 5.0, "stop_timeout": 5.0, "gpu_command": ""},
            "files": [
                {"path": str(self.unit), "content": self.unit_text(self.root / "current", "the new one")},
                {"path": str(self.secrets), "content": "VLLM_API_KEY=x\n", "mode": 0o600},
            ],
            "configs": [{"path": str(self.config), "edits": EDITS}],
            "wipe": [str(self.cache)],
        }
        return order_of({**data, **self.values, **more})

    def save(self, **more: Any) -> None:
        """Hand an order over, without the service that carries it out."""
        self.order(**more).save(str(self.directory))

    def carry_out(self) -> Journal:
        """What the service does when it is started, for the first time or again."""
        directory = str(self.directory)
        order = load_order(directory)
        return Transaction(order, load_journal(directory) or Journal(order.run_id), directory).run()

    def switch(self, **more: Any) -> Journal:
        self.save(**more)
        return self.carry_out()

    def picture(self) -> dict[str, tuple[Any, ...]]:
        """Each file and link that a switchover may change: kind, mode, owner and content."""
        ours = (str(self.root / "switchover"), str(self.root / "quarantine"), str(self.systemd.directory))
        found: dict[str, tuple[Any, ...]] = {}
        for top in (self.root, self.systemd.units, self.path / "model", self.cache):
            for folder, folders, names in os.walk(top):
                folders[:] = [name for name in folders if not os.path.join(folder, name).startswith(ours)]
                for name in [*names, *folders]:
                    # What served before keeps its unit in its own release.
                    if name != changes.SERVED_UNIT:
                        found[os.path.join(folder, name)] = _portrait(os.path.join(folder, name))
        return found

    def hooks(self) -> list[str]:
        path = self.path / "hooks"
        return path.read_text().splitlines() if path.exists() else []

    def starts(self) -> int:
        return sum(call.startswith("start ") for call in self.systemd.calls())


def _portrait(path: str) -> tuple[Any, ...]:
    info = os.lstat(path)
    owner = (stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid)
    if stat.S_ISLNK(info.st_mode):
        return "link", os.readlink(path)
    if stat.S_ISDIR(info.st_mode):
        return "folder", *owner
    return "file", *owner, pathlib.Path(path).read_bytes()


@contextlib.contextmanager
def host_in(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """Make one; no unit of the machine itself is ever touched."""
    units = path / "units"
    units.mkdir()
    monkeypatch.setattr(places, "UNITS", str(units))
    monkeypatch.setattr(changes, "_ROOT", (os.geteuid(), os.getegid()))
    monkeypatch.setattr(service, "_INTERVAL", 0.01)
    monkeypatch.setattr(service, "PAUSE", 0.01)
    monkeypatch.setattr(drain, "_POLL", 0.01)
    monkeypatch.setattr(transaction, "_PAUSE", 0.01)
    systemd = Systemd(path / "systemd", units, monkeypatch.setenv)
    with fake_vllm() as server:
        try:
            yield Host(path, systemd, server)
        finally:
            systemd.close()


# What changes the disk or the host. That is raised before it happens.
_DISK = ("os.rename", "os.symlink", "os.remove", "os.mkdir")
_ASKS = ("show", "--sync")


def dies_at(number: int, work: Callable[[], object]) -> bool:
    """Do it in a process that dies, as by SIGKILL, right before its change ``number`` of the disk or of systemd.

    :returns: whether it died; False when it came to its end first.
    """
    with warnings.catch_warnings():
        # The server's thread is not needed in the child.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, KILLED), f"the process ended with {status}"
        return status == KILLED
    left = [number]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen":
            words = arguments[1]
            counts = words[0] not in ("journalctl", b"journalctl") and words[1] not in _ASKS
        else:
            counts = event in _DISK
        if counts:
            left[0] -= 1
            if left[0] < 0:
                os._exit(KILLED)

    try:
        sys.addaudithook(hook)
        work()
    except BaseException:  # noqa: BLE001 (nothing of the test runner may run twice)
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)


def adopted(host: Host) -> pathlib.Path:
    """An environment elsewhere that serves instead of a release."""
    environment = fake_environment(host.path / "ml-env")
    (host.root / "current").unlink()
    host.unit.write_text(host.unit_text(environment, "written by hand"))
    host.systemctl("stop")
    host.systemctl("start")
    return environment


MEMBERS = {
    "pkg/__init__.py": b"",
    "pkg/core.py": b"x = 1\n",
    "pkg/deep/er/table.json": b"{}\n",
    "pkg-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: pkg\nVersion: 1.0\n",
    "pkg-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}


def dirty(host: Host) -> dict[str, Any]:
    """Dirt of all kinds in the release that serves, and the order that puts it right."""
    environment = host.root / "releases" / "v-1"
    site = environment / "lib" / "python3.11" / "site-packages"
    with zipfile.ZipFile(build_wheel(host.path / "wheels", MEMBERS, info="pkg-1.0.dist-info")) as wheel:
        wheel.extractall(site)
    package = site / "pkg"
    # A name of it in uv's cache, as a hard link.
    os.link(package / "core.py", host.path / "in-the-cache")
    (package / "core.py").write_text("x = 1\ndebug = True\n")
    (package / "core.py").chmod(0o640)
    py_compile.compile(str(package / "core.py"))
    (package / "deep" / "er" / "table.json").unlink()
    (package / "deep" / "er").rmdir()
    (package / "deep").rmdir()
    (package / "extra").mkdir(mode=0o750)
    (package / "extra" / "probe.py").write_text("print('here')\n")
    (site / "shadow.py").symlink_to("pkg/core.py")
    restore = {"environment": str(environment), "wheels": [str(host.path / "wheels")], "remove_unexpected": True}
    return {"release": "", "files": [], "restore": restore}
