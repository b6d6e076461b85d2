# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the variables of a rollout mean. That Ansible goes by it: tests/unit/house/test_rollout.py."""

from __future__ import annotations

from typing import Any, Optional

import pytest
from ansible_collections.pristine.vllm.plugins.plugin_utils.rollout import Rollout, decide

HOSTS = ["a", "b", "c", "d", "e"]


def rollout(hosts: Optional[list[str]] = None, **variables: Any) -> Rollout:
    """What comes of these variables on every host."""
    return decide(dict.fromkeys(HOSTS if hosts is None else hosts, variables), HOSTS)


def test_nothing_said_means_one_by_one_and_none_may_fail() -> None:
    assert rollout() == Rollout(["vllm_hosts"], [1], 0.0, [])
    assert decide({}, []) == Rollout(["vllm_hosts"], [1], 0.0, [])


@pytest.mark.parametrize(
    ("said", "read"),
    [(3, [3]), ("3", [3]), ("30%", ["30%"]), ([1, "3", "100%"], [1, 3, "100%"])],
)
def test_steps(said: Any, read: list[Any]) -> None:
    assert rollout(reinstall_serial=said).serial == read


@pytest.mark.parametrize(("said", "read"), [(0, 0.0), (25, 25.0), ("33.4", 33.4), ("50%", 50.0), (100, 100.0)])
def test_the_share_that_may_fail(said: Any, read: float) -> None:
    assert rollout(reinstall_max_fail_percentage=said).max_fail_percentage == read


@pytest.mark.parametrize("nothing", ["", [], None])
def test_no_canary(nothing: Any) -> None:
    assert rollout(reinstall_canary=nothing) == rollout()


def test_each_canary_is_a_batch_of_its_own_before_the_steps() -> None:
    found = rollout(reinstall_canary=["d", "b", "d"], reinstall_serial=[2, "50%"])
    assert (found.hosts, found.serial) == (["d", "b", "vllm_hosts"], [1, 1, 2, "50%"])
    # What --limit leaves out is no canary of this run.
    found = rollout(["a", "b"], reinstall_canary=["d", "b"], reinstall_serial=2)
    assert (found.hosts, found.serial) == (["b", "vllm_hosts"], [1, 2])


WRONG_SERIALS: list[Any] = [0, -1, "0%", "130%", "x", "", [], [1, 0], [[1]], True, 1.5, None, {}]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("reinstall_serial", value) for value in WRONG_SERIALS],
        *[("reinstall_max_fail_percentage", value) for value in (-1, 101, "many", True, None, [50], "")],
        *[("reinstall_canary", value) for value in ("nobody", ["a", "nobody"], {"a": 1}, 3, [3])],
    ],
)
def test_what_means_nothing_is_told_with_what_to_give_instead(name: str, value: Any) -> None:
    (problem,) = rollout(**{name: value}).problems
    assert problem.startswith(name)
    assert "Next: " in problem


def test_all_of_it_at_once() -> None:
    found = rollout(reinstall_serial="x", reinstall_max_fail_percentage=101, reinstall_canary="nobody")
    assert len(found.problems) == 3


def test_hosts_that_say_different_things() -> None:
    variables: dict[str, dict[str, Any]] = {name: {} for name in HOSTS}
    variables["c"] = {"reinstall_serial": 2}
    (problem,) = decide(variables, HOSTS).problems
    assert problem.startswith(
        "reinstall_serial is not set on a, b, d and 1 more and 2 on c, but holds for a whole run."
    )
    assert "--limit" in problem
