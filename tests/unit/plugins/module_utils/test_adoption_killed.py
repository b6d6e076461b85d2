# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An adoption, or its undoing, in a process of its own that is killed before each of its steps."""

from __future__ import annotations

import itertools
import os
import pathlib
import signal
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils import adoption
from ansible_collections.pristine.vllm.plugins.module_utils.adoption import undo_adoption
from ansible_collections.pristine.vllm.plugins.module_utils.release_switch import switch
from ansible_collections.pristine.vllm.tests.unit.plugins.adoption_support import ID, Seed

# All that changes something or makes it last. What follows the exchange is one of these again.
STEPS = ("symlink", "replace", "unlink", "fsync")


def killed_before(step: int, call: Callable[[], Any]) -> bool:
    """Run something in a child that gets SIGKILL before a step of it; False when it has no such step."""
    pid = os.fork()
    if pid == 0:
        try:
            _arm(step)
            call()
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def _arm(step: int) -> None:
    count = itertools.count(1)

    def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            if next(count) == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)

        return counted

    for name in STEPS:
        setattr(os, name, wrapped(getattr(os, name)))
    # Those that import it have it by their own name.
    vars(adoption)["exchange"] = wrapped(vars(adoption)["exchange"])


@pytest.fixture
def seed(tmp_path: pathlib.Path) -> Seed:
    return Seed(tmp_path)


def steps_of(call: Callable[[], Any], between: Callable[[], None], again: Callable[[], None]) -> int:
    """Kill a call before each step in turn, look, and bring the host back to where it began; return how many."""
    for step in itertools.count(1):
        if not killed_before(step, call):
            return step - 1
        between()
        again()
    raise AssertionError


def test_an_adoption_is_finished_by_the_next_one_or_taken_back(seed: Seed) -> None:
    before = seed.tree()
    moved: list[bool] = []

    def undo() -> None:
        undo_adoption(seed.layout, str(seed.env))
        assert seed.tree() == before
        assert undo_adoption(seed.layout, str(seed.env)) is False

    def look() -> None:
        seed.serves()
        assert not seed.removable(), "nothing may prune what is live"
        moved.append(seed.env.is_symlink())

    def finish() -> None:
        assert seed.adopt().place.id == ID
        seed.adopted()
        assert not seed.adopt().plan.changed
        undo()

    assert steps_of(seed.adopt, look, undo) > 10
    seed.adopted()
    undo()
    count = len(moved)
    assert True in moved
    assert moved == sorted(moved), "it moves once"
    assert steps_of(seed.adopt, look, finish) == count


def test_an_undoing_is_finished_by_the_next_one_or_the_environment_adopted_again(seed: Seed) -> None:
    before = seed.tree()
    seed.adopt()

    def undo() -> bool:
        return undo_adoption(seed.layout, str(seed.env))

    def finish() -> None:
        undo()
        assert seed.tree() == before
        seed.adopt()

    def adopted() -> None:
        seed.adopt()
        seed.adopted()

    count = steps_of(undo, seed.serves, finish)
    assert count > 8
    assert seed.tree() == before
    seed.adopt()
    assert steps_of(undo, seed.serves, adopted) == count


def test_a_switch_after_a_killed_adoption_knows_the_way_back(seed: Seed) -> None:
    seed.new_release()
    for step in itertools.count(1):
        if not killed_before(step, seed.adopt):
            break
        switch(seed.layout, "v-1", None)
        back = seed.layout.link("previous")
        if seed.env.is_symlink():
            assert seed.links()["previous"] == f"releases/{ID}"
            seed.adopt()
            assert seed.links() == {
                "env": str(seed.root / "current"),
                "current": "releases/v-1",
                "previous": f"releases/{ID}",
            }
            switch(seed.layout, ID, "")
        else:
            assert back is None or back.path == str(seed.env)
            (seed.root / "current").unlink()
            (seed.root / "previous").unlink(missing_ok=True)
        undo_adoption(seed.layout, str(seed.env))
        assert not seed.env.is_symlink()
        assert not seed.links()
    assert step > 10
