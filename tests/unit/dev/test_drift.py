# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make drift` shows while it scans."""

from __future__ import annotations

import io
import os
import pathlib
import sys

import pytest
from ansible_collections.pristine.vllm.dev import drift
from ansible_collections.pristine.vllm.tests.unit.plugins.record_support import Env, as_nobody


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


@pytest.fixture
def dirty(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Env:
    """Two distributions with dirt, on a terminal of 24 lines."""
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setenv("COLUMNS", "100")
    env = Env.bare(tmp_path / "env")
    env.install("one", {f"one/{number}.py": b"x = 1\n" for number in range(40)})
    env.install("two", {"two/__init__.py": b"", "two/secret.py": b"x = 1\n"})
    for number in range(40):
        (env.site / f"one/{number}.py").write_text("x = 2\n")
    (env.site / "two/__init__.py").write_text("print()\n")
    monkeypatch.setattr(sys, "argv", ["drift.py", str(env.root)])
    return env


def test_a_report_for_ten_seconds(dirty: Env, capsys: pytest.CaptureFixture[str]) -> None:
    assert drift.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{dirty.root} is NOT pristine: 41 modified"
    assert "anyone could have edited" in lines[2]
    assert "one: 40 modified" in lines
    assert lines[lines.index("two: 1 modified") + 1].startswith("  modified      two/__init__.py")
    assert any(line.startswith("  ... and ") and line.endswith("more: --all shows them") for line in lines)
    assert [line.partition(":")[0] for line in lines[-3:]] == ["next"] * 3
    assert len(lines) <= 24
    assert max(map(len, lines[3:-3])) <= 100


def test_all_of_it_where_all_is_wanted(
    dirty: Env, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--all"])
    assert drift.main() == 1
    out = capsys.readouterr().out
    assert sum(line.startswith("  modified") for line in out.splitlines()) == 41
    assert "more" not in out


def test_a_user_who_may_not_read_all_of_it(dirty: Env, capfd: pytest.CaptureFixture[str]) -> None:
    secret = dirty.site / "two/secret.py"
    secret.chmod(0o000)
    for folder in dirty.root.parents:
        if folder.stat().st_uid == os.geteuid() and folder != pathlib.Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    assert as_nobody(drift.main) == 1
    out, err = capfd.readouterr()
    assert "two: 1 modified, 1 unreadable" in out
    assert "next: read what this user may not" in out
    assert "Traceback" not in out + err
    (dirty.root / "lib").chmod(0o700)
    assert as_nobody(drift.main) == 2
    out, err = capfd.readouterr()
    assert "cannot be read" in err
    assert "Traceback" not in out + err
