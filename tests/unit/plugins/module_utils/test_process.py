# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import BusyError, discard, exclusive, sweep
from ansible_collections.pristine.vllm.plugins.module_utils.interpreter import InterpreterError, check_interpreter
from ansible_collections.pristine.vllm.plugins.module_utils.process import CommandError, clean_environment, run
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import COLLECTIONS, PYTHON

ENVIRONMENT = clean_environment("/", "/tmp")


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    # A zombie whose parent has not looked yet is gone as well.
    return ") Z " in pathlib.Path(f"/proc/{pid}/stat").read_text()


def test_only_what_is_named_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_CACHE_DIR", "/x")
    monkeypatch.setenv("no_proxy", "localhost")
    environment = clean_environment("/home/x", "/var/tmp", ("no_proxy", "ALL_PROXY_ABSENT"))
    assert set(environment) == {"PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "no_proxy"}
    ran = run([sys.executable, "-I", "-c", "import os; print(*sorted(os.environ))"], environment, 30)
    assert set(ran.stdout.split()) == set(environment)


def test_what_a_program_says_and_how_it_ends() -> None:
    ran = run(["sh", "-c", "cat; echo out; printf 'err \\377' >&2; exit 3"], ENVIRONMENT, 30)
    assert (ran.returncode, ran.stdout, ran.stderr) == (3, "out\n", "err \ufffd")
    with pytest.raises(CommandError, match="cannot be started: No such file"):
        run(["sh"], ENVIRONMENT, 30, cwd="/nonexistent")


def test_a_program_that_hangs_is_killed_with_all_that_it_started(tmp_path: pathlib.Path) -> None:
    note = tmp_path / "pid"
    with pytest.raises(CommandError, match=r"sh had not ended after 1 s and was killed\. working"):
        run(["sh", "-c", f"echo working >&2; sleep 600 & echo $! > {note}; wait"], ENVIRONMENT, 1.0)
    wait_for(lambda: gone(int(note.read_text())))


def test_a_program_does_not_outlive_a_killed_run(tmp_path: pathlib.Path) -> None:
    note = tmp_path / "pid"
    code = (
        "from ansible_collections.pristine.vllm.plugins.module_utils.process import run\n"
        f"run(['sh', '-c', 'echo $$ > {note}; exec sleep 600'], {{'PATH': '/usr/bin:/bin'}}, 600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(COLLECTIONS)}
    with subprocess.Popen([sys.executable, "-c", code], env=environment) as process:
        wait_for(lambda: note.exists() and note.read_text().strip())
        process.send_signal(signal.SIGKILL)
    wait_for(lambda: gone(int(note.read_text())))


def test_a_lock_that_a_child_inherits_is_held_until_the_child_is_gone(tmp_path: pathlib.Path) -> None:
    with exclusive(str(tmp_path)) as held, pytest.raises(BusyError) as caught, exclusive(str(tmp_path), 0.0):
        pass
    assert str(caught.value).startswith(f"{tmp_path} is being changed by process {os.getpid()} (")
    with exclusive(str(tmp_path)) as held:
        child = subprocess.Popen(["sleep", "600"], pass_fds=[held])
    with child:
        with pytest.raises(BusyError, match="is being changed by "), exclusive(str(tmp_path), 0.1):
            pass
        child.kill()
        with exclusive(str(tmp_path), 20.0):
            pass


def test_sweeping_removes_links_and_not_what_they_lead_to(tmp_path: pathlib.Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / ".tmp-link").symlink_to("kept")
    (tmp_path / ".tmp-tree").mkdir()
    (tmp_path / ".tmp-tree" / "link").symlink_to("../kept")
    (tmp_path / ".tmp-file").touch()
    sweep(str(tmp_path), ".tmp-")
    assert os.listdir(tmp_path) == ["kept"]
    assert (tmp_path / "kept" / "file").exists()
    discard(str(tmp_path / "absent"))


def test_interpreters(tmp_path: pathlib.Path) -> None:
    assert check_interpreter(PYTHON) == ".".join(map(str, sys.version_info[:3]))
    with pytest.raises(InterpreterError, match="'python3' is not an absolute path"):
        check_interpreter("python3")
    old = tmp_path / "old"
    old.write_text("#!/bin/sh\necho 3.8.20\n")
    old.chmod(0o755)
    with pytest.raises(InterpreterError, match=r"is 3\.8\.20, and 3\.9 is the oldest that serves"):
        check_interpreter(str(old))
    old.write_text("#!/bin/sh\necho broken >&2; exit 1\n")
    with pytest.raises(InterpreterError, match="does not run: broken"):
        check_interpreter(str(old))
