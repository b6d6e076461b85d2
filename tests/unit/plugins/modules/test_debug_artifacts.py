# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import mmap
import os
import pathlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.debug_artifacts import GlobError, check_glob, plan
from ansible_collections.pristine.vllm.plugins.modules import debug_artifacts
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import Ran, run_module, sha256


@pytest.fixture
def temp(tmp_path: pathlib.Path) -> pathlib.Path:
    """Stands for /tmp, as vLLM and its debug code leave it."""
    path = tmp_path / "tmp"
    path.mkdir()
    for rank in range(8):
        (path / f"nomla_debug_tp{rank}.pt").write_bytes(b"tensor" * 1000 + bytes([rank]))
        (path / f"embed_debug_tp{rank}.pt").write_bytes(b"embedding" + bytes([rank]))
    (path / "other.pt").write_bytes(b"not ours")
    return path


class Cleaned:
    """Runs the module on one directory."""

    def __init__(self, capfd: pytest.CaptureFixture[str], temp: pathlib.Path, quarantine: pathlib.Path) -> None:
        self.capfd, self.temp, self.quarantine = capfd, temp, quarantine

    def run(self, check: bool = False, **more: Any) -> Ran:
        options = {
            "globs": [f"{self.temp}/nomla_debug_tp*.pt", f"{self.temp}/embed_debug_tp*.pt"],
            "quarantine": str(self.quarantine),
            **more,
        }
        return run_module(self.capfd, debug_artifacts.main, check=check, diff=True, **options)

    def left(self, **more: Any) -> dict[str, str]:
        return {os.path.basename(entry["path"]): entry["reason"] for entry in self.run(**more)["left"]}


@pytest.fixture
def cleaned(capfd: pytest.CaptureFixture[str], temp: pathlib.Path, tmp_path: pathlib.Path) -> Cleaned:
    return Cleaned(capfd, temp, tmp_path / "quarantine" / "20261130T032512Z")


def comparable(ran: Ran) -> dict[str, Any]:
    """All but where the files are now, which only the real run can know."""
    result = {key: value for key, value in ran.items() if key != "invocation"}
    result["files"] = [{key: value for key, value in entry.items() if key != "kept"} for entry in ran["files"]]
    return result


@pytest.fixture
def holder() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def hold(holder: list[subprocess.Popen[bytes]], path: pathlib.Path, mapped: bool = False) -> int:
    """A process that has the file open, or has mapped it and closed it again."""
    code = "import mmap, sys; f = open(sys.argv[1], 'rb'); "
    code += "m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); f.close(); " if mapped else ""
    code += "print('ready', flush=True); sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    holder.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process.pid


def test_check_real_check_real(cleaned: Cleaned) -> None:
    before = {path.name: path.read_bytes() for path in cleaned.temp.iterdir()}
    would = cleaned.run(check=True)
    assert {path.name: path.read_bytes() for path in cleaned.temp.iterdir()} == before
    assert not cleaned.quarantine.exists()
    did = cleaned.run()
    assert comparable(would) == comparable(did)
    assert did["changed"]
    assert len(did["files"]) == 16
    assert did["bytes"] == sum(len(content) for name, content in before.items() if "debug" in name)
    assert [path.name for path in cleaned.temp.iterdir()] == ["other.pt"]
    for entry in did["files"]:
        kept = pathlib.Path(entry["kept"])
        assert kept == pathlib.Path(f"{cleaned.quarantine}/files{entry['path']}")
        assert kept.read_bytes() == before[os.path.basename(entry["path"])]
        assert sha256(kept) == entry["sha256"]
    assert did["diff"]["before"].count("\n") == 16
    assert did["diff"]["after"] == ""
    would_again, did_again = cleaned.run(check=True), cleaned.run()
    assert comparable(would_again) == comparable(did_again)
    assert not did_again["changed"]
    assert did_again["files"] == []


def test_an_open_file_stays(cleaned: Cleaned, holder: list[subprocess.Popen[bytes]]) -> None:
    pid = hold(holder, cleaned.temp / "nomla_debug_tp3.pt")
    would, did = cleaned.run(check=True), cleaned.run()
    assert comparable(would) == comparable(did)
    path = f"{cleaned.temp}/nomla_debug_tp3.pt"
    assert did["left"] == [{"path": path, "reason": f"process {pid} holds it open"}]
    assert did["diff"]["after"] == path + "\n"
    assert len(did["files"]) == 15
    holder[0].kill()
    holder[0].wait()
    assert [entry["path"] for entry in cleaned.run()["files"]] == [path]


