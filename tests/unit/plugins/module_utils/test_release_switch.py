# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import pathlib
import subprocess
from typing import Optional

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils import release_switch
from ansible_collections.pristine.vllm.plugins.module_utils.release import (
    Layout,
    ReleaseError,
    describe_environment,
    environment_problem,
    release_stem,
)
from ansible_collections.pristine.vllm.plugins.module_utils.release_prune import plan_pruned, remove
from ansible_collections.pristine.vllm.plugins.module_utils.release_switch import plan_switch, switch
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import fake_environment, fake_release


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    root = tmp_path / "vllm"
    for number in (1, 2, 3):
        fake_release(root, f"v-{number}", f"2026-11-0{number}T00:00:00Z")
    fake_release(root, "v-4")
    return root


def links(root: pathlib.Path) -> tuple[Optional[str], Optional[str]]:
    layout = Layout(str(root))
    return layout.link_text("current"), layout.link_text("previous")


def test_there_and_back(root: pathlib.Path) -> None:
    layout = Layout(str(root))
    (root / ".tmp-current-1").symlink_to("left by a killed run")
    assert switch(layout, "v-1", None).changed
    assert links(root) == ("releases/v-1", None)
    assert switch(layout, "v-2", None).changed
    assert links(root) == ("releases/v-2", "releases/v-1")
    assert not switch(layout, "v-2", None).changed
    assert links(root) == ("releases/v-2", "releases/v-1"), "again does not lose the way back"
    assert switch(layout, "v-1", None).changed
    assert links(root) == ("releases/v-1", "releases/v-2")
    assert switch(layout, "v-1", "v-3").changed
    assert not switch(layout, "v-1", str(root / "releases" / "v-3")).changed
    assert links(root) == ("releases/v-1", "releases/v-3")
    assert switch(layout, "v-1", "").changed
    assert links(root) == ("releases/v-1", None)
    assert sorted(os.listdir(root)) == ["current", "releases"]


def test_an_adopted_environment(root: pathlib.Path, tmp_path: pathlib.Path) -> None:
    layout = Layout(str(root))
    adopted = fake_environment(tmp_path / "ml-env")
    switch(layout, str(adopted), None)
    assert links(root) == (str(adopted), None)
    switch(layout, "v-1", None)
    assert links(root) == ("releases/v-1", str(adopted))
    place = layout.link("previous")
    assert place
    assert place.describe() == {"id": None, "path": str(adopted), "metadata": None}
    switch(layout, str(adopted) + "/", "v-2")
    assert links(root) == (str(adopted), "releases/v-2")


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("v-4", "v-4 was never finished. Nothing was changed, current stays releases/v-1"),
        ("v-9", "v-9 is not there"),
        ("..", "'..' is no id"),
        (".tmp-x", "is no id"),
        ("a/b", "is no id"),
        ("/nonexistent", "cannot switch to /nonexistent: /nonexistent is not there"),
        ("/usr", "/usr has no pyvenv.cfg"),
    ],
)
def test_what_is_no_environment_is_refused(root: pathlib.Path, target: str, reason: str) -> None:
    layout = Layout(str(root))
    switch(layout, "v-1", None)
    with pytest.raises(ReleaseError, match=reason):
        switch(layout, target, None)
    assert links(root) == ("releases/v-1", None)


def test_links_that_are_something_else(root: pathlib.Path) -> None:
    layout = Layout(str(root))
    for target in ("current", "previous"):
        with pytest.raises(ReleaseError, match="is one of the links themselves"):
            switch(layout, str(root / target), None)
    (root / "current").mkdir()
    with pytest.raises(ReleaseError, match="current is not a symlink, so it cannot be switched"):
        switch(layout, "v-1", None)
    (root / "current").rmdir()
    (root / "current").symlink_to("releases/gone")
    (root / "previous").symlink_to("releases/v-2")
    switch(layout, "v-1", None)
    assert links(root) == ("releases/v-1", "releases/v-2"), "what leads nowhere is no way back"
    (root / "current").unlink()
    (root / "current").symlink_to(root / "releases" / "v-1")
    assert not switch(layout, "v-1", None).changed, "the same place in other words"


def test_what_is_damaged_is_no_way_back_where_there_is_another(root: pathlib.Path) -> None:
    layout = Layout(str(root))
    switch(layout, "v-2", "v-1")
    (root / "releases" / "v-2" / "pyvenv.cfg").unlink()
    switch(layout, "v-3", None)
    assert links(root) == ("releases/v-3", "releases/v-1")
    (root / "releases" / "v-3" / "pyvenv.cfg").unlink()
    switch(layout, "v-1", None)
    assert links(root) == ("releases/v-1", "releases/v-3"), "the other one is the target"


def test_an_id_that_a_link_names_is_taken_though_its_directory_is_gone(root: pathlib.Path) -> None:
    (root / "current").symlink_to("releases/v-5")
    assert Layout(str(root)).next_id("v") == "v-6"


