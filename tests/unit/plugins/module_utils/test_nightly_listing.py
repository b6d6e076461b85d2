# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lists the wheels of a commit: a page, metadata.json beside it, or a folder."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.index_folder import FolderIndex, as_address
from ansible_collections.pristine.vllm.plugins.module_utils.index_http import IndexClient
from ansible_collections.pristine.vllm.plugins.module_utils.nightly_index import Pin, Resolution, resolve
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_target import Target
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import Reply, Server, http_server

COMMIT = "662205d34eb1bb42228768d7a69a1ac4abf38c89"
VERSION = "0.16.0rc2.dev313+g662205d34"
WHEEL = f"vllm-{VERSION}-cp38-abi3-manylinux_2_31_x86_64.whl"
ARM = WHEEL.replace("x86_64", "aarch64")
CU130 = WHEEL.replace("g662205d34", "g662205d34.cu130")
FILE = f"/{COMMIT}/{WHEEL.replace('+', '%2B')}"
PAGE = f"/{COMMIT}/vllm/"
DATA = b"x" * 1000
SHA256 = hashlib.sha256(DATA).hexdigest()


def page(*names: str) -> Reply:
    return Reply("".join(f'<a href="../{name.replace("+", "%2B")}">{name}</a>' for name in names).encode())


def metadata(*names: str, **changes: Any) -> Reply:
    """As the real index writes it: the version lacks the variant, the path is relative and encoded."""
    rows = [
        {
            "package_name": "vllm",
            "version": VERSION,
            "filename": name,
            "path": f"../../{COMMIT}/{name.replace('+', '%2B')}",
            **changes,
        }
        for name in names
    ]
    return Reply(json.dumps(rows).encode(), content_type="application/json")


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NETRC", os.devnull)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with http_server() as server:
        server.routes[FILE] = Reply(DATA, content_type="application/zip")
        yield server


def find(server: Server, **changes: Any) -> Resolution:
    pin = dataclasses.replace(Pin(server.url, VERSION, COMMIT), **changes)
    return resolve(pin, IndexClient(2.0, lambda _seconds: None))


def problem_of(found: Resolution) -> str:
    assert not found.resolved
    assert found.problem is not None
    assert found.problem.endswith("Nothing on this host was changed.")
    return found.problem


def test_both_agree(index: Server) -> None:
    index.routes[PAGE] = page(WHEEL, ARM)
    index.routes[f"{PAGE}metadata.json"] = metadata(ARM, WHEEL)
    found = find(index)
    assert (found.url, found.page, found.cautions) == (index.url + FILE, index.url + PAGE, [])


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (Reply(status=404), "answers HTTP 404 Not Found"),
        (Reply(b"{}", content_type="application/json"), "application/json instead of an HTML page"),
        (Reply(b"<html>Please log in</html>"), "lists no vllm wheels"),
    ],
)
@pytest.mark.parametrize("path", [f"../../{COMMIT}/{WHEEL.replace('+', '%2B')}", "elsewhere.whl", "", None])
def test_metadata_stands_in_for_the_page(index: Server, given: Reply, reason: str, path: str) -> None:
    index.routes[PAGE] = given
    index.routes[f"{PAGE}metadata.json"] = metadata(WHEEL, path=path)
    found = find(index)
    assert found.resolved
    assert found.url == index.url + FILE, "the file name counts, however the path is written"
    assert found.offers == [WHEEL]
    assert found.page == f"{index.url}{PAGE}metadata.json"
    assert reason in found.cautions[0]
    assert "metadata.json was taken in its place" in found.cautions[0]


def test_the_version_of_metadata_is_not_believed(index: Server) -> None:
    index.routes[f"/{COMMIT}/cu130/vllm/metadata.json"] = metadata(CU130)
    problem = problem_of(find(index, variant="cu130"))
    assert f"does not list that version: it lists {VERSION}.cu130" in problem


def test_where_both_differ_the_page_leads_and_that_is_said(index: Server) -> None:
    index.routes[PAGE] = page(WHEEL)
    index.routes[f"{PAGE}metadata.json"] = metadata(ARM)
    found = find(index)
    assert found.url == index.url + FILE
    assert f"only {index.url}{PAGE} has {WHEEL}; only {index.url}{PAGE}metadata.json has {ARM}" in found.cautions[0]
    assert not find(index, target=Target("aarch64")).resolved


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b'[{"path": "x"}]', b"null", b"[" * 5000])
def test_metadata_that_is_none(index: Server, body: bytes) -> None:
    index.routes[f"{PAGE}metadata.json"] = Reply(body, content_type="application/json")
    assert "has nothing for commit" in problem_of(find(index))
    index.routes[PAGE] = page(WHEEL)
    found = find(index)
    assert found.resolved
    assert "metadata.json is not used: it is no list of wheels" in found.cautions[0]


def test_a_name_in_metadata_cannot_lead_elsewhere(index: Server) -> None:
    index.routes[f"{PAGE}metadata.json"] = metadata(f"../../{WHEEL}", "torch-2-py3-none-any.whl")
    assert "has nothing for commit" in problem_of(find(index))


def test_an_index_that_has_moved_on_tells_where_it_is(index: Server) -> None:
    index.routes["/nightly/vllm/"] = page("vllm-0.16.0rc2.dev314+g0badbadba-cp38-abi3-manylinux_2_31_x86_64.whl")
    problem = problem_of(find(index))
    assert f"has nothing for commit {COMMIT}" in problem
    assert "its nightly folder is at 0.16.0rc2.dev314+g0badbadba now" in problem


