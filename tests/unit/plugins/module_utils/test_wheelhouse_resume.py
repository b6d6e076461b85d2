# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one large wheel: cut, killed, replaced, damaged, without room; each time the next run ends with the right one."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils import wheelhouse as wheelhouse_utility
from ansible_collections.pristine.vllm.plugins.module_utils import wheelhouse_resume
from ansible_collections.pristine.vllm.plugins.module_utils.index_folder import as_address
from ansible_collections.pristine.vllm.plugins.module_utils.index_http import IndexClient
from ansible_collections.pristine.vllm.plugins.module_utils.lock import LockRow
from ansible_collections.pristine.vllm.plugins.modules import wheelhouse
from ansible_collections.pristine.vllm.tests.unit.plugins.range_support import (
    Answer,
    Asked,
    FileServer,
    file_server,
)
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import (
    COLLECTIONS,
    PYTHON,
    Ran,
    lock_text,
    run_module,
    sha256,
)

NAME = "vllm-0.16.0rc2.dev313+g662205d34-cp38-abi3-manylinux_2_31_x86_64.whl"
PIN = "vllm==0.16.0rc2.dev313+g662205d34"
SIZE = 1_000_000


class House:
    """A wheelhouse that lacks one wheel, and the server that has it."""

    def __init__(self, base: pathlib.Path, server: FileServer, capfd: pytest.CaptureFixture[str]) -> None:
        self.path = base / "wheels"
        self.quarantine = base / "quarantine"
        self.wheel = base / NAME
        self.wheel.write_bytes(os.urandom(SIZE))
        self.lock = base / "lock.txt"
        self.lock.write_text(lock_text(self.wheel))
        self.server = server
        self.served = server.add(self.wheel)
        self.url = f"{server.url}/files/{NAME.replace('+', '%2B')}"
        self.capfd = capfd

    @property
    def partial(self) -> pathlib.Path:
        return self.path / f".resume-{NAME}.part"

    def run(self, check: bool = False, **changes: Any) -> Ran:
        given = {
            "path": str(self.path),
            "lock": str(self.lock),
            "wheel_url": self.url,
            "python": PYTHON,
            "quarantine": str(self.quarantine),
        }
        return run_module(self.capfd, wheelhouse.main, check, True, **{**given, **changes})

    def whole(self) -> None:
        """The wheel is there, right, and nothing else."""
        assert os.listdir(self.path) == [NAME]
        assert sha256(self.path / NAME) == sha256(self.wheel)
        assert (self.path / NAME).stat().st_mode & 0o777 == 0o644

    def cut(self, *sizes: int) -> None:
        """The first answers end after so many bytes, and everything after them is right."""

        def twist(asked: Asked, answer: Answer) -> Answer:
            return dataclasses.replace(answer, send=sizes[asked.number - 1]) if asked.number <= len(sizes) else answer

        self.served.twist = twist

    def ranges(self) -> list[str]:
        return [entry.partition(" ")[2] for entry in self.server.log]


