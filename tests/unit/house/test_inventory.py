# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The example fleet: valid, and the place where a user meets the variables that several roles need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .house import ROLES, ROOT, load

SHARED = {
    "vllm_root",
    "vllm_environment",
    "vllm_version",
    "vllm_commit",
    "vllm_variant",
    "vllm_wheel_sha256",
    "vllm_index_url",
    "vllm_lock",
    "vllm_model_path",
    "vllm_served_model_name",
    "vllm_port",
    "vllm_unit",
    "vllm_gpu_count",
}
# Of the playbooks, for a whole run.
ROLLOUT = {"reinstall_serial", "reinstall_max_fail_percentage", "reinstall_canary"}
MAIN = ROOT / "inventory/group_vars/vllm_hosts/main.yml"


@pytest.fixture(scope="module")
def fleet() -> dict[str, Any]:
    """The variables of each host, as Ansible reads them."""
    listing = subprocess.run(
        [str(Path(sys.executable).parent / "ansible-inventory"), "--inventory", "inventory/hosts.yml", "--list"],
        cwd=ROOT,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert listing.stderr == ""
    hosts: dict[str, Any] = json.loads(listing.stdout)["_meta"]["hostvars"]
    return hosts


def test_every_host_has_every_variable(fleet: dict[str, Any]) -> None:
    # The one that is commented out: it is for who has an environment to adopt.
    wanted = SHARED - {"vllm_environment"}
    assert len(fleet) > 1
    assert {host: wanted - set(variables) for host, variables in fleet.items()} == {host: set() for host in fleet}


def test_the_main_file_holds_the_shared_variables_and_no_others() -> None:
    assert set(load(MAIN)) == SHARED - {"vllm_environment"}
    assert "# vllm_environment:" in MAIN.read_text(encoding="utf-8")


def test_the_readme_documents_them() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in sorted(SHARED | ROLLOUT) if f"`{name}`" not in readme] == []


def test_every_role_variable_in_the_fleet_is_one_that_a_role_has(fleet: dict[str, Any]) -> None:
    known = {name for role in ROLES for name in load(role / "defaults/main.yml") or {}}
    used = {name for variables in fleet.values() for name in variables if not name.startswith("ansible_")}
    assert used - SHARED - ROLLOUT - known == set()


def test_nothing_pretends_to_be_a_digest(fleet: dict[str, Any]) -> None:
    """A made-up digest would look like a pin. Who copies the fleet has to fill it in."""
    assert {variables["vllm_wheel_sha256"] for variables in fleet.values()} == {""}
    assert sorted(path.name for path in (ROOT / "inventory/locks").iterdir()) == ["README.md"]