def test_a_variant_that_is_not_there_and_those_that_are(index: Server) -> None:
    index.routes[f"/{COMMIT}/"] = Reply(b'<a href="vllm/">vllm/</a><a href="cpu/">cpu/</a><a href="cu129/">cu129/</a>')
    problem = problem_of(find(index, variant="cu130"))
    assert "no variant 'cu130' of this commit" in problem
    assert "while the commit has the default variant, variant cpu, variant cu129. Pin" in problem


def test_a_link_that_is_no_address(index: Server) -> None:
    index.routes[PAGE] = Reply(b'<a href="http://[x">vllm</a>')
    assert "no page of an index" in problem_of(find(index))


@pytest.mark.parametrize(
    ("target", "told"),
    [
        (Target("x86_64", (3, 12), (2, 36)), ""),
        (Target("x86_64", (3, 7), (2, 36)), "no wheel for Python 3.7: the version is there for cp38-abi3 only"),
        (
            Target("x86_64", (3, 12), (2, 28)),
            "glibc 2.28: the version is there for manylinux_2_31_aarch64, manylinux_2_31_x86_64 only",
        ),
        (
            Target("riscv64", (3, 12), (2, 36)),
            "no wheel for Linux on riscv64: the version is there for manylinux_2_31_a",
        ),
    ],
)
def test_a_host_that_no_wheel_is_for(index: Server, target: Target, told: str) -> None:
    index.routes[PAGE] = page(WHEEL, ARM)
    found = find(index, target=target)
    assert told in (found.problem or "")
    assert found.resolved is (not told)
    assert len(found.offers) == 2


class Folder:
    """An index in a folder."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root

    def add(self, *names: str, below: str = "", data: bytes = DATA) -> None:
        (self.root / below).mkdir(parents=True, exist_ok=True)
        for name in names:
            (self.root / below / name).write_bytes(data)

    def find(self, **changes: Any) -> Resolution:
        pin = dataclasses.replace(Pin(str(self.root), VERSION, COMMIT, sha256=SHA256), **changes)
        return resolve(pin, FolderIndex())


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> Folder:
    return Folder(tmp_path / "an index")


@pytest.mark.parametrize("layout", ["flat", "commit", "page", "metadata"])
def test_a_folder_is_an_index(folder: Folder, layout: str) -> None:
    below = "" if layout == "flat" else COMMIT
    folder.add(WHEEL, CU130, "torch-2-py3-none-any.whl", below=below)
    if layout == "page":
        folder.add("index.html", below=f"{COMMIT}/vllm", data=page(WHEEL, ARM).body)
    if layout == "metadata":
        folder.add("metadata.json", below=f"{COMMIT}/vllm", data=metadata(WHEEL).body)
    for address in (str(folder.root), f"{folder.root}/", as_address(str(folder.root))):
        found = folder.find(index_url=address)
        assert found.problem is None
        assert found.url == as_address(str(folder.root / below / WHEEL))
        assert (found.size, found.sha256) == (1000, SHA256)


def test_a_folder_has_the_same_rules(folder: Folder) -> None:
    folder.add(WHEEL, CU130)
    for changes, told in (
        ({"version": "0.16.1"}, f"does not list that version: it lists {VERSION}. Pin"),
        ({"commit": "662205d34"}, "is not 40 lower-case"),
        ({"commit": "0" * 40}, "contradict each other"),
        ({"variant": "cu129"}, f"holds no wheel of variant cu129: it holds {WHEEL}, {CU130}"),
        ({"variant": "cu130"}, f"does not list that version: it lists {VERSION}.cu130"),
        ({"version": VERSION + ".cu130"}, "does not list that version: it lists"),
        ({"sha256": "d" * 64}, f"has another sha256: the file has {SHA256}, the pin says {'d' * 64}"),
        ({"target": Target("aarch64")}, "no wheel for Linux on aarch64"),
        ({"target": Target("x86_64", (3, 7))}, "no wheel for Python 3.7"),
        ({"index_url": str(folder.root / "none")}, "none/ cannot be read: No such file or directory. Mount it"),
        ({"index_url": str(folder.root / WHEEL)}, "cannot be read: Not a directory. Mount it"),
    ):
        assert told in problem_of(folder.find(**changes)), changes
    assert folder.find(variant="cu130", version=VERSION + ".cu130").filename == CU130


def test_a_folder_that_is_laid_out_as_the_index_has_no_other_variant(folder: Folder) -> None:
    folder.add(WHEEL, CU130, below=COMMIT)
    folder.add("index.html", below=f"{COMMIT}/vllm", data=page(WHEEL).body)
    problem = problem_of(folder.find(variant="cu130", version=VERSION + ".cu130"))
    assert "no variant 'cu130' of this commit" in problem
    assert "the commit has the default variant" in problem


def test_a_folder_that_lists_what_it_does_not_have(folder: Folder) -> None:
    folder.add("index.html", below=f"{COMMIT}/vllm", data=page(WHEEL).body)
    problem = problem_of(folder.find())
    assert f"lists {WHEEL} and does not deliver it" in problem
    assert "No such file" in problem
    folder.add(
        "index.html", below=f"{COMMIT}/vllm", data=b'<a href="http://127.0.0.1:9/x/' + WHEEL.encode() + b'">x</a>'
    )
    assert "it is not in the folder" in problem_of(folder.find())


def test_an_empty_folder(folder: Folder) -> None:
    folder.root.mkdir()
    assert "lists no vllm wheels: there are neither" in problem_of(folder.find())
