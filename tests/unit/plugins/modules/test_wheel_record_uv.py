# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An edit in place reaches uv's cache and every environment that is linked from it, and a reinstallation keeps it.

https://github.com/astral-sh/uv/issues/10579, with an index that knows ETags: against one that does not, uv fetches the
wheel again, and this would show nothing.
"""

from __future__ import annotations

import hashlib
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.modules import wheel_record
from ansible_collections.pristine.vllm.tests.unit.plugins.record_support import (
    NAME,
    SOURCE,
    Env,
    quiet_environment,
    sha256,
)
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import (
    Handler,
    Reply,
    Route,
    Server,
    http_server,
    run_module,
)

CORE = "demo/core.py"
DEBUG = b"\nprint('debug')\n"


def with_etag(reply: Reply) -> Route:
    """The same reply, and 304 for who has it already."""
    tag = f'"{hashlib.sha256(reply.body).hexdigest()}"'
    reply.headers["ETag"] = tag

    def answer(handler: Handler) -> Reply:
        return Reply(status=304, headers={"ETag": tag}) if handler.headers.get("If-None-Match") == tag else reply

    return answer


@pytest.fixture
def server(demo_wheel: pathlib.Path) -> Iterator[Server]:
    with http_server() as server:
        server.serve_simple(demo_wheel.parent)
        for path, route in list(server.routes.items()):
            assert isinstance(route, Reply)
            server.routes[path] = with_etag(route)
        yield server


class Uv:
    """uv with a cache of its own."""

    def __init__(self, folder: pathlib.Path, index: str) -> None:
        self.cache = folder / "uv-cache"
        self.index = index

    def install(self, root: pathlib.Path, *options: str) -> Env:
        if not root.exists():
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root)], check=True)
        uv = str(pathlib.Path(sys.executable).parent / "uv")
        command = [uv, "pip", "install", "--quiet", "--no-deps", "--python", str(root / "bin/python")]
        command += ["--cache-dir", str(self.cache), "--index-url", self.index, *options]
        if not any(option.startswith("--link-mode") for option in options):
            command.append("--link-mode=hardlink")
        subprocess.run(command, check=True, env=quiet_environment())
        return Env(root)


def test_contamination_through_uvs_cache_is_cured(
    capfd: pytest.CaptureFixture[str], server: Server, demo_wheel: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    uv = Uv(tmp_path, f"{server.url}/simple")
    mine, other = (uv.install(tmp_path / name, NAME) for name in ("mine", "other"))
    with (mine.site / CORE).open("ab") as stream:
        stream.write(DEBUG)
    assert (other.site / CORE).read_bytes() == SOURCE + DEBUG

    pin = tmp_path / "pin.txt"
    version = demo_wheel.name.split("-")[1]
    pin.write_text(f"{NAME}=={version} --hash=sha256:{sha256(demo_wheel.read_bytes())}\n")
    again: list[tuple[str, ...]] = [
        ("--reinstall", NAME),
        ("--reinstall", "--refresh", NAME),
        ("--reinstall", "--link-mode=copy", NAME),
        ("--reinstall", "--require-hashes", "--requirement", str(pin)),
    ]
    for options in again:
        uv.install(mine.root, *options)
        assert (mine.site / CORE).read_bytes() == SOURCE + DEBUG, options
        assert mine.found(wheel=demo_wheel) == {CORE: "modified"}

    uv.install(mine.root, "--reinstall", NAME)
    linked = next(uv.cache.rglob("core.py"))
    given: dict[str, Any] = {"environment": str(mine.root), "quarantine": str(tmp_path / "q"), "lock": str(pin)}
    given |= {"wheels": [str(demo_wheel)], "caches": [str(uv.cache)]}
    check = run_module(capfd, wheel_record.main, check=True, **given)
    result = run_module(capfd, wheel_record.main, **given)
    assert check == result
    assert not result.failed, result["msg"]
    assert result["restored"][0]["verified_against"] == "pinned_wheel"
    assert mine.scan(wheel=demo_wheel).findings == []
    # uv's cache and the other environment are as they were, and named.
    assert (other.site / CORE).read_bytes() == linked.read_bytes() == SOURCE + DEBUG
    assert (other.site / CORE).stat().st_ino == linked.stat().st_ino
    (links,) = result["other_links"]
    assert (links["path"], links["count"], links["found"]) == (CORE, 2, [str(linked)])
    assert not run_module(capfd, wheel_record.main, **given)["changed"]
