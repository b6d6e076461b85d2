# Copyright: Pristine vLLM maintainers (@pristine-vllm)
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host as the incident found it: an environment made by pip, a unit written by hand, nothing of this collection."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

import pytest
from testinfra.host import Host

ENVIRONMENT = "/root/ml-env"
SUSPECT = "vllm/model_executor/models/deepseek_v2.py"
UNIT = "vllm-kimi-k25"
BY_HAND = f"""\
[Unit]
Description=by hand
[Service]
ExecStart={ENVIRONMENT}/bin/vllm serve /srv/model --served-model-name by-hand --port 8008
Restart=always
[Install]
WantedBy=multi-user.target
"""


@pytest.fixture(scope="module")
def by_hand(host: Host, variables: dict[str, Any]) -> str:
    """Wipe what the collection made, and serve by hand. Returns the text of the unit."""
    index = variables["vllm_index_url"]
    links = f"--find-links {index}/{variables['vllm_commit']}/vllm/ --find-links {index}/simple/torch/"
    pip = f"{ENVIRONMENT}/bin/pip install -q --no-index --trusted-host index {links} vllm=={variables['vllm_version']}"
    for command in (
        f"systemctl disable --now {UNIT}",
        f"rm -rf /opt/vllm /etc/systemd/system/{UNIT}.service {ENVIRONMENT}",
        f"python3 -m venv {ENVIRONMENT}",
        pip,
        f"echo '# dirt' | tee -a {ENVIRONMENT}/lib/python3*/site-packages/vllm/model_executor/models/deepseek_v2.py",
        f"printf %s {shlex.quote(BY_HAND)} > /etc/systemd/system/{UNIT}.service",
        "systemctl daemon-reload",
        f"systemctl start {UNIT}",
        "curl -fsS --retry 60 --retry-delay 1 --retry-connrefused http://127.0.0.1:8008/health",
    ):
        host.check_output(command)
    return BY_HAND


def served(host: Host, port: int) -> str:
    return str(host.check_output(f"curl -fsS http://127.0.0.1:{port}/v1/models"))


def test_a_check_run_finds_the_dirt_and_leaves_the_host_alone(
    by_hand: str, playbook: Callable[..., Any], host: Host
) -> None:
    run = playbook("pristine.vllm.reinstall", "--check", vllm_environment=ENVIRONMENT)
    assert run.code == 0
    assert "modified vllm/model_executor/models/deepseek_v2.py" in run.said
    assert not host.file("/opt/vllm").exists
    assert host.file(f"/etc/systemd/system/{UNIT}.service").content_string == by_hand


def test_a_failing_release_brings_back_what_was_made_by_hand(
    by_hand: str, playbook: Callable[..., Any], host: Host, variables: dict[str, Any]
) -> None:
    # As people write a folder.
    run = playbook("pristine.vllm.reinstall", vllm_environment=f"{ENVIRONMENT}/", **variables["fixture_broken"])
    assert run.code != 0
    assert "The host is as it was" in run.said
    assert host.file(f"/etc/systemd/system/{UNIT}.service").content_string == by_hand
    assert "by-hand" in served(host, 8008)
    assert not host.service(UNIT).is_enabled
    assert host.file(ENVIRONMENT).is_directory
    assert not host.file(ENVIRONMENT).is_symlink
    assert not host.file("/opt/vllm/current").exists


def test_a_reinstall_adopts_it_and_a_second_one_does_nothing(
    by_hand: str, playbook: Callable[..., Any], host: Host
) -> None:
    assert playbook("pristine.vllm.reinstall", vllm_environment=ENVIRONMENT).code == 0
    assert host.check_output("readlink -f /opt/vllm/current").startswith("/opt/vllm/releases/")
    assert host.check_output("readlink -f /opt/vllm/previous") == "/opt/vllm/releases/adopted-ml-env-1"
    assert host.check_output(f"readlink {ENVIRONMENT}") == "/opt/vllm/current"
    assert "kimi-k2.5" in served(host, 8000)
    again = playbook("pristine.vllm.reinstall", vllm_environment=ENVIRONMENT)
    assert (again.code, again.changed) == (0, 0)


def test_a_rollback_brings_it_back_dirt_and_all_and_a_reinstall_away_again(
    by_hand: str, playbook: Callable[..., Any], host: Host, records: Callable[[str], list[dict[str, Any]]]
) -> None:
    suspect = f"{ENVIRONMENT}/lib/python3*/site-packages/{SUSPECT}"
    clean = host.check_output("readlink -f /opt/vllm/current")
    assert "dirt" not in host.check_output(f"tail -n 1 {suspect}")
    host.check_output(f"echo '# patched' | tee -a {suspect}")
    assert playbook("pristine.vllm.rollback", vllm_environment=ENVIRONMENT).code == 0
    record = records("rollback")[-1]
    assert [finding["path"] for finding in record["before"]["findings"]] == [SUSPECT]
    assert "# patched" in host.check_output(
        f"cat {record['quarantine']}/files/{clean}/lib/python3*/site-packages/{SUSPECT}"
    )
    assert host.check_output("readlink -f /opt/vllm/current") == "/opt/vllm/releases/adopted-ml-env-1"
    assert host.check_output("readlink -f /opt/vllm/previous") == clean
    assert host.check_output(f"tail -n 1 {suspect}") == "# dirt"
    assert host.file(f"/etc/systemd/system/{UNIT}.service").content_string == by_hand
    assert "by-hand" in served(host, 8008)
    assert playbook("pristine.vllm.reinstall", vllm_environment=ENVIRONMENT).code == 0
    last = host.check_output(f"tail -n 1 {suspect}")
    assert "dirt" not in last
    assert "patched" not in last
    assert "kimi-k2.5" in served(host, 8000)