def test_a_mapped_file_stays(cleaned: Cleaned, holder: list[subprocess.Popen[bytes]]) -> None:
    pid = hold(holder, cleaned.temp / "embed_debug_tp0.pt", mapped=True)
    assert cleaned.left() == {"embed_debug_tp0.pt": f"process {pid} holds it open"}


def test_a_file_open_under_another_name_stays(cleaned: Cleaned, tmp_path: pathlib.Path) -> None:
    """Through a link here, as through another mount elsewhere: the inode counts."""
    alias = tmp_path / "alias"
    alias.symlink_to(cleaned.temp)
    with open(alias / "embed_debug_tp1.pt", "rb"):
        assert cleaned.left() == {"embed_debug_tp1.pt": f"process {os.getpid()} holds it open"}


def test_this_very_process_counts_too(cleaned: Cleaned) -> None:
    with open(cleaned.temp / "embed_debug_tp1.pt", "rb") as stream, mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ):
        assert list(cleaned.left()) == ["embed_debug_tp1.pt"]


def test_only_regular_files(cleaned: Cleaned, tmp_path: pathlib.Path) -> None:
    precious = tmp_path / "weights.safetensors"
    precious.write_bytes(b"weights")
    (cleaned.temp / "nomla_debug_tp_link.pt").symlink_to(precious)
    (cleaned.temp / "nomla_debug_tp_dir.pt").mkdir()
    os.mkfifo(cleaned.temp / "nomla_debug_tp_fifo.pt")
    os.link(precious, cleaned.temp / "nomla_debug_tp_hard.pt")
    with socket.socket(socket.AF_UNIX) as listener:
        directory = os.open(cleaned.temp, os.O_RDONLY)
        try:
            # The whole path may be longer than a socket's name may be.
            listener.bind(f"/proc/self/fd/{directory}/nomla_debug_tp_sock.pt")
        finally:
            os.close(directory)
        left = cleaned.left()
    assert left == {
        "nomla_debug_tp_link.pt": "it is a symlink, not a regular file",
        "nomla_debug_tp_dir.pt": "it is a directory, not a regular file",
        "nomla_debug_tp_fifo.pt": "it is a FIFO, not a regular file",
        "nomla_debug_tp_hard.pt": "it has 2 hard links",
        "nomla_debug_tp_sock.pt": "it is a socket, not a regular file",
    }
    assert precious.read_bytes() == b"weights"


def test_names_with_brackets_and_dots(cleaned: Cleaned) -> None:
    (cleaned.temp / "dump[1].pt").write_bytes(b"x")
    (cleaned.temp / "dump1.pt").write_bytes(b"x")
    (cleaned.temp / ".dump2.pt").write_bytes(b"x")
    ran = cleaned.run(globs=[f"{cleaned.temp}/*dump[[]1].pt", f"{cleaned.temp}/*dump2.pt"])
    assert [os.path.basename(entry["path"]) for entry in ran["files"]] == ["dump[1].pt"]


def test_wildcards_in_directories_follow_no_link(cleaned: Cleaned, tmp_path: pathlib.Path) -> None:
    for name in ("run1", "run2"):
        (cleaned.temp / name).mkdir()
        (cleaned.temp / name / "x.pt").write_bytes(b"x")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x.pt").write_bytes(b"somebody's")
    (cleaned.temp / "run3").symlink_to(elsewhere)
    ran = cleaned.run(globs=[f"{cleaned.temp}/run*/x.pt"])
    assert [entry["path"] for entry in ran["files"]] == [f"{cleaned.temp}/run1/x.pt", f"{cleaned.temp}/run2/x.pt"]
    assert (elsewhere / "x.pt").exists()


def test_a_directory_behind_a_link_is_not_entered(cleaned: Cleaned, tmp_path: pathlib.Path) -> None:
    alias = tmp_path / "alias"
    alias.symlink_to(cleaned.temp)
    ran = cleaned.run(globs=[f"{alias}/nomla_debug_tp*.pt"])
    assert ran["files"] == []
    assert ran["left"] == [{"path": str(alias), "reason": "it is reached through a symlink: name the real directory"}]


