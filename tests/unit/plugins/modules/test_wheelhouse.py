# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import pathlib
import platform
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils import wheelhouse_fetch
from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import exclusive
from ansible_collections.pristine.vllm.plugins.module_utils.lock import parse_lock
from ansible_collections.pristine.vllm.plugins.module_utils.process import Completed
from ansible_collections.pristine.vllm.plugins.module_utils.wheelhouse_resume import WheelhouseError
from ansible_collections.pristine.vllm.plugins.modules import wheelhouse
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import (
    PYTHON,
    Ran,
    Reply,
    Server,
    http_server,
    lock_text,
    make_wheel,
    run_module,
    sha256,
)


class House:
    """A wheelhouse, its lock, and an index that has all of it."""

    def __init__(self, base: pathlib.Path, server: Server, capfd: pytest.CaptureFixture[str]) -> None:
        self.path = base / "wheels"
        self.lock = base / "lock.txt"
        self.server = server
        self.capfd = capfd
        self.vllm = make_wheel(base / "built", "vllm", "0.16.0rc2.dev313+g662205d34", {"vllm/__init__.py": ""})
        self.tiny = make_wheel(base / "built", "tiny_dep", "1.0", {"tiny_dep.py": "x = 1\n"})
        self.index = server.serve_simple(base / "built")
        self.lock.write_text(lock_text(self.vllm, self.tiny).replace("tiny_dep==1.0", "Tiny.Dep==1"))

    def run(self, check: bool = False, **changes: Any) -> Ran:
        given = {"path": str(self.path), "lock": str(self.lock), "index_url": self.index, "python": PYTHON}
        if "lock_text" in changes:
            del given["lock"]
        return run_module(self.capfd, wheelhouse.main, check, True, **{**given, **changes})

    def names(self) -> list[str]:
        return sorted(os.listdir(self.path)) if self.path.exists() else []

    def fetched(self) -> list[str]:
        return [line for line in self.server.log if line.startswith("GET /files/")]


