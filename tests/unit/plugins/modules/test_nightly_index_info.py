# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import platform

import pytest
from ansible_collections.pristine.vllm.plugins.modules import nightly_index_info
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import Reply, http_server, run_module


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
