# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import pathlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.switchover import wait
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.journal import (
    BACK,
    DONE,
    PHASES,
    UNTOUCHED,
    Journal,
)
from ansible_collections.pristine.vllm.plugins.modules import switchover
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import Ran, run_module
from ansible_collections.pristine.vllm.tests.unit.plugins.switchover_support import RUN, UNIT, Host, host_in

DEAD = "ActiveState=failed\nResult=exit-code\n"
LIVES = "ActiveState=active\nMainPID=1\n"


@pytest.fixture
def host(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    monkeypatch.setattr(wait, "_LOOK", 0.05)
    monkeypatch.setattr(wait, "_POLL", 0.01)
    with host_in(tmp_path, monkeypatch) as made:
        made.directory.rmdir()
        yield made


def call(capfd: pytest.CaptureFixture[str], host: Host, check: bool = False, **more: Any) -> Ran:
    return run_module(capfd, switchover.main, check, root=str(host.root), **more)


def options(host: Host) -> dict[str, Any]:
    return {
        "state": "started",
        "run_id": RUN,
        "unit": UNIT,
        "quarantine": str(host.root / "quarantine"),
        "serving": {"url": host.server.url, "model": "kimi-k2.5", "api_key": "s3cret-key"},
        "release": "v-2",
        "files": [{"path": str(host.secrets), "content": "VLLM_API_KEY=s3cret-key\n", "mode": "0600"}, {"path": "/x"}],
        "configs": [{"path": str(host.config), "edits": [{"path": ["a"], "state": "absent"}]}],
    }


def awaited(capfd: pytest.CaptureFixture[str], host: Host, **more: Any) -> Ran:
    return call(capfd, host, **{"state": "awaited", "run_id": RUN, "unit": UNIT, "timeout": 20, **more})


def running(host: Host, state: str = LIVES) -> Journal:
    """One that runs, as far as its order, its journal and systemd tell."""
    host.directory.mkdir()
    host.save()
    (host.systemd.directory / "switchover").write_text(state)
    journal = Journal(RUN)
    journal.save(str(host.directory))
    return journal


def end(host: Host, journal: Journal, outcome: str, failure: str = "") -> None:
    journal.end()
    journal.outcome, journal.failure = outcome, failure or None
    journal.save(str(host.directory))
    (host.directory / "order.json").unlink()


@pytest.mark.parametrize(
    ("params", "missing"),
    [
        ({"state": "started"}, "run_id, unit, quarantine, serving"),
        ({"state": "awaited"}, "run_id, unit"),
        ({}, "state"),
    ],
)
def test_required(capfd: pytest.CaptureFixture[str], host: Host, params: dict[str, Any], missing: str) -> None:
    ran = call(capfd, host, **params)
    assert ran.failed
    assert missing in ran["msg"]


def test_check_then_real(capfd: pytest.CaptureFixture[str], host: Host) -> None:
    before = host.picture()
    would = call(capfd, host, check=True, **options(host))
    assert host.picture() == before
    assert not host.directory.exists()
    did = call(capfd, host, **options(host))
    assert (would["changed"], would["journal"]) == (did["changed"], did["journal"]) == (True, None)
    assert "s3cret-key" not in json.dumps({**would, **did})
    saved = json.loads((host.directory / "order.json").read_text())
    assert saved["files"][0]["mode"] == 0o600
    assert saved["files"][1] == {"path": "/x", "content": None, "source": None, "mode": 0o644}
    assert saved["drain"]["timeout"] == 300.0
    again = call(capfd, host, **options(host))
    assert again.failed
    assert "has not ended" in again["msg"]
    would = call(capfd, host, check=True, state="settled")
    did = call(capfd, host, state="settled")
    assert would["changed"] is did["changed"] is True
    assert did["journal"]["outcome"] == UNTOUCHED
    none = call(capfd, host, state="settled")
    assert (none["changed"], none["journal"]) == (False, None)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"files": [{"path": "/x", "mode": "rw"}]}, "a mode is no octal number"),
        ({"files": [{"path": "/x", "content": "and", "source": "/y"}]}, "content|source found in files"),
        ({"run_id": "../x"}, "is no name of a folder"),
        ({"drain": {"before": [[]]}}, "is no list of words"),
    ],
)
def test_options_that_mean_nothing(
    capfd: pytest.CaptureFixture[str], host: Host, more: dict[str, Any], reason: str
) -> None:
    for check in (True, False):
        ran = call(capfd, host, check, **{**options(host), **more})
        assert ran.failed
        assert reason in ran["msg"]


