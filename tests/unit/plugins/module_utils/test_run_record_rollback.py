# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether there is a way back, and what taking it does."""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.release import Layout
from ansible_collections.pristine.vllm.plugins.module_utils.release_switch import switch
from ansible_collections.pristine.vllm.plugins.module_utils.run_record.rollback import plan_rollback, rollback_problem
from ansible_collections.pristine.vllm.plugins.modules import env_release_info
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import fake_release, run_module


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    """Two releases, switched to one after the other."""
    layout = Layout(str(tmp_path))
    for name in ("v-1", "v-2"):
        fake_release(tmp_path, name, "2026-11-30T03:25:12Z")
        switch(layout, name, None)
    return tmp_path


def releases(capfd: pytest.CaptureFixture[str], root: pathlib.Path) -> dict[str, Any]:
    return dict(run_module(capfd, env_release_info.main, root=str(root)))


def test_back_to_the_release_before(root: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = releases(capfd, root)
    assert rollback_problem(found) is None
    plan = plan_rollback(found, ready=False)
    assert (plan["release"], plan["stop"], plan["build"], plan["switch_back"]) == ("v-1", True, False, True)
    assert "v-2, which does not serve" in plan["reasons"][0]


def test_no_release_before(root: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    (root / "previous").unlink()
    assert "there is no previous release: v-2" in str(rollback_problem(releases(capfd, root)))


def test_the_release_before_is_gone(root: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(root / "releases" / "v-1")
    told = str(rollback_problem(releases(capfd, root)))
    assert "no environment any more" in told
    assert "releases/v-1 is not there" in told


def test_the_release_before_is_the_live_one(root: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    (root / "previous").unlink()
    (root / "previous").symlink_to("releases/v-2")
    assert "is the live one, v-2" in str(rollback_problem(releases(capfd, root)))
