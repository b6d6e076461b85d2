# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils import adoption
from ansible_collections.pristine.vllm.plugins.module_utils.adoption import adopt, plan_adoption, undo_adoption
from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import BusyError, exclusive
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import ScanOptions
from ansible_collections.pristine.vllm.plugins.module_utils.record.scan import scan
from ansible_collections.pristine.vllm.plugins.module_utils.release import Layout, ReleaseError, describe_environment
from ansible_collections.pristine.vllm.plugins.module_utils.release_prune import remove
from ansible_collections.pristine.vllm.plugins.module_utils.release_switch import switch
from ansible_collections.pristine.vllm.tests.unit.plugins.adoption_support import ID, Seed
from ansible_collections.pristine.vllm.tests.unit.plugins.record_support import Templates, install
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import fake_environment

# Imports one module after the other, for as long as its standard input is open, as a server imports what it needs first
# by the path that it was started with.
SERVICE = """
import importlib, mmap, os, select, sys
environment, progress = sys.argv[1], os.open(sys.argv[2], os.O_RDWR | os.O_CREAT)
assert sys.prefix == environment
site = next(path for path in sys.path if path.startswith(environment))
mapped = mmap.mmap(os.open(site + "/held.bin", os.O_RDONLY), 0, prot=mmap.PROT_READ)
done = 0
while not select.select([0], [], [], 0)[0]:
    name = f"lazy{done % 50}"
    sys.modules.pop(name, None)
    importlib.invalidate_caches()
    module = importlib.import_module(name)
    assert module.__file__.startswith(environment), module.__file__
    assert open(environment + "/pyvenv.cfg").read() and mapped[:4] == b"held"
    done += 1
    os.pwrite(progress, str(done).encode(), 0)
"""


@pytest.fixture
def seed(tmp_path: pathlib.Path) -> Seed:
    return Seed(tmp_path)


@pytest.fixture
def elsewhere() -> Iterator[pathlib.Path]:
    """A directory on another file system than that of temporary files."""
    path = pathlib.Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield path
    shutil.rmtree(path)


def refuse(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_names: str) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(adoption, "exchange", refused)


def test_there_and_back(seed: Seed) -> None:
    before, inode = seed.tree(), seed.env.stat().st_ino
    done = seed.adopt()
    seed.adopted()
    seed.serves()
    assert (done.place.id, done.place.path, done.plan.why) == (ID, str(seed.release), "")
    assert seed.release.stat().st_ino == inode, "it was not built again"
    mark = done.place.metadata
    assert mark == seed.layout.release(ID).metadata
    assert mark is not None
    assert {**mark, "created_at": ""} == {
        "adopted_from": str(seed.env),
        "version": "0.16.0+g1",
        "created_at": "",
        "current_before": None,
        "run_id": "20261130T032512Z",
    }
    assert not seed.adopt().plan.changed
    assert undo_adoption(seed.layout, f"{seed.env}/") is True
    assert seed.tree() == before
    assert undo_adoption(seed.layout, str(seed.env)) is False


def test_the_old_path_means_what_is_live(seed: Seed) -> None:
    seed.new_release()
    seed.adopt()
    switch(seed.layout, "v-1", None)
    assert os.path.realpath(seed.env) == str(seed.root / "releases" / "v-1")
    assert seed.links()["previous"] == f"releases/{ID}"
    assert seed.layout.live(seed.layout.release(ID)) == "previous"
    assert not seed.adopt().plan.changed
    with pytest.raises(ReleaseError, match=r"leads to .*/current, which is one of the links themselves"):
        switch(seed.layout, str(seed.env), None)
    with pytest.raises(
        ReleaseError, match=f"is not put back: .*leads to .*v-1 and not to .*{ID}.*Switch to {ID} first"
    ):
        undo_adoption(seed.layout, str(seed.env))
    switch(seed.layout, ID, None)
    seed.serves()
    assert seed.links()["previous"] == "releases/v-1"
    switch(seed.layout, "v-1", None)
    assert seed.links()["previous"] == f"releases/{ID}", "and once more"
    switch(seed.layout, ID, None)
    assert undo_adoption(seed.layout, str(seed.env))
    assert seed.links() == {"previous": "releases/v-1"}


