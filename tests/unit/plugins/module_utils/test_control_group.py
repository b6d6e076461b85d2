# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.command import run
from ansible_collections.pristine.vllm.plugins.module_utils.control_group import (
    control_group_pids,
    default_control_group,
    kill_in_control_group,
)
from ansible_collections.pristine.vllm.tests.unit.plugins.service_support import FakeProc, wait_until

GROUP = "/system.slice/vllm-kimi-k25.service"


@pytest.fixture
def proc(tmp_path: pathlib.Path) -> Iterator[FakeProc]:
    parts = FakeProc(tmp_path)
    yield parts
    parts.close()


def test_this_very_process_is_in_its_group() -> None:
    """The real /proc, on whatever hierarchy this machine has."""
    rows = [line.split(":", 2) for line in run(["cat", "/proc/self/cgroup"]).stdout.splitlines()]
    groups = [row[2] for row in rows if row[1] in ("", "name=systemd") and row[2] != "/"]
    mine = int(run(["sh", "-c", "echo $PPID"]).stdout)
    for group in groups:
        assert mine in control_group_pids(group)


def test_pure_and_hybrid_hierarchies_and_groups_below(proc: FakeProc) -> None:
    unified = proc.start(f"0::{GROUP}\n")
    below = proc.start(f"0::{GROUP}/worker-1\n")
    hybrid = proc.start(f"12:memory:/docker/x\n1:name=systemd:{GROUP}\n0::/other\n")
    proc.start(f"4:memory:{GROUP}\n0::/user.slice\n")
    proc.start(f"0::{GROUP}2\n")
    assert control_group_pids(GROUP, str(proc.path)) == sorted([unified, below, hybrid])


@pytest.mark.parametrize("group", ["", "/"])
def test_the_root_group_holds_nothing(proc: FakeProc, group: str) -> None:
    proc.start("0::/\n")
    assert control_group_pids(group, str(proc.path)) == []


def test_a_zombie_is_dead(proc: FakeProc) -> None:
    pid = proc.start(f"0::{GROUP}\n", "true")
    assert wait_until(lambda: pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
    assert control_group_pids(GROUP, str(proc.path)) == []


def test_only_the_group_is_killed(proc: FakeProc) -> None:
    ours = [proc.start(f"0::{GROUP}\n", "sh", "-c", "trap '' TERM; sleep 60 & wait") for _number in range(2)]
    other = proc.start("0::/system.slice/other.service\n")
    assert kill_in_control_group(GROUP, str(proc.path)) == sorted(ours)
    assert all(proc.ended(pid) for pid in ours)
    assert proc.processes[-1].pid == other
    assert proc.processes[-1].poll() is None


@pytest.mark.parametrize(
    ("slice_name", "wanted"),
    [
        ("system.slice", "/system.slice/x.service"),
        ("", "/system.slice/x.service"),
        ("ml-gpu-big.slice", "/ml.slice/ml-gpu.slice/ml-gpu-big.slice/x.service"),
    ],
)
def test_where_a_service_will_be(proc: FakeProc, slice_name: str, wanted: str) -> None:
    assert default_control_group("x.service", slice_name, str(proc.path)) == wanted


def test_where_a_service_will_be_in_a_container_that_sees_its_host(proc: FakeProc) -> None:
    (proc.path / "1" / "cgroup").write_text("1:name=systemd:/\n0::/docker/abc/init.scope\n", encoding="utf-8")
    found = default_control_group("x.service", "system.slice", str(proc.path))
    assert found == "/docker/abc/system.slice/x.service"
