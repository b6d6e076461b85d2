# Copyright: Pristine vLLM maintainers (@pristine-vllm)
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The incident's dirt on a serving host, and its way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(scope="module")
def dirty(playbook: Callable[..., Any], variables: dict[str, Any]) -> None:
    made = playbook("tests/fixtures/incident/dirty.yml", incident_model=f"{variables['fixture_folder']}/model")
    assert made.code == 0


@pytest.mark.usefixtures("dirty")
def test_a_check_run_tells_the_plan_and_changes_nothing(playbook: Callable[..., Any], state: Callable[[], Any]) -> None:
    before = state()
    assert before.dumps, "the debug code wrote nothing"
    run = playbook("pristine.vllm.reinstall", "--check")
    assert run.code == 0
    assert "modified vllm/model_executor/models/deepseek_v2.py" in run.said
    assert "build release" in run.said
    assert state() == before


@pytest.mark.usefixtures("dirty")
def test_a_reinstall_clears_it_and_a_second_one_does_nothing(
    playbook: Callable[..., Any], state: Callable[[], Any]
) -> None:
    before = state()
    run = playbook("pristine.vllm.reinstall")
    assert run.code == 0
    after = state()
    assert after.live != before.live
    assert after.main_pid != before.main_pid
    assert after.dumps == ()
    assert after.code != before.code
    again = playbook("pristine.vllm.reinstall")
    assert (again.code, again.changed) == (0, 0)
    assert state() == after, "a second run must not restart anything"