def test_a_running_service_goes_on(seed: Seed) -> None:
    for number in range(50):
        (seed.site / f"lazy{number}.py").write_text(f"x = {number}\n")
    (seed.site / "held.bin").write_bytes(b"held" * 5000)
    progress = seed.base / "progress"
    argv = [str(seed.env / "bin" / "python"), "-c", SERVICE, str(seed.env), str(progress)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as service:
        assert service.stdin

        def imports_more() -> None:
            count, deadline = read(), time.monotonic() + 60
            while read() < count + 5:
                assert service.poll() is None
                assert time.monotonic() < deadline

        def read() -> int:
            with contextlib.suppress(FileNotFoundError):
                return int(progress.read_bytes() or 0)
            return 0

        for _round in range(20):
            imports_more()
            seed.adopt()
            imports_more()
            # Stopped, as the switchover has it: no kernel resolves a path of two links in one step.
            service.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, service.pid, os.WSTOPPED)
            undo_adoption(seed.layout, str(seed.env))
            service.send_signal(signal.SIGCONT)
        seed.adopt()
        with pytest.raises(ReleaseError, match=f"release {ID} is not removed"):
            remove(seed.layout, ID)
        service.stdin.close()
    assert service.returncode == 0


def test_pruning_keeps_it_while_it_is_live_the_way_back_or_run(seed: Seed) -> None:
    seed.adopt()
    for number in range(1, 5):
        seed.new_release(f"v-{number}", f"2027-01-0{number}T00:00:00Z")
    assert [place.id for place in remove(seed.layout, keep=2)] == ["v-1", "v-2"]
    switch(seed.layout, "v-3", None)
    assert remove(seed.layout, keep=0)[0].id == "v-4"
    assert seed.release.exists(), "the way back, and the oldest of all"
    with pytest.raises(ReleaseError, match="previous leads to it"):
        remove(seed.layout, ID)
    argv = [str(seed.env / "bin" / "python"), "-c", "print(flush=True); input()"]
    switch(seed.layout, ID, None)
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        switch(seed.layout, "v-3", "")
        assert remove(seed.layout, keep=1) == []
        with pytest.raises(ReleaseError, match=f"processes {process.pid} run from"):
            remove(seed.layout, ID)
        process.communicate(b"\n")
    assert [place.id for place in remove(seed.layout, keep=1)] == [ID]
    assert describe_environment(str(seed.env))["is_environment"], "the old path goes on meaning what is live"


def test_it_is_as_old_as_it_is(seed: Seed) -> None:
    os.utime(seed.env / "pyvenv.cfg", (0, 86400))
    metadata = seed.adopt().place.metadata
    assert metadata
    assert metadata["created_at"] == "1970-01-02T00:00:00Z"
    seed.new_release("v-1", "2026-01-01T00:00:00Z")
    assert [place.id for place in seed.layout.releases()] == [ID, "v-1"]


def test_a_scan_through_the_links_finds_what_it_found_before(seed: Seed, templates: Templates) -> None:
    shutil.rmtree(seed.site / "vllm-0.16.0+g1.dist-info")
    install(seed.env, "pip", "--no-deps", templates.wheel)

    def found(path: pathlib.Path) -> list[tuple[str, str]]:
        done = scan(ScanOptions(str(path), wheels=[str(templates.wheel)]))
        done.close()
        return [(finding.path, finding.status) for finding in done.result.findings]

    before = found(seed.env)
    assert before == [("bin/tool", "unexpected"), ("dirty.py", "unexpected")]
    seed.adopt()
    for path in (seed.env, seed.root / "current", seed.release):
        assert found(path) == before, path
    seed.new_release()
    switch(seed.layout, "v-1", None)
    assert found(seed.root / "previous") == before, "scripts that name the old path are its own when it is not live"


