# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils import drain
from ansible_collections.pristine.vllm.plugins.module_utils.drain import (
    StopAsk,
    StopError,
    Stopped,
    apply,
    plan,
)
from ansible_collections.pristine.vllm.plugins.module_utils.unit import UnitError
from ansible_collections.pristine.vllm.plugins.module_utils.vllm_api import VllmApi
from ansible_collections.pristine.vllm.tests.unit.plugins.service_support import (
    UNIT,
    FakeProc,
    FakeSystemd,
    FakeVllm,
    closed_port,
    fake_vllm,
)

GROUP = f"/system.slice/{UNIT}.service"
MEMBER = f"0::{GROUP}\n"


@pytest.fixture
def systemd(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> FakeSystemd:
    parts = FakeSystemd(tmp_path / "systemd", monkeypatch.setenv)
    parts.set(ControlGroup=GROUP)
    parts.program("gpus-free", "exit 0\n")
    return parts


@pytest.fixture
def proc(tmp_path: pathlib.Path) -> Iterator[FakeProc]:
    parts = FakeProc(tmp_path)
    yield parts
    parts.close()


@pytest.fixture
def server() -> Iterator[FakeVllm]:
    with fake_vllm() as running:
        yield running


def ask(proc: FakeProc, url: str = "", **more: Any) -> StopAsk:
    values: dict[str, Any] = {"drain_timeout": 5.0, "stop_timeout": 5.0, "gpu_command": "gpus-free", **more}
    return StopAsk(unit=UNIT, url=url, proc=str(proc.path), **values)


def stop(wanted: StopAsk) -> Stopped:
    return apply(wanted, plan(wanted))


def stop_by_signal(systemd: FakeSystemd, proc: FakeProc, *pids: int) -> None:
    """What systemd does: signal the processes; the test reaps them as they are its children."""
    systemd.on_stop("ActiveState=inactive SubState=dead MainPID=0", f"kill {' '.join(map(str, pids))}")


def test_requests_end_before_the_stop(systemd: FakeSystemd, proc: FakeProc, server: FakeVllm) -> None:
    main, worker = proc.start(MEMBER), proc.start(MEMBER)
    systemd.set(MainPID=str(main))
    stop_by_signal(systemd, proc, main, worker)
    server.in_flight = [(2, 1), (1, 0), (0, 0), (0, 1), (0, 0)]
    result = stop(ask(proc, server.url))
    assert result.changed
    assert result.drained
    assert result.drain_problem is None
    assert result.requests_left == 0
    assert result.pids == sorted([main, worker])
    assert result.pids_killed == []
    assert result.gpu_checked
    # A zero that is followed by a one is not the end, so all six looks were needed.
    assert server.log.count("GET /metrics") == 6
    assert [call for call in systemd.calls() if call.startswith("stop")] == [f"stop --no-block -- {UNIT}.service"]


def test_the_drain_is_bounded(systemd: FakeSystemd, proc: FakeProc, server: FakeVllm) -> None:
    server.in_flight = [(3, 4)]
    result = stop(ask(proc, server.url, drain_timeout=0.5))
    assert not result.drained
    assert result.requests_left == 7
    assert result.drain_problem == "7 requests still ran or waited after 0.5 seconds"
    assert 0.4 < result.drain_seconds < 5
    assert result.changed


def test_a_drain_of_no_time_only_counts(systemd: FakeSystemd, proc: FakeProc, server: FakeVllm) -> None:
    server.in_flight = [(3, 4)]
    result = stop(ask(proc, server.url, drain_timeout=0))
    assert (result.drained, result.requests_left) == (False, 7)
    assert server.log == ["GET /metrics"]


def test_a_server_that_does_not_tell_is_not_waited_for(systemd: FakeSystemd, proc: FakeProc, server: FakeVllm) -> None:
    result = stop(ask(proc, closed_port(), drain_timeout=60.0))
    assert (result.drained, result.requests_left) == (False, None)
    assert result.drain_problem is not None
    assert "Connection refused" in result.drain_problem
    systemd.set(ActiveState="active", SubState="running")
    server.in_flight = [(-1, -1)]
    result = stop(ask(proc, server.url, drain_timeout=60.0))
    assert result.drain_problem is not None
    assert "does not have both vllm:num_requests_running and vllm:num_requests_waiting" in result.drain_problem


def test_a_server_too_busy_to_tell_is_waited_for(systemd: FakeSystemd, proc: FakeProc, server: FakeVllm) -> None:
    server.in_flight = [(6, 0), *[(-1, -1)] * 5, (1, 0), (0, 0)]
    result = stop(ask(proc, server.url, drain_timeout=60.0))
    assert (result.drained, result.drain_problem) == (True, None)
    systemd.set(ActiveState="active", SubState="running")
    server.in_flight = [(6, 1), (-1, -1)]
    result = stop(ask(proc, server.url, drain_timeout=1.5))
    assert (result.drained, result.requests_left) == (False, None)
    assert str(result.drain_problem).endswith("; 7 requests ran or waited when it last told")
    assert result.drain_seconds >= 1.5


def test_a_server_that_is_gone_is_not_waited_for(
    systemd: FakeSystemd, proc: FakeProc, server: FakeVllm, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dying(VllmApi):
        def metrics(self, names: Iterable[str]) -> dict[str, float]:
            counts = super().metrics(names)
            self._port = int(closed_port().rpartition(":")[2])
            return counts

    monkeypatch.setattr(drain, "VllmApi", Dying)
    server.in_flight = [(6, 0)]
    result = stop(ask(proc, server.url, drain_timeout=60.0))
    assert result.drain_seconds < 30
    assert "Connection refused" in str(result.drain_problem)


def test_a_worker_that_outlives_its_parent_is_killed(systemd: FakeSystemd, proc: FakeProc) -> None:
    main, orphan = proc.start(MEMBER), proc.start(f"0::{GROUP}/worker\n")
    bystander = proc.start("0::/system.slice/other.service\n")
    systemd.set(MainPID=str(main))
    stop_by_signal(systemd, proc, main)
    result = stop(ask(proc))
    assert result.pids_killed == [orphan]
    assert proc.ended(orphan)
    assert bystander in [one.pid for one in proc.processes if one.poll() is None]


def test_a_unit_that_does_not_stop_is_ended_by_pid(systemd: FakeSystemd, proc: FakeProc) -> None:
    main = proc.start(MEMBER, "sh", "-c", "trap '' TERM; sleep 60 & wait")
    systemd.set(MainPID=str(main))
    # As systemd does: the unit becomes inactive when the last process is gone.
    watch = f"(while kill -0 {main} 2>/dev/null && ! grep -q ') Z' /proc/{main}/stat; do sleep 0.05; done;"
    done = f"sed -e s/^ActiveState=.*/ActiveState=failed/ {systemd.directory}/properties > {systemd.directory}/p;"
    move = f" mv {systemd.directory}/p {systemd.directory}/properties) >/dev/null 2>&1 &"
    systemd.on_stop("ActiveState=deactivating SubState=stop-sigterm", f"kill {main}")
    with (systemd.directory / "on-stop").open("a", encoding="utf-8") as script:
        script.write(watch + done + move + "\n")
    result = stop(ask(proc, stop_timeout=0.5))
    assert result.pids_killed == [main]
    assert proc.ended(main)


def test_a_stop_that_systemd_refuses(systemd: FakeSystemd, proc: FakeProc) -> None:
    systemd.on_stop("", "echo 'Access denied' >&2; exit 4")
    with pytest.raises(StopError, match=r"cannot stop .*Access denied\. It runs as before"):
        stop(ask(proc))


def test_a_unit_that_never_stops(systemd: FakeSystemd, proc: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "_KILL_PATIENCE", 0.3)
    systemd.on_stop("ActiveState=deactivating SubState=stop-sigterm")
    with pytest.raises(StopError, match=r"did not stop within 0\.3 seconds, nor after SIGKILL"):
        stop(ask(proc, stop_timeout=0.3))


def test_a_stopped_unit_is_proven_and_not_changed(systemd: FakeSystemd, proc: FakeProc) -> None:
    systemd.set(ActiveState="inactive", SubState="dead", MainPID="0", ControlGroup="")
    result = stop(ask(proc, closed_port()))
    assert not result.changed
    assert result.drained
    assert result.requests_left is None
    assert not any(call.startswith("stop") for call in systemd.calls())


def test_an_orphan_of_a_stopped_unit_is_killed(systemd: FakeSystemd, proc: FakeProc) -> None:
    """systemd names no control group for a unit that is not running: it is where it would be."""
    orphan = proc.start(MEMBER)
    systemd.set(ActiveState="failed", SubState="failed", MainPID="0", ControlGroup="")
    wanted = ask(proc)
    assert plan(wanted).changes
    result = stop(wanted)
    assert (result.changed, result.pids_killed) == (True, [orphan])


def test_memory_that_the_driver_frees_late(systemd: FakeSystemd, proc: FakeProc) -> None:
    main = proc.start(MEMBER)
    systemd.set(MainPID=str(main))
    stop_by_signal(systemd, proc, main)
    flag = systemd.directory / "looked"
    systemd.program("gpus-late", f"[ -e {flag} ] || echo '{main}, 92507'\necho '999999, 12'\ntouch {flag}\n")
    result = stop(ask(proc, gpu_command="gpus-late"))
    assert result.gpu_checked
    assert flag.exists()


def test_memory_that_stays(systemd: FakeSystemd, proc: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "_KILL_PATIENCE", 0.3)
    main = proc.start(MEMBER)
    systemd.set(MainPID=str(main))
    stop_by_signal(systemd, proc, main)
    systemd.program("gpus-full", f"echo '{main}, 92507'\n")
    with pytest.raises(StopError, match=rf"still lists their memory \(pid {main}: 92507 MiB\)"):
        stop(ask(proc, gpu_command="gpus-full"))


def test_gpus_that_cannot_be_asked_are_told(systemd: FakeSystemd, proc: FakeProc) -> None:
    result = stop(ask(proc, gpu_command="/nonexistent/nvidia-smi"))
    assert not result.gpu_checked
    assert result.gpu_problem is not None
    assert "cannot run /nonexistent/nvidia-smi" in result.gpu_problem


def test_an_unknown_unit(systemd: FakeSystemd, proc: FakeProc) -> None:
    systemd.set(LoadState="not-found", ActiveState="inactive", MainPID="0")
    with pytest.raises(UnitError, match="cannot stop unit vllm-kimi-k25: systemd knows no unit of that name"):
        plan(ask(proc))


def test_an_unknown_unit_may_be_missing(systemd: FakeSystemd, proc: FakeProc) -> None:
    systemd.set(LoadState="not-found", ActiveState="inactive", SubState="dead", MainPID="0", ControlGroup="")
    wanted = ask(proc, closed_port(), missing_ok=True)
    result = apply(wanted, plan(wanted))
    assert (result.changed, result.drained, result.drain_problem) == (False, True, None)
    assert (result.pids, result.pids_killed, result.requests_left) == ([], [], None)
    assert all(call.startswith("show") for call in systemd.calls())


def test_a_unit_that_has_lost_its_file_still_runs(systemd: FakeSystemd, proc: FakeProc) -> None:
    main = proc.start(MEMBER)
    systemd.set(LoadState="not-found", MainPID=str(main))
    stop_by_signal(systemd, proc, main)
    result = stop(ask(proc, missing_ok=True))
    assert (result.changed, result.pids) == (True, [main])
    assert proc.ended(main)


@pytest.mark.parametrize("before", [{}, {"ActiveState": "failed", "MainPID": "0", "Result": "start-limit-hit"}])
def test_the_next_start_is_not_refused(systemd: FakeSystemd, proc: FakeProc, before: dict[str, str]) -> None:
    systemd.set(**before)
    result = stop(ask(proc))
    assert result.changed is not bool(before)
    assert systemd.calls()[-1] == f"reset-failed -- {UNIT}.service"


def test_a_reset_that_fails_is_no_error(systemd: FakeSystemd, proc: FakeProc) -> None:
    script = (
        (systemd.bin / "systemctl").read_text(encoding="utf-8").replace("case $1 in", "case $1 in reset*) exit 1 ;;")
    )
    (systemd.bin / "systemctl").write_text(script, encoding="utf-8")
    assert stop(ask(proc)).changed
    assert systemd.calls()[-1].startswith("reset-failed")
