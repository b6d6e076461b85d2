# Copyright: Pristine vLLM maintainers (@pristine-vllm)
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a provisioned host still needs of the index: nothing."""

from __future__ import annotations

import collections
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import testinfra
from testinfra.host import Host


@pytest.fixture(scope="module")
def index(inventory: Path) -> Host:
    """The container that serves the wheels."""
    listed = subprocess.run(
        ["ansible-inventory", "-i", str(inventory), "--host", "index01"], capture_output=True, text=True, check=True
    )
    return testinfra.get_host(f"docker://{json.loads(listed.stdout)['ansible_host']}")


def test_each_wheel_was_downloaded_once_by_all_runs_so_far(index: Host, host: Host) -> None:
    log = index.file("/var/log/nginx/access.log").content_string
    fetched = collections.Counter(re.findall(r'"GET /(?:\S*/)?(\S+\.whl) HTTP', log))
    assert set(fetched.values()) == {1}
    kept = [name for name in host.file("/opt/vllm/wheels").listdir() if name.endswith(".whl")]
    assert sorted(name.replace("%2B", "+") for name in fetched) == sorted(kept)


def test_an_index_that_is_gone_is_told_and_not_in_the_way(playbook: Callable[..., Any]) -> None:
    run = playbook(
        "pristine.vllm.reinstall",
        vllm_index_url="http://index:9",
        nightly_wheel_dependency_index_url="http://index:9/simple/",
    )
    assert run.code == 0
    assert run.changed == 0
    assert "http://index:9" in run.said
    assert "The wheel is kept in /opt/vllm/wheels/vllm-" in run.said
