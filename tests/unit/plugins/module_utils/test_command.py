# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
import time

from ansible_collections.pristine.vllm.plugins.module_utils.command import run


def test_output_and_status() -> None:
    done = run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (done.rc, done.stdout, done.stderr, done.problem) == (3, "out\n", "err\n", None)
    assert done.failure == "sh ended with status 3: err"


def test_success_is_no_failure() -> None:
    assert run(["true"]).failure is None


def test_times_are_utc_and_the_locale_is_plain() -> None:
    assert run(["sh", "-c", "echo $TZ $LC_ALL"]).stdout == "UTC C.UTF-8\n"


def test_a_program_that_is_not_there() -> None:
    done = run(["/nonexistent/nvidia-smi"])
    assert done.rc is None
    assert done.failure == "cannot run /nonexistent/nvidia-smi: No such file or directory"


def test_a_hanging_program_and_its_children_end(tmp_path: pathlib.Path) -> None:
    """The child would hold the pipe open for a minute."""
    begun = time.monotonic()
    done = run(["sh", "-c", f"sleep 60 & echo $! > {tmp_path}/pid; sleep 60"], timeout=0.5)
    assert time.monotonic() - begun < 5
    assert done.failure is not None
    assert "did not end within 0.5 seconds" in done.failure
    child = (tmp_path / "pid").read_text().strip()
    until = time.monotonic() + 5
    stat = pathlib.Path("/proc", child, "stat")
    while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < until
        time.sleep(0.02)


def test_output_that_is_no_utf8() -> None:
    assert run(["printf", "\\377x"]).stdout == "\N{REPLACEMENT CHARACTER}x"
