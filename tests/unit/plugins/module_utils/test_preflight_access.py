# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import pathlib
import pwd
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils import preflight_access
from ansible_collections.pristine.vllm.plugins.module_utils.preflight import Need, inspect
from ansible_collections.pristine.vllm.plugins.module_utils.preflight_access import try_as

# Who is not root finds nothing, and the kernel stops root nowhere: what is expected depends on who runs the tests.
ROOT = os.geteuid() == 0
SHARD = "model-00001-of-00001.safetensors"


@pytest.fixture
def model() -> Iterator[pathlib.Path]:
    """A model that everybody can read; pytest's own folders are closed to others."""
    top = pathlib.Path(tempfile.mkdtemp(prefix="pristine-access-"))
    path = top / "models/kimi"
    path.mkdir(parents=True)
    (path / "config.json").write_text("{}", encoding="utf-8")
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": SHARD}}), encoding="utf-8")
    (path / SHARD).write_bytes(b"weights")
    for item in (top, *top.rglob("*")):
        item.chmod(0o755 if item.is_dir() else 0o644)
    yield path
    shutil.rmtree(top)


def blockers(model: pathlib.Path, user: str = "nobody") -> list[tuple[str, str, str, str]]:
    found = inspect(Need(model_path=str(model), user=user))[0]
    return [(finding.check, finding.where, finding.what, finding.next) for finding in found]


def expect(model: pathlib.Path, where: pathlib.Path, what: str, advice: str) -> None:
    found = blockers(model)
    if not ROOT:
        assert [finding for finding in found if finding[0] == "access"] == []
        return
    assert [finding[:3] for finding in found] == [("access", str(where), f"user nobody, who serves, {what}")]
    assert advice in found[0][3]
    assert "or move the model" in found[0][3]


def test_a_model_that_the_user_can_read(model: pathlib.Path) -> None:
    assert blockers(model) == []
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_folder_on_the_way(model: pathlib.Path) -> None:
    model.parent.chmod(0o700)
    what = f"cannot pass this folder on the way to {model}"
    expect(model, model.parent, what, f"`setfacl -m u:nobody:x {model.parent}`")


def test_the_folder_itself(model: pathlib.Path) -> None:
    model.chmod(0o700)
    expect(model, model, "cannot read it: Permission denied", f"`setfacl -R -m u:nobody:rX {model}`")
    model.chmod(0o744)
    expect(model, model, "cannot pass this folder", f"`setfacl -R -m u:nobody:rX {model}`")


@pytest.mark.parametrize("name", ["config.json", SHARD])
def test_a_file(model: pathlib.Path, name: str) -> None:
    (model / name).chmod(0o600)
    expect(model, model / name, "cannot read it: Permission denied", f"u:nobody:rX {model}`")


def test_a_blob_behind_a_link(model: pathlib.Path) -> None:
    blobs = model.parent / "blobs"
    blobs.mkdir(mode=0o700)
    (model / SHARD).rename(blobs / "abc")
    (model / SHARD).symlink_to("../blobs/abc")
    expect(model, blobs, f"cannot pass this folder on the way to {model / SHARD}", f"`setfacl -m u:nobody:x {blobs}`")


def test_a_user_that_is_not_there_yet(model: pathlib.Path) -> None:
    model.chmod(0o700)
    assert blockers(model, "no-such-user-here") == []


def test_what_is_missing_is_not_denied(model: pathlib.Path) -> None:
    (model / SHARD).unlink()
    assert [finding[0] for finding in blockers(model)] == ["weights"]


def keep_groups(_name: str, _group: int) -> None:
    """Who runs the tests may become himself, but only root may set groups."""


def hang(_paths: Sequence[str]) -> None:
    time.sleep(60)


def test_a_path_that_ends_with_a_slash(model: pathlib.Path) -> None:
    model.chmod(0o700)
    found = inspect(Need(model_path=f"{model}/", user="nobody"))[0]
    assert [finding.where for finding in found] == ([str(model)] if ROOT else [])


def test_it_is_bounded_and_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight_access, "first_denied", hang)
    monkeypatch.setattr(os, "initgroups", keep_groups)
    begun = time.monotonic()
    denied = try_as(pwd.getpwuid(os.getuid()), ["/models"], 0.3)
    assert time.monotonic() - begun < 5
    assert denied is not None
    assert denied.why == "could not be shown to read the model within 0.3 seconds"
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_child_that_cannot_become_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(uid: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "initgroups", keep_groups)
    monkeypatch.setattr(os, "setuid", refuse)
    denied = try_as(pwd.getpwuid(os.getuid()), ["/models"], 5.0)
    assert denied is not None
    assert "ended without a word" in denied.why
