# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.release import Layout, ReleaseError
from ansible_collections.pristine.vllm.plugins.module_utils.switchover import back, changes
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.journal import (
    BACK,
    DONE,
    PHASES,
    STUCK,
    UNTOUCHED,
    Journal,
    load_journal,
)
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.transaction import Transaction
from ansible_collections.pristine.vllm.tests.unit.plugins.switchover_support import Host, adopted, host_in

KEY = "a-key-of-the-old-server"


@pytest.fixture
def host(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    with host_in(tmp_path, monkeypatch) as made:
        yield made


def assert_serves(host: Host) -> None:
    """The unit runs, from what is live."""
    words = pathlib.Path(f"/proc/{host.systemd.main_pid()}/cmdline").read_text().split("\0")
    assert words[1].endswith("serve.py")


def test_done(host: Host) -> None:
    before = host.picture()
    journal = host.switch(drain={"gpu_command": "", "before": [["hook", "out"]], "after": [["hook", "in"]]})
    assert (journal.outcome, journal.failure) == (DONE, None)
    assert os.readlink(host.root / "current") == "releases/v-2"
    assert os.readlink(host.root / "previous") == "releases/v-1"
    assert "the new one" in host.unit.read_text()
    assert b"kv_cache_scheme" not in host.config.read_bytes()
    assert (host.path / "model" / "blobs" / "1f").read_bytes() == before[str(host.path / "model" / "blobs" / "1f")][-1]
    assert not host.cache.exists()
    assert not list(host.path.glob("cache.*")), "what was put aside is gone"
    assert (host.root / "releases" / "v-1" / "unit.service").stat().st_mode & 0o777 == 0o600
    assert host.hooks() == ["out", "in"]
    assert journal.completion == " Paris"
    assert journal.load_seconds is not None
    assert 0 < journal.load_seconds <= journal.downtime_seconds
    assert [phase["name"] for phase in journal.phases] == list(PHASES)
    assert all(phase["finished"] for phase in journal.phases)
    assert load_journal(str(host.directory)) == journal
    assert_serves(host)


def test_without_a_restart(host: Host) -> None:
    pid = host.systemd.main_pid()
    dump = host.path / "debug_tp0.pt"
    dump.write_text("tensor")
    journal = host.switch(
        restart=False, release="", files=[], wipe=[], artifacts={"globs": [str(host.path / "debug_tp*.pt")]}
    )
    assert journal.outcome == DONE
    assert host.systemd.main_pid() == pid
    assert not any(call.startswith(("stop", "start", "enable")) for call in host.systemd.calls()[2:])
    assert not dump.exists()
    assert [entry["path"] for entry in journal.artifacts] == [str(dump)]
    assert b"kv_cache_scheme" not in host.config.read_bytes()
    assert journal.downtime_seconds == 0.0


def test_nothing_served_and_nothing_was_there(host: Host) -> None:
    host.systemctl("stop")
    host.systemctl("disable")
    host.unit.unlink()
    (host.root / "current").unlink()
    journal = host.switch()
    assert (journal.outcome, journal.failure) == (DONE, None)
    assert not (host.root / "previous").is_symlink()
    assert journal.downtime_seconds == 0.0, "what did not serve was not down"
    assert_serves(host)


def test_nothing_was_there_and_it_does_not_start(host: Host) -> None:
    host.systemctl("stop")
    host.systemctl("disable")
    host.unit.unlink()
    (host.root / "current").unlink()
    before = host.picture()
    journal = host.switch(serving={"url": host.server.url, "model": "another", "timeout": 5.0})
    assert journal.outcome == BACK
    assert host.picture() == before
    assert host.systemd.main_pid() == 0


def test_an_adopted_environment_becomes_the_way_back(host: Host) -> None:
    environment = adopted(host)
    before = host.picture()
    failed = host.switch(adopt=str(environment), serving={"url": host.server.url, "model": "another", "timeout": 5.0})
    assert failed.outcome == BACK
    assert host.picture() == before
    os.unlink(host.directory / "journal.json")
    assert host.switch(adopt=str(environment)).outcome == DONE
    assert os.readlink(host.root / "previous") == "releases/adopted-ml-env-1"
    assert os.readlink(environment) == str(host.root / "current")


def test_an_adoption_is_undone_however_its_path_is_written(host: Host) -> None:
    environment = adopted(host)
    before = host.picture()
    wrong = {"url": host.server.url, "model": "another", "timeout": 5.0}
    journal = host.switch(adopt=f"{environment}/", serving=wrong)
    assert journal.outcome == BACK, journal.failure
    assert host.picture() == before
    assert not environment.is_symlink()
    assert_serves(host)


def test_an_adoption_that_cannot_be_undone_keeps_nothing_else_from_it(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = adopted(host)
    before = host.picture()

    def refuses(_layout: Layout, path: str) -> bool:
        raise ReleaseError(f"{path} is not put back")

    monkeypatch.setattr(back, "undo_adoption", refuses)
    wrong = {"url": host.server.url, "model": "another", "timeout": 5.0}
    journal = host.switch(adopt=str(environment), serving=wrong)
    assert journal.outcome == STUCK
    assert f"{environment} is not put back" in str(journal.failure)
    now = host.picture()
    for path in (host.unit, host.config, host.cache / "kernel"):
        assert now[str(path)] == before[str(path)]
    assert not host.secrets.exists()
    assert os.readlink(host.root / "current") == "releases/adopted-ml-env-1"
    assert os.path.samefile(environment, host.root / "releases" / "adopted-ml-env-1")
    assert journal.completion == " Paris"
    assert_serves(host)


@pytest.mark.parametrize("restart", [True, False])
def test_rolled_back(host: Host, restart: bool) -> None:
    before, starts = host.picture(), host.starts()
    journal = host.switch(restart=restart, verify={"environment": "/nonexistent"})
    assert journal.outcome == BACK
    assert journal.failed_phase == "verify"
    assert "/nonexistent" in str(journal.failure)
    assert host.picture() == before
    assert not list(host.path.glob("cache.*"))
    assert host.starts() - starts == (2 if restart else 0)
    assert (journal.downtime_seconds > 0) == restart
    assert (journal.completion == " Paris") == restart
    assert_serves(host)


def test_what_serves_already_is_drained_again_before_it_is_stopped(host: Host) -> None:
    hooks = {"gpu_command": "", "before": [["hook", "out"]], "after": [["hook", "in"]]}
    assert host.switch(drain=hooks, verify={"environment": "/nonexistent"}).outcome == BACK
    assert host.hooks() == ["out", "in", "out", "in"]


def test_not_pristine(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    site = host.root / "releases" / "v-2" / "lib" / "python3.11" / "site-packages"
    (site / "demo-1.0.dist-info").mkdir()
    (site / "demo-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
    (site / "demo-1.0.dist-info" / "RECORD").write_text("demo.py,sha256=AAAA,1\n")
    before = host.picture()
    journal = host.switch(verify={"environment": str(host.root / "current")})
    assert journal.outcome == BACK
    assert "is not what its wheels hold: " in str(journal.failure)
    assert "demo.py" in str(journal.failure)
    assert journal.scan is not None
    assert not journal.scan["pristine"]
    assert host.picture() == before


def test_the_adaptation_is_lost_again_during_the_run(host: Host) -> None:
    host.systemd.program("hook", f"cat {host.path}/model/blobs/1f > {host.config}\n")
    journal = host.switch(drain={"gpu_command": "", "after": [["hook"]]})
    assert journal.outcome == BACK
    assert "lost its adaptation again" in str(journal.failure)


def test_what_served_before_gets_the_adaptation_that_it_needs(host: Host) -> None:
    broken = {"url": host.server.url, "model": "another", "timeout": 5.0}
    journal = host.switch(keep_config=True, serving=broken)
    assert journal.outcome == BACK
    assert b"kv_cache_scheme" not in host.config.read_bytes()
    assert not host.config.is_symlink()


def interrupted(*_arguments: object) -> None:
    raise KeyboardInterrupt


def test_killed_before_the_journal_told_of_the_edit_what_served_before_gets_it_too(host: Host) -> None:
    host.save(keep_config=True)
    journal = Journal(host.order().run_id)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "apply", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Transaction(host.order(keep_config=True), journal, str(host.directory)).run()
    assert host.config.is_symlink()
    assert host.carry_out().outcome == BACK
    assert b"kv_cache_scheme" not in host.config.read_bytes()


REFUSED = {
    "no such release": ({"release": "v-9"}, "v-9 is not there"),
    "no such way back": ({"adopt": "/nonexistent"}, "/nonexistent cannot be adopted"),
    "no place": ({"files": [{"path": "/nonexistent/x", "content": ""}]}, "/nonexistent is no directory"),
    "no source": ({"files": [{"path": "/tmp/x", "source": "/nonexistent"}]}, "/nonexistent cannot be read"),
    "no file": ({"files": [{"path": "/tmp"}]}, "neither a regular file nor a symlink"),
    "no JSON": ({"configs": [{"path": "/etc/passwd", "edits": []}]}, "/etc/passwd cannot be edited"),
    "no scan": ({"verify": {"environment": "/", "workers": 0}}, "workers: 0"),
    "a hook": ({"drain": {"before": [["false"]], "gpu_command": ""}}, "the command before the drain, false, failed"),
}


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_is_refused_before_the_stop(host: Host, refused: tuple[dict[str, object], str]) -> None:
    more, reason = refused
    if more.get("adopt"):
        (host.root / "current").unlink()
    before, pid = host.picture(), host.systemd.main_pid()
    journal = host.switch(**more)
    assert journal.outcome == UNTOUCHED
    assert reason in str(journal.failure)
    assert host.systemd.main_pid() == pid
    assert host.picture() == before


def test_a_masked_unit_is_refused(host: Host) -> None:
    host.unit.unlink()
    host.unit.symlink_to("/dev/null")
    before = host.picture()
    journal = host.switch()
    assert journal.outcome == UNTOUCHED
    assert "is masked" in str(journal.failure)
    assert host.picture() == before


def test_current_is_a_directory(host: Host) -> None:
    (host.root / "current").unlink()
    (host.root / "current").mkdir()
    before = host.picture()
    journal = host.switch()
    assert journal.outcome == UNTOUCHED
    assert "current is not a symlink" in str(journal.failure)
    assert host.picture() == before


def test_current_leads_nowhere(host: Host) -> None:
    (host.root / "current").unlink()
    (host.root / "current").symlink_to("releases/gone")
    assert host.switch().outcome == DONE


def test_a_unit_that_is_a_link(host: Host) -> None:
    elsewhere = host.path / "elsewhere.service"
    host.unit.rename(elsewhere)
    host.unit.symlink_to(elsewhere)
    before = host.picture()
    assert host.switch(verify={"environment": "/nonexistent"}).outcome == BACK
    assert host.picture() == before


def test_a_hook_that_fails_after_another_took_the_host_out(host: Host) -> None:
    drain = {"gpu_command": "", "before": [["hook", "out"], ["false"]], "after": [["hook", "in"]]}
    assert host.switch(drain=drain).outcome == UNTOUCHED
    assert host.hooks() == ["out", "in"]


def test_a_hook_afterwards_is_told_and_no_reason_to_go_back(host: Host) -> None:
    journal = host.switch(drain={"gpu_command": "", "after": [["false"]]})
    assert journal.outcome == DONE
    assert any("the command after the start, false, failed" in caution for caution in journal.cautions)


def test_a_drain_that_never_ends(host: Host) -> None:
    host.server.in_flight = [(3, 1)]
    journal = host.switch(drain={"gpu_command": "", "timeout": 0.3})
    assert journal.outcome == DONE
    assert journal.requests_left == 4
    assert any("4 requests still ran or waited" in caution for caution in journal.cautions)


def test_the_service_cannot_be_stopped(host: Host) -> None:
    host.systemd.break_command("stop")
    before, pid = host.picture(), host.systemd.main_pid()
    journal = host.switch()
    assert journal.outcome == UNTOUCHED
    assert "cannot stop" in str(journal.failure)
    assert host.systemd.main_pid() == pid
    assert host.picture() == before


def test_systemd_does_not_answer_on_the_way_back(host: Host) -> None:
    before = host.picture()
    host.systemd.on_stop("", f"touch {host.systemd.directory}/fail-daemon-reload")
    journal = host.switch()
    assert journal.outcome == BACK
    assert "systemctl daemon-reload failed" in str(journal.failure)
    assert any("systemctl daemon-reload failed" in caution for caution in journal.cautions)
    assert host.picture() == before
    assert_serves(host)


def test_systemd_is_asked_again_where_it_was_busy(host: Host) -> None:
    fail, systemctl = host.systemd.directory / "fail-daemon-reload", host.systemd.bin / "systemctl"
    once = f"case $1 in daemon-reload) [ -e {fail}.was ] || {{ touch {fail}.was; exit 1; }};; esac\n"
    systemctl.write_text(systemctl.read_text().replace("#!/bin/sh\n", "#!/bin/sh\n" + once))
    assert host.switch().outcome == DONE


def test_going_back_fails_too(host: Host) -> None:
    before = host.picture()
    host.systemd.on_stop("", f"touch {host.systemd.directory}/fail-start")
    journal = host.switch()
    assert journal.outcome == STUCK
    assert "Going back failed too: " in str(journal.failure)
    assert host.picture() == before, "all is as it was, and a boot will start it"


def test_it_does_not_stop_on_the_way_back(host: Host) -> None:
    before = host.picture()
    systemctl = host.systemd.bin / "systemctl"
    # The new one hangs in the driver.
    systemctl.write_text(systemctl.read_text().replace("  stop)\n", f"  stop) grep -q new {host.unit} && exit 1\n"))
    journal = host.switch(verify={"environment": "/nonexistent"})
    assert journal.outcome == STUCK
    assert "cannot stop" in str(journal.failure)
    assert host.picture() == {**before, str(host.root / "current"): before[str(host.root / "current")]}


def test_a_unit_that_ran_without_its_file_cannot_be_started_again(host: Host) -> None:
    host.unit.unlink()
    journal = host.switch(verify={"environment": "/nonexistent"})
    assert journal.outcome == STUCK
    assert "nothing can start it again" in str(journal.failure)


@pytest.mark.parametrize("phase", ["switch", "start and prove", "verify"])
def test_the_disk_is_full(host: Host, monkeypatch: pytest.MonkeyPatch, phase: str) -> None:
    before = host.picture()
    real = Journal.save

    def save(journal: Journal, directory: str) -> None:
        if journal.phase == phase:
            raise OSError(28, "No space left on device")
        real(journal, directory)

    monkeypatch.setattr(Journal, "save", save)
    journal = host.switch()
    assert journal.outcome == BACK
    assert "No space left on device" in str(journal.failure)
    assert any("the journal cannot be written" in caution for caution in journal.cautions)
    assert host.picture() == before
    assert_serves(host)


def test_a_directory_came_in_the_way(host: Host) -> None:
    before = host.picture()
    host.systemd.program("hook", f"rm {host.secrets} && mkdir {host.secrets} && touch {host.secrets}/precious\n")
    journal = host.switch(drain={"gpu_command": "", "after": [["hook"]]}, verify={"environment": "/nonexistent"})
    assert journal.outcome == BACK
    displaced = pathlib.Path(f"{host.secrets}.displaced")
    assert (displaced / "precious").exists()
    (displaced / "precious").unlink()
    displaced.rmdir()
    # The hook that runs after the way back meets no file to remove.
    assert host.picture() == before


def test_no_secret_is_on_disk(host: Host) -> None:
    host.server.api_key = KEY
    host.unit.write_text(host.unit_text(host.root / "current", "with a key", f"--api-key={KEY}"))
    host.systemctl("stop")
    host.systemctl("start")
    host.systemd.journal("Traceback (most recent call last):", f"RuntimeError: {KEY} and the-new-key")
    broken = {"url": host.server.url, "model": "another", "timeout": 5.0, "api_key": "the-new-key"}
    hooks = {"gpu_command": "", "after": [["sh", "-c", f"echo {KEY}; exit 1"]]}
    journal = host.switch(serving=broken, drain=hooks)
    assert journal.outcome == BACK, journal.failure
    text = (host.directory / "journal.json").read_text()
    assert KEY not in text
    assert "the-new-key" not in text
    assert (host.directory / "key-before").stat().st_mode & 0o777 == 0o600


def test_killed_when_it_was_back_it_need_not_load_the_model_once_more(host: Host) -> None:
    journal = host.switch(verify={"environment": "/nonexistent"}, drain={"gpu_command": "", "after": [["hook", "in"]]})
    journal.outcome = None
    journal.save(str(host.directory))
    starts, pid, downtime = host.starts(), host.systemd.main_pid(), journal.downtime_seconds
    journal = host.carry_out()
    assert (journal.outcome, journal.failed_phase) == (BACK, "verify")
    assert (host.starts(), host.systemd.main_pid()) == (starts, pid)
    assert journal.downtime_seconds == downtime