def test_another_file_system(seed: Seed, elsewhere: pathlib.Path) -> None:
    before = seed.tree()
    layout = Layout(str(elsewhere / "vllm"))
    done = adopt(layout, plan_adoption(layout, str(seed.env)), {})
    assert done.plan.action == "link"
    assert done.note.startswith(
        f"{seed.env} stays where it is: it is on another file system than {layout.root} (EXDEV)"
    )
    assert done.place.describe() == {"id": None, "path": str(seed.env), "metadata": None}
    assert layout.link_text("current") == str(seed.env)
    assert seed.tree() == before
    assert not adopt(layout, plan_adoption(layout, str(seed.env)), {}).plan.changed
    assert undo_adoption(layout, str(seed.env)) is False


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EINVAL, errno.EBUSY])
def test_what_the_system_refuses_leaves_it_where_it_is(
    seed: Seed, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(number, monkeypatch)
    before = seed.tree()
    done = seed.adopt()
    assert f"stays where it is: the system cannot exchange it for a link ({errno.errorcode[number]}: " in done.note
    assert seed.links() == {"current": str(seed.env)}
    (seed.root / "current").unlink()
    assert seed.tree() == before


def test_any_other_failure_changes_nothing(seed: Seed, monkeypatch: pytest.MonkeyPatch) -> None:
    before = seed.tree()
    with monkeypatch.context() as patched:
        refuse(errno.EIO, patched)
        with pytest.raises(OSError, match="Input/output error"):
            seed.adopt()
    assert seed.tree() == before
    seed.adopt()
    refuse(errno.EBUSY, monkeypatch)
    with pytest.raises(ReleaseError, match=r"cannot be put back: .*busy"):
        undo_adoption(seed.layout, str(seed.env))
    seed.adopted()


def test_a_disk_that_fails_after_the_exchange_does_not_pass_for_a_refusal(
    seed: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = seed.tree()
    real = vars(adoption)["_sync"]

    def fails(layout: Layout, path: str) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(adoption, "_sync", fails)
    with pytest.raises(OSError, match="Invalid argument"):
        seed.adopt()
    seed.serves()
    monkeypatch.setattr(adoption, "_sync", real)
    assert seed.adopt().plan.action == "finish"
    seed.adopted()
    monkeypatch.setattr(adoption, "_sync", fails)
    with pytest.raises(OSError, match="Invalid argument"):
        undo_adoption(seed.layout, str(seed.env))
    seed.serves()
    assert undo_adoption(seed.layout, str(seed.env))
    assert seed.tree() == before


def test_a_mount_point_stays(seed: Seed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "ismount", lambda path: path == str(seed.env))
    assert "stays where it is: it is a mount point" in seed.adopt().note
    assert seed.links() == {"current": str(seed.env)}


def test_what_is_a_symlink_already_stays(seed: Seed) -> None:
    seed.env.rename(seed.base / "real")
    seed.env.symlink_to(seed.base / "real")
    assert f"it is itself a symlink, to {seed.base}/real" in seed.adopt().note
    assert seed.links() == {"env": str(seed.base / "real"), "current": str(seed.env)}


def test_one_in_the_other_stays(seed: Seed) -> None:
    inner = Layout(str(seed.env / "vllm"))
    assert "lie in each other" in adopt(inner, plan_adoption(inner, str(seed.env)), {}).note
    outer = Layout(str(seed.base))
    assert "lie in each other" in adopt(outer, plan_adoption(outer, str(seed.env)), {}).note
    assert not seed.env.is_symlink()


def test_a_mark_of_others_is_not_replaced(seed: Seed) -> None:
    (seed.env / "release.json").write_text('{"mine": 1}')
    assert "it has a release.json that is not ours to replace" in seed.adopt().note
    assert undo_adoption(seed.layout, str(seed.env)) is False
    assert (seed.env / "release.json").read_text() == '{"mine": 1}'


def test_what_does_not_serve_is_not_adopted(seed: Seed) -> None:
    current = seed.root / "current"
    with pytest.raises(ReleaseError, match=r"cannot be adopted: .*nowhere is not there\. Nothing was changed"):
        plan_adoption(seed.layout, str(seed.base / "nowhere"))
    with pytest.raises(ReleaseError, match="is not an absolute path"):
        plan_adoption(seed.layout, "ml-env")
    assert (
        plan_adoption(seed.layout, str(current)).why
        == f"{current} is the link to what serves, and no environment of others"
    )
    seed.new_release()
    switch(seed.layout, "v-1", None)
    done = seed.adopt()
    assert done.note == f"{seed.env} stays where it is: {done.plan.why}."
    assert "current leads to" in done.note
    assert not seed.env.is_symlink()


def test_one_that_only_a_link_led_to_is_moved_and_goes_back_to_that(seed: Seed) -> None:
    switch(seed.layout, str(seed.env), str(seed.env))
    seed.adopt()
    assert seed.links()["previous"] == f"releases/{ID}"
    undo_adoption(seed.layout, str(seed.env))
    assert seed.links() == {"current": str(seed.env)}


def test_a_directory_in_the_place_of_the_link_is_another_environment(seed: Seed) -> None:
    seed.adopt()
    seed.env.unlink()
    fake_environment(seed.env)
    assert "current leads to" in seed.adopt().plan.why
    (seed.root / "current").unlink()
    assert seed.adopt().place.id == "adopted-ml-env-2"
    assert undo_adoption(seed.layout, str(seed.env))
    assert [place.id for place in seed.layout.releases()] == [ID]


def test_modes_are_told_and_left(seed: Seed) -> None:
    seed.base.chmod(0o755)
    (seed.env.parent).chmod(0o700)
    (seed.env / "bin").chmod(0o750)
    note = seed.adopt().note
    assert f"{seed.env}/bin has mode 0750, which was left so" in note
    assert f"only those reach whom {seed.env.parent} lets in (mode 0700)" in note
    assert (seed.release / "bin").stat().st_mode & 0o777 == 0o750
    assert (seed.root / "releases").stat().st_mode & 0o777 == 0o755


def test_one_at_a_time(seed: Seed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adoption, "exclusive", lambda directory: exclusive(directory, wait=0))
    with exclusive(str(seed.root)):
        with pytest.raises(BusyError):
            seed.adopt()
        with pytest.raises(BusyError):
            undo_adoption(seed.layout, str(seed.env))
