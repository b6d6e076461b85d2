# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.redact import redact


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("vllm serve --api-key tok-123 --port 1", "vllm serve --api-key ******** --port 1"),
        ("vllm serve --api-key=tok-123", "vllm serve --api-key=********"),
        ("VLLM_API_KEY=tok-123 x", "VLLM_API_KEY=******** x"),
        ("args: {'api_key': ['tok-123'], 'port': 1}", "args: {'api_key': ['********'], 'port': 1}"),
        ('{"api_key": "tok-123"}', '{"api_key": "********"}'),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ********"),
        ("token hf_abcdefghijklmnopqrstuv", "token ********"),
        ("HF_TOKEN=hf_short", "HF_TOKEN=********"),
        ("the api_key is missing", "the api_key is missing"),
        ("mine: plain-secret!", "mine: ********!"),
    ],
)
def test_secrets_are_taken_out(text: str, wanted: str) -> None:
    assert redact(text, ["plain-secret", ""]) == wanted
