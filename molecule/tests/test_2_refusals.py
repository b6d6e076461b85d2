# Copyright: Pristine vLLM maintainers (@pristine-vllm)
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input: one clear message, before anything changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from testinfra.host import Host

# A wheel that the host keeps needs no index. No wheel has this digest.
NOT_KEPT = {"vllm_wheel_sha256": "0" * 64}
CASES = {
    "unreachable index": ({"vllm_index_url": "http://index:9", **NOT_KEPT}, ["http://index:9", "refused"]),
    "an index page that is not HTML": (
        {"vllm_index_url": "http://index/portal", **NOT_KEPT},
        ["http://index/portal", "HTML"],
    ),
    "version not in the index": (
        {"vllm_version": "0.16.0rc2.dev999+g662205d34"},
        ["0.16.0rc2.dev999+g662205d34", "0.16.0rc2.dev313+g662205d34"],
    ),
    "environment path that is no environment": ({"vllm_environment": "/srv"}, ["/srv", "environment"]),
    "model path without config.json": ({"vllm_model_path": "/opt"}, ["/opt/config.json"]),
    "unknown unit": ({"vllm_unit": "vllm-kimi-k52"}, ["vllm-kimi-k52"]),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused_before_anything_changed(
    case: str, playbook: Callable[..., Any], state: Callable[[], Any], host: Host
) -> None:
    given, told = CASES[case]
    before = state()
    run = playbook("pristine.vllm.reinstall", **given)
    assert run.code != 0
    assert run.changed == 0
    assert state() == before
    assert "1 thing stands in the way on vllm01. Nothing was changed" in run.said
    for words in told:
        assert words in run.said


def test_all_blockers_are_told_at_once(playbook: Callable[..., Any], state: Callable[[], Any]) -> None:
    before = state()
    run = playbook(
        "pristine.vllm.reinstall",
        vllm_unit="vllm-kimi-k52",
        vllm_model_path="/opt",
        vllm_index_url="http://index:9",
        **NOT_KEPT,
    )
    assert "3 things stand in the way" in run.said
    assert state() == before


def test_phases_that_belong_together_cannot_be_taken_apart(
    playbook: Callable[..., Any], state: Callable[[], Any]
) -> None:
    before = state()
    for flags in (("--tags", "start,record"), ("--skip-tags", "drain")):
        run = playbook("pristine.vllm.reinstall", *flags)
        assert run.code != 0
        assert "belong together" in run.said
    assert state() == before
