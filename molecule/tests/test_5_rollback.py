# Copyright: Pristine vLLM maintainers (@pristine-vllm)
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A release that passes every check beside the running one, and then does not start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_a_release_that_does_not_start_is_rolled_back(
    playbook: Callable[..., Any],
    state: Callable[[], Any],
    completion: Callable[[], str],
    variables: dict[str, Any],
    records: Callable[[str], list[dict[str, Any]]],
) -> None:
    before = state()
    run = playbook("pristine.vllm.reinstall", **variables["fixture_broken"])
    after = state()
    assert run.code != 0
    assert "The host is as it was" in run.said
    assert "ImportError" in run.said, "the journal's reason is not in the message"
    assert after.main_pid != before.main_pid, "the new release was never started"
    assert after.live == before.live
    assert after.code == before.code
    assert after.model == before.model
    assert after.unit == before.unit
    assert completion()
    record = records("reinstall")[-1]
    assert record["outcome"] == "rolled back"
    assert "ImportError" in record["failure"]


def test_the_next_run_of_the_good_pin_restarts_nothing(playbook: Callable[..., Any], state: Callable[[], Any]) -> None:
    before = state()
    assert playbook("pristine.vllm.reinstall").code == 0, "it writes its own lock again, and no more"
    again = playbook("pristine.vllm.reinstall")
    assert (again.code, again.changed) == (0, 0)
    assert state() == before
