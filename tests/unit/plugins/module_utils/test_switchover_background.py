# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The service round a switchover: how it is begun, ended, found again; and the program that it runs."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.command import Completed, run
from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import BusyError, exclusive
from ansible_collections.pristine.vllm.plugins.module_utils.switchover import background
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.background import (
    KEPT,
    begin,
    carry_out,
    main,
    settle,
    unfinished,
)
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.journal import (
    BACK,
    DONE,
    UNTOUCHED,
    Journal,
    load_journal,
)
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.order import OrderError
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.service import ServiceError
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import COLLECTIONS
from ansible_collections.pristine.vllm.tests.unit.plugins.switchover_support import RUN, UNIT, Host, dies_at, host_in

SERVICE = f"{UNIT}-switchover.service"
PACKAGE = "ansible_collections.pristine.vllm.plugins.module_utils"
# As AnsiballZ does: all of the module is in an archive, with an __init__.py in each folder.
SAVE = f"""
import sys
sys.path.insert(0, sys.argv[1])
from {PACKAGE}.switchover import background
from {PACKAGE}.switchover.bundle import TRIAL, save_code
assert background.__file__.startswith(sys.argv[1]), background.__file__
print(*save_code(sys.argv[2], sys.executable), TRIAL, sep="\\n")
"""


