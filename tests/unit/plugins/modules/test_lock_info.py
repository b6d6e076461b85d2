# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Locks made by the real uv, against an index on this machine."""

from __future__ import annotations

import os
import pathlib
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils import lock_make, wheelhouse_fetch
from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import exclusive
from ansible_collections.pristine.vllm.plugins.module_utils.lock import parse_lock
from ansible_collections.pristine.vllm.plugins.module_utils.release_wheels import extract_uv
from ansible_collections.pristine.vllm.plugins.modules import lock_info
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import (
    BUILDER,
    PYTHON,
    Ran,
    Reply,
    Server,
    http_server,
    make_wheel,
    run_module,
    sha256,
    uv_wheel,
)

VERSION = "0.16.0rc2.dev313+g662205d34"
# A build back end of our own, so that an editable install needs no index.
BACKEND = """
import zipfile
def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "own_code-3.0-py3-none-any.whl"
    with zipfile.ZipFile(folder + "/" + name, "w") as archive:
        info = "own_code-3.0.dist-info/"
        archive.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: own-code\\nVersion: 3.0\\n")
        archive.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr(info + "RECORD", "")
    return name
"""


class Maker:
    """An index, the wheelhouse with uv in it, and an environment."""

    def __init__(self, base: pathlib.Path, server: Server, uv: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.base, self.server, self.capfd, self.uv = base, server, capfd, uv
        self.built, self.house, self.env = base / "built", base / "wheels", base / "env"
        self.house.mkdir()
        (base / "scratch").mkdir()
        os.link(uv_wheel(), self.house / uv_wheel().name)
        self.add("torch", "2.9.1")
        self.add("torch", "2.10.0")
        self.add("torch", "2.9.1+cu130")
        self.add("tiny_dep", "1.0")
        self.add("tiny_dep", "1.1rc1")
        self.vllm = self.nightly(
            "torch==2.10.0", "tiny-dep==1.1rc1", 'gone==1; extra == "audio"', "nt; os_name == 'nt'"
        )

    def add(self, name: str, version: str, *requires: str, tag: str = "py3-none-any") -> pathlib.Path:
        return make_wheel(self.built, name, version, {f"{name}.py": ""}, requires=requires, tag=tag)

    def nightly(self, *requires: str) -> pathlib.Path:
        self.vllm = make_wheel(self.base / "nightly", "vllm", VERSION, {"vllm/__init__.py": ""}, requires=requires)
        return self.vllm

    def install(self, *wheels: pathlib.Path) -> None:
        """Make the environment that serves, with the nightly in it."""
        common = ["--offline", "--no-config", "--no-cache", "--quiet"]
        subprocess.run([self.uv, "venv", "--python", PYTHON, *common, self.env], check=True)
        paths = [str(path) if path.suffix == ".whl" else f"--editable={path}" for path in (self.vllm, *wheels)]
        argv = [
            str(self.uv),
            "pip",
            "install",
            "--python",
            str(self.env / "bin/python"),
            "--no-deps",
            "--no-index",
            *common,
        ]
        subprocess.run([*argv, *paths], check=True)

    def run(self, origin: str = "wheel", check: bool = False, **changes: Any) -> Ran:
        index = self.server.serve_simple(self.built)
        given = {
            "version": VERSION,
            "sha256": sha256(self.vllm),
            "origin": origin,
            "environment": str(self.env),
            "wheels": str(self.house),
            "builder": BUILDER.read_text(),
            "python": PYTHON,
            "index_url": index,
            "find_links": [str(self.vllm.parent)],
            "timeout": 120,
        }
        ran = run_module(self.capfd, lock_info.main, check, False, **{**given, **changes})
        assert os.listdir(self.base / "scratch") == [], "nothing stays on the host"
        return ran


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], pathlib.Path]:
    """A pip as the module makes it and the pinned uv, made once."""
    scratch = tmp_path_factory.mktemp("tools")
    uv = extract_uv(
        str(uv_wheel().parent), parse_lock(BUILDER.read_text(), "builder"), platform.machine(), str(scratch)
    )
    with exclusive(str(scratch)) as held:
        return wheelhouse_fetch.make_pip(str(scratch), PYTHON, held), pathlib.Path(uv)


