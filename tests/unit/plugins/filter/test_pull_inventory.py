# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller knows of a host, the host then knows by itself: read back by Ansible."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import ansible_environment

INVENTORY = """\
vllm_hosts:
  hosts:
    gpu-01:
      site: fra
      vllm_root: "/srv/{{ site }}"
      vllm_lock: "{{ inventory_dir }}/lock.txt"
      vllm_port: 8000
      vllm_service_arguments: [--port, "{{ vllm_port }}", !unsafe "{{ messages }}"]
      vllm_service_api_key: !vault |
        $ANSIBLE_VAULT;1.1;AES256
        VAULTED
      drift_watch_provisioned: true
      drift_watch_schedule_unit: other
      nightly_wheel_ignore: []
      ntp_server: none
      MORE
"""
PLAY = """
- hosts: gpu-01
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.copy:
        content: "{{ hostvars['gpu-01'] | pristine.vllm.pull_inventory('gpu-01', ['vllm_', 'drift_', 'nightly_'],
                  {'vllm_lock': '/x', 'ansible_connection': 'local'}, ['drift_watch_schedule_']) }}"
        dest: "{{ playbook_dir }}/pulled.yml"
        mode: "0600"
      vars:
        ansible_python_interpreter: "{{ ansible_playbook_python }}"
"""


def ansible(folder: pathlib.Path, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(pathlib.Path(sys.executable).parent / command), *arguments],
        cwd=folder,
        env=ansible_environment(
            folder / "ansible", ANSIBLE_NOCOLOR="1", ANSIBLE_VAULT_PASSWORD_FILE=str(folder / "password")
        ),
        capture_output=True,
        text=True,
        check=False,
    )


def pull(folder: pathlib.Path, more: str = "") -> subprocess.CompletedProcess[str]:
    (folder / "password").write_text("open sesame\n")
    locked = ansible(folder, "ansible-vault", "encrypt_string", "sk-secret").stdout
    digits = "\n        ".join(line.strip() for line in locked.splitlines()[2:])
    (folder / "hosts.yml").write_text(INVENTORY.replace("VAULTED", digits).replace("MORE", more))
    (folder / "play.yml").write_text(PLAY)
    return ansible(folder, "ansible-playbook", "play.yml", "--inventory", "hosts.yml")


def test_the_host_knows_what_the_controller_knew(tmp_path: pathlib.Path) -> None:
    done = pull(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "password").write_text("of another machine\n")
    listed = ansible(tmp_path, "ansible-inventory", "--inventory", "pulled.yml", "--host", "gpu-01")
    known: dict[str, Any] = json.loads(listed.stdout)
    arguments = known.pop("vllm_service_arguments")
    # A number stays one, and braces that were no template are none on the host either.
    assert arguments[:2] == ["--port", 8000]
    assert arguments[2] in ("{{ messages }}", {"__ansible_unsafe": "{{ messages }}"})
    assert known == {
        "ansible_connection": "local",
        "drift_watch_provisioned": True,
        "nightly_wheel_ignore": [],
        "vllm_lock": "/x",
        "vllm_port": 8000,
        "vllm_root": "/srv/fra",
        "vllm_service_api_key": "sk-secret",
    }


def test_a_variable_without_value_is_named(tmp_path: pathlib.Path) -> None:
    done = pull(tmp_path, 'vllm_service_environment: {RUN: "{{ run_record_id }}"}')
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode != 0
    assert "vllm_service_environment of gpu-01 has no value outside of a run" in said, said
    assert not (tmp_path / "pulled.yml").exists()
