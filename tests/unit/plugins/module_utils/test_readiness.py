# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils import readiness
from ansible_collections.pristine.vllm.plugins.module_utils.readiness import Ladder
from ansible_collections.pristine.vllm.plugins.module_utils.readiness_ask import Ask, Readiness
from ansible_collections.pristine.vllm.tests.unit.plugins.service_support import (
    MODEL,
    UNIT,
    FakeSystemd,
    FakeVllm,
    closed_port,
    fake_vllm,
    wait_until,
)

STEPS = ["unit", "tcp", "health", "models", "completion", "tokens", "journal"]


@pytest.fixture
def systemd(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> FakeSystemd:
    return FakeSystemd(tmp_path / "systemd", monkeypatch.setenv)


@pytest.fixture
def server() -> Iterator[FakeVllm]:
    with fake_vllm() as running:
        yield running


def climb(url: str, **more: Any) -> Readiness:
    values: dict[str, Any] = {"timeout": 20.0, "interval": 0.05, "completion_timeout": 5.0, **more}
    return Ladder(Ask(unit=UNIT, url=url, model=MODEL, **values)).climb()


def reason(result: Readiness) -> str:
    assert not result.ready
    assert result.reason is not None
    return result.reason


def test_all_the_way_up(systemd: FakeSystemd, server: FakeVllm) -> None:
    result = climb(server.url)
    assert result.reason is None
    assert result.ready
    assert [step.name for step in result.steps] == STEPS
    assert (result.step, result.main_pid, result.n_restarts, result.completion) == ("journal", 4242, 0, " Paris")
    notes = {step.name: step.note for step in result.steps}
    assert notes["tokens"] == "vllm:iteration_tokens_total_count rose from 100 to 108"
    assert notes["journal"] is None
    assert 0 < result.seconds < 10


def test_one_pass_is_enough_for_a_service_that_serves(systemd: FakeSystemd, server: FakeVllm) -> None:
    assert climb(server.url, timeout=0).ready


def test_one_pass_at_a_port_that_refuses(systemd: FakeSystemd) -> None:
    begun = time.monotonic()
    result = climb(closed_port(), timeout=0)
    assert time.monotonic() - begun < 5
    assert "Connection refused" in reason(result)
    assert result.step == "unit"


def test_it_waits_for_a_load(systemd: FakeSystemd, server: FakeVllm) -> None:
    server.health = 503

    def load() -> None:
        wait_until(lambda: len(server.log) > 3)
        server.health = 200

    threading.Thread(target=load).start()
    result = climb(server.url)
    assert result.ready
    assert server.log.count("GET /health") > 3


def test_it_waits_for_what_runs_before_the_main_process(systemd: FakeSystemd, server: FakeVllm) -> None:
    systemd.set(ActiveState="activating", SubState="start-pre", MainPID="0")

    def go_on() -> None:
        wait_until(lambda: len(systemd.calls()) > 3)
        systemd.set(ActiveState="active", SubState="running", MainPID="77")

    threading.Thread(target=go_on).start()
    result = climb(server.url)
    assert result.ready
    assert result.main_pid == 77


def test_health_without_a_completion_is_not_ready(systemd: FakeSystemd, server: FakeVllm) -> None:
    """The engine hangs; /health and /v1/models go on answering."""
    server.completion = None
    begun = time.monotonic()
    result = climb(server.url, timeout=1.5, completion_timeout=0.4)
    assert time.monotonic() - begun < 5
    assert result.step == "models"
    assert "step completion was not passed in 1.5 seconds" in reason(result)
    assert "gave no answer within" in reason(result)
    assert server.log.count("POST /v1/completions") > 1


def test_an_empty_text_is_no_completion(systemd: FakeSystemd, server: FakeVllm) -> None:
    server.completion = ""
    assert "gave an empty text for 'The capital of France is'" in reason(climb(server.url, timeout=0))


def test_white_space_is_a_text(systemd: FakeSystemd, server: FakeVllm) -> None:
    server.completion = " \n"
    assert climb(server.url, timeout=0).ready


def test_an_engine_that_made_no_token(systemd: FakeSystemd, server: FakeVllm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "_COUNTER_PATIENCE", 0.3)
    server.counting = False
    result = climb(server.url)
    assert result.step == "completion"
    assert "the engine made no token for it: vllm:generation_tokens_total stays at 200" in reason(result)


def test_a_server_without_counters_is_said_to_be_unchecked(systemd: FakeSystemd, server: FakeVllm) -> None:
    server.counters = False
    result = climb(server.url)
    assert result.ready
    note = next(step.note for step in result.steps if step.name == "tokens")
    assert note is not None
    assert note.startswith("not checked: ")
    assert "/metrics has none of vllm:iteration_tokens_total_count" in note


@pytest.mark.parametrize(
    "changes",
    [
        {"ActiveState": "failed", "SubState": "failed", "MainPID": "0", "Result": "exit-code", "ExecMainStatus": "1"},
        # vLLM ends with 0 when its engine dies.
        {"ActiveState": "inactive", "SubState": "dead", "MainPID": "0"},
        {"ActiveState": "activating", "SubState": "auto-restart", "MainPID": "0"},
        {"MainPID": "4243", "NRestarts": "1"},
        {"NRestarts": "1"},
        {"MainPID": "4243"},
        {"ActiveState": "deactivating", "SubState": "stop-sigterm"},
    ],
)
def test_it_gives_up_at_once_when_the_unit_is_another(systemd: FakeSystemd, changes: dict[str, str]) -> None:
    def die() -> None:
        wait_until(lambda: len(systemd.calls()) > 4)
        systemd.journal("Traceback (most recent call last):", "ImportError: this release cannot be imported")
        systemd.set(**changes)

    threading.Thread(target=die).start()
    begun = time.monotonic()
    result = climb(closed_port(), timeout=60.0)
    assert time.monotonic() - begun < 10
    text = reason(result)
    assert "the unit is not running" in text or "the unit has been restarted meanwhile" in text
    assert "ImportError: this release cannot be imported" in text
    assert f"See `journalctl -u {UNIT}.service`" in text
    assert "--sync" in systemd.calls("journal-calls")


def test_a_unit_that_dies_during_the_completion(systemd: FakeSystemd, server: FakeVllm) -> None:
    server.completion = None

    def die() -> None:
        wait_until(lambda: "POST /v1/completions" in server.log)
        systemd.set(ActiveState="failed", SubState="failed", MainPID="0", Result="signal", ExecMainStatus="9")
        server.released.set()

    threading.Thread(target=die).start()
    begun = time.monotonic()
    result = climb(server.url, timeout=60.0, completion_timeout=60.0)
    assert time.monotonic() - begun < 10
    assert "the unit is not running" in reason(result)
    assert "result signal, exit status 9" in reason(result)


def test_an_unknown_unit(systemd: FakeSystemd) -> None:
    systemd.set(LoadState="not-found", ActiveState="inactive", SubState="dead", MainPID="0")
    result = climb(closed_port())
    assert "systemd knows no unit of that name" in reason(result)
    assert result.seconds < 5


def test_a_fatal_line_of_this_start(systemd: FakeSystemd, server: FakeVllm) -> None:
    systemd.journal("INFO fine", "ERROR 11-30 [async_llm.py:1] EngineDeadError: EngineCore encountered an issue")
    result = climb(server.url)
    assert result.step == "tokens"
    assert "its journal has a line after which no engine recovers: ERROR 11-30 [async_llm.py:1]" in reason(result)
    assert climb(server.url, fatal_patterns=["something else"]).ready


def test_a_fatal_line_during_the_load(systemd: FakeSystemd, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server may hang on after its engine has failed."""
    monkeypatch.setattr(readiness, "_JOURNAL_EVERY", 0.1)
    systemd.journal("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 97 GiB")
    result = climb(closed_port(), timeout=60.0)
    assert result.seconds < 10
    assert "CUDA out of memory" in reason(result)


def test_a_journal_that_cannot_be_read_is_said(systemd: FakeSystemd, server: FakeVllm) -> None:
    systemd.program("journalctl", "echo 'No journal files were opened' >&2; exit 1\n")
    result = climb(server.url)
    assert result.ready
    note = result.steps[-1].note
    assert note is not None
    assert "not checked: the journal cannot be read" in note


def test_another_model_on_the_port(systemd: FakeSystemd, server: FakeVllm) -> None:
    server.models = ["other"]
    result = climb(server.url)
    assert result.seconds < 5
    assert f"/v1/models names other, not {MODEL}" in reason(result)


def test_a_missing_key_is_no_reason_to_wait(systemd: FakeSystemd, server: FakeVllm) -> None:
    server.api_key = "geheim-1"
    result = climb(server.url, api_key="geheim-2", timeout=60.0)
    assert result.seconds < 5
    assert "answered 401" in reason(result)
    assert climb(server.url, api_key="geheim-1").ready


def test_no_secret_in_a_message(systemd: FakeSystemd, server: FakeVllm) -> None:
    systemd.journal("ERROR started with key geheim-1", "ERROR EngineDeadError geheim-1")
    server.completion = " geheim-1"
    result = climb(server.url, api_key="geheim-1")
    assert "geheim" not in repr(result)


def test_total_time_is_bounded(systemd: FakeSystemd, server: FakeVllm) -> None:
    server.health = 503
    result = climb(server.url, timeout=0.6)
    assert result.seconds < 3
    assert "step health was not passed in 0.6 seconds" in reason(result)
    assert "answered 503" in reason(result)


def main_process(systemd: FakeSystemd, *words: str) -> str:
    """Let the main process have this command line; returns the /proc in which it has it."""
    own = systemd.directory / "proc" / systemd.properties["MainPID"]
    own.mkdir(parents=True)
    (own / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
    return str(own.parent)


def test_a_process_of_the_release(systemd: FakeSystemd, server: FakeVllm, tmp_path: pathlib.Path) -> None:
    (tmp_path / "releases/one/bin").mkdir(parents=True)
    (tmp_path / "current").symlink_to("releases/one")
    proc = main_process(systemd, "/bin/sh", f"{tmp_path}/current/bin/vllm", "serve", "--port", "8001")
    for name in ("current", "releases/one"):
        result = climb(server.url, proc=proc, environment=str(tmp_path / name))
        assert result.ready
        assert [step.name for step in result.steps] == ["unit", "release", *STEPS[1:]]
    assert result.serves is not None
    assert (result.serves.host, result.serves.port, result.serves.model) == (None, 8001, None)


def test_a_process_of_another_release_is_not_waited_for(
    systemd: FakeSystemd, server: FakeVllm, tmp_path: pathlib.Path
) -> None:
    systemd.set(DropInPaths="/etc/systemd/system/x.service.d/old.conf")
    proc = main_process(systemd, "/old/bin/python", "/old/bin/vllm", "serve", "--api-key", "geheim")
    result = climb(server.url, proc=proc, environment=str(tmp_path), timeout=60.0)
    assert (result.step, result.ready) == ("unit", False)
    assert result.seconds < 5
    text = reason(result)
    assert f"runs /old/bin/python /old/bin/vllm, and it should run from {tmp_path}." in text
    assert f"unit file is /etc/systemd/system/{UNIT}.service with the drop-ins /etc/systemd/system/x.service.d" in text
    assert f"`systemctl cat {UNIT}.service`" in text
    assert "geheim" not in repr(result)


def test_what_is_not_its_program_yet_is_waited_for(systemd: FakeSystemd, server: FakeVllm) -> None:
    proc = main_process(systemd, "(vllm)")
    assert "step release was not passed in 0.3 seconds" in reason(
        climb(server.url, proc=proc, environment="/opt/x", timeout=0.3)
    )


@pytest.mark.parametrize("up_for", [3600.0, 19.7])
def test_a_patient_look_counts_from_the_start(systemd: FakeSystemd, server: FakeVllm, up_for: float) -> None:
    server.health = 503
    started = str(int((time.monotonic() - up_for) * 1e6))
    systemd.set(ExecMainStartTimestampMonotonic=started, ActiveEnterTimestampMonotonic=started)
    result = climb(server.url, patient=True)
    assert result.step == "tcp"
    assert result.seconds < 5
    assert "was not passed in 20 seconds from the start of the unit, which was" in reason(result)
    assert (server.log.count("GET /health") == 1) is (up_for > 20)
    server.health = 200
    assert climb(server.url, patient=True).ready, "one pass is made in any case"


def test_a_patient_look_waits_for_a_load(systemd: FakeSystemd, server: FakeVllm) -> None:
    server.health = 503
    systemd.set(ExecMainStartTimestampMonotonic=str(int((time.monotonic() - 5) * 1e6)))

    def load() -> None:
        wait_until(lambda: len(server.log) > 3)
        server.health = 200

    threading.Thread(target=load).start()
    assert climb(server.url, patient=True).ready


def test_a_patient_look_at_what_is_down(systemd: FakeSystemd) -> None:
    systemd.set(ActiveState="inactive", SubState="dead", MainPID="0")
    result = climb(closed_port(), patient=True)
    assert "the unit is not running" in reason(result)
    assert result.serves is None
    assert result.seconds < 5


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, True),
        ({"UnitFileState": "enabled-runtime"}, True),
        ({"UnitFileState": "disabled"}, False),
        ({"UnitFileState": "", "LoadState": "not-found"}, None),
    ],
)
def test_whether_it_starts_with_the_host(systemd: FakeSystemd, changes: dict[str, str], wanted: object) -> None:
    systemd.set(**changes)
    assert climb(closed_port(), timeout=0).enabled is wanted