def test_the_folder_cannot_be_made(capfd: pytest.CaptureFixture[str], host: Host) -> None:
    (host.root / "switchover").rmdir()
    (host.root / "switchover").touch()
    ran = call(capfd, host, **options(host))
    assert ran.failed
    assert f"{host.root}/switchover cannot be read or written" in ran["msg"]
    assert "Nothing was stopped" in ran["msg"]


def test_a_damaged_order_is_told(capfd: pytest.CaptureFixture[str], host: Host) -> None:
    running(host)
    (host.directory / "order.json").write_text("")
    ran = call(capfd, host, state="settled")
    assert ran.failed
    assert "order.json is damaged" in ran["msg"]
    assert "exception" not in ran


def test_reached(capfd: pytest.CaptureFixture[str], host: Host) -> None:
    journal = running(host)
    for name in PHASES:
        journal.begin(name)
    journal.save(str(host.directory))
    ran = awaited(capfd, host, until="start and prove")
    assert not ran.failed
    assert not ran["changed"]
    assert [phase["name"] for phase in ran["journal"]["phases"]] == list(PHASES)
    assert not {"saved", "touched", "hooked", "boot"} & set(ran["journal"])
    assert awaited(capfd, host, check=True)["journal"] is None


def test_it_waits_for_the_end(capfd: pytest.CaptureFixture[str], host: Host) -> None:
    journal = running(host)
    journal.begin("verify")
    journal.save(str(host.directory))
    timer = threading.Timer(0.3, end, (host, journal, DONE))
    timer.start()
    ran = awaited(capfd, host, until="verify")
    timer.join()
    assert ran["journal"]["outcome"] == DONE


def test_what_has_ended_is_waited_for_until_it_lets_go(
    capfd: pytest.CaptureFixture[str], host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = running(host)
    journal.begin("verify")
    journal.end()
    journal.outcome = DONE
    journal.save(str(host.directory))
    monkeypatch.setattr("time.sleep", lambda _seconds: end(host, journal, DONE))
    assert awaited(capfd, host, until="verify")["journal"]["outcome"] == DONE
    assert not (host.directory / "order.json").exists()


@pytest.mark.parametrize("until", ["switch", "end"])
def test_it_went_back(capfd: pytest.CaptureFixture[str], host: Host, until: str) -> None:
    journal = running(host)
    journal.begin("drain and stop")
    journal.begin("switch")
    end(host, journal, BACK, "the reason")
    ran = awaited(capfd, host, until=until)
    assert ran.failed == (until != "end")
    assert ran["journal"]["outcome"] == BACK
    assert ran.get("msg", "the reason") == "the reason"


def test_a_phase_that_failed_was_not_passed(capfd: pytest.CaptureFixture[str], host: Host) -> None:
    journal = running(host)
    journal.begin("switch")
    journal.end()
    journal.failure = "going back now"
    journal.save(str(host.directory))
    ran = awaited(capfd, host, until="switch", timeout=0.2)
    assert ran.failed
    assert "has not passed 'switch' within 0 s. It goes on by itself" in ran["msg"]


def test_it_is_dead(capfd: pytest.CaptureFixture[str], host: Host) -> None:
    running(host, DEAD)
    ran = awaited(capfd, host, until="switch")
    assert ran.failed
    assert "has died and systemd does not start it again" in ran["msg"]
    assert f"journalctl -u {UNIT}-switchover.service" in ran["msg"]


def test_it_died_when_all_was_done(capfd: pytest.CaptureFixture[str], host: Host) -> None:
    journal = running(host, DEAD)
    journal.outcome = DONE
    journal.save(str(host.directory))
    assert awaited(capfd, host)["journal"]["outcome"] == DONE


def test_systemd_is_too_busy_to_tell(capfd: pytest.CaptureFixture[str], host: Host) -> None:
    running(host, DEAD)
    host.systemd.break_command("show")
    ran = awaited(capfd, host, timeout=1)
    assert "has not passed 'end' within 1 s" in ran["msg"]


def test_it_was_never_handed_over(capfd: pytest.CaptureFixture[str], host: Host) -> None:
    ran = awaited(capfd, host)
    assert ran["journal"]["outcome"] == UNTOUCHED
    ran = awaited(capfd, host, until="switch")
    assert ran.failed
    assert "never handed over" in ran["msg"]


def test_its_end_could_not_be_written(capfd: pytest.CaptureFixture[str], host: Host) -> None:
    running(host)
    (host.directory / "order.json").unlink()
    ran = awaited(capfd, host)
    assert ran.failed
    assert "its journal does not tell how" in ran["msg"]