def test_killed_between_the_two_links(root: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout(str(root))
    switch(layout, "v-1", "v-3")
    real = release_switch.write_link

    class Killed(BaseException):
        pass

    def once(root: str, name: str, before: Optional[str], text: Optional[str]) -> None:
        if name == "current":
            raise Killed
        real(root, name, before, text)

    monkeypatch.setattr(release_switch, "write_link", once)
    with pytest.raises(Killed):
        switch(layout, "v-2", None)
    monkeypatch.undo()
    assert links(root) == ("releases/v-1", "releases/v-1")
    switch(layout, "v-2", None)
    assert links(root) == ("releases/v-2", "releases/v-1")


def test_check_may_name_what_is_yet_to_be_built(root: pathlib.Path) -> None:
    assert plan_switch(Layout(str(root)), "v-9", None, must_exist=False).changed


def test_pruning_keeps_the_live_the_previous_and_the_newest(root: pathlib.Path) -> None:
    layout = Layout(str(root))
    for number in (5, 6, 7):
        fake_release(root, f"v-{number}", f"2026-11-0{number}T00:00:00Z")
    (root / "releases" / ".tmp-x").mkdir()
    (root / "releases" / ".removed-v-0-1").mkdir()
    (root / "current").symlink_to("releases/v-1")
    (root / "previous").symlink_to(root / "releases" / "v-2")
    planned = [place.id for place in plan_pruned(layout, 2)]
    assert planned == ["v-4", "v-3", "v-5"], "the unfinished first, then by age"
    assert [place.id for place in remove(layout, keep=2)] == planned
    assert sorted(os.listdir(root / "releases")) == ["v-1", "v-2", "v-6", "v-7"]
    assert remove(layout, keep=2) == []
    assert [place.id for place in remove(layout, keep=0)] == ["v-6", "v-7"]


def test_what_is_used_is_not_removed(root: pathlib.Path) -> None:
    layout = Layout(str(root))
    (root / "current").symlink_to("releases/v-1")
    with pytest.raises(ReleaseError, match=f"release v-1 is not removed: {root}/current leads to it"):
        remove(layout, "v-1")
    python = root / "releases" / "v-2" / "bin" / "python"
    with subprocess.Popen([python, "-c", "print(flush=True); input()"], stdin=-1, stdout=-1) as process:
        assert process.stdout
        process.stdout.readline()
        with pytest.raises(ReleaseError, match=f"processes {process.pid} run from {root}/releases/v-2"):
            remove(layout, "v-2")
        assert "v-2" not in [place.id for place in plan_pruned(layout, 0)]
        process.communicate(b"\n")
    assert [place.id for place in remove(layout, "v-2")] == ["v-2"]
    assert remove(layout, "v-2") == []
    assert (root / "releases" / "v-1").exists()


def test_ids(root: pathlib.Path) -> None:
    layout = Layout(str(root))
    assert release_stem("0.16.0rc2.dev313+g662205d34.cu130") == "0.16.0rc2.dev313.g662205d34.cu130"
    assert layout.next_id("v") == "v-4", "what was never finished is built over"
    (root / "current").symlink_to("releases/v-4")
    assert layout.next_id("v") == "v-5", "unless it is live"
    assert layout.next_id("0.16.0+g1") == "0.16.0.g1-1"
    fake_release(root, "0.16.0.g1-x", "2026")
    fake_release(root, "0.16.0.g1-12", "2026")
    fake_release(root, "0.16.0.g1.cu130-40", "2026")
    assert layout.next_id("0.16.0+g1") == "0.16.0.g1-13"
    assert Layout(str(root / "absent")).next_id("1") == "1-1"
    with pytest.raises(ReleaseError, match="root 'opt' is not an absolute path"):
        Layout("opt")


def test_environments_are_described_and_not_run(root: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = fake_environment(tmp_path / "env")
    site = path / "lib" / "python3.11" / "site-packages"
    (site / "vllm-0.16.0+g1.dist-info").mkdir()
    (site / "vllm_extra-1.dist-info").mkdir()
    (tmp_path / "link").symlink_to("env")
    assert describe_environment(str(tmp_path / "link")) == {
        "path": str(tmp_path / "link"),
        "real_path": str(path),
        "exists": True,
        "is_environment": True,
        "problem": None,
        "version": "0.16.0+g1",
        "distributions": {"vllm": "0.16.0+g1", "vllm-extra": "1"},
    }
    (site / "vllm-0.15.0.dist-info").mkdir()
    assert describe_environment(str(path))["version"] is None
    (path / "bin" / "python").unlink()
    assert environment_problem(str(path)) == f"{path} has no bin/python that runs"
    site.rename(tmp_path / "elsewhere")
    assert environment_problem(str(path)) == f"{path} has no lib/python3*/site-packages"
    (tmp_path / "dangling").symlink_to("nowhere")
    assert describe_environment(str(tmp_path / "dangling"))["exists"] is True
    assert environment_problem(str(tmp_path / "dangling")) == f"{tmp_path}/dangling is not a directory"
