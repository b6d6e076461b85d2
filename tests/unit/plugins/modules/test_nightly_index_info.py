# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import hashlib
import os
import pathlib
import platform
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.modules import nightly_index_info
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import (
    PYTHON,
    Ran,
    Reply,
    Server,
    http_server,
    run_module,
)


def test_the_machine_is_the_hosts_own_and_nothing_changes(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    commit = "662205d34eb1bb42228768d7a69a1ac4abf38c89"
    name = f"vllm-0.16.0-cp38-abi3-manylinux_2_31_{platform.machine()}.whl"
    with http_server() as server:
        server.routes[f"/{commit}/vllm/"] = Reply(f'<a href="../{name}">{name}</a>'.encode())
        server.routes[f"/{commit}/{name}"] = Reply(b"wheel")
        for check in (True, False):
            ran = run_module(
                capfd, nightly_index_info.main, check, index_url=server.url + "/", version=" 0.16.0", commit=commit
            )
            assert (ran["resolved"], ran["changed"], ran["filename"], ran["size"]) == (True, False, name, 5)
        ran = run_module(capfd, nightly_index_info.main, index_url=server.url, version="0.16.1", commit=commit)
        assert not ran.failed, "an index that lacks a version is an answer, not a failure"
        assert ran["offers"] == [name]
        assert "does not list that version" in ran["problem"]


COMMIT = "662205d34eb1bb42228768d7a69a1ac4abf38c89"
VERSION = "0.16.0rc2.dev313+g662205d34"
NAME = f"vllm-{VERSION}-cp38-abi3-manylinux_2_17_{platform.machine()}.whl"
SHA256 = hashlib.sha256(b"wheel").hexdigest()


class Pinned:
    """A folder that keeps the pinned wheel, and an index that has it too."""

    def __init__(self, base: pathlib.Path, server: Server, capfd: pytest.CaptureFixture[str]) -> None:
        self.wheels = base / "wheels"
        self.wheels.mkdir()
        self.wheel = self.wheels / NAME
        self.wheel.write_bytes(b"wheel")
        self.server = server
        self.page = f"/{COMMIT}/vllm/"
        quoted = NAME.replace("+", "%2B")
        server.routes[self.page] = Reply(f'<a href="../{quoted}">{NAME}</a>'.encode())
        server.routes[f"/{COMMIT}/{quoted}"] = Reply(b"wheel")
        self.capfd = capfd

    def run(self, **changes: Any) -> Ran:
        given = {"index_url": self.server.url, "version": VERSION, "commit": COMMIT, "sha256": SHA256, "timeout": 2}
        return run_module(
            self.capfd, nightly_index_info.main, **{**given, "wheels": str(self.wheels), "python": PYTHON, **changes}
        )


@pytest.fixture
def pinned(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Pinned]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("NETRC", os.devnull)
    with http_server() as server:
        yield Pinned(tmp_path, server, capfd)


def test_a_wheel_that_is_kept_is_looked_for_and_not_fetched(pinned: Pinned) -> None:
    ran = pinned.run()
    assert (ran["resolved"], ran["kept"], ran["cautions"]) == (True, str(pinned.wheel), [])
    assert ran["url"].startswith(pinned.server.url)
    assert not [line for line in pinned.server.log if line.startswith("GET") and ".whl" in line]


@pytest.mark.parametrize("fault", ["gone", "moved on", "unreachable", "no longer delivers", "another digest", "broken"])
def test_a_wheel_that_is_kept_needs_no_index(pinned: Pinned, fault: str) -> None:
    routes = pinned.server.routes
    changes = {}
    if fault == "gone":
        routes.clear()
    elif fault == "moved on":
        del routes[pinned.page]
        routes["/nightly/vllm/"] = Reply(b'<a href="vllm-0.17.0-cp38-abi3-linux_x86_64.whl">x</a>')
    elif fault == "unreachable":
        changes["index_url"] = "http://127.0.0.1:9"
    elif fault == "no longer delivers":
        del routes[next(path for path in routes if ".whl" in path)]
    elif fault == "another digest":
        routes[pinned.page] = Reply(f'<a href="../{NAME}#sha256={"d" * 64}">x</a>'.encode())
    else:
        routes[pinned.page] = Reply(status=503)
    ran = pinned.run(**changes)
    assert (ran["resolved"], ran["problem"], ran["url"]) == (True, None, None)
    assert (ran["filename"], ran["sha256"]) == (NAME, SHA256)
    (caution,) = ran["cautions"]
    assert caution["where"] == changes.get("index_url", pinned.server.url)
    assert f"The wheel is kept in {pinned.wheel}, so that the index is not needed." in caution["what"]
    assert len(pinned.server.log) <= 6, "what is not needed is asked once"
    # And the same without it is in the way.
    pinned.wheel.write_bytes(b"something else")
    assert not pinned.run(**changes)["resolved"]


def test_the_pin_itself_is_never_a_caution(pinned: Pinned) -> None:
    for wrong, told in (
        ({"commit": "662205d34"}, "is not 40 lower-case"),
        ({"commit": "0" * 40}, "contradict each other"),
        ({"sha256": ""}, "is not there"),
        ({"sha256": "d" * 64}, "is not there"),
        ({"version": VERSION + ".cu130"}, "is not there"),
    ):
        ran = pinned.run(**{"index_url": str(pinned.wheels / "none"), **wrong})
        assert (ran["resolved"], ran["kept"] if "commit" not in wrong else None) == (False, None)
        assert told in ran["problem"] or "cannot be read" in ran["problem"]


def test_a_kept_wheel_must_fit(pinned: Pinned) -> None:
    ran = pinned.run(machine="riscv64")
    assert (ran["kept"], ran["resolved"]) == (None, False)


def test_without_an_index(pinned: Pinned) -> None:
    assert pinned.run(index_url=None)["resolved"]
    pinned.wheel.unlink()
    ran = pinned.run(index_url=None)
    assert "it is not kept here: there is no index to ask" in ran["problem"]
    assert ran["target"]["python_version"] == ".".join(platform.python_version_tuple()[:2])
    assert pinned.server.log == []


def test_a_python_that_is_not_there_yet(pinned: Pinned) -> None:
    ran = pinned.run(python="/opt/none/python3")
    assert ran["resolved"]
    assert "tags of Python are not compared: python /opt/none/python3 does not run" in ran["cautions"][0]["what"]
    assert ran["target"]["python_version"] is None


def test_a_password_is_not_told(pinned: Pinned) -> None:
    ran = pinned.run(index_url=pinned.server.url.replace("//", "//user:s3cret@"))
    assert ran["resolved"]
    assert "s3cret" not in str(ran)
