# Copyright: Pristine vLLM maintainers (@pristine-vllm)
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watch: dirt is reported, put right when its time has come, and what cannot be put right fails once."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from testinfra.host import Host

UNIT = "vllm-kimi-k25"
DROPIN = f"/etc/systemd/system/{UNIT}.service.d/debug.conf"
DUMP = "/tmp/nomla_debug_tp0.pt"
SUSPECT = "/opt/vllm/current/lib/python3*/site-packages/vllm/model_executor/models/deepseek_v2.py"
HOLD = "/etc/pristine-vllm.hold"
METRICS = "/var/tmp/metrics"
DEBUG = f"import torch as _t\n_t.save([], {DUMP!r})\n"
# A day on which nobody tests now.
CLOSED = [{"days": [f"{datetime.now(timezone.utc) + timedelta(days=3):%a}".lower()], "from": "00:00", "to": "24:00"}]
POLICY = {"code": "restore", "unit": "restore", "artifacts": "restore"}

Tick = Callable[..., Any]
Noted = Callable[[], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def tick(playbook: Callable[..., Any]) -> Tick:
    """One run of the watch; what each test is about goes on top."""
    ours: dict[str, Any] = {
        "drift_watch_policy": POLICY,
        "drift_watch_textfile_directory": METRICS,
        # The tests come in one day, and other tests beside them would have all of the processor.
        "drift_watch_max_per_day": 99,
        "drift_watch_background": False,
    }
    return lambda **more: playbook("pristine.vllm.drift", **{**ours, **more})


def make_dirty(host: Host) -> None:
    for command in (
        f"mkdir -p {METRICS}",
        f"printf %s {shlex.quote(DEBUG)} | tee -a {SUSPECT}",
        f"dd if=/dev/zero of={DUMP} bs=1k count=1",
    ):
        host.check_output(command)


def metric(host: Host, name: str, *labels: str) -> float:
    """The value of a sample; of several the first that has the labels."""
    lines = host.check_output(f"cat {METRICS}/*.prom").splitlines()
    found = [
        line for line in lines if line.startswith(f"pristine_vllm_{name}{{") and all(one in line for one in labels)
    ]
    return float(found[0].rpartition(" ")[2])


@pytest.fixture(scope="module")
def noted(records: Callable[[str], list[dict[str, Any]]]) -> Noted:
    """The records that the watch has written so far."""
    return lambda: records("drift")


def test_dirt_is_reported_and_outside_the_window_nothing_restarts(
    tick: Tick, host: Host, state: Callable[[], Any], noted: Noted
) -> None:
    make_dirty(host)
    host.check_output(f"mkdir -p {DROPIN.rpartition('/')[0]}")
    host.check_output(f"printf '[Service]\\nEnvironment=X=1\\n' > {DROPIN}")
    before, told = state(), len(noted())
    run = tick(drift_watch_windows=CLOSED)
    assert run.code != 0
    assert "vllm01: drifted and reported" in run.said
    assert "no maintenance window is open" in run.said
    assert state() == before
    assert host.file(DROPIN).exists
    assert metric(host, "pristine") == 0
    assert metric(host, "findings", 'kind="code"') == 1
    new = noted()[told:]
    assert [record["outcome"] for record in new] == ["checked"]
    assert new[0]["before"]["probes"][-1]["artifact_glob"] == DUMP


def test_a_held_host_is_left_alone(tick: Tick, host: Host, state: Callable[[], Any], noted: Noted) -> None:
    before, told = state(), len(noted())
    host.check_output(f"echo 'benchmark until Friday, ask Kim' > {HOLD}")
    run = tick()
    assert run.code != 0
    assert "vllm01: held" in run.said
    assert "benchmark until Friday, ask Kim" in run.said
    assert state() == before
    assert len(noted()) == told, "nothing is new"
    host.check_output(f"rm {HOLD}")


def test_another_run_has_the_host(tick: Tick, host: Host, state: Callable[[], Any]) -> None:
    before, seen = state(), host.check_output("cat /opt/vllm/drift/state.json")
    host.check_output(f"systemd-run --unit {UNIT}-switchover sleep 600")
    run = tick()
    host.check_output(f"systemctl stop {UNIT}-switchover")
    assert run.code == 0, "that is no drift"
    assert "vllm01: in use, not looked at" in run.said
    assert state() == before
    assert host.check_output("cat /opt/vllm/drift/state.json") == seen


def test_it_is_put_right_when_the_window_opens(
    tick: Tick, host: Host, state: Callable[[], Any], completion: Callable[[], str], noted: Noted
) -> None:
    before = state()
    run = tick()
    assert run.code == 0
    assert "vllm01: remediated: the restore left nothing that differs" in run.said
    after = state()
    assert after.main_pid != before.main_pid
    assert after.code != before.code
    assert (after.live, after.releases, after.dumps) == (before.live, before.releases, ())
    assert not host.file(DROPIN).exists
    assert completion()
    assert metric(host, "pristine") == 1
    record = noted()[-1]
    assert (record["outcome"], record["after"]["pristine"]) == ("restored", True)
    assert record["downtime_seconds"] > 0
    for path in (DUMP, DROPIN, host.check_output(f"readlink -f {SUSPECT}")):
        assert host.file(f"{record['quarantine']}/files{path}").exists


def test_the_next_tick_changes_nothing(tick: Tick, host: Host, state: Callable[[], Any], noted: Noted) -> None:
    before, told = state(), len(noted())
    run = tick()
    assert run.code == 0
    assert "vllm01: pristine" in run.said
    assert run.changed == 1, "its own history and metrics: the time of the scan"
    assert state() == before
    assert len(noted()) == told


@pytest.fixture
def wheel_is_gone(host: Host) -> Iterator[None]:
    host.check_output("mkdir -p /root/gone && mv /opt/vllm/wheels/vllm-* /root/gone")
    yield
    host.check_output("mv /root/gone/* /opt/vllm/wheels")


@pytest.mark.usefixtures("wheel_is_gone")
def test_one_that_cannot_succeed_fails_once_and_the_host_serves(
    tick: Tick, host: Host, state: Callable[[], Any], completion: Callable[[], str], noted: Noted
) -> None:
    make_dirty(host)
    before = state()
    run = tick()
    assert run.code != 0
    assert "vllm01: remediation failed" in run.said
    assert "cannot be put right" in run.said
    assert state() == before
    assert completion()
    assert metric(host, "remediation_last_success") == 0
    assert noted()[-1]["outcome"] == "nothing was stopped"
    told = len(noted())
    again = tick()
    assert again.code != 0
    assert "the host cools down" in again.said
    assert state() == before
    assert len(noted()) == told


def test_a_reinstall_by_policy(tick: Tick, host: Host, state: Callable[[], Any], noted: Noted) -> None:
    before = state()
    run = tick(drift_watch_policy={"code": "reinstall"}, drift_watch_cool_down=0)
    assert run.code == 0
    assert "vllm01: remediated: the reinstall left nothing that differs" in run.said
    after = state()
    assert after.live != before.live
    assert after.dumps == ()
    assert noted()[-1]["outcome"] == "reinstalled"


def test_a_link_that_somebody_moved_is_led_back(
    tick: Tick, host: Host, state: Callable[[], Any], completion: Callable[[], str]
) -> None:
    before = state()
    release = before.live.rpartition("/")[2]
    host.check_output("ln -sfn $(readlink /opt/vllm/previous) /opt/vllm/current")
    assert state().live != before.live
    run = tick(drift_watch_policy={"link": "restore"}, drift_watch_release=release)
    assert run.code == 0
    assert "vllm01: remediated" in run.said
    assert state().live == before.live
    assert completion()
    assert metric(host, "pristine") == 1
