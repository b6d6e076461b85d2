# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files put back to their wheels inside a switchover: whole or not at all, and undone like everything else."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import exclusive
from ansible_collections.pristine.vllm.plugins.module_utils.record import restore as restoring
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.journal import BACK, DONE, STUCK, UNTOUCHED
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.order import OrderError
from ansible_collections.pristine.vllm.tests.unit.plugins.switchover_support import MEMBERS, Host, dirty, host_in


@pytest.fixture
def host(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    with host_in(tmp_path, monkeypatch) as made:
        yield made


def site(host: Host) -> pathlib.Path:
    return host.root / "releases" / "v-1" / "lib" / "python3.11" / "site-packages"


def assert_pristine(host: Host) -> None:
    found = {str(path.relative_to(site(host))) for path in site(host).rglob("*") if not path.is_dir()}
    assert found == {*MEMBERS, "pkg-1.0.dist-info/RECORD"}
    assert all((site(host) / name).read_bytes() == content for name, content in MEMBERS.items())
    assert not (site(host) / "pkg" / "extra").exists()


def test_all_is_put_back_and_kept(host: Host) -> None:
    order, starts = dirty(host), host.starts()
    journal = host.switch(**order)
    assert (journal.outcome, journal.failure) == (DONE, None)
    assert_pristine(host)
    assert host.starts() == starts + 1
    assert journal.completion == " Paris"
    assert journal.scan is not None, "a restore is verified, asked for or not"
    assert journal.scan["pristine"]
    assert journal.restored is not None
    assert journal.restored["counts"]["restored"] == 2
    kept = host.root / "quarantine" / "20261130T020000Z" / "files" / str(site(host)).lstrip("/") / "pkg"
    assert "debug" in (kept / "core.py").read_text()
    assert (kept / "extra" / "probe.py").exists()
    assert "debug" in (host.path / "in-the-cache").read_text(), "another name of the file is not ours"
    assert (site(host) / "pkg" / "core.py").stat().st_mode & 0o777 == 0o640


def test_what_the_process_does_not_run_is_put_back_while_it_serves(host: Host) -> None:
    order, pid, starts = dirty(host), host.systemd.main_pid(), host.starts()
    journal = host.switch(**order, restart=False)
    assert (journal.outcome, journal.failure) == (DONE, None)
    assert_pristine(host)
    assert (host.systemd.main_pid(), host.starts()) == (pid, starts)
    assert journal.downtime_seconds == 0.0


@pytest.mark.parametrize("restart", [True, False])
def test_dirt_comes_back_during_the_run_and_all_is_as_it_was(host: Host, restart: bool) -> None:
    order = dirty(host)
    before, starts = host.picture(), host.starts()
    other = {**order["restore"], "environment": "/nonexistent"}
    journal = host.switch(**order, restart=restart, verify=other)
    assert (journal.outcome, journal.failed_phase) == (BACK, "verify")
    assert host.picture() == before
    assert host.starts() - starts == (2 if restart else 0)


def test_nothing_starts_any_more_and_the_files_are_put_back_all_the_same(host: Host) -> None:
    order = dirty(host)
    host.systemd.break_command("start")
    before = host.picture()
    journal = host.switch(**order)
    assert (journal.outcome, journal.failed_phase) == (STUCK, "start and prove")
    assert host.picture() == before


def test_the_wheel_is_gone(host: Host) -> None:
    order = dirty(host)
    next((host.path / "wheels").iterdir()).unlink()
    assert_refused(host, order, "pkg/core.py")


def test_it_would_not_end_pristine(host: Host) -> None:
    order = dirty(host)
    order["restore"]["remove_unexpected"] = False
    assert_refused(host, order, "would leave what is not pristine: .*remove_unexpected is false.*playbook reinstall")


def test_another_writes_there(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    order = dirty(host)
    # Not for a minute.
    monkeypatch.setattr(restoring.writing.__wrapped__, "__defaults__", (0.1,))  # type: ignore[attr-defined]
    with exclusive(order["restore"]["environment"]):
        assert_refused(host, order, "is being changed by")


def assert_refused(host: Host, order: dict[str, Any], reason: str) -> None:
    before, pid = host.picture(), host.systemd.main_pid()
    journal = host.switch(**order)
    assert journal.outcome == UNTOUCHED
    assert re.search(reason, str(journal.failure)), journal.failure
    assert host.picture() == before
    assert host.systemd.main_pid() == pid
    assert not any(call.startswith("stop") for call in host.systemd.calls())


@pytest.mark.parametrize("options", [{}, {"environment": "env"}])
def test_an_environment_must_be_named(host: Host, options: dict[str, Any]) -> None:
    with pytest.raises(OrderError, match="is not absolute"):
        host.order(restore=options)


def test_a_unit_that_systemd_has_not_read_is_read(host: Host) -> None:
    properties = host.systemd.directory / "properties"
    properties.write_text(properties.read_text().replace("NeedDaemonReload=no", "NeedDaemonReload=yes"))
    journal = host.switch(release="", files=[], configs=[], wipe=[], restart=False)
    assert journal.outcome == DONE
    assert "daemon-reload" in host.systemd.calls()
