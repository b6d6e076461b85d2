# Copyright: Pristine vLLM maintainers (@pristine-vllm)
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory of a scenario: hosts.py SCENARIO [--list]. molecule/inventory/SCENARIO/hosts calls it.

A script, because container names carry a hash of the checkout's path (two checkouts on one machine do not meet), and
because the pin is what the fixtures were built as. Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
CHECKOUT_ID = hashlib.sha256(str(CHECKOUT).encode()).hexdigest()[:8]
IMAGE = ("pristine-vllm-host:bookworm", "dev/image.sh")
# Scenarios whose hosts hold more.
IMAGES = {"schedule": ("pristine-vllm-monitored:bookworm", "dev/image_monitored.sh")}
# The others know it as http://index.
INDEX = "index01"


@dataclass(frozen=True)
class Flavour:
    """Where fixtures come from. Paths are relative to the checkout."""

    build: tuple[str, ...]
    """Script and arguments that make them; quick where they are made."""
    folder: str
    """Holds pin.yml and model/; other pins as pin-*.yml."""
    index: str
    """The tree that nginx serves."""
    variables: dict[str, Any] = field(default_factory=dict)
    """What an operator would put into group_vars/vllm_hosts for it."""


FLAVOURS = {
    "tiny": Flavour(
        build=("tests/fixtures/tiny/build.py", ".cache/fixtures/tiny"),
        folder=".cache/fixtures/tiny",
        index=".cache/fixtures/tiny/index",
        variables={"vllm_service_start_timeout": 60},
    ),
    "real": Flavour(
        build=("tests/fixtures/real/build.py", ".cache"),
        folder=".cache/real",
        index=".cache/index/real",
        variables={
            "vllm_lock": str(CHECKOUT / "tests/fixtures/real/lock.txt"),
            "vllm_service_arguments": ["--dtype", "bfloat16", "--max-model-len", "128", "--enforce-eager"],
            "vllm_service_environment": {
                "HF_HUB_OFFLINE": "1",
                "OMP_NUM_THREADS": "1",
                "VLLM_CPU_KVCACHE_SPACE": "1",
                "VLLM_NO_USAGE_STATS": "1",
            },
            "vllm_service_start_timeout": 600,
            # This version serves an fp8 KV cache on SM120, but not on a CPU: here it stands for those that do not.
            "sm120_config_kv_cache_scheme": "remove",
        },
    ),
}
# Scenario -> flavour and hosts.
SCENARIOS: dict[str, tuple[str, tuple[str, ...]]] = {
    "default": ("tiny", ("vllm01",)),
    "adoption": ("tiny", ("vllm01",)),
    "drift": ("tiny", ("vllm01",)),
    "incident": ("real", ("vllm01",)),
    # An environment that this collection never made, as the incident had it.
    "seed": ("real", ("vllm01",)),
    # Not molecule's: tests/faults copies its host for each of its rows.
    "faults": ("tiny", ("vllm01",)),
    "schedule": ("tiny", ("vllm01",)),
    "timer": ("real", ("vllm01",)),
    "wheels": ("tiny", ("vllm01",)),
    "fleet": ("tiny", tuple(f"vllm{number:02}" for number in range(1, 13))),
    # Not molecule's: tests/bench/controller.py.
    "watch": ("tiny", tuple(f"vllm{number:02}" for number in range(1, 21))),
}
# What only this scenario's hosts have in their group_vars.
OWN: dict[str, dict[str, Any]] = {
    "fleet": {"reinstall_canary": "vllm07", "reinstall_serial": [1, 3, "100%"]},
    "seed": {"vllm_environment": "/root/ml-env"},
}
VLLM_HOSTS: dict[str, Any] = {
    "vllm_root": "/opt/vllm",
    "vllm_index_url": "http://index",
    "vllm_model_path": "/srv/model",
    "vllm_served_model_name": "kimi-k2.5",
    "nightly_wheel_dependency_index_url": "http://index/simple/",
    # The stand-ins, and the size of the containers.
    "gpu_host_driver_file": "/opt/stand-in/driver-version",
    "gpu_host_min_disk_gb": 4,
    "gpu_host_min_memory_gb": 2,
}