@pytest.fixture(scope="module")
def pip(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A pip as the module makes it, made once: it takes longer than all that these tests do with it."""
    scratch = tmp_path_factory.mktemp("pip")
    with pytest.MonkeyPatch.context() as patched, exclusive(str(scratch)) as held:
        patched.setenv("PYTHONPATH", "/nonexistent")
        patched.setenv("PIP_TARGET", "/nonexistent")
        return wheelhouse_fetch.make_pip(str(scratch), PYTHON, held)


@pytest.fixture(autouse=True)
def ready_pip(pip: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheelhouse_fetch, "make_pip", lambda *_arguments: pip)


@pytest.fixture
def house(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[House]:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    with http_server() as server:
        yield House(tmp_path, server, capfd)


def test_check_real_check_real(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    # What somebody has set for another pip must not reach ours.
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_TARGET", "/nonexistent")
    monkeypatch.setenv("PIP_NO_BINARY", ":all:")
    monkeypatch.setenv("PYTHONPATH", "/nonexistent")
    before = os.umask(0o077)
    try:
        check, real = house.run(check=True), house.run()
    finally:
        os.umask(before)
    pins = ["vllm==0.16.0rc2.dev313+g662205d34", "tiny-dep==1"]
    assert check["downloaded"] == real["downloaded"] == pins
    assert check["changed"] is real["changed"] is True
    assert check["diff"] == real["diff"] == {"before": "", "after": "\n".join([*pins, ""])}
    assert real["bytes"] == house.vllm.stat().st_size + house.tiny.stat().st_size
    assert house.names() == sorted([house.vllm.name, house.tiny.name]), "nothing else stays"
    assert sha256(house.path / house.vllm.name) == sha256(house.vllm)
    assert (house.path / house.vllm.name).stat().st_mode & 0o777 == 0o644
    assert house.path.stat().st_mode & 0o777 == 0o755, "the service's user reads it whatever the umask"
    fetched = house.fetched()
    for check_mode in (True, False):
        again = house.run(check=check_mode)
        assert (again["changed"], again["downloaded"], again["present"]) == (False, [], 2)
        assert again["diff"]["before"] == again["diff"]["after"]
    assert house.fetched() == fetched, "a second run downloads nothing"


def test_a_wheel_with_a_wrong_digest_is_kept_elsewhere_and_replaced(house: House, tmp_path: pathlib.Path) -> None:
    house.path.mkdir()
    shutil.copy(house.vllm, house.path)
    wrong = house.path / house.tiny.name
    wrong.write_bytes(house.tiny.read_bytes()[:-1])
    digest = sha256(wrong)
    old = make_wheel(house.path, "vllm", "0.15.0", {"vllm/__init__.py": ""})
    check = house.run(check=True, quarantine=str(tmp_path / "q"))
    assert wrong.exists()
    real = house.run(quarantine=str(tmp_path / "q"))
    assert check["downloaded"] == real["downloaded"] == ["tiny-dep==1"]
    assert check["diff"] == real["diff"]
    kept = pathlib.Path(real["rejected"][0]["kept"])
    assert real["rejected"] == [{"path": str(wrong), "sha256": digest, "kept": str(kept)}]
    assert kept.is_relative_to(tmp_path / "q")
    assert sha256(kept) == digest
    assert sha256(wrong) == sha256(house.tiny)
    assert old.exists(), "the wheels of earlier releases stay"
    assert house.run()["changed"] is False


def test_a_symlink_is_replaced_by_a_file(house: House) -> None:
    house.path.mkdir()
    for wheel in (house.vllm, house.tiny):
        (house.path / wheel.name).symlink_to(wheel)
    assert house.run()["changed"] is True
    assert not (house.path / house.vllm.name).is_symlink()
    assert house.vllm.exists()
    assert (house.path / ".rejected").is_dir()
    assert house.run()["changed"] is False


def test_without_an_index(house: House) -> None:
    ran = house.run(find_links=[str(house.vllm.parent)], no_index=True, index_url=None)
    assert ran["changed"] is True
    assert house.server.log == []


def test_the_page_of_a_nightly_index_serves_as_find_links(house: House) -> None:
    commit = "662205d34eb1bb42228768d7a69a1ac4abf38c89"
    quoted = house.vllm.name.replace("+", "%2B")
    house.server.routes[f"/{commit}/vllm/"] = Reply(f'<a href="../{quoted}">{house.vllm.name}</a>'.encode())
    house.server.routes[f"/{commit}/{quoted}"] = house.server.routes.pop(f"/files/{quoted}")
    del house.server.routes["/simple/vllm/"]
    page = f"{house.server.url}/{commit}/vllm/".replace("//", "//user:secret@")
    ran = house.run(find_links=[page])
    assert not ran.failed, ran["msg"]
    assert f"GET /{commit}/{quoted}" in house.server.log


def test_a_wheel_that_cannot_be_had_is_named_and_the_others_stay(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheelhouse_fetch, "ROWS_AT_ONCE", 1)
    del house.server.routes["/simple/tiny-dep/"]
    ran = house.run(index_url=house.index.replace("//", "//user:secret@"))
    assert ran.failed
    assert "could not fetch tiny-dep==1 from http://***@127.0.0.1" in ran["msg"]
    assert "No matching distribution found for tiny-dep==1" in ran["msg"]
    assert "The 1 wheels fetched before are kept." in ran["msg"]
    assert "secret" not in str({key: ran[key] for key in ran if key != "invocation"})
    assert house.names() == [house.vllm.name]
    house.server.serve_simple(house.tiny.parent)
    assert house.run()["downloaded"] == ["tiny-dep==1"]


@pytest.mark.parametrize("fault", ["truncated", "other content"])
def test_what_arrives_damaged_gets_no_name(house: House, fault: str) -> None:
    path = f"/files/{house.tiny.name}"
    whole = house.tiny.read_bytes()
    house.server.routes[path] = Reply(whole, send=50) if fault == "truncated" else Reply(whole + b"x")
    ran = house.run()
    assert ran.failed
    assert "could not fetch" in ran["msg"]
    assert "tiny-dep==1" in ran["msg"]
    assert house.tiny.name not in house.names()
    assert not [name for name in house.names() if name.startswith(wheelhouse_fetch.INCOMING)]


def test_what_a_killed_run_left_is_swept(house: House) -> None:
    left = house.path / f"{wheelhouse_fetch.INCOMING}abc" / "0"
    left.mkdir(parents=True)
    (left / house.vllm.name).write_bytes(b"half a wheel")
    house.run(check=True)
    assert left.exists(), "a check changes nothing"
    house.run()
    assert house.names() == sorted([house.vllm.name, house.tiny.name])


def test_a_python_that_will_not_do(house: House, tmp_path: pathlib.Path) -> None:
    environment = tmp_path / "env"
    (environment / "bin").mkdir(parents=True)
    (environment / "pyvenv.cfg").touch()
    (environment / "bin" / "python").symlink_to(PYTHON)
    for python, reason in (
        (str(environment / "bin" / "python"), f"belongs to the environment {environment}"),
        (str(tmp_path / "none"), "does not run"),
        ("/bin/false", "does not run"),
    ):
        ran = house.run(python=python)
        assert ran.failed
        assert reason in ran["msg"]
        assert "vllm_python" in ran["msg"]
    assert house.fetched() == []


def test_a_lock_that_will_not_do(house: House) -> None:
    house.lock.write_text("vllm\n")
    ran = house.run()
    assert ran.failed
    assert "line 1: 'vllm' does not pin one version" in ran["msg"]
    assert not house.path.exists()


def test_one_writer_at_a_time(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exclusive.__wrapped__, "__defaults__", (0.1,))  # type: ignore[attr-defined]
    house.path.mkdir()
    with exclusive(str(house.path)):
        ran = house.run()
    assert ran.failed
    assert f"{house.path} is being changed by process {os.getpid()} (" in ran["msg"]
    assert house.run()["changed"] is True


def test_a_folder_that_will_not_do(house: House) -> None:
    house.path.write_text("")
    for check in (True, False):
        ran = house.run(check=check)
        assert ran.failed
        assert str(house.path) in ran["msg"]
    house.path.unlink()
    (house.path / house.tiny.name).mkdir(parents=True)
    ran = house.run()
    assert "cannot be read: not a regular file" in ran["msg"]


def test_what_is_needed_besides_the_lock(house: House) -> None:
    extra = make_wheel(house.vllm.parent, "builder_tool", "2", {"builder_tool.py": ""})
    house.server.serve_simple(extra.parent)
    builder = lock_text(extra)
    ran = house.run(builder=builder)
    assert ran["downloaded"][-1] == "builder-tool==2"
    assert extra.name in house.names()
    assert house.run(builder=builder)["changed"] is False
    # The same pin on both sides: either digest will do.
    digest = f"--hash=sha256:{'a' * 64}"
    assert house.run(builder=f"tiny-dep==1.0 {digest}")["changed"] is False
    bad = house.run(builder="uv")
    assert bad["msg"].startswith("lock builder is not complete: line 1: 'uv' does not pin")
    house.lock.unlink()
    check = house.run(check=True, builder=builder)
    assert check["changed"] is True, "the lock that an earlier task of the check would write"
    assert f"lock {house.lock} is not there yet" in str(check["warnings"])
    assert "cannot be read: No such file" in house.run(builder=builder)["msg"]


def test_an_index_that_is_a_folder(house: House) -> None:
    simple = house.vllm.parent.parent / "simple"
    for wheel in (house.vllm, house.tiny):
        page = simple / wheel.name.partition("-")[0].replace("_", "-")
        page.mkdir(parents=True)
        (page / "index.html").write_text(f'<a href="../../built/{wheel.name.replace("+", "%2B")}">{wheel.name}</a>')
    for folder in (str(simple), simple.as_uri(), str(house.vllm.parent), house.vllm.parent.as_uri()):
        shutil.rmtree(house.path, ignore_errors=True)
        ran = house.run(index_url=folder)
        assert not ran.failed, ran["msg"]
        assert len(house.names()) == 2
    assert house.server.log == []


def test_a_folder_that_is_not_there(house: House) -> None:
    for given in ({"index_url": "/mnt/none"}, {"find_links": ["/mnt/none"]}):
        ran = house.run(**given)
        assert "there is no /mnt/none on this host, where wheels should be. Mount it" in ran["msg"]
    ran = house.run(index_url=str(house.path.parent))
    assert ran.failed
    assert f"could not fetch vllm==0.16.0rc2.dev313+g662205d34 from file://{house.path.parent}: " in ran["msg"]


def test_to_look_only(house: House) -> None:
    pins = ["vllm==0.16.0rc2.dev313+g662205d34", "tiny-dep==1"]
    for check in (True, False):
        ran = house.run(check=check, fetch=False)
        assert (ran["changed"], ran["downloaded"], ran["missing"], ran["files"]) == (False, [], pins, {})
        assert ran["diff"] == {"before": "", "after": ""}
        assert not house.path.exists()
    house.path.mkdir()
    shutil.copy(house.vllm, house.path)
    (house.path / house.tiny.name).write_text("wrong")
    (house.path / f".resume-{house.tiny.name}.part").write_text("half")
    for check in (True, False):
        ran = house.run(check=check, fetch=False)
        assert (ran["changed"], ran["missing"], ran["present"]) == (True, pins[1:], 1)
        assert ran["files"] == {pins[0]: house.vllm.name}
        assert [entry["path"] for entry in ran["rejected"]] == [str(house.path / house.tiny.name)]
    assert house.names() == [".rejected", f".resume-{house.tiny.name}.part", house.vllm.name]
    assert house.run(fetch=False)["changed"] is False
    assert house.server.log == []


def test_a_folder_that_many_hosts_share(house: House) -> None:
    text = house.lock.read_text()
    ran = house.run(lock_text=text, only=["tiny-dep==1"])
    assert ran["files"] == {"tiny-dep==1": house.tiny.name}
    assert house.names() == [house.tiny.name]
    assert house.run(lock_text=text)["files"]["vllm==0.16.0rc2.dev313+g662205d34"] == house.vllm.name
    assert "line 1: 'x' does not pin one version" in house.run(lock_text="x")["msg"]


def test_wheels_for_another_host(house: House) -> None:
    # What the host that fetches could not install itself, in the order that pip would prefer for itself.
    tags = (
        "cp39-cp39-manylinux_2_30_aarch64",
        "cp312-cp312-manylinux_2_39_aarch64",
        "cp312-cp312-manylinux_2_28_x86_64",
    )
    for tag in tags:
        make_wheel(house.vllm.parent, "native", "1", {"native.py": f"tag = {tag!r}"}, tag=tag)
    right = make_wheel(house.vllm.parent, "native", "1", {"native.py": ""}, tag="cp312-cp312-manylinux_2_17_aarch64")
    stable = make_wheel(house.vllm.parent, "stable", "1", {"stable.py": ""}, tag="cp38-abi3-manylinux2014_aarch64")
    index = house.server.serve_simple(house.vllm.parent)
    text = lock_text(right, stable, house.tiny)
    assert house.run(lock_text=text, index_url=index).failed
    target = {"machine": "aarch64", "python_version": "3.12.3", "glibc": "2.36"}
    ran = house.run(lock_text=text, index_url=index, target=target)
    assert not ran.failed, ran["msg"]
    assert house.names() == sorted([right.name, stable.name, house.tiny.name])
    assert house.run(lock_text=text, index_url=index, target=target)["changed"] is False


def test_a_wheel_for_another_python_is_none_of_the_lock(house: House) -> None:
    now = f"cp3{sys.version_info.minor}"
    tags = {"now": f"{now}-{now}-linux_{platform.machine()}", "before": f"cp38-cp38-linux_{platform.machine()}"}
    made = {
        name: make_wheel(house.vllm.parent, "native", "1", {"native.py": f"tag = {tag!r}"}, tag=tag)
        for name, tag in tags.items()
    }
    # As with --generate-hashes: the digests of all wheels of the version.
    text = f"native==1 --hash=sha256:{sha256(made['now'])} --hash=sha256:{sha256(made['before'])}\n"
    index = house.server.serve_simple(house.vllm.parent)
    house.path.mkdir()
    before = house.path / made["before"].name
    shutil.copy(made["before"], before)
    look = house.run(lock_text=text, fetch=False)
    assert (look["missing"], look["files"], look["rejected"]) == (["native==1"], {}, [])
    for check in (True, False):
        ran = house.run(check=check, lock_text=text, index_url=index)
        assert not ran.failed, ran["msg"]
        assert (ran["downloaded"], ran["rejected"]) == (["native==1"], [])
    assert ran["files"] == {"native==1": made["now"].name}
    assert house.names() == sorted([made["now"].name, before.name])
    assert house.run(lock_text=text, index_url=index)["changed"] is False
    # The site's folder, for a host that still has the other Python; a digest of nobody's is not looked at for this one.
    older = {"machine": platform.machine(), "python_version": "3.8", "glibc": "2.36"}
    assert house.run(lock_text=text, fetch=False, target=older)["files"] == {"native==1": before.name}
    before.write_bytes(b"of a lock that this host does not have")
    ran = house.run(lock_text=text, index_url=index)
    assert (ran["changed"], ran["rejected"]) == (False, [])
    assert before.exists()


def test_no_room_for_pip_itself(house: House, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # /usr/bin/false stands for a Python whose venv could not unpack pip. No disk has what is wanted here.
    monkeypatch.undo()
    monkeypatch.setattr(wheelhouse_fetch, "PIP_BYTES", 10**18)
    (tmp_path / "scratch").mkdir()
    with pytest.raises(WheelhouseError, match=f"wheelhouse {tmp_path} has no room for a pip that could fetch wheels: "):
        wheelhouse_fetch.make_pip(str(tmp_path / "scratch"), "/bin/false", 0)


def test_pip_without_room(house: House) -> None:
    ran = Completed(
        1, "", "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n", 1
    )
    (row,) = parse_lock("tiny-dep==1 --hash=sha256:" + "a" * 64, "lock")
    told = wheelhouse_fetch._refused("/w", [row], wheelhouse_fetch.Source(PYTHON), ran, 16)
    assert told.startswith("wheelhouse /w has no room for tiny-dep==1: ERROR: Could not install")
    assert "The 16 wheels fetched before are kept. Prune old releases" in told
