# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import mmap
import os
import pathlib

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.files import (
    CHUNK,
    atomic_write,
    read_file,
    sha256_file,
)


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7])
def test_sha256_of_every_chunk_boundary(tmp_path: pathlib.Path, size: int) -> None:
    path = tmp_path / "file"
    data = os.urandom(size)
    path.write_bytes(data)
    assert sha256_file(str(path)) == hashlib.sha256(data).hexdigest()
    assert read_file(str(path)) == data
    assert read_file(str(path), 5) == data[:5]


def test_only_regular_files_are_read(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "fifo")
    for name, reason in (
        ("link", "symbolic"),
        ("fifo", "not a regular"),
        ("absent", "No such"),
        (".", "not a regular"),
    ):
        with pytest.raises(OSError, match=reason):
            sha256_file(str(tmp_path / name))


def test_write_makes_a_file_with_the_umask_and_leaves_nothing_else(tmp_path: pathlib.Path) -> None:
    old = os.umask(0o027)
    try:
        atomic_write(str(tmp_path / "new"), b"data")
    finally:
        os.umask(old)
    assert (tmp_path / "new").read_bytes() == b"data"
    assert (tmp_path / "new").stat().st_mode & 0o7777 == 0o640
    assert os.listdir(tmp_path) == ["new"]


def test_write_keeps_mode_and_owner(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    if os.geteuid() == 0:
        os.chown(path, 1234, 4321)
    path.chmod(0o4751)
    before = path.stat()
    atomic_write(str(path), b"new")
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert path.read_bytes() == b"new"


def test_write_takes_the_mode_it_is_given(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    atomic_write(str(path), b"new", mode=0o600, owner=(os.geteuid(), os.getegid()))
    assert path.stat().st_mode & 0o7777 == 0o600


def test_write_replaces_a_symlink_and_spares_its_target(tmp_path: pathlib.Path) -> None:
    (tmp_path / "blob").write_bytes(b"blob")
    (tmp_path / "link").symlink_to("blob")
    atomic_write(str(tmp_path / "link"), b"new")
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "link").read_bytes() == b"new"
    assert (tmp_path / "blob").read_bytes() == b"blob"


def test_write_spares_hard_links_and_mappings(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    os.link(path, tmp_path / "other")
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        atomic_write(str(path), b"new!")
        assert mapped[:] == b"old"
    assert (tmp_path / "other").read_bytes() == b"old"


def test_a_failed_write_changes_nothing(tmp_path: pathlib.Path) -> None:
    (tmp_path / "directory").mkdir()
    with pytest.raises(IsADirectoryError):
        atomic_write(str(tmp_path / "directory"), b"x")
    with pytest.raises(FileNotFoundError):
        atomic_write(str(tmp_path / "absent" / "file"), b"x")
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(TypeError):
        atomic_write(str(path), "text")  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["directory", "file"]