def container(scenario: str, host: str) -> str:
    return f"pristine-vllm-{CHECKOUT_ID}-{scenario}-{host}"


def addresses(names: list[str]) -> dict[str, str]:
    """IP addresses of those of the containers that run; none where no engine answers."""
    template = "{{ .Name }} {{ range .NetworkSettings.Networks }}{{ .IPAddress }}{{ end }}"
    command = ["docker", "container", "inspect", "--format", template, *names]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    rows = [line.split() for line in answer.stdout.splitlines()]
    return {row[0].lstrip("/"): row[1] for row in rows if len(row) == 2}


def read_pin(path: Path) -> dict[str, Any]:
    """The variables that a fixtures' builder wrote, as JSON or as lines of `name: value`; none before it ran."""
    if not path.is_file():
        return {}
    text = path.read_text(encoding="utf-8")
    if text.startswith("{"):
        variables: dict[str, Any] = json.loads(text)
        return variables
    return dict(re.findall(r'^(\w+): "?([^"\n]*)"?$', text, re.MULTILINE))


def pins(folder: Path) -> dict[str, Any]:
    """The pin, and the others as fixture_<name>: {vllm_version: ..., ...}."""
    others = {f"fixture_{path.stem[4:]}": read_pin(path) for path in sorted(folder.glob("pin-*.yml"))}
    return {**read_pin(folder / "pin.yml"), **others}


def host_variables(scenario: str, host: str, known: dict[str, str]) -> dict[str, Any]:
    name = container(scenario, host)
    variables = {
        "ansible_host": name,
        "ansible_connection": "community.docker.docker",
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    if name in known:
        variables["container_ip"] = known[name]
    return variables


def inventory(scenario: str) -> dict[str, Any]:
    flavour_name, vllm_hosts = SCENARIOS[scenario]
    flavour = FLAVOURS[flavour_name]
    image, image_script = IMAGES.get(scenario, IMAGE)
    hosts = [*vllm_hosts, INDEX]
    known = addresses([container(scenario, host) for host in hosts])
    shared = {
        "fixture_build": list(flavour.build),
        "fixture_checkout": str(CHECKOUT),
        "fixture_folder": str(CHECKOUT / flavour.folder),
        "fixture_image": image,
        "fixture_image_script": image_script,
        "fixture_index": str(CHECKOUT / flavour.index),
        "fixture_labels": {"pristine.vllm": "molecule", "pristine.vllm.checkout": CHECKOUT_ID},
        "fixture_network": f"pristine-vllm-{CHECKOUT_ID}-{scenario}",
    }
    records = {"run_record_controller_path": str(CHECKOUT / "build/records" / scenario)}
    variables = {
        **VLLM_HOSTS,
        **flavour.variables,
        **records,
        **OWN.get(scenario, {}),
        **pins(CHECKOUT / flavour.folder),
    }
    return {
        "_meta": {"hostvars": {host: host_variables(scenario, host, known) for host in hosts}},
        "all": {"vars": shared, "children": ["ungrouped", "vllm_hosts", "index"]},
        "vllm_hosts": {"hosts": list(vllm_hosts), "vars": variables},
        "index": {"hosts": [INDEX]},
    }


def main() -> int:
    scenario = sys.argv[1] if len(sys.argv) > 1 else ""
    if scenario not in SCENARIOS:
        sys.stderr.write(f"no scenario {scenario!r}: one of {', '.join(SCENARIOS)}\n")
        return 2
    answer = {} if sys.argv[2:3] == ["--host"] else inventory(scenario)
    sys.stdout.write(json.dumps(answer, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