@pytest.fixture
def host(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    with host_in(tmp_path, monkeypatch) as made:
        made.directory.rmdir()
        yield made


def unit(host: Host) -> pathlib.Path:
    return host.systemd.units / SERVICE


def left(host: Host) -> list[str]:
    return sorted(path.name for path in host.directory.iterdir())


def archive(path: pathlib.Path) -> pathlib.Path:
    with zipfile.ZipFile(path, "w") as written:
        folders = set()
        for file in (COLLECTIONS / PACKAGE.replace(".", "/")).rglob("*.py"):
            name = file.relative_to(COLLECTIONS)
            written.write(file, str(name))
            folders |= set(name.parents)
        for folder in folders - {pathlib.Path(".")}:
            if not (COLLECTIONS / folder / "__init__.py").exists():
                written.writestr(str(folder / "__init__.py"), "")
    return path


@pytest.mark.parametrize("source", ["files", "archive"])
def test_the_program_runs_by_itself(tmp_path: pathlib.Path, source: str) -> None:
    path = COLLECTIONS if source == "files" else archive(tmp_path / "ansiballz.zip")
    directory = tmp_path / "a folder's name"
    directory.mkdir()
    saved = subprocess.run(
        [sys.executable, "-c", SAVE, str(path), str(directory)], check=True, capture_output=True, text=True, cwd="/"
    )
    words = saved.stdout.splitlines()
    assert words[1:4] == ["-I", "-S", "-B"]
    if source == "archive":
        path.unlink()
    ran = subprocess.run(words, check=False, capture_output=True, text=True, cwd="/", env={})
    assert (ran.returncode, ran.stderr) == (0, "")
    # Without its order there is nothing to do, and that is found out by all of its code.
    ran = subprocess.run([*words[:-1], str(directory)], check=False, capture_output=True, text=True, cwd="/", env={})
    assert (ran.returncode, ran.stderr) == (0, "")
    (directory / "order.json").write_text("{")
    ran = subprocess.run([*words[:-1], str(directory)], check=False, capture_output=True, text=True, cwd="/", env={})
    assert ran.returncode == 2
    assert "order.json is damaged" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not list((directory / "code").rglob("__pycache__"))


def test_a_program_that_lacks_a_module_is_not_begun_with(host: Host) -> None:
    before = host.picture()
    with pytest.raises(ServiceError, match=r"own program does not run: .* Nothing was stopped\."):
        begin(host.order(), python="/bin/false")
    assert host.picture() == before
    assert left(host) == ["journal.json"]
    journal = load_journal(str(host.directory))
    assert journal is not None
    assert journal.outcome == UNTOUCHED
    assert unfinished(str(host.root)) is None


def test_begun_and_carried_out(host: Host, capfd: pytest.CaptureFixture[str]) -> None:
    directory = begin(host.order())
    assert directory == str(host.directory)
    text = unit(host).read_text()
    assert (
        f"ExecStart={os.path.realpath(sys.executable)} -I -S -B {directory}/code/main.py {directory}/code {directory}\n"
        in text
    )
    assert f"RequiresMountsFor={host.root} " in text
    assert [call for call in host.systemd.calls()[2:] if not call.startswith("show")] == [
        f"enable -- {SERVICE}",
        "daemon-reload",
        f"reset-failed -- {SERVICE}",
        f"start -- {SERVICE}",
    ]
    assert unfinished(str(host.root)) == directory
    assert main(directory) == 0
    assert capfd.readouterr().out == "done\n"
    assert not unit(host).exists()
    assert left(host) == ["journal.json"]
    assert unfinished(str(host.root)) is None
    assert main(directory) == 0, "started again it has nothing to do"
    assert settle(str(host.root)) is None


def test_systemd_cannot_start_it(host: Host) -> None:
    host.systemd.break_command("start")
    before = host.picture()
    with pytest.raises(ServiceError, match=r"systemctl start .* failed"):
        begin(host.order())
    assert host.picture() == before
    assert left(host) == ["journal.json"]


def test_systemd_has_nothing_to_forget(host: Host) -> None:
    host.systemd.break_command("reset-failed")
    begin(host.order())


def test_it_was_started_though_systemctl_did_not_say_so(host: Host) -> None:
    begun = Journal(RUN)
    begun.begin("drain and stop")

    def hangs(argv: Sequence[str], timeout: float = 30.0) -> Completed:
        done = run(argv, timeout)
        if argv[1] != "start":
            return done
        begun.save(str(host.directory))
        return Completed(tuple(argv), None, "", "", "systemctl did not end within 30 seconds")

    begin(host.order(), run_command=hangs)
    assert unit(host).exists()
    assert unfinished(str(host.root)) == str(host.directory)


def test_it_runs_though_systemctl_did_not_say_so(host: Host) -> None:
    with exclusive(str(host.root / "switchover")):
        assert background._runs_all_the_same(host.order(), str(host.directory), "why", run)


def test_a_run_id_is_used_once(host: Host) -> None:
    begin(host.order())
    main(str(host.directory))
    with pytest.raises(ServiceError, match=f"run id {RUN} was used before"):
        begin(host.order())


def test_two_at_once(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(host.order())
    text = unit(host).read_text()
    with pytest.raises(ServiceError, match=f"{RUN} is of a switchover that has not ended"):
        begin(host.order(run_id="20261130T030000Z"))
    assert unit(host).read_text() == text
    real = exclusive
    monkeypatch.setattr(background, "exclusive", lambda path, wait: real(path, wait / 100))
    with real(str(host.root / "switchover")), pytest.raises(BusyError):
        begin(host.order(run_id="20261130T030000Z"))


def test_the_disk_is_full_before_it_begins(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Journal, "save", full)
    with pytest.raises(OSError, match="No space left"):
        begin(host.order())
    assert left(host) == []
    assert unfinished(str(host.root)) is None
    assert not unit(host).exists()


def test_what_was_never_begun_is_given_up(host: Host) -> None:
    before = host.picture()
    begin(host.order())
    journal = settle(str(host.root))
    assert journal is not None
    assert (journal.outcome, journal.failure) == (UNTOUCHED, "the switchover was handed over and never begun")
    assert host.picture() == before
    assert left(host) == ["journal.json"]


def test_a_later_boot_does_not_begin_it(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(host.order())
    monkeypatch.setattr(background, "boot_id", lambda: "another")
    assert main(str(host.directory)) == 0
    journal = load_journal(str(host.directory))
    assert journal is not None
    assert journal.outcome == UNTOUCHED


@pytest.mark.parametrize("way", ["restarted", "settled"])
def test_killed_and_put_back(host: Host, way: str) -> None:
    before = host.picture()
    begin(host.order())
    directory = str(host.directory)
    assert dies_at(25, lambda: main(directory))
    journal = carry_out(directory) if way == "restarted" else settle(str(host.root))
    assert journal is not None
    assert journal.outcome == BACK
    assert host.picture() == before
    assert left(host) == ["journal.json"]


def test_killed_at_its_end(host: Host) -> None:
    begin(host.order())
    directory = str(host.directory)
    journal = Journal(RUN, outcome=DONE)
    journal.save(directory)
    for number in range(40):
        if not dies_at(number, lambda: main(directory)):
            break
        if not os.path.lexists(host.directory / "order.json"):
            break
    assert settle(str(host.root)) is None
    assert left(host) == ["journal.json"]
    assert load_journal(directory) == journal


def test_what_is_damaged_says_what_to_do(host: Host, capfd: pytest.CaptureFixture[str]) -> None:
    begin(host.order())
    order = (host.directory / "order.json").read_text()
    (host.directory / "order.json").write_text(order[:100])
    assert main(str(host.directory)) == 2
    with pytest.raises(OrderError, match="is damaged"):
        settle(str(host.root))
    (host.directory / "order.json").write_text(order)
    (host.directory / "journal.json").write_text("")
    assert main(str(host.directory)) == 2
    assert "Traceback" not in capfd.readouterr().err
    with pytest.raises(ValueError, match=r"journal\.json is damaged"):
        settle(str(host.root))
    assert unfinished(str(host.root)) == str(host.directory), "it is still to be looked at"


def test_there_is_no_folder_or_a_stray_file(tmp_path: pathlib.Path) -> None:
    assert unfinished(str(tmp_path / "nowhere")) is None
    (tmp_path / "switchover").mkdir()
    (tmp_path / "switchover" / "note").touch()
    assert unfinished(str(tmp_path)) is None
    assert settle(str(tmp_path)) is None


def test_the_last_journals_stay(host: Host) -> None:
    for number in range(KEPT + 3):
        (host.root / "switchover" / f"20260101T0000{number:02}Z").mkdir(parents=True)
    begin(host.order())
    main(str(host.directory))
    names = sorted(path.name for path in (host.root / "switchover").iterdir())
    assert len(names) == KEPT
    assert names[-1] == RUN
    assert names[0] == "20260101T000004Z"
