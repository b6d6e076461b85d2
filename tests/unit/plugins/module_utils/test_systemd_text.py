# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Words that systemd must hand on unchanged."""

from __future__ import annotations

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.systemd_text import quote_argument


@pytest.mark.parametrize(
    ("value", "quoted"),
    [
        ("--tensor-parallel-size", "--tensor-parallel-size"),
        ("0.93", "0.93"),
        ("", '""'),
        ("two words", '"two words"'),
        ('{"a": 1}', '"{\\"a\\": 1}"'),
        ("100%", '"100%%"'),
        ("$HOME", '"$$HOME"'),
        ("back\\slash", '"back\\\\slash"'),
        ("line\nfeed", '"line\\nfeed"'),
        ("it's", '"it\'s"'),
        ("# no comment; one word", '"# no comment; one word"'),
    ],
)
def test_one_word_stays_one_word(value: str, quoted: str) -> None:
    assert quote_argument(value) == quoted


def test_environment_lines_know_no_variables() -> None:
    assert quote_argument("$5", expand_variables=False) == '"$5"'


def test_control_characters_are_refused() -> None:
    with pytest.raises(ValueError, match="control character"):
        quote_argument("a\x00b")
