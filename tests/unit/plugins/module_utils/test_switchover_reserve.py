# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import errno
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils import files, quarantine
from ansible_collections.pristine.vllm.plugins.module_utils.switchover import journal, reserve
from ansible_collections.pristine.vllm.tests.unit.plugins.switchover_support import Host, host_in


@pytest.fixture
def host(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    with host_in(tmp_path, monkeypatch) as made:
        yield made


def test_it_takes_real_room_and_gives_it(tmp_path: pathlib.Path) -> None:
    reserve.take(str(tmp_path))
    info = os.stat(tmp_path / reserve.RESERVE)
    assert info.st_blocks * 512 >= info.st_size >= 1024 * 1024
    reserve.give(str(tmp_path))
    reserve.give(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_on_a_disk_that_fills_up_it_goes_back_with_what_was_reserved(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = host.picture()
    host.save(keep_config=False)
    reserve.take(str(host.directory))
    write, copy = files.atomic_write, quarantine._copy

    def full() -> bool:
        """From the switch on, and until somebody gives what is reserved."""
        told = journal.load_journal(str(host.directory))
        begun = told is not None and told.past("drain and stop")
        return begun and (host.directory / reserve.RESERVE).exists()

    def refuse(path: str) -> None:
        if full():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def writing(path: str, *values: Any, **named: Any) -> None:
        refuse(path)
        write(path, *values, **named)

    def copying(path: str, directory: str) -> tuple[str, str, int]:
        refuse(path)
        return copy(path, directory)

    monkeypatch.setattr(journal, "atomic_write", writing)
    monkeypatch.setattr(quarantine, "_copy", copying)
    ended = host.carry_out()
    assert (ended.outcome, ended.failed_phase) == (journal.BACK, "switch")
    assert "No space left" in str(ended.failure)
    assert host.picture() == before
    assert journal.load_journal(str(host.directory)) == ended
