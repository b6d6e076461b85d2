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
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
CHECKOUT_ID = hashlib.sha256(str(CHECKOUT).encode()).hexdigest()[:8]
IMAGE = "pristine-vllm-host:bookworm"
# The others know it as http://index.
INDEX = "index01"
# Scenario -> what it serves and on which hosts.
SCENARIOS: dict[str, tuple[str, tuple[str, ...]]] = {
    "default": ("tiny", ("vllm01",)),
    "incident": ("real", ("vllm01",)),
    "demo": ("real", ("vllm01",)),
}
# What these hosts are, as an operator would say it in group_vars/vllm_hosts.
VLLM_HOSTS: dict[str, Any] = {
    "vllm_root": "/opt/vllm",
    "vllm_index_url": "http://index",
    "vllm_model_path": "/srv/model",
    "nightly_wheel_dependency_index_url": "http://index/simple/",
    # The stand-ins and the size of the containers.
    "gpu_host_driver_file": "/opt/stand-in/driver-version",
    "gpu_host_min_disk_gb": 4,
    "gpu_host_min_memory_gb": 2,
}


def container(scenario: str, host: str) -> str:
    return f"pristine-vllm-{CHECKOUT_ID}-{scenario}-{host}"


def addresses(names: list[str]) -> dict[str, str]:
    """IP addresses of those of the containers that run; none where no engine answers."""
    template = "{{ .Name }} {{ range .NetworkSettings.Networks }}{{ .IPAddress }}{{ end }}"
    try:
        answer = subprocess.run(
            ["docker", "inspect", "--format", template, *names], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    rows = [line.split() for line in answer.stdout.splitlines()]
    return {row[0].lstrip("/"): row[1] for row in rows if len(row) == 2}


def pin(flavour: str) -> dict[str, Any]:
    """The variables that the fixtures' builder wrote; none before it ran."""
    path = CHECKOUT / ".cache/fixtures" / flavour / "pin.yml"
    if not path.is_file():
        return {}
    variables: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return variables


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
    flavour, vllm_hosts = SCENARIOS[scenario]
    hosts = [*vllm_hosts, INDEX]
    known = addresses([container(scenario, host) for host in hosts])
    shared = {
        "fixture_checkout": str(CHECKOUT),
        "fixture_flavour": flavour,
        "fixture_folder": str(CHECKOUT / ".cache/fixtures" / flavour),
        "fixture_image": IMAGE,
        "fixture_labels": {"pristine.vllm": "molecule", "pristine.vllm.checkout": CHECKOUT_ID},
        "fixture_network": f"pristine-vllm-{CHECKOUT_ID}-{scenario}",
    }
    return {
        "_meta": {"hostvars": {host: host_variables(scenario, host, known) for host in hosts}},
        "all": {"vars": shared, "children": ["ungrouped", "vllm_hosts", "index"]},
        "vllm_hosts": {"hosts": list(vllm_hosts), "vars": {**VLLM_HOSTS, **pin(flavour)}},
        "index": {"hosts": [INDEX]},
    }


def main() -> int:
    scenario = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("MOLECULE_SCENARIO_NAME", "")
    if scenario not in SCENARIOS:
        sys.stderr.write(f"no scenario {scenario!r}: one of {', '.join(SCENARIOS)}\n")
        return 2
    answer = {} if sys.argv[2:3] == ["--host"] else inventory(scenario)
    sys.stdout.write(json.dumps(answer, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
