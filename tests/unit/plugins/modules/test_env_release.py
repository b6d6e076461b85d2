# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.modules import env_release, env_release_info
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import (
    BUILDER,
    PYTHON,
    Ran,
    fake_environment,
    fake_release,
    lock_text,
    make_wheel,
    run_module,
    sha256,
    uv_wheel,
)

ID = "0.16.0.g1-1"


class Host:
    """A root directory and the two modules."""

    def __init__(self, base: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.base = base
        self.root = base / "vllm"
        self.capfd = capfd

    def run(self, state: str, check: bool = False, **options: Any) -> Ran:
        return run_module(self.capfd, env_release.main, check, True, root=str(self.root), state=state, **options)

    def all_agree(self, state: str, **options: Any) -> Ran:
        """Check, real, check, real: the first two say the same, the others that nothing is left to do."""
        check, real = self.run(state, True, **options), self.run(state, **options)
        assert not real.failed, real
        assert check["changed"] is real["changed"] is True
        for key in ("diff", "release", "path", "removed", "current", "previous"):
            assert check[key] == real[key], key
        assert real["diff"]["before"] != real["diff"]["after"]
        for again in (self.run(state, True, **options), self.run(state, **options)):
            assert again["changed"] is False
            assert again["diff"]["before"] == again["diff"]["after"]
        return real

    def info(self, **options: Any) -> Ran:
        return run_module(self.capfd, env_release_info.main, root=str(self.root), **options)


@pytest.fixture
def host(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> Host:
    return Host(tmp_path, capfd)


def test_built_switched_and_described(host: Host) -> None:
    wheels = host.base / "wheels"
    wheel = make_wheel(wheels, "vllm", "0.16.0+g1", {"vllm.py": ""})
    os.link(uv_wheel(), wheels / uv_wheel().name)
    lock = host.base / "lock.txt"
    request: dict[str, Any] = {
        "release": ID,
        "python": PYTHON,
        "lock": str(lock),
        "wheels": str(wheels),
        "spare_bytes": 0,
    }
    request.update(builder=BUILDER.read_text(), metadata={"version": "0.16.0+g1", "run_id": "20261130T032512Z"})
    early = host.run("built", True, **request)
    assert early["changed"] is True
    # How a warning is wrapped depends on the version of Ansible.
    assert f"lock {lock} is not there yet: checked as if the release were built from it" in str(early["warnings"])
    lock.write_text(lock_text(wheel))
    fake_release(host.root, "of-a-killed-build-1")
    real = host.all_agree("built", **request)
    assert real["removed"] == ["of-a-killed-build-1"]
    assert os.listdir(host.root / "releases") == [ID]
    mark = json.loads((host.root / "releases" / ID / "release.json").read_text())
    assert real["metadata"] == mark
    assert (mark["lock_sha256"], mark["python"], mark["version"]) == (sha256(lock), PYTHON, "0.16.0+g1")
    assert (real["release"], real["current"]) == (ID, None)
    switched = host.all_agree("current", release=ID)
    assert switched["current"] == {"id": ID, "path": str(host.root / "releases" / ID), "metadata": mark}
    info = host.info(version="0.16.0+g1")
    assert (info["current"], info["previous"], info["next_id"]) == (switched["current"], None, "0.16.0.g1-2")
    assert info["releases"] == [switched["current"]]
    assert info["environment"]["version"] == "0.16.0+g1"
    assert info["environment"]["real_path"] == switched["path"]
    assert info["environment"]["distributions"] == {"vllm": "0.16.0+g1"}
    again = host.run("built", **{**request, "metadata": {"version": "other"}})
    assert again.failed
    assert "current leads to it" in again["msg"]
    checked = host.run("built", True, **{**request, "metadata": {"version": "other"}})
    assert checked["msg"] == again["msg"], "a check refuses what the real run refuses"
    lock.write_text("vllm")
    assert host.run("built", True, **request)["msg"] == host.run("built", **request)["msg"]


def test_switching_pruning_and_removing_agree_with_their_check(host: Host) -> None:
    for number in (1, 2, 3, 4):
        fake_release(host.root, f"v-{number}", f"2026-11-0{number}T00:00:00Z")
    adopted = fake_environment(host.base / "ml-env")
    host.all_agree("current", environment=str(adopted))
    switched = host.all_agree("current", release="v-1")
    assert switched["previous"]["path"] == str(adopted)
    host.all_agree("current", release="v-1", previous="")
    host.all_agree("current", release="v-1", previous="v-2")
    assert host.all_agree("absent", release="v-3")["removed"] == ["v-3"]
    assert host.all_agree("pruned", keep=0)["removed"] == ["v-4"]
    refused = host.run("absent", release="v-1")
    assert refused.failed
    assert host.run("absent", True, release="v-1")["msg"] == refused["msg"]


def test_what_an_environment_has_is_read_from_names(host: Host) -> None:
    adopted = fake_environment(host.base / "ml-env")
    packages = adopted / "lib/python3.11/site-packages"
    for name in ("torch-2.9.1", "Tiny_Dep-1.0", "tiny.dep-2.0+g1", "~orch-2.8.0", "noversion"):
        (packages / f"{name}.dist-info").mkdir()
    described = host.info(environment=str(adopted))["environment"]
    assert described["distributions"] == {"tiny-dep": "1.0, 2.0+g1", "torch": "2.9.1"}
    assert described["version"] is None
    assert host.info(environment=str(host.base / "none"))["environment"]["distributions"] == {}


def test_an_adopted_environment_is_the_live_one_until_a_release_is(host: Host) -> None:
    adopted = fake_environment(host.base / "ml-env")
    assert host.info(environment=str(adopted))["environment"]["path"] == str(adopted)
    assert host.info(environment=f"{adopted}//")["environment"]["path"] == str(adopted)
    fake_release(host.root, "v-1", "2026-11-01T00:00:00Z")
    host.run("current", release="v-1")
    assert host.info(environment=str(adopted))["environment"]["real_path"] == str(host.root / "releases/v-1")


def test_an_environment_becomes_the_first_release_and_goes_back(host: Host) -> None:
    env = fake_environment(host.base / "ml-env")
    (env / "lib/python3.11/site-packages/vllm-0.16.0+g1.dist-info").mkdir()
    fake_release(host.root, "v-1", "2026-11-01T00:00:00Z")
    metadata = {"run_id": "20261130T032512Z"}
    adopted = host.all_agree("adopted", environment=str(env), metadata=metadata)
    assert adopted["release"] == "adopted-ml-env-1"
    assert adopted["current"]["metadata"] == adopted["metadata"]
    assert adopted["metadata"]["run_id"] == "20261130T032512Z"
    assert "stays" not in adopted["note"]
    info = host.info(environment=str(env))
    assert info["current"] == adopted["current"]
    assert info["environment"]["real_path"] == adopted["path"] == os.path.realpath(env)
    assert info["environment"]["version"] == "0.16.0+g1"
    switched = host.all_agree("current", release="v-1")
    assert switched["previous"] == adopted["current"]
    assert host.info(environment=str(env))["environment"]["real_path"] == os.path.realpath(env) == switched["path"]
    again = host.run("adopted", environment=str(env), metadata=metadata)
    assert (again["changed"], again["release"], again["current"]) == (False, "adopted-ml-env-1", switched["current"])
    refused = host.run("unadopted", environment=str(env))
    assert "Switch to adopted-ml-env-1 first" in refused["msg"]
    assert host.run("unadopted", True, environment=str(env))["msg"] == refused["msg"]
    host.all_agree("current", release="adopted-ml-env-1", previous="")
    back = host.all_agree("unadopted", environment=str(env))
    assert (back["release"], back["path"], back["current"]) == (None, str(env), None)
    assert not env.is_symlink()
    assert host.info(environment=str(env))["environment"]["path"] == str(env)


def test_an_environment_that_cannot_be_moved_is_linked_to(host: Host) -> None:
    fake_environment(host.base / "real")
    env = host.base / "ml-env"
    env.symlink_to("real")
    adopted = host.all_agree("adopted", environment=str(env))
    assert adopted["current"] == {"id": None, "path": str(env), "metadata": None}
    assert adopted["note"] == f"{env} stays where it is: it is itself a symlink, to real."
    assert host.run("unadopted", environment=str(env))["changed"] is False


def test_a_check_takes_the_release_as_built(host: Host) -> None:
    check = host.run("current", True, release="v-1")
    assert check["changed"] is True
    assert "release v-1 is not there yet: checked as if it were" in str(check["warnings"])
    assert host.run("current", release="v-1").failed
    assert list(host.root.iterdir()) == []


def test_a_host_without_releases(host: Host) -> None:
    info = host.info()
    assert (info["current"], info["previous"], info["releases"], info["next_id"]) == (None, None, [], None)
    assert info["environment"]["is_environment"] is False
    assert info["environment"]["problem"] == f"{host.root}/current is not there"
    assert host.run("pruned")["changed"] is False
    assert host.run("absent", release="v-1")["changed"] is False
    assert not host.root.exists()
    host.root.mkdir()
    (host.root / "current").touch()
    assert "is not a symlink" in host.info()["msg"]


@pytest.mark.parametrize(
    ("state", "options", "reason"),
    [
        ("built", {"release": "x"}, "missing: lock, wheels"),
        ("current", {}, "any of the following are missing: release, environment"),
        ("current", {"release": "x", "environment": "/y"}, "mutually exclusive"),
        ("absent", {}, "missing: release"),
        ("adopted", {}, "missing: environment"),
        ("unadopted", {}, "missing: environment"),
    ],
)
def test_options_that_belong_together(host: Host, state: str, options: dict[str, Any], reason: str) -> None:
    ran = host.run(state, **options)
    assert ran.failed
    assert reason in ran["msg"]
