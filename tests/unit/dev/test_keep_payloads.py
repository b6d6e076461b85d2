# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CALLBACK = Path(__file__).resolve().parents[3] / "dev/callback/keep_payloads.py"
MODULE = """#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule
AnsibleModule({}).exit_json(msg="it is number %s")
"""
PLAYBOOK = """
- hosts: localhost
  gather_facts: false
  tasks: [{tell: {}, register: told}, {ansible.builtin.debug: {var: told.msg}}]
"""
# What Ansible says, with ANSIBLE_DEBUG, of a payload that it puts together.
MADE = "ANSIBALLZ: Creating module"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for folder in ("dev/callback", "plugins/modules"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(CALLBACK, tmp_path / "dev/callback")
    (tmp_path / "play.yml").write_text(PLAYBOOK)
    # Goes before the user's and the machine's.
    (tmp_path / "ansible.cfg").touch()
    return tmp_path


def play(checkout: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    environment.update(
        ANSIBLE_CALLBACK_PLUGINS=str(checkout / "dev/callback"),
        ANSIBLE_CALLBACKS_ENABLED="keep_payloads",
        ANSIBLE_DEBUG="1",
        ANSIBLE_HOME=str(checkout / ".ansible"),
        ANSIBLE_LIBRARY=str(checkout / "plugins/modules"),
        ANSIBLE_PYTHON_INTERPRETER=sys.executable,
        LC_ALL="C.UTF-8",
    )
    command = [sys.executable, "-m", "ansible", "playbook", "-i", "localhost,", "-c", "local", "play.yml"]
    done = subprocess.run(
        command, cwd=checkout, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_a_payload_is_made_once_for_what_it_is_made_from(checkout: Path) -> None:
    module = checkout / "plugins/modules/tell.py"
    module.write_text(MODULE % 1)
    first, second = play(checkout), play(checkout)
    assert "it is number 1" in first
    assert "it is number 1" in second
    assert (MADE in first, MADE in second) == (True, False)
    for number in range(2, 7):
        module.write_text(MODULE % number)
        edited = play(checkout)
        assert f"it is number {number}" in edited
        assert MADE in edited
    assert len(list((checkout / ".cache/payloads").iterdir())) == 4
