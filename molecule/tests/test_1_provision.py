# Copyright: Pristine vLLM maintainers (@pristine-vllm)
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bare host after `provision`."""

from __future__ import annotations

import collections
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from testinfra.host import Host

UNIT = "vllm-kimi-k25"


def test_the_unit_serves_and_comes_back_after_a_reboot(host: Host, completion: Callable[[], str]) -> None:
    unit = host.service(UNIT)
    assert unit.is_running
    assert unit.is_enabled
    assert completion()


def test_the_service_runs_from_its_release(host: Host, variables: dict[str, Any]) -> None:
    pid = host.check_output(f"systemctl show -P MainPID {UNIT}")
    command = host.file(f"/proc/{pid}/cmdline").content.decode().split("\0")
    live = host.check_output("readlink -f /opt/vllm/current")
    assert command[0].startswith(f"{live}/bin/"), "the link alone would pull the code from under a running process"
    release = json.loads(host.file(f"{live}/release.json").content_string)
    for key, variable in (
        ("version", "vllm_version"),
        ("wheel_sha256", "vllm_wheel_sha256"),
        ("commit", "vllm_commit"),
    ):
        assert release[key] == variables[variable]


def test_the_service_is_not_root_and_cannot_write_to_its_release(host: Host) -> None:
    pid = host.check_output(f"systemctl show -P MainPID {UNIT}")
    assert host.check_output(f"ps -o user= -p {pid}").strip() == "vllm"
    live = host.check_output("readlink -f /opt/vllm/current")
    assert host.run(f"runuser -u vllm -- touch {live}/lib/x").rc != 0


def test_the_model_configuration_is_adapted_and_nothing_else_in_it(host: Host, variables: dict[str, Any]) -> None:
    fresh = json.loads(Path(variables["fixture_folder"], "model/config.json").read_text())
    served = json.loads(host.file(f"{variables['vllm_model_path']}/config.json").content_string)
    assert fresh["quantization_config"].pop("kv_cache_scheme") is not None
    assert served == fresh


def test_the_quarantine_is_for_root_only(host: Host) -> None:
    assert host.file("/opt/vllm/quarantine").mode == 0o700


def test_each_wheel_was_downloaded_once(host: Host, fetched: Callable[[], collections.Counter[str]]) -> None:
    """By the runs so far: provisioned, and once more for its idempotence."""
    counted = fetched()
    assert set(counted.values()) == {1}
    kept = [name for name in host.file("/opt/vllm/wheels").listdir() if name.endswith(".whl")]
    assert sorted(name.replace("%2B", "+") for name in counted) == sorted(kept)
