# Copyright: Pristine vLLM maintainers (@pristine-vllm)
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host of the incident, adopted and reinstalled: back to what it was, dirt and all, and away again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from testinfra.host import Host

ENVIRONMENT = "/root/ml-env"
SUSPECT = "lib/python3.11/site-packages/vllm/model_executor/models/deepseek_v2.py"
ADOPTED = "/opt/vllm/releases/adopted-ml-env-1"


def debug_lines(host: Host, root: str) -> int:
    return int(host.run(f"grep -c -e nomla_debug -e embed_debug {root}/{SUSPECT}").stdout)


def test_it_was_adopted(host: Host, completion: Callable[[], str]) -> None:
    assert host.check_output(f"readlink {ENVIRONMENT}") == "/opt/vllm/current"
    assert host.check_output("readlink -f /opt/vllm/previous") == ADOPTED
    assert debug_lines(host, ADOPTED) > 0
    assert debug_lines(host, ENVIRONMENT) == 0
    assert completion()


def test_it_goes_back_dirt_and_all_and_away_again(
    host: Host, playbook: Callable[..., Any], completion: Callable[[], str], state: Callable[[], Any]
) -> None:
    clean = state().live
    assert playbook("pristine.vllm.rollback").code == 0
    assert state().live == ADOPTED
    assert debug_lines(host, ENVIRONMENT) > 0
    assert "by hand" in host.file("/etc/systemd/system/vllm-kimi-k25.service").content_string
    assert completion()
    assert playbook("pristine.vllm.reinstall").code == 0
    after = state()
    assert after.live not in (ADOPTED, clean)
    assert debug_lines(host, ENVIRONMENT) == 0
    assert completion()
    again = playbook("pristine.vllm.reinstall")
    assert (again.code, again.changed) == (0, 0)
    assert state() == after