@pytest.fixture
def maker(
    tools: tuple[list[str], pathlib.Path],
    tmp_path: pathlib.Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Maker]:
    for module in (wheelhouse_fetch, lock_make):
        monkeypatch.setattr(module, "make_pip", lambda *_arguments: tools[0])
    # Not /var/tmp itself, where others may be making theirs.
    monkeypatch.setattr(lock_make, "_SCRATCH", str(tmp_path / "scratch"))
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    # What a user of the host has set for uv, and what drift may have left in its cache, must reach nothing.
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_INDEX_URL", "http://127.0.0.1:9/")
    with http_server() as server:
        yield Maker(tmp_path, server, tools[1], capfd)


def test_from_the_wheel(maker: Maker, tmp_path: pathlib.Path) -> None:
    check, real = maker.run(check=True), maker.run()
    assert not real.failed, real["msg"]
    assert check["text"] == real["text"], "a second run makes the same, so that nothing changes"
    assert real["changed"] is False
    assert real["distributions"] == {"tiny-dep": "1.1rc1", "torch": "2.10.0", "vllm": VERSION}
    rows = {row.name: row for row in parse_lock(real["text"], "made")}
    assert rows["vllm"].hashes == (sha256(maker.vllm),)
    assert rows["torch"].hashes == (sha256(maker.built / "torch-2.10.0-py3-none-any.whl"),)
    head = [line for line in real["text"].splitlines() if line.startswith("#")]
    assert f"of vllm {VERSION}," in head[0]
    assert f"lock_from=wheel: by uv {uv_wheel().name.split('-')[1]}, from what the pinned wheel" in head[2]
    assert "127.0.0.1" not in real["text"]
    assert str(tmp_path) not in real["text"]
    assert set(os.listdir(tmp_path)) == {"built", "wheels", "nightly", "scratch"}, (
        "no cache and no home of the host was used"
    )
    assert os.listdir(maker.house) == [uv_wheel().name]


def test_from_the_environment_the_versions_stay(maker: Maker) -> None:
    old = maker.built / "torch-2.9.1-py3-none-any.whl"
    # An index may have a local version that == would take for this one, and that pip and uv would prefer.
    maker.install(old, maker.built / "tiny_dep-1.0-py3-none-any.whl")
    wanted = f"{maker.env}/lib"
    before = sorted(str(path) for path in pathlib.Path(wanted).rglob("*"))
    check, real = maker.run("environment", check=True), maker.run("environment")
    assert not real.failed, real["msg"]
    assert check["text"] == real["text"]
    assert real["distributions"] == {"tiny-dep": "1.0", "torch": "2.9.1", "vllm": VERSION}
    rows = {row.name: row for row in parse_lock(real["text"], "made")}
    assert rows["torch"].hashes == (sha256(old),)
    assert rows["vllm"].hashes == (sha256(maker.vllm),)
    assert "lock_from=environment" in real["text"]
    assert sorted(str(path) for path in pathlib.Path(wanted).rglob("*")) == before, "not even bytecode is left there"


def test_digests_that_the_index_publishes_are_taken(maker: Maker) -> None:
    maker.install(maker.built / "tiny_dep-1.0-py3-none-any.whl")
    index = maker.server.serve_simple(maker.built)
    links = "".join(
        f'<a href="/files/{name}#sha256={letter * 64}">{name}</a>'
        for name, letter in (("tiny_dep-1.0-py3-none-any.whl", "a"), ("tiny_dep-1.0-cp311-cp311-win_amd64.whl", "b"))
    )
    maker.server.serve_simple(maker.built)
    maker.server.routes["/hashed/tiny-dep/"] = Reply(f"<!DOCTYPE html><html>{links}</html>".encode())
    maker.server.log.clear()
    ran = maker.run("environment", index_url=index.replace("/simple", "/hashed"))
    assert not ran.failed, ran["msg"]
    row = next(row for row in parse_lock(ran["text"], "made") if row.name == "tiny-dep")
    assert set(row.hashes) == {"a" * 64, "b" * 64}
    assert [line for line in maker.server.log if "/files/" in line] == [], "nothing was fetched for it"


