# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import ctypes
import errno
import os
import pathlib
import platform
import tempfile
from types import SimpleNamespace

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.exchange import IMPOSSIBLE, exchange


def old_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """A C library without the function, such as that of RHEL 7."""
    real = ctypes.CDLL(None, use_errno=True)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_name, **_options: SimpleNamespace(syscall=real.syscall))


@pytest.mark.parametrize("old", [False, True])
def test_a_directory_and_a_link(old: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if old:
        old_library(monkeypatch)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").touch()
    (tmp_path / "b").symlink_to("text")
    exchange(str(tmp_path / "a"), str(tmp_path / "b"))
    assert os.readlink(tmp_path / "a") == "text"
    assert (tmp_path / "b" / "file").exists()
    with pytest.raises(FileNotFoundError):
        exchange(str(tmp_path / "a"), str(tmp_path / "c"))


def test_what_cannot_be(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").touch()
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as other, pytest.raises(OSError, match="device") as refused:
        exchange(str(tmp_path / "a"), other.name)
    assert refused.value.errno == errno.EXDEV
    old_library(monkeypatch)
    monkeypatch.setattr(platform, "machine", lambda: "pdp11")
    with pytest.raises(OSError, match="not known for pdp11") as refused:
        exchange(str(tmp_path / "a"), str(tmp_path / "a"))
    assert refused.value.errno in IMPOSSIBLE
