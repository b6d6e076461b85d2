# Copyright: Pristine vLLM maintainers (@pristine-vllm)
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""uv hard-links from its cache: an edit in place reaches the cache and every environment, and no reinstall cures it.

Against an index that knows ETags: one that does not makes uv fetch the wheel again, and hides what happens outside.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from testinfra.host import Host

FOLDER = "/opt/contamination"
CACHE = f"{FOLDER}/cache"
EDITED = "vllm/model_executor/models/deepseek_v2.py"
DEBUG = "# nomla_debug"
# What operators try. Each but the last fetches nothing: uv asks the index, and is told that what it has is still right.
TRIED = {
    "reinstall": "--reinstall",
    "refresh": "--reinstall --refresh",
    "copies": "--reinstall --link-mode copy",
    "hashes": f"--reinstall --require-hashes -r {FOLDER}/lock.txt",
}

Module = Callable[..., dict[str, Any]]


@pytest.fixture
def module(host: Host) -> Module:
    """Run a module of the collection on the host."""

    def run(name: str, **arguments: object) -> dict[str, Any]:
        done: dict[str, Any] = host.ansible(f"pristine.vllm.{name}", json.dumps(arguments), check=False)
        return done

    return run


@pytest.fixture(scope="module")
def uv(host: Host, variables: dict[str, Any]) -> Iterator[Callable[[str], str]]:
    """Two environments with hard links from one cache, made by uv from the index, one of them edited in place.

    Gives a way to run ``uv pip install`` for the edited one.
    """
    version = variables["vllm_version"]
    index = _index(variables)
    unpack = f"mkdir -p {FOLDER}/uv && cd {FOLDER}/uv && python3 -m zipfile -e /opt/vllm/wheels/uv-*.whl ."
    program = f"{FOLDER}/uv/bin"
    install = f"{program} --no-config --cache-dir {CACHE} pip install --quiet --no-deps --index-url {index}"
    steps = [
        unpack,
        f"install -m 0755 {FOLDER}/uv/uv-*.data/scripts/uv {program}",
        f"echo 'vllm=={version} --hash=sha256:{variables['vllm_wheel_sha256']}' > {FOLDER}/lock.txt",
    ]
    for name in ("edited", "other"):
        steps.append(f"{program} --no-config venv --quiet --python /usr/bin/python3 {FOLDER}/{name}")
        steps.append(f"{install} --python {FOLDER}/{name}/bin/python --link-mode hardlink 'vllm=={version}'")
    steps.append(f"echo '{DEBUG}' >> $(echo {FOLDER}/edited/lib/python3*/site-packages/{EDITED})")
    host.check_output(f"rm -rf {FOLDER}; set -e; {'; '.join(steps)}")

    def again(options: str) -> str:
        what = "" if "-r " in options else f"'vllm=={version}'"
        return str(host.check_output(f"{install} --python {FOLDER}/edited/bin/python {options} {what}"))

    yield again
    host.check_output(f"rm -rf {FOLDER}")


def _index(variables: dict[str, Any]) -> str:
    """The index of the pinned commit and variant."""
    parts = [variables["vllm_index_url"], variables["vllm_commit"], variables.get("vllm_variant", "")]
    return "/".join(part for part in parts if part)


def _dirty(host: Host) -> set[str]:
    """Which of the cache and the environments hold the debug code."""
    found = host.run(f"cd {FOLDER} && grep -rl '{DEBUG}' cache edited other --include=deepseek_v2.py").stdout
    return {path.split("/")[0] for path in found.split()}


def test_the_index_knows_etags(host: Host, variables: dict[str, Any]) -> None:
    """What the cache's staying in use rests on; without it the tests below would prove nothing."""
    url = f"{_index(variables)}/vllm/"
    ask = "curl -fsS -o /dev/null -w '%{http_code}'"
    tag = host.check_output(f"curl -fsSI {url} | grep -i '^etag:' | tr -d '\\r' | cut -d' ' -f2")
    assert tag
    assert host.check_output(f"{ask} -H 'If-None-Match: {tag}' {url}") == "304"


def test_an_edit_in_place_reaches_the_cache_and_the_other_environment(host: Host, uv: Callable[[str], str]) -> None:
    assert _dirty(host) == {"cache", "edited", "other"}
    links = host.check_output(f"stat -c '%h %i' {FOLDER}/*/lib/python3*/site-packages/{EDITED} | sort -u").split("\n")
    assert len(links) == 1, "the environments do not share the file"
    assert int(links[0].split()[0]) == 3


@pytest.mark.parametrize("tried", TRIED)
def test_no_reinstall_of_uv_cures_it(host: Host, uv: Callable[[str], str], tried: str) -> None:
    uv(TRIED[tried])
    assert _dirty(host) == {"cache", "edited", "other"}


def test_the_scan_finds_it_in_every_environment(module: Module, uv: Callable[[str], str]) -> None:
    """Although uv has just installed one of them anew, from what it takes for the pinned wheel."""
    for name in ("edited", "other"):
        found = module(
            "wheel_record_info",
            environment=f"{FOLDER}/{name}",
            wheels=["/opt/vllm/wheels"],
            lock=f"{FOLDER}/lock.txt",
        )
        assert found["pristine"] is False
        (finding,) = [finding for finding in found["findings"] if finding["status"] != "unverifiable"]
        assert (finding["path"], finding["status"]) == (EDITED, "modified")
        assert finding["verified_against"] == "pinned_wheel"


def test_the_reinstall_of_the_collection_is_pristine(host: Host, module: Module, uv: Callable[[str], str]) -> None:
    """A release holds copies of what the pinned wheel holds, whatever lies in uv's cache."""
    lock = {"wheels": "/opt/vllm/wheels", "lock": f"{FOLDER}/lock.txt"}
    built = module(
        "env_release", root=f"{FOLDER}/root", release="clean-1", state="built", import_check=["json"], **lock
    )
    assert built["changed"] is True
    found = module("wheel_record_info", environment=built["path"], wheels=[lock["wheels"]], lock=lock["lock"])
    assert found["pristine"] is True
    assert found["summary"]["verified_against"] == "pinned_wheel"
    assert host.check_output(f"stat -c %h {built['path']}/lib/python3*/site-packages/{EDITED}") == "1"
    assert _dirty(host) == {"cache", "edited", "other"}


def test_a_restored_file_is_its_own_and_its_other_names_are_told(
    host: Host, module: Module, uv: Callable[[str], str]
) -> None:
    options = {
        "environment": f"{FOLDER}/other",
        "wheels": ["/opt/vllm/wheels"],
        "lock": f"{FOLDER}/lock.txt",
        "quarantine": f"{FOLDER}/quarantine",
        "caches": [CACHE],
    }
    restored = module("wheel_record", **options)
    assert restored["changed"] is True
    assert restored["pristine"] is True
    assert [entry["path"] for entry in restored["restored"]] == [EDITED]
    assert [link["path"] for link in restored["other_links"]] == [EDITED]
    assert _dirty(host) == {"cache", "edited"}
    assert module("wheel_record", **options)["changed"] is False


def test_only_without_the_cache_does_uv_install_what_the_index_serves(host: Host, uv: Callable[[str], str]) -> None:
    uv("--reinstall --no-cache")
    assert _dirty(host) == {"cache"}
