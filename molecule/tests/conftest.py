# Copyright: Pristine vLLM maintainers (@pristine-vllm)
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the verifications of the scenarios share: run a playbook as an operator does, and take the state of the host."""

from __future__ import annotations

import collections
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import testinfra
from ansible_collections.pristine.vllm.molecule.shared.hosts import CHECKOUT
from ansible_collections.pristine.vllm.molecule.tests.schedule_support import build_tarball
from testinfra.host import Host

UNIT = "vllm-kimi-k25"


@dataclass(frozen=True)
class Run:
    """One run of ansible-playbook."""

    code: int
    output: str

    @property
    def changed(self) -> int:
        """How many tasks changed something, over all hosts, as the recap says."""
        return sum(int(number) for number in re.findall(r"changed=(\d+)", self.output))

    @property
    def said(self) -> str:
        """The output with its line breaks and indentation folded: messages are wrapped for the screen."""
        return re.sub(r"\s+", " ", self.output)


@dataclass(frozen=True)
class State:
    """All of a host that a run could disturb."""

    main_pid: str
    restarts: str
    live: str
    releases: tuple[str, ...]
    unit: str
    model: str
    code: str
    dumps: tuple[str, ...]


Playbook = Callable[..., Run]


@pytest.fixture(scope="session")
def scenario() -> str:
    return os.environ["MOLECULE_SCENARIO_NAME"]


@pytest.fixture(scope="session")
def inventory(scenario: str) -> Path:
    return CHECKOUT / "molecule/inventory" / scenario


@pytest.fixture(scope="session")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This collection as an operator downloads it."""
    return build_tarball(tmp_path_factory.mktemp("collection"))


@pytest.fixture(scope="session")
def variables(known: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """The inventory variables of the host."""
    return known("vllm01")


@pytest.fixture(scope="session")
def playbook(inventory: Path) -> Playbook:
    """Run a playbook by its name or path, with extra variables."""

    def run(name: str | Path, *flags: str, **extra: object) -> Run:
        done = subprocess.run(
            ["ansible-playbook", "-i", str(inventory), str(name), "-e", json.dumps(extra), *flags],
            cwd=CHECKOUT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        sys.stdout.write(done.stdout)
        return Run(done.returncode, done.stdout)

    return run


@pytest.fixture
def state(host: Host, variables: dict[str, Any]) -> Callable[[], State]:
    """Take the state of the host."""
    root = variables.get("vllm_root", "/opt/vllm")
    model = variables["vllm_model_path"]

    def out(command: str) -> str:
        return str(host.check_output(command))

    def take() -> State:
        return State(
            main_pid=out(f"systemctl show -P MainPID {UNIT}"),
            restarts=out(f"systemctl show -P NRestarts {UNIT}"),
            live=out(f"readlink -f {root}/current"),
            releases=tuple(out(f"ls {root}/releases").split()),
            unit=out(f"sha256sum /etc/systemd/system/{UNIT}.service"),
            model=out(f"sha256sum {model}/*.json"),
            code=out(f"find {root}/current/lib/python3*/site-packages/vllm -name '*.py' -exec sha256sum {{}} + | sort"),
            dumps=tuple(out("find /tmp -maxdepth 1 -name '*.pt' | sort").split()),
        )

    return take


@pytest.fixture(scope="module")
def records(host: Host) -> Callable[[str], list[dict[str, Any]]]:
    """The records of a playbook's runs on the host, oldest first."""

    def read(playbook: str) -> list[dict[str, Any]]:
        paths = host.check_output("ls /opt/vllm/records/*.json").split()
        every = [json.loads(host.file(path).content_string) for path in paths]
        return [record for record in every if record["playbook"] == playbook]

    return read


@pytest.fixture
def completion(host: Host, variables: dict[str, Any]) -> Callable[[], str]:
    """Ask the service, on the host, for a completion."""

    def ask() -> str:
        asked = {"model": variables["vllm_served_model_name"], "prompt": "The", "max_tokens": 4, "temperature": 0}
        url = f"http://127.0.0.1:{variables.get('vllm_port', 8000)}/v1/completions"
        answer = host.check_output(
            f"curl -fsS -H 'Content-Type: application/json' -d {shlex.quote(json.dumps(asked))} {url}"
        )
        text: str = json.loads(answer)["choices"][0]["text"]
        return text

    return ask


@pytest.fixture(scope="session")
def known(inventory: Path) -> Callable[[str], dict[str, Any]]:
    """The variables of any host of the inventory, by its name."""

    def ask(name: str) -> dict[str, Any]:
        listed = subprocess.run(
            ["ansible-inventory", "-i", str(inventory), "--host", name], capture_output=True, text=True, check=True
        )
        found: dict[str, Any] = json.loads(listed.stdout)
        return found

    return ask


@pytest.fixture(scope="session")
def index(known: Callable[[str], dict[str, Any]]) -> Host:
    """The container that serves the wheels."""
    return testinfra.get_host(f"docker://{known('index01')['ansible_host']}")


@pytest.fixture(scope="session")
def fetched(index: Host) -> Callable[[], collections.Counter[str]]:
    """Count how often each wheel was downloaded so far."""

    def count() -> collections.Counter[str]:
        log = index.file("/var/log/nginx/access.log").content_string
        return collections.Counter(re.findall(r'"GET /(?:\S*/)?(\S+\.whl) HTTP', log))

    return count