def test_nothing_there_is_nothing_to_do(cleaned: Cleaned) -> None:
    ran = cleaned.run(globs=[f"{cleaned.temp}/none/x*.pt"])
    assert (ran["changed"], ran["files"], ran["left"], ran["bytes"]) == (False, [], [], 0)
    assert not cleaned.run(globs=[])["changed"]


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("/", "has an empty part"),
        ("/*", "has no fixed directory"),
        ("/*/x.pt", "has no fixed directory"),
        ("/x.pt", "has no fixed directory"),
        ("x*.pt", "is not absolute"),
        ("/tmp/*", "would take every file of a directory"),
        ("/tmp/*.*", "would take every file of a directory"),
        ("/tmp/[a-z]*", "would take every file of a directory"),
        ("/tmp/../etc/x*.pt", "has an empty part, or one that is . or .."),
        ("/tmp//x*.pt", "has an empty part"),
        ("/tmp/**/x.pt", "would descend into every directory"),
        ("/etc/x*.pt", "reaches into /etc, which is protected"),
        ("/usr/lib/python3/x*.py", "reaches into /usr, which is protected"),
        ("/srv/env/lib/x*.pt", "reaches into /srv/env, which is protected"),
    ],
)
def test_patterns_that_reach_too_far(pattern: str, why: str) -> None:
    with pytest.raises(GlobError) as caught:
        check_glob(pattern, ["/srv/env"])
    assert why in str(caught.value)
    assert repr(pattern) in str(caught.value)


@pytest.mark.parametrize(
    "pattern", ["/tmp/nomla_debug_tp*.pt", "/var/tmp/*/dump.pt", "/srv/environment/x?.pt", "/tmp/[[]a*"]
)
def test_patterns_that_are_fine(pattern: str) -> None:
    check_glob(pattern, ["/srv/env"])


def test_a_refused_pattern_moves_nothing(cleaned: Cleaned) -> None:
    ran = cleaned.run(globs=[f"{cleaned.temp}/nomla_debug_tp*.pt", "/*"])
    assert ran.failed
    assert "Nothing was moved" in ran["msg"]
    assert (cleaned.temp / "nomla_debug_tp0.pt").exists()


def test_a_refused_suggestion_is_told_and_not_followed(cleaned: Cleaned) -> None:
    suggested = [f"{cleaned.temp}/nomla_debug_tp*.pt", "dump_*.pt", "/etc/*.pt"]
    would, did = (cleaned.run(check=check, globs=[], suggested_globs=suggested) for check in (True, False))
    assert comparable(would) == comparable(did)
    assert len(did["files"]) == 8
    assert [entry["path"] for entry in did["left"]] == ["/etc/*.pt", "dump_*.pt"]
    assert "is not absolute" in did["left"][1]["reason"]


def test_protected_directories(cleaned: Cleaned) -> None:
    (cleaned.temp / "env").mkdir()
    (cleaned.temp / "env" / "x.pt").write_bytes(b"x")
    ran = cleaned.run(globs=[f"{cleaned.temp}/*/x.pt"], protect=[str(cleaned.temp / "env")])
    assert ran["files"] == []
    assert "which is protected" in ran["left"][0]["reason"]


def test_the_quarantine_protects_itself(cleaned: Cleaned) -> None:
    cleaned.run()
    assert "which is protected" in cleaned.run(globs=[f"{cleaned.quarantine}/files/x*.pt"])["msg"]


def test_a_quarantine_that_cannot_be_written(cleaned: Cleaned) -> None:
    cleaned.quarantine.parent.mkdir()
    cleaned.quarantine.write_text("a file", encoding="utf-8")
    ran = cleaned.run()
    assert ran.failed
    assert "It is still there; 0 of 16 are moved" in ran["msg"]
    assert ran["files"] == []
    assert len(list(cleaned.temp.iterdir())) == 17


def test_a_quarantine_that_cannot_be_made(cleaned: Cleaned) -> None:
    """Where the system says "no such file" of the quarantine, not of a file that its owner took back."""
    ran = cleaned.run(quarantine="/proc/quarantine")
    assert ran.failed
    assert "It is still there; 0 of 16 are moved" in ran["msg"]
    assert len(list(cleaned.temp.iterdir())) == 17


def test_processes_that_end_meanwhile_are_no_obstacle(cleaned: Cleaned, tmp_path: pathlib.Path) -> None:
    proc = tmp_path / "proc"
    (proc / "12").mkdir(parents=True)
    (proc / "12" / "fd").write_text("", encoding="utf-8")
    (proc / "13" / "fd").mkdir(parents=True)
    (proc / "13" / "maps").write_text("", encoding="utf-8")
    found = plan([f"{cleaned.temp}/nomla_debug_tp*.pt"], proc=str(proc))
    # Neither denies a look: one ended meanwhile, the other has nothing open.
    assert found.unseen_processes == 0
    assert len(found.files) == 8
