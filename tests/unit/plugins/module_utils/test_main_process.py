# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import pathlib
import sys

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.main_process import (
    Serves,
    command_words,
    read_serves,
    runs_from,
)


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    """Two releases and a link to the second, as on a host."""
    for name in ("one", "two"):
        home = tmp_path / "releases" / name
        (home / "bin").mkdir(parents=True)
        (home / "pyvenv.cfg").write_text("home = /usr/bin\n", encoding="utf-8")
        (home / "bin/python").symlink_to(sys.executable)
        (home / "bin/vllm").write_text("#!\n", encoding="utf-8")
    (tmp_path / "current").symlink_to("releases/two")
    return tmp_path


def test_the_words_of_this_very_process() -> None:
    assert command_words(os.getpid())[0]
    assert command_words(0) == []
    assert command_words(2**22 + 1) == []


@pytest.mark.parametrize("text", [b"", b"\0", b"(vllm)\0", b"/usr/lib/systemd/systemd-executor\0--deserialize\0"])
def test_a_process_that_is_not_its_program_yet(tmp_path: pathlib.Path, text: bytes) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/cmdline").write_bytes(text)
    assert command_words(7, str(tmp_path)) == []


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["{root}/releases/two/bin/python", "{root}/current/bin/vllm", "serve"], True),
        (["{root}/current/bin/python", "-m", "vllm"], True),
        (["python3", "{root}/current/bin/vllm"], True),
        (["/bin/sh", "{root}/releases/two/bin/vllm"], True),
        (["{root}/current/bin/vllm"], True),
        # Started before the switch: only its interpreter tells.
        (["{root}/releases/one/bin/python", "{root}/current/bin/vllm", "serve"], False),
        (["{root}/releases/one/bin/python", "{root}/releases/one/bin/vllm"], False),
        # Its release was removed under it.
        (["{root}/releases/none/bin/python", "{root}/current/bin/vllm", "serve"], False),
        (["/bin/sh", "/usr/local/bin/vllm"], False),
        (["{root}/releases/two-more/bin/vllm"], False),
        (["vllm", "serve"], False),
        ([], False),
    ],
)
def test_from_which_environment(root: pathlib.Path, words: list[str], wanted: bool) -> None:
    for environment in ("current", "releases/two"):
        assert runs_from([word.format(root=root) for word in words], str(root / environment)) is wanted


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("p vllm serve m --host 0.0.0.0 --port 8001 --served-model-name a b", Serves("0.0.0.0", 8001, "a")),
        ("p vllm serve m --host=::1 --port=8001 --served_model_name=a", Serves("::1", 8001, "a")),
        ("p vllm serve m --port 1 --port 2", Serves(None, 2, None)),
        ("p vllm serve m --port x --host", Serves()),
        ("p vllm serve m --served-model-name --port 9", Serves(None, 9, None)),
        ("p vllm serve m", Serves()),
    ],
)
def test_what_it_serves(line: str, wanted: Serves) -> None:
    assert read_serves(line.split()) == wanted
