# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import os
import pathlib

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.quarantine import Quarantine


@pytest.fixture
def source(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "src" / "E=8,N=[1].py"
    path.parent.mkdir()
    path.write_bytes(b"edited\r\n")
    path.chmod(0o754)
    os.utime(path, ns=(1_000_000_000, 2_000_000_007))
    return path


@pytest.fixture
def quarantine(tmp_path: pathlib.Path) -> Quarantine:
    return Quarantine(str(tmp_path / "deep" / "quarantine" / "20261130T032512Z"))


def _everything(quarantine: Quarantine) -> list[str]:
    return sorted(
        os.path.relpath(os.path.join(root, name), quarantine.directory)
        for root, _directories, names in os.walk(quarantine.directory)
        for name in names
    )


def test_a_copy_has_content_mode_times_and_owner(source: pathlib.Path, quarantine: Quarantine) -> None:
    if os.geteuid() == 0:
        os.chown(source, 1234, 4321)
        source.chmod(0o4754)
    kept = quarantine.keep(str(source))
    assert kept.path == str(source)
    assert kept.kept == os.path.join(quarantine.directory, "files", str(source)[1:])
    assert kept.sha256 == hashlib.sha256(b"edited\r\n").hexdigest()
    assert kept.size == 8
    before, after = source.stat(), os.stat(kept.kept)
    for field in ("st_mode", "st_uid", "st_gid", "st_mtime_ns", "st_size"):
        assert getattr(before, field) == getattr(after, field)
    assert source.read_bytes() == pathlib.Path(kept.kept).read_bytes()


def test_only_the_owner_can_look_in(source: pathlib.Path, quarantine: Quarantine) -> None:
    place = quarantine.keep(str(source)).kept
    while place != os.path.dirname(quarantine.directory):
        place = os.path.dirname(place)
        if place.startswith(quarantine.directory):
            assert os.stat(place).st_mode & 0o7777 == 0o700, place


def test_moving_removes_the_original(source: pathlib.Path, quarantine: Quarantine) -> None:
    kept = quarantine.keep(str(source), move=True)
    assert not source.exists()
    assert pathlib.Path(kept.kept).read_bytes() == b"edited\r\n"


def test_same_content_is_kept_once_and_other_content_beside_it(source: pathlib.Path, quarantine: Quarantine) -> None:
    first = quarantine.keep(str(source))
    assert quarantine.keep(str(source)) == first
    source.write_bytes(b"other")
    second = quarantine.keep(str(source))
    assert second.kept == first.kept + ".1"
    assert pathlib.Path(first.kept).read_bytes() == b"edited\r\n"
    source.write_bytes(b"third")
    assert quarantine.keep(str(source), move=True).kept == first.kept + ".2"
    assert len(_everything(quarantine)) == 3


def test_a_symlink_is_kept_as_a_symlink(source: pathlib.Path, quarantine: Quarantine) -> None:
    link = source.parent / "link"
    link.symlink_to("/nowhere/at all")
    kept = quarantine.keep(str(link), move=True)
    assert os.readlink(kept.kept) == "/nowhere/at all"
    assert not os.path.lexists(link)
    link.symlink_to("elsewhere")
    assert quarantine.keep(str(link)).kept == kept.kept + ".1"


def test_what_cannot_be_kept_stays_where_it_is(source: pathlib.Path, quarantine: Quarantine) -> None:
    os.mkfifo(source.parent / "fifo")
    for name, reason in (("fifo", "neither"), (".", "neither"), ("absent", "No such file")):
        with pytest.raises(OSError, match=reason):
            quarantine.keep(str(source.parent / name), move=True)
    assert (source.parent / "fifo").exists()
    assert _everything(quarantine) == []


def test_patches_and_notes(source: pathlib.Path, quarantine: Quarantine) -> None:
    place = quarantine.patch(str(source), "--- a\n+++ b\n")
    assert place == os.path.join(quarantine.directory, "patches", str(source)[1:] + ".patch")
    assert quarantine.patch(str(source), "--- a\n+++ b\n") == place
    other = quarantine.patch(str(source), "other \udcff\n")
    assert other == place[: -len(".patch")] + ".1.patch"
    assert pathlib.Path(other).read_bytes() == b"other \xff\n"
    note = quarantine.note("findings.json", "[]")
    assert quarantine.note("findings.json", "[1]") == note
    assert pathlib.Path(note).read_text() == "[1]"
    assert os.stat(note).st_mode & 0o7777 == 0o600


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc/passwd", "../x"])
def test_a_note_stays_in_the_quarantine(quarantine: Quarantine, name: str) -> None:
    with pytest.raises(ValueError, match="plain file name"):
        quarantine.note(name, "x")


def test_a_relative_quarantine_is_refused() -> None:
    with pytest.raises(ValueError, match="absolute"):
        Quarantine("quarantine")
