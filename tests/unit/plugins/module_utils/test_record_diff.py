# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib
import subprocess

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.record.diff import (
    FILE_LINES,
    TOTAL_CHARACTERS,
    DiffResult,
    patch,
)
from hypothesis import given
from hypothesis import strategies as st

LINES = [f"line {number}\n" for number in range(60)]


def _edited(*edits: tuple[int, int, str]) -> str:
    lines = list(LINES)
    for start, count, text in sorted(edits, reverse=True):
        lines[start : start + count] = [text]
    return "".join(lines)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("".join(LINES), _edited((0, 0, "new\n"))),
        ("".join(LINES), _edited((59, 1, "last\n"))),
        ("".join(LINES), _edited((59, 1, "no newline at the end"))),
        ("a\nb", "a\nb\n"),
        ("".join(LINES), _edited((10, 1, "x\n"), (12, 0, "y\n"), (40, 5, ""))),
        ("".join(LINES), ""),
        ("one\r\ntwo\r\nthree\r\n", "one\r\n2\r\nthree\r\n"),
        ("a\x0cb\x1cc\u2028d\n", "a\x0cB\x1cc\u2028d\n"),
        ("same\n" * 50, "same\n" * 51),
        ("\udcff latin\n", "\udcfe latin\n"),
    ],
)
@pytest.mark.parametrize("tool", [["patch", "-p1", "--binary", "--silent"], ["git", "apply", "-p1", "-"]])
def test_patches_apply(tmp_path: pathlib.Path, before: str, after: str, tool: list[str]) -> None:
    raw, new = (text.encode("utf-8", "surrogateescape") for text in (before, after))
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/mod.py").write_bytes(raw)
    text = patch("pkg/mod.py", raw, new, "demo.whl")
    assert text is not None
    subprocess.run(tool, input=text.encode("utf-8", "surrogateescape"), cwd=tmp_path, check=True)
    left = (tmp_path / "pkg/mod.py").read_bytes() if (tmp_path / "pkg/mod.py").exists() else b""
    assert left == new


@given(st.lists(st.sampled_from("ab\n"), max_size=30), st.lists(st.sampled_from("ab\n"), max_size=30))
def test_any_two_texts_give_a_patch_or_are_equal(before: list[str], after: list[str]) -> None:
    text = patch("x", "".join(before).encode(), "".join(after).encode(), "o")
    assert (text is None) is (before == after)


def test_removed_and_added_files() -> None:
    gone = patch("pkg/mod.py", b"x\n", None, "demo.whl") or ""
    assert gone.startswith("--- a/pkg/mod.py\tpristine: demo.whl\n+++ /dev/null\tinstalled\n@@ -1 +0,0 @@\n-x\n")
    new = patch("pkg/mod.py", None, b"x\n", "no file") or ""
    assert new.startswith("--- /dev/null\tpristine: no file\n+++ b/pkg/mod.py\tinstalled\n@@ -0,0 +1 @@\n+x\n")


def test_binary_and_hopeless_files_have_none() -> None:
    assert patch("x", b"a\0", b"b\0", "o") is None
    assert patch("x", b"a\n" * (5 << 20), b"b\n", "o") is None
    rewritten = [b"".join(b"%d %d\n" % (text, line) for line in range(30000)) for text in range(2)]
    assert patch("x", rewritten[0], rewritten[1], "o") is None


def test_a_small_edit_in_a_large_file_is_quick_and_short() -> None:
    lines = [b"same\n" if number % 2 else b"line %d\n" % number for number in range(200000)]
    edited = [*lines[:100000], b"new\n", *lines[100000:]]
    text = patch("x", b"".join(lines), b"".join(edited), "o") or ""
    assert "+new\n" in text
    assert text.count("\n") == 10


def test_results_are_capped_and_masked() -> None:
    result = DiffResult("see the quarantine")
    result.add("a.py", "demo.whl", "+x\n" * (FILE_LINES * 2))
    shown = result.entries[0]["prepared"]
    assert shown.count("\n") <= FILE_LINES + 1
    assert f"{FILE_LINES * 2 + 1} lines in all; see the quarantine" in shown
    result.add("b.py", "demo.whl", '+api_key = "sk-abcdefghijklmnopqrstuvwxyz"\n+\udcff\n')
    assert "abcdefgh" not in result.entries[1]["prepared"]
    assert "\\xff" in result.entries[1]["prepared"]
    while not result.full:
        result.add("c.py", "demo.whl", "+" + "x" * 30000 + "\n")
    result.left(7)
    assert result.entries[-1]["prepared"].startswith("... and 7 more files")
    assert sum(len(entry["prepared"]) for entry in result.entries) < TOTAL_CHARACTERS + 40000
    assert result.entries[0]["before_header"] == "a.py (pristine: demo.whl)"
