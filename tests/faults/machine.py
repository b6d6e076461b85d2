# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A test host: a container with systemd and sshd, from an image of a host that serves and is dirty."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Optional

from ansible_collections.pristine.vllm.molecule.shared import hosts

ROOT = hosts.CHECKOUT
HERE = Path(__file__).resolve().parent
SCENARIO = "faults"
UNIT = "vllm-kimi-k25"
VLLM_ROOT = "/opt/vllm"
MODEL = "/srv/model"
FRESH_MODEL = ROOT / hosts.FLAVOURS["tiny"].folder / "model"
LABELS = ("pristine.vllm=faults", f"pristine.vllm.checkout={hosts.CHECKOUT_ID}")
NETWORK = f"pristine-vllm-{hosts.CHECKOUT_ID}-{SCENARIO}"
#: What must not get lost: below these.
WATCHED = (f"{VLLM_ROOT}/releases", f"{VLLM_ROOT}/records", MODEL, f"/etc/systemd/system/{UNIT}.service", "/tmp/*.pt")
BOOT_SECONDS = 120.0


class MachineError(Exception):
    """The test host cannot be had, or does not do what a test needs. The text says what."""


def docker(*words: str, stdin: Optional[str] = None, timeout: float = 300) -> str:
    """What a docker command prints.

    :raises MachineError: it fails.
    """
    done = subprocess.run(["docker", *words], input=stdin, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode:
        raise MachineError(f"docker {' '.join(words[:6])} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def wait_until(what: str, seconds: float, there: Callable[[], bool], pause: float = 0.2) -> float:
    """Poll; how many seconds it took.

    :raises MachineError: it did not become so.
    """
    begun = time.monotonic()
    while not there():
        if time.monotonic() - begun > seconds:
            raise MachineError(f"after {seconds:.0f} s still not so: {what}")
        time.sleep(pause)
    return time.monotonic() - begun


class Machine:
    """One container."""

    def __init__(self, name: str) -> None:
        self.name = hosts.container(SCENARIO, name)

    def start(self, image: str, public_key: str) -> None:
        """A new one, booted, reachable by ssh."""
        self.remove()
        labels = [word for label in LABELS for word in ("--label", label)]
        docker(
            *("run", "--detach", "--name", self.name, "--hostname", self.name[-60:], "--network", NETWORK, *labels),
            # As molecule/shared/create.yml, and NET_ADMIN to take the link down.
            *("--cap-add", "SYS_ADMIN", "--cap-add", "NET_ADMIN", "--cgroupns", "private", "--shm-size", "1g"),
            *("--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined"),
            *("--tmpfs", "/run", "--tmpfs", "/tmp:exec,mode=1777", image),
        )
        self.wait_for_boot()
        self.run("tee", "/root/.ssh/authorized_keys", stdin=public_key)
        # An overlay does not rename a folder of a layer below, which a disk does.
        cache = f"/var/cache/{UNIT}"
        self.run("sh", "-c", f"cp -a {cache} {cache}.own && rm -r {cache} && mv {cache}.own {cache}")

    def run(self, *words: str, stdin: Optional[str] = None) -> str:
        return docker("exec", "--interactive", self.name, *words, stdin=stdin)

    def script(self, name: str, *arguments: str) -> Any:
        """What a script of ``on_host`` tells."""
        text = (HERE / "on_host" / name).read_text(encoding="utf-8")
        return json.loads(self.run("python3", "-I", "-", *arguments, stdin=text))

    def background(self, name: str, *arguments: str) -> subprocess.Popen[str]:
        """A script of ``on_host`` that goes on beside us; its standard output is its answer."""
        with open(HERE / "on_host" / name, encoding="utf-8") as stream:
            command = ["docker", "exec", "--interactive", self.name, "python3", "-I", "-", *arguments]
            return subprocess.Popen(command, stdin=stream, stdout=subprocess.PIPE, text=True)

    def look(self, patterns: Sequence[str] = ()) -> dict[str, Any]:
        state: dict[str, Any] = self.script("look.py", UNIT, VLLM_ROOT, "kimi-k2.5", *patterns)
        return state

    def wait_for_boot(self) -> None:
        def booted() -> bool:
            done = subprocess.run(
                ["docker", "exec", self.name, "systemctl", "is-system-running"],
                capture_output=True,
                text=True,
                check=False,
            )
            return done.stdout.strip() in ("running", "degraded")

        wait_until(f"{self.name} has booted", BOOT_SECONDS, booted)
        self.run("systemctl", "start", "ssh.service")

    def settle(self, seconds: float) -> Optional[float]:
        """Wait until no switchover is unended and the service completes; how long that took, None when it never did."""
        begun = time.monotonic()
        while time.monotonic() - begun < seconds:
            state = self.look()
            if state["completion"] and not state["unended"]:
                return time.monotonic() - begun
            time.sleep(0.5)
        return None

    def write_dumps(self) -> None:
        """Have the debug code write its files: /tmp is empty in a new container."""
        text = (ROOT / "tests/fixtures/incident/send_batch.py").read_text(encoding="utf-8")
        patterns = ("/tmp/nomla_debug_tp*.pt", "/tmp/embed_debug_tp*.pt")
        words = ("--model", "kimi-k2.5", "--start-timeout", "120", *patterns)
        self.run("python3", "-I", "-", *words, stdin=text)

    def refresh_model(self) -> None:
        """The model is downloaded anew below a service that has read the old one: it would not start again."""
        for name in ("config.json", "hf_quant_config.json"):
            self.run("tee", f"{MODEL}/{name}", stdin=(FRESH_MODEL / name).read_text(encoding="utf-8"))

    def shrink_root(self) -> None:
        """The collection's folder on a filesystem of its own, which can be full without the machine's being so."""
        self.run("systemctl", "stop", UNIT)
        self.run("mount", "-t", "tmpfs", "-o", "size=8g,mode=0755", "tmpfs", "/mnt")
        self.run("cp", "-a", f"{VLLM_ROOT}/.", "/mnt/")
        self.run("mount", "--bind", "/mnt", VLLM_ROOT)
        self.run("systemctl", "start", UNIT)

    def fill_root(self) -> None:
        """Not a byte is left: its size is what is used."""
        used = self.run("df", "--output=used", "-k", VLLM_ROOT).split()[-1]
        self.run("mount", "-o", f"remount,size={used}k", VLLM_ROOT)

    def free_root(self) -> None:
        self.run("mount", "-o", "remount,size=8g", VLLM_ROOT)

    def link(self, state: str) -> None:
        """Take the network link down or up; the container engine's own exec does not need it."""
        self.run("ip", "link", "set", "eth0", state)

    def reboot(self) -> None:
        """As by a power cut: nothing is stopped in order."""
        docker("restart", "--time", "0", self.name)
        self.wait_for_boot()

    def address(self) -> str:
        return hosts.addresses([self.name])[self.name]

    def journal(self) -> str:
        """What the services said, for a row that says no."""
        kinds = ("-u", UNIT, "-u", f"{UNIT}-switchover")
        told = self.run("journalctl", "--no-pager", "-o", "short-precise", *kinds)
        return told + self.run(
            "sh", "-c", f"tail -n +1 {VLLM_ROOT}/switchover/*/*.json; systemctl status '{UNIT}*' || :"
        )

    def remove(self) -> None:
        subprocess.run(["docker", "rm", "--force", self.name], capture_output=True, check=False)
