# Copyright: Pristine vLLM maintainers (@pristine-vllm)
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a provisioned host still needs of the index: nothing."""

from __future__ import annotations

import collections
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from testinfra.host import Host

WHEELS = "molecule/tests/wheels.yml"
Known = Callable[[str], dict[str, Any]]
Fetched = Callable[[], collections.Counter[str]]


@pytest.fixture
def root(host: Host) -> Iterator[str]:
    """A folder on the host that has no wheels yet."""
    yield host.check_output("mktemp -d /srv/root-XXXX")
    host.check_output("rm -r /srv/root-*")


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


def test_the_controller_fetches_once_and_the_host_asks_nobody(
    playbook: Callable[..., Any], index: Host, host: Host, root: str, known: Known, fetched: Fetched, tmp_path: Path
) -> None:
    # The controller does not know the container by its name, and the host asks no index: it is not told of one.
    address = f"http://{known('index01')['container_ip']}"
    given = {
        "vllm_root": root,
        "nightly_wheel_site_cache": str(tmp_path / "site"),
        "vllm_index_url": address,
        "nightly_wheel_dependency_index_url": f"{address}/simple/",
    }
    before = fetched()
    lines = len(index.file("/var/log/nginx/access.log").content_string.splitlines())
    assert playbook(WHEELS, **given).code == 0
    assert sorted(path.name for path in (tmp_path / "site").iterdir()) == sorted(host.file(f"{root}/wheels").listdir())
    assert set((fetched() - before).values()) == {1}
    askers = {line.split()[0] for line in index.file("/var/log/nginx/access.log").content_string.splitlines()[lines:]}
    assert known("vllm01")["container_ip"] not in askers
    # What the host lacks now comes from the folder, and then nothing is to do.
    host.check_output(f"rm {root}/wheels/torch-*")
    once = fetched()
    assert playbook(WHEELS, **given).code == 0
    assert playbook(WHEELS, **{**given, "vllm_index_url": "http://127.0.0.1:9"}).changed == 0
    assert fetched() == once


def test_a_host_without_a_network(
    playbook: Callable[..., Any],
    index: Host,
    host: Host,
    root: str,
    variables: dict[str, Any],
    known: Known,
    fetched: Fetched,
) -> None:
    name = known("vllm01")["ansible_host"]
    subprocess.run(["docker", "cp", f"{variables['fixture_index']}/.", f"{name}:{root}/mirror"], check=True)
    given = {
        "vllm_root": root,
        "vllm_index_url": f"{root}/mirror",
        "nightly_wheel_dependency_index_url": f"file://{root}/mirror/simple",
    }
    before = fetched()
    assert playbook(WHEELS, **given).code == 0
    assert playbook(WHEELS, **given).changed == 0
    assert fetched() == before
    refused = playbook(WHEELS, **given, **variables["fixture_gone"])
    assert refused.code != 0
    assert "and does not deliver it" in refused.said
