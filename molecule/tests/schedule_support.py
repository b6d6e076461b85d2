# Copyright: Pristine vLLM maintainers (@pristine-vllm)
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the scenarios of a host that scans itself share: the collection as a tarball, the units, and what they said."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.pristine.vllm.molecule.shared.hosts import CHECKOUT
from testinfra.host import Host

UNIT = "pristine-vllm-drift"
FLEET = "pristine-vllm-fleet"
CODE = "/opt/vllm/current/lib/python3.11/site-packages/vllm/model_executor/models/deepseek_v2.py"


def place(host: Host, path: str, text: str) -> None:
    host.check_output(f"printf %s {shlex.quote(text)} > {path}")


def poll(what: str, look: Callable[[], bool], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < until, f"not within {seconds:g} s: {what}"
        time.sleep(0.5)


def show(host: Host, unit: str, *names: str) -> list[str]:
    return [host.check_output(f"systemctl show -P {name} {unit}") for name in names]


def said(host: Host, unit: str = UNIT) -> str:
    """What the last tick wrote to the journal, with its line breaks folded."""
    (run,) = show(host, f"{unit}.service", "InvocationID")
    return " ".join(host.check_output(f"journalctl --no-pager -o cat _SYSTEMD_INVOCATION_ID={run}").split())


def build_tarball(folder: Path) -> Path:
    """This collection as an operator downloads it."""
    staged = subprocess.run(
        [str(CHECKOUT / "dev/stage.sh"), str(folder / "staged")], capture_output=True, text=True, check=True
    )
    command = ["ansible-galaxy", "collection", "build", staged.stdout.strip(), "--output-path", str(folder)]
    subprocess.run(command, check=True, cwd=folder, env={**os.environ, "ANSIBLE_CONFIG": ""}, stdout=subprocess.PIPE)
    (built,) = folder.glob("*.tar.gz")
    return built


def pulling(tarball: Path) -> dict[str, Any]:
    """What a host that scans itself is told, but for when."""
    return {
        "drift_watch_schedule_mode": "pull",
        "drift_watch_schedule_collection": str(tarball),
        "drift_watch_schedule_collection_sha256": hashlib.sha256(tarball.read_bytes()).hexdigest(),
        "drift_watch_schedule_wheels": ["/srv/runner-wheels"],
    }


def allow_in_container(host: Host) -> None:
    """The container has no CAP_SYS_PTRACE, which the units ask for. Here another stands in for it."""
    for unit in (UNIT, FLEET):
        host.check_output(f"mkdir -p /run/systemd/system/{unit}.service.d")
        text = "[Service]\nCapabilityBoundingSet=CAP_SYS_ADMIN\n"
        place(host, f"/run/systemd/system/{unit}.service.d/container.conf", text)
