# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import os
import pathlib

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.record import cache
from ansible_collections.pristine.vllm.plugins.module_utils.record.hashing import (
    Claims,
    Hasher,
    Outcome,
    judge,
    only_sha256,
)


def test_names_that_are_too_long_are_missing(tmp_path: pathlib.Path) -> None:
    outcome = Hasher().check((str(tmp_path / ("x" * 300)), []))
    assert outcome is not None
    assert outcome.state == "missing"


def test_several_algorithms_in_one_reading(tmp_path: pathlib.Path) -> None:
    data = os.urandom(600000)
    (tmp_path / "file").write_bytes(data)
    claims: Claims = [
        ("sha512", b"\0" * 64, len(data)),
        ("sha384", hashlib.sha384(data).digest(), None),
    ]
    hasher = Hasher()
    assert hasher.check((str(tmp_path / "file"), claims)) is None
    assert hasher.bytes_hashed == len(data)
    outcome = hasher.check((str(tmp_path / "file"), claims[:1]))
    assert outcome == Outcome("differs", hashlib.sha256(data).hexdigest(), "content differs, size is as recorded")


DATA = b"content"
RIGHT, WRONG = hashlib.sha256(DATA).digest(), b"\0" * 32
SIZE = len(DATA)


@pytest.mark.parametrize(
    "claims",
    [
        [("sha256", RIGHT, SIZE)],
        [("sha256", RIGHT, None)],
        [("sha256", RIGHT, 8)],
        [("sha256", WRONG, SIZE)],
        [("sha256", WRONG, None)],
        [("sha256", WRONG, 8), ("sha256", RIGHT, SIZE)],
        [("sha256", WRONG, SIZE), ("sha256", RIGHT, 8)],
        [("sha256", WRONG, 8), ("sha256", RIGHT, 9)],
    ],
)
def test_what_was_read_before_is_judged_as_what_is_read_now(tmp_path: pathlib.Path, claims: Claims) -> None:
    (tmp_path / "file").write_bytes(DATA)
    hasher = Hasher()
    content = hasher.content(str(tmp_path / "file"))
    assert content is not None
    assert (content.size, content.sha256) == (SIZE, RIGHT)
    assert only_sha256(claims)
    assert judge(claims, content.size, content.sha256) == hasher.check((str(tmp_path / "file"), claims))


@pytest.mark.parametrize("claims", [[], [("sha512", b"", 1)], [("sha256", RIGHT, SIZE), ("sha384", b"", 1)]])
def test_what_a_sha256_cannot_judge(claims: Claims) -> None:
    assert not only_sha256(claims)


def test_content_of_what_is_no_regular_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "fifo")
    for name in ("link", "fifo", "absent", "."):
        assert Hasher().content(str(tmp_path / name)) is None


@pytest.mark.parametrize(("age", "remembered"), [(61, True), (59, False), (-1, False), (-3600, False)])
def test_only_files_that_have_settled_are_remembered(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, age: int, remembered: bool
) -> None:
    path = tmp_path / "file"
    path.write_bytes(DATA)
    changed = path.stat().st_ctime_ns
    monkeypatch.setattr(
        "ansible_collections.pristine.vllm.plugins.module_utils.record.hashing.now_ns", lambda: changed + age * 10**9
    )
    hasher = Hasher(remember=True)
    assert hasher.check((str(path), [("sha256", RIGHT, SIZE)])) is None
    assert hasher.last is not None
    assert hasher.last.identity == (cache.identity(path.stat()) if remembered else b"")


def test_an_old_file_with_a_new_time_of_change_is_not_remembered(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(DATA)
    os.utime(path, (1, 1))
    hasher = Hasher(remember=True)
    hasher.check((str(path), [("sha256", RIGHT, SIZE)]))
    assert hasher.last is not None
    assert hasher.last.identity == b""


def test_a_file_that_changes_while_it_is_read_is_not_remembered(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1000000)
    later = path.stat().st_ctime_ns + 10**12
    monkeypatch.setattr("ansible_collections.pristine.vllm.plugins.module_utils.record.hashing.now_ns", lambda: later)
    reading = os.readv

    def touch_meanwhile(descriptor: int, buffers: list[bytearray]) -> int:
        path.touch()
        return reading(descriptor, buffers)

    monkeypatch.setattr(os, "readv", touch_meanwhile)
    hasher = Hasher(remember=True)
    assert hasher.check((str(path), [("sha256", hashlib.sha256(b"x" * 1000000).digest(), None)])) is None
    assert hasher.last is not None
    assert hasher.last.identity == b""
