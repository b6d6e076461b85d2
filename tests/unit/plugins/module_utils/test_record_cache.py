# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stat cache saves reading what did not change, and nothing else: a scan with it says what one without it says."""

from __future__ import annotations

import hashlib
import mmap
import os
import pathlib
import subprocess
import time
from collections.abc import Callable
from typing import Any, Optional

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.record import cache, hashing
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import ScanResult
from ansible_collections.pristine.vllm.tests.unit.plugins.record_support import Env, build_wheel, sha256

FILES = {f"pkg/m{number}.py": b"x = %d\n" % number for number in range(90)}
EDITED = "pkg/m7.py"


class Cached:
    """An environment that is scanned with a cache."""

    def __init__(self, env: Env, path: pathlib.Path) -> None:
        self.env = env
        self.path = path
        self.site = env.site

    def scan(self, **options: Any) -> ScanResult:
        result = self.env.scan(cache=str(self.path), **options)
        plain = self.env.scan(**options)
        assert result.findings == plain.findings
        assert result.summary.counts == plain.summary.counts
        assert result.pristine == plain.pristine
        return result

    def saved(self, **options: Any) -> int:
        return self.scan(**options).summary.from_cache


@pytest.fixture
def cached(bare: Env, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Cached:
    """An environment whose files count as two minutes old, and a cache of it."""
    bare.install("pkg", {**FILES, "pkg/__init__.py": b"", "pkg/large.bin": os.urandom(400000)})
    monkeypatch.setattr(hashing, "now_ns", lambda: time.time_ns() + 120 * 10**9)
    made = Cached(bare, tmp_path / "cache")
    assert made.saved() == 0
    return made


def test_nothing_is_read_twice(cached: Cached) -> None:
    result = cached.scan()
    assert result.summary.bytes_hashed == 0
    assert result.summary.from_cache == result.summary.files == len(FILES) + 3
    assert result.warnings == []


def test_a_scan_that_changes_nothing_leaves_the_cache_alone(cached: Cached) -> None:
    before = cached.path.stat()
    cached.scan()
    assert cached.path.stat().st_ino == before.st_ino
    (cached.site / EDITED).write_bytes(FILES[EDITED])
    cached.scan()
    assert cached.path.stat().st_ino != before.st_ino


def test_what_differed_is_remembered_too(cached: Cached) -> None:
    (cached.site / EDITED).write_bytes(b"edited")
    first = cached.scan()
    assert first.summary.bytes_hashed == len(b"edited")
    second = cached.scan()
    assert second.findings == first.findings
    assert second.summary.bytes_hashed == 0


def _same_second(path: pathlib.Path) -> None:
    """Same size, and the time of change to the second."""
    before = path.stat()
    path.write_bytes(FILES[EDITED].replace(b"x", b"y"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns // 10**9 * 10**9))


def _touch_reference(path: pathlib.Path) -> None:
    reference = path.with_name("reference")
    subprocess.run(["cp", "-p", str(path), str(reference)], check=True)
    path.write_bytes(FILES[EDITED].replace(b"x", b"y"))
    subprocess.run(["touch", "-r", str(reference), str(path)], check=True)
    reference.unlink()


def _rename_over(path: pathlib.Path) -> None:
    other = path.with_name("other")
    other.write_bytes(FILES[EDITED].replace(b"x", b"y"))
    info = path.stat()
    os.utime(other, ns=(info.st_atime_ns, info.st_mtime_ns))
    other.rename(path)


def _swap(path: pathlib.Path) -> None:
    """Two remembered files change their names: nothing about either inode but its time of change is new."""
    other = path.with_name("m8.py")
    path.rename(path.with_name("aside"))
    other.rename(path)
    path.with_name("aside").rename(other)


def _through_another_name(path: pathlib.Path) -> None:
    link = path.with_name("link")
    os.link(path, link)
    link.write_bytes(FILES[EDITED].replace(b"x", b"y"))
    link.unlink()


def _through_a_mapping(path: pathlib.Path) -> None:
    """Written back at once; the kernel may take half a minute, which is why only settled files are remembered."""
    with path.open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as mapped:
        mapped[:] = FILES[EDITED].replace(b"x", b"y")
        mapped.flush()


def _link(path: pathlib.Path) -> None:
    path.rename(path.with_name("aside.txt"))
    path.symlink_to("aside.txt")


def _gone(path: pathlib.Path) -> None:
    path.unlink()


def _unlist(path: pathlib.Path) -> None:
    """The file is as it was, its row is not."""
    record = next(path.parent.parent.glob("*.dist-info/RECORD"))
    rows = record.read_text().splitlines(keepends=True)
    record.write_text("".join(row for row in rows if not row.startswith(EDITED)))


def _other_row(path: pathlib.Path) -> None:
    record = next(path.parent.parent.glob("*.dist-info/RECORD"))
    record.write_text(record.read_text().replace(f"{EDITED},sha256=", f"{EDITED},sha256=A", 1))


@pytest.mark.parametrize(
    ("edit", "status"),
    [
        (_same_second, "modified"),
        (_touch_reference, "modified"),
        (_rename_over, "modified"),
        (_swap, "modified"),
        (_through_another_name, "modified"),
        (_through_a_mapping, "modified"),
        (_link, "modified"),
        (_gone, "missing"),
        (_unlist, "unexpected"),
        (_other_row, "unverifiable"),
    ],
)
def test_every_edit_is_found(cached: Cached, edit: Callable[[pathlib.Path], None], status: str) -> None:
    edit(cached.site / EDITED)
    result = cached.scan()
    assert {finding.path: finding.status for finding in result.findings}[EDITED] == status
    assert result.summary.from_cache >= len(FILES) - 2


def test_files_that_have_not_settled_are_read_again(
    bare: Env, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare.install("pkg", FILES)
    fresh = Cached(bare, tmp_path / "cache")
    assert [fresh.saved(), fresh.saved()] == [0, 0]
    # A clock that was behind when they were written: their times are still to come.
    monkeypatch.setattr(hashing, "now_ns", lambda: time.time_ns() - 3600 * 10**9)
    assert [fresh.saved(), fresh.saved()] == [0, 0]


def test_entries_from_the_future_are_not_believed(cached: Cached, monkeypatch: pytest.MonkeyPatch) -> None:
    known = cache.load(str(cached.path), str(cached.env.root))
    assert set(known.same(0, len(known))) == {1}
    earlier = min(path.stat().st_ctime_ns for path in cached.site.glob("pkg/*")) - 1
    monkeypatch.setattr(cache, "now_ns", lambda: earlier)
    assert set(known.same(0, len(known))) == {0}


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_was_set(cached: Cached, monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    monkeypatch.setattr(cache, "now_ns", lambda: time.time_ns() + hours * 3600 * 10**9)
    result = cached.scan()
    assert result.summary.from_cache == 0
    assert "was written before the clock was set: it was not used" in result.warnings[0]
    # To a clock that was set back, the files are from the future.
    assert cached.saved() == (len(FILES) + 3 if hours > 0 else 0)


def test_a_clock_that_is_set_during_the_scan(
    bare: Env, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare.install("pkg", FILES)
    monkeypatch.setattr(hashing, "now_ns", lambda: time.time_ns() + 120 * 10**9)
    times = iter(range(0, 10**15, 3600 * 10**9))
    monkeypatch.setattr(cache, "now_ns", lambda: time.time_ns() + next(times))
    result = bare.scan(cache=str(tmp_path / "cache"))
    assert "the clock was set during the scan" in result.warnings[0]
    assert not (tmp_path / "cache").exists()


def test_a_clock_is_slewed() -> None:
    clock = cache.Clock.read()
    assert clock.boot
    assert not clock.set_since(clock._replace(offset=clock.offset - 10**9))
    assert clock.set_since(clock._replace(offset=clock.offset - 3 * 10**9))
    assert clock.set_since(clock._replace(offset=clock.offset + 3 * 10**9))
    # Of another boot, nobody can tell.
    assert not clock.set_since(clock._replace(boot="another", offset=0))


def _make_directory(path: pathlib.Path) -> None:
    path.unlink()
    path.mkdir()


def _make_fifo(path: pathlib.Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGE: dict[str, tuple[Callable[[Cached], object], str]] = {
    "empty": (lambda it: it.path.write_bytes(b""), "is not a cache of this release"),
    "other release": (
        lambda it: it.path.write_bytes(it.path.read_bytes().replace(b"cache 2", b"cache 1")),
        "is not a cache of this release",
    ),
    "cut": (lambda it: it.path.write_bytes(it.path.read_bytes()[:-1]), "is damaged"),
    "longer": (lambda it: it.path.write_bytes(it.path.read_bytes() + b"\0"), "is damaged"),
    "bit": (
        lambda it: it.path.write_bytes(it.path.read_bytes()[:-500] + b"?" + it.path.read_bytes()[-499:]),
        "damaged",
    ),
    "mode": (lambda it: it.path.chmod(0o620), "could have been written by someone else"),
    "world": (lambda it: it.path.chmod(0o602), "could have been written by someone else"),
    "link": (lambda it: it.path.symlink_to(it.path.rename(it.path.with_name("aside"))), "is a symlink"),
    "directory": (lambda it: _make_directory(it.path), "is not a regular file"),
    "fifo": (lambda it: _make_fifo(it.path), "is not a regular file"),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_cache_that_cannot_be_trusted(cached: Cached, how: str) -> None:
    damage, message = DAMAGE[how]
    damage(cached)
    result = cached.scan()
    assert result.summary.from_cache == 0
    assert message in result.warnings[0]
    if how == "directory":
        assert "cannot be written" in result.warnings[1]
        return
    assert cached.path.stat().st_mode & 0o7777 == 0o600
    assert not cached.path.is_symlink()
    assert cached.saved() == len(FILES) + 3


def test_every_damaged_byte_is_seen(cached: Cached) -> None:
    data = cached.path.read_bytes()
    for place in range(0, len(data), 97):
        cached.path.write_bytes(data[:place] + bytes([data[place] ^ 0x20]) + data[place + 1 :])
        with pytest.raises(cache.CacheError):
            cache.load(str(cached.path), str(cached.env.root))


def test_a_cache_of_another_user(cached: Cached, monkeypatch: pytest.MonkeyPatch) -> None:
    """To give a file away takes root: so here the user changes, and a file of root's stays good."""
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    if mine == 0:
        assert len(cache.load(str(cached.path), str(cached.env.root)))
        os.chown(cached.path, 65534, 65534)
    with pytest.raises(cache.CacheError, match="must belong to root or to this user"):
        cache.load(str(cached.path), str(cached.env.root))
    monkeypatch.undo()
    if mine == 0:
        os.chown(cached.path, 65534, 65534)
        cache.save(str(cached.path), str(cached.env.root), {}, cache.Clock.read())
        assert cached.path.stat().st_uid == 0


def test_a_cache_of_another_environment(cached: Cached, tmp_path: pathlib.Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    cached.env.root.rename(other / "env")
    moved = Cached(Env(other / "env"), cached.path)
    result = moved.scan()
    assert result.summary.from_cache == 0
    assert f"is of the environment {cached.env.root}" in result.warnings[0]


def test_a_cache_that_cannot_be_written(bare: Env, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare.install("pkg", FILES)
    monkeypatch.setattr(hashing, "now_ns", lambda: time.time_ns() + 120 * 10**9)
    result = bare.scan(cache=str(tmp_path / "no" / "cache"))
    assert "cannot be written" in result.warnings[0]
    assert result.pristine


def test_files_reached_through_links_are_always_read(cached: Cached) -> None:
    (cached.site / "pkg").rename(cached.site / "real")
    (cached.site / "pkg").symlink_to("real")
    first = cached.env.scan(cache=str(cached.path))
    second = cached.env.scan(cache=str(cached.path))
    assert first.summary.bytes_hashed == second.summary.bytes_hashed > 400000
    assert second.summary.from_cache == first.summary.from_cache == 1  # METADATA


def test_a_scan_of_some_distributions_keeps_what_is_known_of_the_others(cached: Cached) -> None:
    cached.env.install("other", {"other/__init__.py": b"y = 1\n"})
    assert cached.saved(distributions=["other"]) == 0
    assert cached.saved(distributions=["other"]) == 2
    assert cached.saved() == len(FILES) + 5


def test_a_scan_of_single_files_leaves_the_cache_alone(cached: Cached) -> None:
    before = cached.path.read_bytes()
    (cached.site / EDITED).write_bytes(b"edited")
    result = cached.scan(files=[EDITED])
    assert (result.summary.from_cache, len(result.findings)) == (0, 1)
    assert cached.path.read_bytes() == before


def test_digests_of_other_kinds_are_computed_each_time(cached: Cached) -> None:
    record = next(cached.site.glob("*.dist-info/RECORD"))
    rows = record.read_text().splitlines(keepends=True)
    digest = hashlib.sha512(FILES[EDITED]).hexdigest()
    record.write_text(
        "".join(f"{EDITED},sha512={digest},{len(FILES[EDITED])}\n" if row.startswith(EDITED) else row for row in rows)
    )
    for _time in range(2):
        result = cached.scan()
        assert (result.findings, result.summary.bytes_hashed) == ([], len(FILES[EDITED]))


def test_pinned_wheels_are_remembered(cached: Cached, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    members = {path: (cached.site / path).read_bytes() for path in [*FILES, "pkg/__init__.py", "pkg/large.bin"]}
    members["pkg-1.0.dist-info/METADATA"] = (cached.site / "pkg-1.0.dist-info/METADATA").read_bytes()
    wheel = build_wheel(tmp_path / "wheels", members, info="pkg-1.0.dist-info")
    lock = tmp_path / "lock.txt"
    lock.write_text(f"pkg==1.0 --hash=sha256:{sha256(wheel.read_bytes())}\n")
    options = {"wheel": wheel, "lock": str(lock), "workers": 1}
    assert cached.env.scan(cache=str(cached.path), **options).findings == []
    read: list[str] = []
    content = hashing.Hasher.content

    def noted(self: hashing.Hasher, path: str) -> Optional[hashing.Content]:
        read.append(path)
        return content(self, path)

    monkeypatch.setattr(hashing.Hasher, "content", noted)
    result = cached.env.scan(cache=str(cached.path), **options)
    assert (result.findings, result.summary.verified_against, read) == ([], "pinned_wheel", [])
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    result = cached.env.scan(cache=str(cached.path), **options)
    assert result.summary.verified_against == "installed_record"
    assert "was refused" in result.warnings[0]


def test_names_that_are_no_text(cached: Cached) -> None:
    odd = {os.fsdecode(b"pkg/\xff\xfe.py"): b"a", "pkg/two\nlines.py": b"b", 'pkg/"quoted", [1].py': b"c"}
    for path, data in odd.items():
        (cached.site / path).write_bytes(data)
    with (cached.site / "pkg-1.0.dist-info/RECORD").open("ab") as stream:
        for path, data in odd.items():
            digest = hashlib.sha256(data).hexdigest()
            stream.write(b'"%s",sha256=%s,1\n' % (os.fsencode(path).replace(b'"', b'""'), digest.encode()))
    cached.scan()
    result = cached.scan()
    assert result.summary.from_cache == len(FILES) + 6
    assert result.summary.bytes_hashed == 0
