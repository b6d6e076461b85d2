# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make drift` shows while it scans."""

from __future__ import annotations

import io
import pathlib
import sys

import pytest
from ansible_collections.pristine.vllm.dev import drift
from ansible_collections.pristine.vllm.tests.unit.plugins.record_support import Env


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_on_a_terminal_that_goes_away_again() -> None:
    terminal = Terminal()
    progress = drift.Progress(terminal)
    progress.clear()
    progress(0, 0)
    assert terminal.getvalue() == ""
    progress(1000000, 4000000)
    progress(2000000, 4000000)
    progress.clear()
    assert terminal.getvalue() == "\r\033[K 25 % of 4 MB read\r\033[K"


def test_nothing_on_anything_else() -> None:
    stream = io.StringIO()
    progress = drift.Progress(stream)
    progress(1, 2)
    progress.clear()
    assert stream.getvalue() == ""


def test_a_scan_says_how_far_it_is(tmp_path: pathlib.Path) -> None:
    env = Env.bare(tmp_path / "env")
    env.install("pkg", {f"pkg/{number}.bin": b"x" * 400000 for number in range(5)} | {"pkg/__init__.py": b"x"})
    seen: list[tuple[int, int]] = []
    result = env.scan(workers=2, progress=lambda done, whole: seen.append((done, whole)))
    assert result.pristine
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1] >= 2000001


def test_the_cache_is_told_of(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    env = Env.bare(tmp_path / "env")
    env.install("pkg", {"pkg/__init__.py": b"x"})
    monkeypatch.setattr(
        "ansible_collections.pristine.vllm.plugins.module_utils.record.hashing.now_ns", lambda: sys.maxsize
    )
    monkeypatch.setattr(sys, "argv", ["drift.py", str(env.root), "--cache", str(tmp_path / "cache")])
    assert [drift.main(), drift.main()] == [0, 0]
    assert "2 files not read, because the cache knows them" in capsys.readouterr().out