@pytest.fixture
def house(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[House]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("NETRC", os.devnull)
    monkeypatch.setattr(wheelhouse_resume, "IndexClient", functools.partial(IndexClient, sleep=lambda _seconds: None))
    with file_server() as server:
        yield House(tmp_path, server, capfd)


def test_check_real_check_real(house: House) -> None:
    check, real = house.run(check=True), house.run()
    assert check["downloaded"] == real["downloaded"] == [PIN]
    assert check["changed"] is real["changed"] is True
    assert check["diff"] == real["diff"]
    assert (check["bytes"], real["bytes"]) == (0, SIZE)
    assert real["files"] == {PIN: NAME}
    house.whole()
    assert len(house.server.log) == 1, "and no pip was made for the one wheel"
    for check_mode in (True, False):
        again = house.run(check=check_mode)
        assert (again["changed"], again["downloaded"], again["present"]) == (False, [], 1)
    assert len(house.server.log) == 1, "a second run asks for nothing"


def test_a_body_that_ends_early_is_continued(house: House) -> None:
    house.cut(300_000, 200_000)
    ran = house.run()
    assert ran["bytes"] == SIZE, "nothing came twice"
    assert house.ranges() == ["", "bytes=300000-", "bytes=500000-"]
    assert [seen.get("If-Range") for seen in house.server.seen] == [None, '"one"', '"one"']
    house.whole()


def test_any_number_of_cuts_as_long_as_it_gets_further(house: House) -> None:
    house.cut(*[100_000] * 9)
    assert house.run()["bytes"] == SIZE
    house.whole()


def test_a_server_that_gets_no_further_is_given_up_and_the_next_run_goes_on(house: House) -> None:
    house.cut(400_000, 0, 0, 0)
    ran = house.run()
    assert ran.failed
    assert f"{house.url} does not come: the connection ended 600000 bytes early" in ran["msg"]
    assert "400.0 kB of 1.0 MB have arrived and stay: the next run fetches the rest" in ran["msg"]
    assert house.partial.stat().st_size == 400_000
    house.run(check=True)
    assert house.partial.exists(), "a check changes nothing"
    assert house.run()["bytes"] == 600_000
    house.whole()


def test_a_killed_run_is_resumed(house: House) -> None:
    house.served.twist = lambda _asked, answer: dataclasses.replace(answer, drip=0.0001)
    code = (
        "import sys\n"
        "from ansible_collections.pristine.vllm.plugins.module_utils.lock import read_lock\n"
        "from ansible_collections.pristine.vllm.plugins.module_utils.wheelhouse import complete\n"
        "from ansible_collections.pristine.vllm.plugins.module_utils.wheelhouse_fetch import Source\n"
        "from ansible_collections.pristine.vllm.plugins.module_utils.wheelhouse_resume import Direct\n"
        "complete(sys.argv[1], read_lock(sys.argv[2]), Source(sys.argv[3], direct=Direct(sys.argv[4])))\n"
    )
    arguments = [sys.executable, "-c", code, str(house.path), str(house.lock), PYTHON, house.url]
    with subprocess.Popen(arguments, env={**os.environ, "PYTHONPATH": str(COLLECTIONS)}) as process:
        deadline = time.monotonic() + 60
        while not house.partial.exists() or house.partial.stat().st_size < 20_000:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    arrived = house.partial.stat().st_size
    assert 0 < arrived < SIZE
    assert not (house.path / NAME).exists()
    house.served.twist = None
    assert house.run()["bytes"] == SIZE - arrived
    assert house.ranges()[-1] == f"bytes={arrived}-"
    house.whole()


def test_killed_after_the_last_byte(house: House) -> None:
    house.cut(400_000, 0, 0, 0)
    house.run()
    with open(house.partial, "ab") as stream:
        stream.write(house.wheel.read_bytes()[400_000:])
    asked = len(house.server.log)
    assert house.run()["bytes"] == 0
    assert len(house.server.log) == asked
    house.whole()


@pytest.mark.parametrize(
    "change",
    [
        {"etag": '"two"'},
        {"etag": '"two"', "heeds_if_range": False},
        {"ranges": False},
        {"etag": ""},
        {"twist": lambda asked, answer: Answer(416) if asked.start else answer},
        {"twist": lambda asked, answer: Answer(501) if asked.start else answer},
        {"twist": lambda asked, answer: dataclasses.replace(answer, headers={}) if asked.start else answer},
    ],
    ids=["other ETag", "If-Range is ignored", "no ranges", "no validator", "416", "501", "a part of nowhere"],
)
def test_what_cannot_be_continued_starts_anew(house: House, change: dict[str, Any]) -> None:
    house.cut(400_000, 0, 0, 0)
    house.run()
    house.served.twist = None
    for name, value in change.items():
        setattr(house.served, name, value)
    assert house.run()["bytes"] == SIZE
    house.whole()


def test_a_server_without_ranges_that_always_cuts_is_given_up(house: House) -> None:
    house.served.ranges = False
    house.served.twist = lambda _asked, answer: dataclasses.replace(answer, send=10_000)
    ran = house.run()
    assert ran.failed
    assert len(house.server.log) <= 4
    house.served.twist = None
    assert not house.run().failed
    house.whole()


def test_last_modified_serves_where_the_etag_is_weak(house: House) -> None:
    house.served.etag, house.served.modified = 'W/"one"', "Wed, 11 Feb 2026 03:25:12 GMT"
    house.cut(300_000)
    assert house.run()["bytes"] == SIZE
    assert house.server.seen[1]["If-Range"] == "Wed, 11 Feb 2026 03:25:12 GMT"
    house.whole()


def test_a_wheel_with_a_wrong_digest_is_kept_fetched_once_more_and_refused(house: House) -> None:
    house.served.data = b"another wheel"
    ran = house.run()
    assert ran.failed
    assert "was fetched twice and has not the sha256 that the lock pins" in ran["msg"]
    assert "do not change the pin to what came" in ran["msg"]
    assert len(house.server.log) == 2
    (kept,) = [path for path in house.quarantine.rglob("*") if path.is_file()]
    assert kept.read_bytes() == b"another wheel"
    assert str(kept) in ran["msg"]
    assert os.listdir(house.path) == []
    house.served.data = house.wheel
    assert not house.run().failed
    house.whole()


def test_parts_of_two_files_are_found_out(house: House) -> None:
    house.cut(400_000, 0, 0, 0)
    house.run()
    house.partial.write_bytes(b"z" * 400_000)
    assert not house.run().failed
    assert house.ranges()[-1] == "", "from the beginning"
    house.whole()


def test_a_wheel_that_is_gone(house: House) -> None:
    del house.server.files[f"/files/{NAME.replace('+', '%2B')}"]
    ran = house.run()
    assert f"{house.url} does not come: HTTP 404 Not Found. Check that the index still has it" in ran["msg"]
    assert len(house.server.log) == 1


def test_a_server_that_falls_silent(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheelhouse_resume, "SILENCE", 0.2)
    release = threading.Event()

    def silent(asked: Asked, answer: Answer) -> Answer:
        release.wait(5)
        return answer

    house.served.twist = silent
    ran = house.run()
    release.set()
    assert "does not come: no answer in time" in ran["msg"]


def test_the_time_is_up(house: House) -> None:
    house.served.twist = lambda _asked, answer: dataclasses.replace(answer, drip=0.001)
    ran = house.run(timeout=0.3)
    assert "does not come: the time for it is up" in ran["msg"]
    assert "have arrived and stay" in ran["msg"]
    house.served.twist = None
    assert house.run()["bytes"] < SIZE
    house.whole()


def test_a_wheel_that_is_larger_than_the_disk(house: House) -> None:
    huge = {"Content-Length": str(10**16)}
    house.served.twist = lambda _asked, answer: dataclasses.replace(answer, headers={**answer.headers, **huge})
    ran = house.run()
    assert f"has no room for {house.url}: 10000000.0 GB are to come and" in ran["msg"]
    assert os.listdir(house.path) == []
    house.served.twist = None
    assert not house.run().failed
    house.whole()


def test_a_disk_that_fills_up_on_the_way(house: House) -> None:
    # /dev/full says "No space left on device" to every writer. Without a length there is nothing to compare first.
    house.served.twist = lambda _asked, answer: dataclasses.replace(answer, length=False)
    house.path.mkdir()
    opened = wheelhouse_resume.Partial.begin

    def begin(partial: wheelhouse_resume.Partial, validator: str, total: Any) -> None:
        opened(partial, validator, total)
        os.symlink("/dev/full", partial.path)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(wheelhouse_resume.Partial, "begin", begin)
        ran = house.run()
    assert f"has no room for {NAME}: the disk is full. What had arrived was removed again" in ran["msg"]
    assert os.listdir(house.path) == [], "the room is given back"
    assert not house.run().failed
    house.whole()


def test_partial_files_that_lead_nowhere_are_swept(house: House) -> None:
    house.path.mkdir()
    for name in ("vllm-0.15.0-py3-none-any.whl.part", "vllm-0.15.0-py3-none-any.whl.json", "what.part"):
        (house.path / f".resume-{name}").write_text("{}")
    (house.path / f".resume-{NAME}.json").write_text("not JSON")
    house.run()
    house.whole()


def test_a_file_of_a_folder_is_copied(house: House, tmp_path: pathlib.Path) -> None:
    real = tmp_path / "store"
    house.wheel.rename(real)
    house.wheel.symlink_to(real)
    ran = house.run(wheel_url=as_address(str(house.wheel)))
    assert ran["bytes"] == SIZE
    assert house.server.log == []
    house.whole()
    os.unlink(house.path / NAME)
    os.unlink(real)
    assert "does not come: No such file or directory" in house.run(wheel_url=as_address(str(house.wheel)))["msg"]


def test_the_credentials_of_the_index_are_used_for_its_wheel(house: House) -> None:
    def guard(asked: Asked, answer: Answer) -> Answer:
        return answer if asked.headers.get("Authorization") == "Basic dTpzM2NyZXQ=" else Answer(401)

    house.served.twist = guard
    assert "HTTP 401" in house.run()["msg"]
    ran = house.run(wheel_index_url=house.server.url.replace("//", "//u:s3cret@"))
    assert not ran.failed
    assert "s3cret" not in str(ran), "not in what Ansible prints of the options either"
    house.whole()


def test_the_other_rows_go_through_pip(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.lock.write_text(house.lock.read_text() + f"other==1 --hash=sha256:{'a' * 64}\n")
    seen: list[list[str]] = []

    def fetch(_path: str, rows: list[LockRow], *_rest: Any) -> int:
        seen.append([row.pin for row in rows])
        return 0

    monkeypatch.setattr(wheelhouse_utility, "fetch", fetch)
    house.run()
    assert seen == [["other==1"]]
    house.whole()
