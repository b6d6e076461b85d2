# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A switchover that dies before each of its changes: the next process makes the host what it was, to the byte."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.journal import (
    BACK,
    DONE,
    UNTOUCHED,
    load_journal,
)
from ansible_collections.pristine.vllm.tests.unit.plugins.switchover_support import (
    Host,
    adopted,
    dies_at,
    dirty,
    host_in,
)

# More than there are; the last ones find that it came to its end.
MOST = 100
# Where the new one does not serve, less than these lead to that.
FORWARD = 32


@pytest.fixture
def host(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    with host_in(tmp_path, monkeypatch) as made:
        yield made


def forget(host: Host) -> None:
    """The next attempt is one of its own."""
    for path in host.directory.iterdir():
        path.unlink()


def test_killed_before_it_begins(host: Host) -> None:
    host.save()
    assert dies_at(0, host.carry_out)
    assert host.carry_out().outcome == DONE


@pytest.mark.parametrize("kind", ["a release", "an adoption", "a restore"])
def test_killed_before_each_change(host: Host, kind: str) -> None:
    more: dict[str, Any] = {"adopt": str(adopted(host))} if kind == "an adoption" else {}
    if kind == "a restore":
        more = dirty(host)
    before = host.picture()
    outcomes = []
    for number in range(1, MOST):
        host.save(**more)
        pid, starts = host.systemd.main_pid(), host.starts()
        if not dies_at(number, host.carry_out):
            break
        journal = host.carry_out()
        if journal.outcome == DONE:
            break  # It died while it tidied up.
        outcomes.append(journal.outcome)
        assert "interrupted in phase" in str(journal.failure)
        assert host.picture() == before, f"killed before change {number}"
        assert not list(host.path.glob("cache.*"))
        if journal.outcome == BACK:
            assert journal.completion == " Paris"
            assert host.starts() > starts
            assert journal.downtime_seconds > 0
        else:
            assert journal.outcome == UNTOUCHED, journal.failure
            assert host.systemd.main_pid() == pid
        forget(host)
    assert outcomes.index(BACK) > 5
    assert UNTOUCHED not in outcomes[outcomes.index(BACK) + 2 :], "once it is stopped it is put back"
    assert outcomes.count(BACK) > 15


@pytest.mark.parametrize("kind", ["a release", "a restore"])
def test_killed_before_each_change_of_the_way_back(host: Host, kind: str) -> None:
    serving = {"url": host.server.url, "model": "another", "timeout": 5.0}
    more: dict[str, Any] = {"serving": serving}
    reason = "not another"
    if kind == "a restore":
        # It serves again, is proven, and is then found to be something else.
        more, reason = {**dirty(host), "verify": {"environment": "/nonexistent"}}, "/nonexistent"
    before = host.picture()
    going_back = 0
    for number in range(FORWARD, MOST):
        host.save(**more)
        died = dies_at(number, host.carry_out)
        left = load_journal(str(host.directory))
        assert left is not None
        journal = host.carry_out()
        assert journal.outcome == BACK, f"killed before change {number}: {journal.failure}"
        assert journal.completion == " Paris"
        assert host.picture() == before, f"killed before change {number}"
        forget(host)
        if not died:
            break
        if left.failure is not None:
            assert reason in str(journal.failure), "the first reason stays"
            going_back += 1
    assert going_back >= 10
