# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fault matrix: its rows, and how it tells yes from no. The faults themselves are not run here."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pristine.vllm.tests.faults import run, verdict
from ansible_collections.pristine.vllm.tests.faults.on_host import bad_index, look
from ansible_collections.pristine.vllm.tests.faults.rows import CHAIN, NEW, OLD, PHASES, ROWS, Row, chosen
from ansible_collections.pristine.vllm.tests.faults.verdict import Outcome

ROW = Row("kill-3", 3, "kill", "the play killed")
SERVING = {"live": "/r/1", "runs_from": "/r/1", "main_pid": "7", "files": {}, "kept": []}


def test_every_phase_and_every_fault_has_its_row() -> None:
    for phase in range(1, 9):
        kinds = {row.kind for row in ROWS if row.phase == phase}
        assert {"kill", "cut"} <= kinds
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert {row.phase for row in ROWS if row.kind == "reboot"} >= set(range(3, 8))
    pins = {row.pin for row in ROWS if row.name.startswith("service-")}
    assert pins == {"broken", "hangs", "mute", "dies", "fades", "orphans"}


def test_the_chain_has_one_fault_for_each_phase() -> None:
    rows = [next(row for row in ROWS if row.name == name) for name in CHAIN]
    assert [row.phase for row in rows] == list(range(1, len(PHASES) + 1))
    assert len({row.kind for row in rows}) == len(rows)


def test_rows_are_named_by_their_beginning() -> None:
    assert [row.name for row in chosen("cut-5, uv")] == ["cut-5", "uv-3"]
    assert chosen("") == list(ROWS)
    with pytest.raises(ValueError, match="no row is called 'nope'"):
        chosen("nope")


@pytest.mark.parametrize(
    ("after", "lost"),
    [
        ({"files": {"/a": "1", "/tmp/b": "2"}, "kept": []}, []),
        ({"files": {"/a": "1"}, "kept": ["2"]}, []),
        ({"files": {"/a": "9", "/tmp/b": "2"}, "kept": []}, ["/a"]),
        ({"files": {}, "kept": []}, ["/a", "/tmp/b"]),
    ],
)
def test_what_is_neither_in_its_place_nor_kept_is_lost(after: dict[str, Any], lost: list[str]) -> None:
    before = {"files": {"/a": "1", "/tmp/b": "2"}}
    assert verdict.lost(before, after) == lost
    assert verdict.lost(before, after, ["/tmp"]) == [path for path in lost if path != "/tmp/b"]


def test_a_release_that_was_pruned_is_not_lost() -> None:
    files = {f"/opt/vllm/releases/{name}/a": name for name in ("v-1", "v-2", "v-3")}
    before = {"files": files, "live": "/opt/vllm/releases/v-2"}
    after = {"files": {}, "kept": [], "live": "/opt/vllm/releases/v-4", "previous": "/opt/vllm/releases/v-3"}
    assert verdict.lost(before, after) == ["/opt/vllm/releases/v-2/a", "/opt/vllm/releases/v-3/a"]
    after["files"] = {"/opt/vllm/releases/v-1/b": "half of it is there"}
    assert "/opt/vllm/releases/v-1/a" in verdict.lost(before, after)


def test_which_release_is_live_is_what_runs() -> None:
    assert verdict.release(SERVING, SERVING) == OLD
    assert verdict.release(SERVING, {**SERVING, "live": "/r/2", "runs_from": "/r/2"}) == NEW
    assert "/r/1 runs" in verdict.release(SERVING, {**SERVING, "live": "/r/2"})


def test_a_restart_before_phase_4_is_told() -> None:
    assert verdict.undisturbed(ROW, SERVING, SERVING) is None
    assert "restarted the service" in str(verdict.undisturbed(ROW, SERVING, {**SERVING, "main_pid": "8"}))
    later = Row("kill-6", 6, "kill", "")
    assert verdict.undisturbed(later, SERVING, {**SERVING, "main_pid": "8"}) is None


def test_the_table_says_no_where_it_is_so() -> None:
    good = Outcome(ROW, serves=0.2, release=OLD, next_run=True, seconds=61.0)
    bad = Outcome(ROW, lost=["/a"], next_run=False, problems=["does not serve", "lost: /a"])
    text = verdict.table([good, bad])
    assert "| 3 stage | the play killed | yes | the one before | nothing | finishes | 61 |" in text
    assert "| 3 stage | the play killed | **no** | ? | **1 files** | **no** | 0 |" in text
    assert "2 rows, 1 of them say no." in text
    assert "- lost: /a" in text


def test_a_row_that_says_no_ends_with_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = [Outcome(ROW, serves=1.0, release=OLD, next_run=True)]
    monkeypatch.setattr(run.Matrix, "run", lambda *_given: outcomes)
    assert run.main(["--only", "kill-3"]) == 0
    outcomes[0].problems.append("no")
    assert run.main(["--only", "kill-3"]) == 1
    outcomes.clear()
    assert run.main(["--only", "kill-3"]) == 1, "no row ran"
    assert run.main(["--only", "nope"]) == 2
    assert "no row is called" in capsys.readouterr().err


def test_digests_are_of_files_and_links(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").write_text("x")
    (tmp_path / "link").symlink_to("folder")
    found = look.digests([str(tmp_path)])
    assert set(found) == {f"{tmp_path}/folder/file", f"{tmp_path}/link"}
    assert found[f"{tmp_path}/link"].startswith("link:")


def test_the_trap_kills_the_process_of_that_name(tmp_path: Path) -> None:
    trap = Path(run.__file__).parent / "on_host/trap.py"
    # A name that nothing else on this machine has; the kernel keeps fifteen letters.
    program = tmp_path / f"trapped-{os.getpid()}"[:15]
    shutil.copy("/bin/sleep", program)
    command = [sys.executable, str(trap), "kill", program.name, "30"]
    with subprocess.Popen([program, "600"]) as process:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout)["pid"] == process.pid
        assert process.wait(10) == -signal.SIGKILL


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, Path]]:
    """A bad index: its port, and the file that says how bad."""
    (tmp_path / "vllm-1.whl").write_bytes(b"0123456789")
    (tmp_path / "index.html").write_text("page")
    monkeypatch.setattr(bad_index, "FAULT", tmp_path / "fault")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(bad_index.Handler, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server.server_address[1], tmp_path / "fault"
    server.shutdown()
    thread.join()
    server.server_close()


def get(port: int, path: str) -> tuple[int, bytes, bool]:
    """Status, body, and whether the body is whole."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        try:
            return answer.status, answer.read(), True
        except http.client.IncompleteRead as error:
            return answer.status, error.partial, False
    finally:
        connection.close()


def test_a_bad_index_is_as_bad_as_it_is_told(index: tuple[int, Path]) -> None:
    port, fault = index
    assert get(port, "/vllm-1.whl") == (200, b"0123456789", True)
    fault.write_text("truncated")
    assert get(port, "/vllm-1.whl") == (200, b"01234", False)
    assert get(port, "/")[:2] == (200, b"page")
    fault.write_text("corrupt")
    assert get(port, "/vllm-1.whl") == (200, b"012344" + b"6789", True)
    fault.write_text("moved")
    assert get(port, "/")[0] == 404