def test_all_that_stands_in_the_way_of_an_environment_is_in_one_message(maker: Maker) -> None:
    source = maker.base / "src"
    source.mkdir()
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n'
    )
    (source / "own.py").write_text(BACKEND)
    maker.add("tiny_dep", "2.0", tag="cp27-cp27mu-win_amd64")
    lost = [make_wheel(maker.base / "lost", name, "4.2", {f"{name}.py": ""}) for name in ("lost_one", "other_lost")]
    maker.install(*lost, maker.built / "torch-2.9.1-py3-none-any.whl", source)
    packages = next((maker.env / "lib").glob("python3*/site-packages"))
    (packages / "torch-2.10.0.dist-info").mkdir()
    (packages / "tiny_dep-2.0.dist-info").mkdir()
    (packages / "legacy-1.0-py3.11.egg-info").mkdir()
    (packages / "~mpty-1.0.dist-info").mkdir()
    ran = maker.run("environment")
    assert ran.failed
    said = ran["msg"]
    for part in (
        f"own-code is an editable install of file://{source}",
        "torch is there in several versions, 2.10.0, 2.9.1: remove all but one",
        "legacy was installed without a wheel (legacy-1.0-py3.11.egg-info)",
        "lost-one==4.2: Because lost-one was not found in the package registry",
        "other-lost==4.2: Because other-lost was not found",
        "tiny-dep==2.0: Because tiny-dep==2.0 has no wheels with a matching",
        "Put a wheel of each on an index",
    ):
        assert part in said, said
    assert said.count("\n- ") == 6


def test_an_environment_of_another_vllm(maker: Maker) -> None:
    maker.install(maker.built / "torch-2.9.1-py3-none-any.whl")
    ran = maker.run("environment", version="0.17.0")
    assert ran.failed
    assert f"- vllm is {VERSION}, and the pin is 0.17.0: pin that one" in ran["msg"]


def test_no_environment(maker: Maker) -> None:
    ran = maker.run("environment")
    assert ran.failed
    assert f"{maker.env} is not there. Set vllm_environment" in ran["msg"]


def test_all_that_the_wheel_cannot_have_is_in_one_message(maker: Maker) -> None:
    maker.nightly("torch==2.9.1", "absent-one", "tiny-dep==1.0", "absent-two>=3", "torch>=2")
    ran = maker.run()
    assert ran.failed
    assert "absent-one: Because absent-one was not found" in ran["msg"]
    assert "absent-two>=3: Because absent-two was not found" in ran["msg"]
    assert ran["msg"].count("\n- ") == 2
    assert "nightly_wheel_dependency_index_url" in ran["msg"]


def test_a_conflict_is_told_with_its_parties(maker: Maker) -> None:
    maker.add("helper", "1.0", "torch<2.10")
    maker.nightly("tiny-dep", "helper", "torch==2.10.0")
    ran = maker.run()
    assert ran.failed
    assert "- conflict: Because " in ran["msg"]
    assert "helper" in ran["msg"]
    assert "torch<2.10" in ran["msg"]
    assert "-e lock_from=environment" in ran["msg"]


def test_a_wheel_that_is_not_the_pinned_one(maker: Maker) -> None:
    ran = maker.run(sha256="0" * 64)
    assert ran.failed
    assert f"could not fetch vllm=={VERSION}" in ran["msg"]
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in ran["msg"] or sha256(maker.vllm) in ran["msg"]
    assert str(maker.house) in ran["msg"]
    assert "/scratch/" not in ran["msg"], "that folder is gone"
    bad = maker.run(sha256="abc")
    assert "pin of vLLM is not complete" in bad["msg"]
    assert "64 hexadecimal digits" in bad["msg"]


def test_the_wheel_of_the_wheelhouse_is_taken(maker: Maker) -> None:
    shutil.copy(maker.vllm, maker.house)
    ran = maker.run(find_links=[])
    assert not ran.failed, ran["msg"]


def test_an_index_that_does_not_answer(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(maker.vllm, maker.house)
    ran = maker.run(index_url="http://user:secret@127.0.0.1:9/simple")
    assert ran.failed
    assert "uv pip compile ended with 2" in ran["msg"]
    assert "Connection refused" in ran["msg"]
    assert "secret" not in str({key: ran[key] for key in ran if key != "invocation"})


def test_a_link_in_the_wheels_requirements(maker: Maker) -> None:
    wheel = maker.built / "tiny_dep-1.0-py3-none-any.whl"
    maker.nightly(f"tiny-dep @ {wheel.as_uri()}")
    ran = maker.run()
    assert ran.failed
    assert "is a link or a path" in ran["msg"]


def test_the_python_of_an_environment_is_refused(maker: Maker) -> None:
    ran = maker.run(python=sys.executable)
    assert ran.failed
    assert "belongs to the environment" in ran["msg"]
