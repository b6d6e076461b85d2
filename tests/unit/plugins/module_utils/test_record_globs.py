# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.record.globs import Ignore, compile_glob
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("a/*.py", "a/b.py", True),
        ("a/*.py", "a/b/c.py", False),
        ("a/**", "a/b/c.py", True),
        ("**/c.py", "a/b/c.py", True),
        ("**/c.py", "c.py", True),
        ("a/**/c.py", "a/c.py", True),
        ("a/**.py", "a/b/c.py", True),
        ("a/?.py", "a/b.py", True),
        ("a?b.py", "a/b.py", False),
        ("a/[bc].py", "a/b.py", True),
        ("a/[!bc].py", "a/b.py", False),
        ("a/[!x].py", "a/b.py", True),
        ("a[!x]b", "a/b", False),
        ("a/[]x].py", "a/].py", True),
        ("a/[[]fp8].json", "a/[fp8].json", True),
        ("a/\\[fp8\\].json", "a/[fp8].json", True),
        ("a/[fp8].json", "a/[fp8].json", True),
        ("a/[fp8].json", "a/p.json", True),
        ("E=8,N=*,[[]x].json", "E=8,N=16,[x].json", True),
        ("a/open[.py", "a/open[.py", True),
        ("a/\\*", "a/x", False),
        ("a/\\*", "a/*", True),
        ("a.py", "axpy", False),
        ("a.py", "b/a.py", False),
        ("a", "a/b", False),
        ("[z-a]x", "zx", True),
        ("two\nlines*", "two\nlines!", True),
    ],
)
def test_patterns(pattern: str, path: str, matches: bool) -> None:
    assert Ignore([pattern])(path) is matches


@given(st.text())
def test_any_text_is_a_pattern_that_matches_itself(text: str) -> None:
    compile_glob(text)
    assert Ignore([text])(text)
