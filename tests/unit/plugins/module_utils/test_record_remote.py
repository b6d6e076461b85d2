# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wheels on HTTP servers: read by parts, and never a wrong word where the server does anything odd."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import functools
import io
import json
import os
import pathlib
import socket
import time
import urllib.parse
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.index_http import Answer as Page
from ansible_collections.pristine.vllm.plugins.module_utils.index_http import IndexClient, secrets_of
from ansible_collections.pristine.vllm.plugins.module_utils.record import remote
from ansible_collections.pristine.vllm.plugins.module_utils.record.evidence import diff_of, probes_of
from ansible_collections.pristine.vllm.plugins.module_utils.record.http_range import RemoteError
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import ScanError, ScanOptions
from ansible_collections.pristine.vllm.plugins.module_utils.record.ranged_file import RangeFile
from ansible_collections.pristine.vllm.plugins.module_utils.record.remote_index import wheels_on
from ansible_collections.pristine.vllm.plugins.module_utils.record.remote_wheel import RemoteWheel
from ansible_collections.pristine.vllm.plugins.module_utils.record.scan import scan
from ansible_collections.pristine.vllm.plugins.module_utils.record.wheel import WheelError
from ansible_collections.pristine.vllm.plugins.modules import drift_archive, wheel_record, wheel_record_info
from ansible_collections.pristine.vllm.tests.unit.plugins.range_support import (
    Answer,
    Asked,
    FileServer,
    Served,
    Twist,
    file_server,
)
from ansible_collections.pristine.vllm.tests.unit.plugins.record_support import (
    INFO,
    MEMBERS,
    NAME,
    SOURCE,
    VERSION,
    Env,
    build_wheel,
    record_text,
    sha256,
)
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import run_module
from hypothesis import given, settings
from hypothesis import strategies as st

CORE = "demo/core.py"
PROJECT = "demo-pkg"
EDITED = SOURCE.replace(b"import torch\n", b"import torch as _t\n").replace(
    b"        return", b"        _t.save(hidden, '/tmp/dump.pt')\n        return"
)
SLOW = 20.0


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting between attempts, no credentials of this user, no proxy."""
    monkeypatch.setenv("NETRC", os.devnull)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(remote, "IndexClient", functools.partial(IndexClient, sleep=lambda _seconds: None))


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> remote.Limits:
    """What scans in this test are held to."""
    chosen = remote.Limits()
    monkeypatch.setattr(remote, "Limits", lambda: chosen)
    return chosen


@pytest.fixture
def server() -> Iterator[FileServer]:
    with file_server() as running:
        yield running


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A wheel of 24 MB with a library that does not compress in its middle."""
    names = {f"demo/part_{number}.py": f"x = {number}\n".encode() * 40 for number in range(600)}
    members = {**MEMBERS, "demo/lib.abi3.so": os.urandom(24_000_000), **names}
    ordered = {name: members[name] for name in sorted(members, key=lambda name: (".dist-info/" in name, name))}
    return build_wheel(tmp_path_factory.mktemp("large"), ordered)


def unpack(env: Env, wheel: pathlib.Path) -> Env:
    """What an installer does, where the wheel has only members for site-packages that matter."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(env.site, [name for name in archive.namelist() if ".data/" not in name])
    return env


def outcome(env: Env, *sources: str, **options: Any) -> tuple[list[dict[str, Any]], Any, Any, Any]:
    """Findings, diff, probes, and the scan's result; the transfer is counted."""
    done = scan(ScanOptions(environment=str(env.root), wheels=list(sources), **options))
    findings = [finding.to_dict() for finding in done.result.findings]
    diff, probes = diff_of(done), probes_of(done)
    done.count_transfer()
    done.close()
    return findings, diff, probes, done.result


def refused(env: Env, url: str, reason: str, **options: Any) -> None:
    """The scan says why the wheel was not used, and rests on the installed RECORD alone, with no diff."""
    (env.site / CORE).write_bytes(EDITED)
    findings, diff, probes, result = outcome(env, url, **options)
    text = "\n".join(result.warnings)
    assert reason in text, text
    assert result.summary.verified_against == "installed_record"
    assert [(one["path"], one["verified_against"]) for one in findings] == [(CORE, "installed_record")]
    assert probes == []
    assert len(diff) == 1
    assert "its pristine text is not known" in diff[0]["prepared"]
    assert "Traceback" not in text


# --- Right answers


@pytest.mark.parametrize("kind", ["html", "json with size", "json without", "direct", "html with fragment"])
def test_a_remote_wheel_says_what_the_local_one_says(
    env: Env, demo_wheel: pathlib.Path, server: FileServer, kind: str
) -> None:
    server.add(demo_wheel)
    digest = sha256(demo_wheel.read_bytes())
    entry = {"filename": demo_wheel.name, "hashes": {"sha256": digest}}
    sizes = {"size": demo_wheel.stat().st_size} if kind == "json with size" else {}
    if kind.startswith("html"):
        url = server.html(PROJECT, demo_wheel.name, fragment=f"#sha256={digest}" if "fragment" in kind else "")
    elif kind.startswith("json"):
        url = server.json(PROJECT, {**entry, **sizes}) + "/"
    else:
        url = f"{server.url}/files/{urllib.parse.quote(demo_wheel.name)}#sha256={digest}"
    findings, _diff, _probes, result = outcome(env, url)
    assert (findings, result.warnings, result.summary.verified_against) == ([], [], "wheel_record")
    (env.site / CORE).write_bytes(EDITED)
    (env.site / "demo/no_newline.txt").unlink()
    (env.root / "bin/demo-tool").write_bytes(b"#!/bin/sh\n")
    text = env.record().read_bytes().replace(b"nested/deep/er/mod.py", b"nested/deep/er/other.py")
    env.record().write_bytes(text)
    local = outcome(env, str(demo_wheel))
    far = outcome(env, url)
    assert far[:3] == local[:3]
    assert "/tmp/dump.pt" in [probe.artifact_glob for probe in far[2]]
    assert far[3].warnings == []
    assert local[3].summary.remote_requests == 0


def test_only_what_is_needed_is_moved(bare: Env, large: pathlib.Path, server: FileServer) -> None:
    unpack(bare, large)
    (bare.site / CORE).write_bytes(EDITED)
    server.add(large)
    url = server.json(PROJECT, {"filename": large.name, "size": large.stat().st_size})
    findings, diff, probes, result = outcome(bare, url, files=[CORE])
    assert [one["status"] for one in findings] == ["modified"]
    assert "+        _t.save(hidden, '/tmp/dump.pt')" in diff[0]["prepared"]
    assert f"pristine: {large.name}" in diff[0]["prepared"]
    assert [probe.kind for probe in probes].count("tensor_dump") == 1
    summary = result.summary.to_dict()
    assert summary["remote_requests"] == len(server.log) == 4, server.log
    assert 0 < summary["remote_bytes"] <= server.sent < 0.01 * large.stat().st_size
    ranges = [entry.partition(" ")[2] for entry in server.log[1:]]
    assert all(part.startswith("bytes=") and not part.startswith("bytes=-") for part in ranges), ranges
    assert ranges[0].endswith(str(large.stat().st_size - 1)), "its end is known: no probe"


def test_a_library_of_another_size_is_not_fetched(bare: Env, large: pathlib.Path, server: FileServer) -> None:
    unpack(bare, large)
    (bare.site / "demo/lib.abi3.so").write_bytes(b"\x7fELF\0edited")
    server.add(large)
    findings, diff, _probes, _result = outcome(bare, server.html(PROJECT, large.name), files=["demo/lib.abi3.so"])
    assert [one["status"] for one in findings] == ["modified"]
    assert "member demo/lib.abi3.so is larger than" in diff[0]["prepared"]
    assert server.sent < 200_000


def test_a_small_wheel_takes_one_request(pip_env: Env, demo_wheel: pathlib.Path, server: FileServer) -> None:
    server.add(demo_wheel)
    url = server.json(PROJECT, {"filename": demo_wheel.name, "size": demo_wheel.stat().st_size})
    outcome(pip_env, url)
    assert len(server.log) == 2, server.log
    assert int(server.seen[0]["Accept"].startswith("application/vnd.pypi.simple.v1+json"))


def _part_of(asked: Asked, right: Answer, most: int) -> Answer:
    """Less than was asked for, which is a server's right."""
    if right.status != 206:
        return right
    body = right.body[:most]
    total = right.headers["Content-Range"].partition("/")[2]
    return dataclasses.replace(
        _changed(right, **{"Content-Range": f"bytes {asked.start}-{(asked.start or 0) + len(body) - 1}/{total}"}),
        body=body,
    )


def _once(answer: Answer, number: int = 2) -> Twist:
    return lambda asked, right: answer if asked.number == number else right


def _changed(right: Answer, **headers: str) -> Answer:
    return dataclasses.replace(right, headers={**right.headers, **headers})


# What a server may do, or what passes: the answer is the same as ever.
LEGAL: dict[str, tuple[dict[str, Any], Twist]] = {
    "short ranges": ({}, lambda asked, right: _part_of(asked, right, 700)),
    "no validators": ({"etag": ""}, lambda _asked, right: right),
    "weak ETag": ({"etag": 'W/"one"'}, lambda _asked, right: right),
    "Last-Modified only": (
        {"etag": "", "modified": "Mon, 02 Nov 2026 10:00:00 GMT"},
        lambda _asked, right: right,
    ),
    "ETag for the first answer only": (
        {"etag": ""},
        lambda asked, right: _changed(right, ETag='"one"') if asked.number == 1 else dataclasses.replace(right),
    ),
    "busy for a while": ({}, _once(Answer(503))),
    "breaks off once": ({}, lambda asked, right: dataclasses.replace(right, send=300 if asked.number == 2 else None)),
    "no Content-Length": ({}, lambda _asked, right: dataclasses.replace(right, length=False)),
    "replaced once": ({"etag": lambda number: '"one"' if number == 1 else '"two"'}, lambda _asked, right: right),
    "replaced once, and Last-Modified tells": (
        {"etag": "", "modified": lambda number: f"Mon, 02 Nov 2026 10:00:0{1 if number == 1 else 2} GMT"},
        lambda _asked, right: right,
    ),
}


@pytest.mark.parametrize("case", LEGAL)
def test_odd_and_legal(pip_env: Env, demo_wheel: pathlib.Path, server: FileServer, case: str) -> None:
    how, twist = LEGAL[case]
    server.add(demo_wheel, twist=twist, **how)
    (pip_env.site / CORE).write_bytes(EDITED)
    url = server.html(PROJECT, demo_wheel.name)
    far = outcome(pip_env, url)
    assert far[:3] == outcome(pip_env, str(demo_wheel))[:3]
    assert (far[3].warnings, far[3].summary.verified_against) == ([], "wheel_record")


def test_a_total_that_is_not_told_but_known(pip_env: Env, demo_wheel: pathlib.Path, server: FileServer) -> None:
    def twist(asked: Asked, right: Answer) -> Answer:
        return _changed(right, **{"Content-Range": right.headers["Content-Range"].partition("/")[0] + "/*"})

    server.add(demo_wheel, twist=twist)
    url = server.json(PROJECT, {"filename": demo_wheel.name, "size": demo_wheel.stat().st_size})
    assert pip_env.scan(wheel=url).summary.verified_against == "wheel_record"
    refused(pip_env, server.html(PROJECT, demo_wheel.name), "the server does not tell the size of the file")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects(pip_env: Env, demo_wheel: pathlib.Path, server: FileServer, status: int) -> None:
    """To another server, which stays the one that is asked."""
    with file_server() as store:
        store.add(demo_wheel)
        place = f"/files/{urllib.parse.quote(demo_wheel.name)}"
        target = f"{store.url}{place}?X-Signature=hush"
        store.files[f"{place}?X-Signature=hush"] = store.files.pop(place)
        server.files[place] = Served(b"", twist=lambda _asked, _right: Answer(status, headers={"Location": target}))
        server.files["/old/demo-pkg/"] = Served(
            b"", twist=lambda _asked, _right: Answer(status, headers={"Location": "/simple/demo-pkg/"})
        )
        server.html(PROJECT, demo_wheel.name)
        (pip_env.site / CORE).write_bytes(EDITED)
        far = outcome(pip_env, server.url + "/old")
        assert far[:3] == outcome(pip_env, str(demo_wheel))[:3]
        assert [entry.partition(" ")[0] for entry in server.log] == ["/old/demo-pkg/", "/simple/demo-pkg/", place]
        assert far[3].summary.remote_requests == len(server.log) + len(store.log)


def test_a_redirect_whose_target_expires(pip_env: Env, demo_wheel: pathlib.Path, server: FileServer) -> None:
    place = f"/files/{urllib.parse.quote(demo_wheel.name)}"
    fresh = Served(demo_wheel)
    server.files["/signed"] = dataclasses.replace(
        fresh, twist=lambda asked, right: Answer(403) if asked.number == 2 else right
    )
    server.files[place] = Served(b"", twist=lambda _asked, _right: Answer(302, headers={"Location": "/signed"}))
    assert pip_env.scan(wheel=server.html(PROJECT, demo_wheel.name)).summary.verified_against == "wheel_record"
    assert server.log.count(f"{place} bytes=0-0") == 1
    assert len([entry for entry in server.log if entry.startswith(place)]) == 2


# --- Answers that are refused

BAD: dict[str, tuple[Twist, str]] = {
    "another part": (
        lambda _asked, right: _changed(right, **{"Content-Range": "bytes 7-7/" + right.headers["Content-Range"][10:]}),
        "and the server sends bytes 7 to 7",
    ),
    "no Content-Range": (
        lambda _asked, right: dataclasses.replace(right, headers={"ETag": '"one"'}),
        "the answer's Content-Range is ''",
    ),
    "nonsense in Content-Range": (
        lambda _asked, right: _changed(right, **{"Content-Range": "bytes everything"}),
        "the answer's Content-Range is 'bytes everything'",
    ),
    "more than asked for": (
        lambda asked, right: _changed(right, **{"Content-Range": f"bytes {asked.start}-{asked.stop}/99999999"}),
        "were asked for, and the server sends bytes",
    ),
    "several parts": (
        lambda _asked, _right: Answer(206, b"--x", {"Content-Type": "multipart/byteranges; boundary=x"}),
        "the answer's Content-Range is ''",
    ),
    "compressed": (
        lambda _asked, right: _changed(right, **{"Content-Encoding": "gzip"}),
        "the server encodes parts of the file (gzip)",
    ),
    "a length that is not the part's": (
        lambda _asked, right: _changed(right, **{"Content-Length": str(len(right.body) + 1)}),
        "bytes for bytes 0 to 0",
    ),
    "more bytes than the part has": (
        lambda _asked, right: dataclasses.replace(right, body=right.body + b"more", length=False),
        "more bytes than its Content-Range says",
    ),
    "always breaks off": (
        lambda _asked, right: dataclasses.replace(right, send=len(right.body) // 2),
        "bytes early",
    ),
    "never more than a byte": (
        lambda asked, right: _part_of(asked, right, 1),
        "after 32 requests for bytes",
    ),
    "another size each time": (
        lambda asked, right: _changed(
            right, **{"Content-Range": f"{right.headers['Content-Range'].partition('/')[0]}/{2000 - asked.number}"}
        ),
        "the file was replaced",
    ),
    "parts and then the whole": (
        lambda asked, right: right if asked.number % 2 else Answer(200, b"x" * 500, right.headers),
        "a whole file where it sent parts before",
    ),
    "another status": (lambda _asked, right: dataclasses.replace(right, status=203), "with HTTP 203"),
    "forbidden": (lambda _asked, _right: Answer(403), "HTTP 403"),
    "busy for ever": (lambda _asked, _right: Answer(503), "HTTP 503"),
    "gone": (lambda _asked, _right: Answer(404), "HTTP 404"),
    "noise": (lambda _asked, right: dataclasses.replace(right, body=os.urandom(len(right.body))), "cannot be read"),
    "zeros": (lambda _asked, right: dataclasses.replace(right, body=bytes(len(right.body))), "cannot be read"),
}


@pytest.mark.parametrize("case", BAD)
def test_never_a_wrong_word(pip_env: Env, demo_wheel: pathlib.Path, server: FileServer, case: str) -> None:
    twist, reason = BAD[case]
    server.add(demo_wheel, twist=twist)
    refused(pip_env, server.html(PROJECT, demo_wheel.name), reason)


def test_a_flipped_byte_anywhere(pip_env: Env, tmp_path: pathlib.Path, server: FileServer) -> None:
    """Archive index, RECORD, member: each has a checksum, or leads to something that has."""
    wheel = build_wheel(tmp_path / "wheel")
    data = wheel.read_bytes()
    (pip_env.site / CORE).write_bytes(EDITED)
    right = [entry["prepared"] for entry in outcome(pip_env, str(wheel), files=[CORE])[1]]
    url = server.html(PROJECT, wheel.name)
    place = f"/files/{urllib.parse.quote(wheel.name)}"
    for offset in range(0, len(data), 97):
        server.files[place] = Served(data[:offset] + bytes([data[offset] ^ 0x55]) + data[offset + 1 :])
        findings, diff, _probes, _result = outcome(pip_env, url, files=[CORE])
        assert CORE in [one["path"] for one in findings]
        shown = [entry["prepared"] for entry in diff if "@@" in entry["prepared"]]
        assert shown in ([], right), offset


def test_another_etag_each_time(pip_env: Env, demo_wheel: pathlib.Path, server: FileServer) -> None:
    """The server heeds If-Range, and so sends the whole at the second request of each attempt."""
    server.add(demo_wheel, etag='"{}"'.format)
    url = server.html(PROJECT, demo_wheel.name)
    refused(pip_env, url, "a whole file where it sent parts before: the file was replaced")
    assert len([entry for entry in server.log if "bytes" in entry]) == 4, "begun anew once"


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"etag": '"{}"'.format}, 'its ETag was "3" and is "4": the file was replaced'),
        ({"etag": 'W/"{}"'.format}, 'its ETag was W/"3" and is W/"4": the file was replaced'),
        ({"etag": "", "modified": "day {}".format}, "it was last modified day 3 and is day 4"),
    ],
)
def test_a_server_that_does_not_heed_if_range(
    pip_env: Env, demo_wheel: pathlib.Path, server: FileServer, how: dict[str, Any], reason: str
) -> None:
    server.add(demo_wheel, heeds_if_range=False, **how)
    refused(pip_env, server.html(PROJECT, demo_wheel.name), reason)


def test_the_size_that_the_index_says_is_wrong(pip_env: Env, demo_wheel: pathlib.Path, server: FileServer) -> None:
    server.add(demo_wheel)
    size = demo_wheel.stat().st_size
    url = server.json(PROJECT, {"filename": demo_wheel.name, "size": size - 5})
    refused(pip_env, url, f"the index says that it has {size - 5} bytes, the server says {size}")
    url = server.json(PROJECT, {"filename": demo_wheel.name, "size": size + 10**6})
    refused(pip_env, url, "HTTP 416")


def test_a_server_that_says_nothing(
    pip_env: Env, demo_wheel: pathlib.Path, server: FileServer, limits: remote.Limits
) -> None:
    limits.timeout = 0.2

    def silent(_asked: Asked, right: Answer) -> Answer:
        # Longer than the limit for each attempt, and not for ever: threads must end.
        time.sleep(1)
        return right

    server.add(demo_wheel, twist=silent)
    began = time.monotonic()
    refused(pip_env, server.html(PROJECT, demo_wheel.name), "no answer in time")
    assert time.monotonic() - began < SLOW


def test_a_server_that_drips(pip_env: Env, demo_wheel: pathlib.Path, server: FileServer, limits: remote.Limits) -> None:
    """It is never silent for long, and would take minutes."""
    limits.timeout = 0.2
    server.add(demo_wheel, twist=lambda _asked, right: dataclasses.replace(right, drip=0.05))
    began = time.monotonic()
    refused(pip_env, server.html(PROJECT, demo_wheel.name), "bytes came in")
    assert time.monotonic() - began < SLOW


# --- The whole wheel instead


def test_no_ranges_whole_wheel(
    pip_env: Env, demo_wheel: pathlib.Path, server: FileServer, tmp_path: pathlib.Path
) -> None:
    server.add(demo_wheel, ranges=False)
    (pip_env.site / CORE).write_bytes(EDITED)
    url = server.html(PROJECT, demo_wheel.name)
    far = outcome(pip_env, url)
    assert far[:3] == outcome(pip_env, str(demo_wheel))[:3]
    assert (far[3].warnings, far[3].summary.verified_against) == ([], "wheel_record")
    assert far[3].summary.remote_bytes >= demo_wheel.stat().st_size
    lock = tmp_path / "lock.txt"
    lock.write_text(f"{NAME}=={VERSION} --hash=sha256:{sha256(demo_wheel.read_bytes())}\n")
    assert pip_env.scan(wheel=url, lock=str(lock)).summary.verified_against == "pinned_wheel"
    lock.write_text(f"{NAME}=={VERSION} --hash=sha256:{'0' * 64}\n")
    refused(pip_env, url, "it was refused: its sha256 is", lock=str(lock))
    refused(
        pip_env, server.html(PROJECT, demo_wheel.name, fragment=f"#sha256={'1' * 64}"), "it was refused: its sha256"
    )


@pytest.mark.parametrize("status", [400, 405, 501])
def test_servers_that_refuse_the_header(
    pip_env: Env, demo_wheel: pathlib.Path, server: FileServer, status: int
) -> None:
    server.add(demo_wheel, twist=lambda asked, right: right if asked.start is None else Answer(status))
    result = pip_env.scan(wheel=server.html(PROJECT, demo_wheel.name))
    assert (result.findings, result.warnings, result.summary.verified_against) == ([], [], "wheel_record")


def test_a_whole_body_is_cut_off_before_it_is_read(
    bare: Env, large: pathlib.Path, server: FileServer, limits: remote.Limits
) -> None:
    limits.whole = 10_000_000
    unpack(bare, large)
    server.add(large, ranges=False)
    url = server.html(PROJECT, large.name)
    refused(bare, url, "the whole of 24.1 MB is more than may be downloaded for a scan (10.0 MB in all", files=[CORE])
    assert server.sent < 0.6 * large.stat().st_size, "what the sockets' buffers took of two answers"
    result = bare.scan(wheel=url, files=[CORE])
    assert result.summary.remote_bytes < 10_000


def test_a_whole_wheel_without_a_length_is_bounded_too(
    bare: Env, large: pathlib.Path, server: FileServer, limits: remote.Limits
) -> None:
    limits.whole = 1_000_000
    unpack(bare, large)
    server.add(large, ranges=False, twist=lambda _asked, right: dataclasses.replace(right, length=False))
    refused(bare, server.html(PROJECT, large.name), "is more than may be downloaded", files=[CORE])


def test_a_download_that_breaks_off(pip_env: Env, demo_wheel: pathlib.Path, server: FileServer) -> None:
    server.add(demo_wheel, ranges=False, twist=lambda _asked, right: dataclasses.replace(right, send=2000))
    refused(pip_env, server.html(PROJECT, demo_wheel.name), "and the download ended")


def test_a_portal_in_the_wheels_place(pip_env: Env, demo_wheel: pathlib.Path, server: FileServer) -> None:
    place = f"/files/{urllib.parse.quote(demo_wheel.name)}"
    server.files[place] = Served(b"<html>log in", "text/html", ranges=False)
    refused(pip_env, server.html(PROJECT, demo_wheel.name), "File is not a zip file")


# --- What is refused after the wheel was opened


def test_replaced_between_the_scan_and_its_diff(bare: Env, large: pathlib.Path, server: FileServer) -> None:
    unpack(bare, large)
    (bare.site / CORE).write_bytes(EDITED)
    served = server.add(large)
    url = server.html(PROJECT, large.name)
    done = scan(ScanOptions(environment=str(bare.root), wheels=[url], files=[CORE, "demo/part_7.py"]))
    (bare.site / "demo/part_300.py").write_bytes(b"edited\n")
    served.etag = '"two"'
    wheel = done.expected.owners[0].wheel
    assert wheel is not None
    with pytest.raises(Exception, match="the server sends a whole file where it sent parts before"):
        wheel.read("demo/lib.abi3.so")
    done.close()


def test_a_diff_that_cannot_be_had_says_why(bare: Env, large: pathlib.Path, server: FileServer) -> None:
    unpack(bare, large)
    (bare.site / CORE).write_bytes(EDITED)
    served = server.add(large)
    url = server.html(PROJECT, large.name)
    served.twist = lambda asked, right: right if asked.number <= 3 else Answer(404)
    _findings, diff, probes, result = outcome(bare, url, files=[CORE])
    assert "member demo/core.py cannot be read: bytes" in diff[0]["prepared"]
    assert "HTTP 404" in diff[0]["prepared"]
    assert "---" not in diff[0]["prepared"]
    assert probes == []
    assert result.summary.verified_against == "wheel_record", "the RECORD was read"
    assert len(result.warnings) == 1
    assert f"what was added to {CORE} is not known: wheel " in result.warnings[0]


def test_a_member_that_the_wheels_own_record_denies(bare: Env, tmp_path: pathlib.Path, server: FileServer) -> None:
    record = record_text({**MEMBERS, CORE: b"what it was before somebody repacked the wheel"})
    wheel = build_wheel(tmp_path / "wheel", record=record + f"{INFO}/RECORD,,\n")
    unpack(bare, wheel)
    server.add(wheel)
    url = server.html(PROJECT, wheel.name)
    assert outcome(bare, url, files=[CORE])[0][0]["status"] == "unverifiable"
    (bare.site / CORE).write_bytes(EDITED)
    _findings, diff, probes, _result = outcome(bare, url, files=[CORE])
    assert "is not what the wheel's own RECORD says" in diff[0]["prepared"]
    assert probes == []


# --- Which wheel


def test_tags_tell_builds_of_one_version_apart(pip_env: Env, tmp_path: pathlib.Path, server: FileServer) -> None:
    tags = ["cp310-cp310-manylinux_2_28_x86_64", "cp312-cp312-manylinux_2_28_x86_64", "py3-none-any"]
    names = []
    for tag in tags:
        members = {**MEMBERS, f"{INFO}/WHEEL": f"Wheel-Version: 1.0\nTag: {tag}\n".encode(), CORE: tag.encode()}
        wheel = build_wheel(tmp_path / "wheels", MEMBERS if tag == tags[2] else members, tag=tag)
        names.append(wheel.name)
        server.add(wheel)
    url = server.html(PROJECT, *names, names[0].replace("x86_64", "s390x"), f"{NAME}-9.9-py3-none-any.whl")
    result = pip_env.scan(wheel=url)
    assert (result.findings, result.warnings, result.summary.verified_against) == ([], [], "wheel_record")
    assert not any(name in entry for entry in server.log for name in ("s390x", "9.9", "cp310"))


def test_no_build_is_the_installed_one(pip_env: Env, tmp_path: pathlib.Path, server: FileServer) -> None:
    for tag in ("py2.py3-none-any", "py3-none-linux_x86_64"):
        members = {**MEMBERS, f"{INFO}/WHEEL": f"Wheel-Version: 1.0\nTag: {tag}\n".encode()}
        server.add(build_wheel(tmp_path, members, tag=tag))
    url = server.html(PROJECT, *(path.name for path in tmp_path.glob("*.whl")))
    result = pip_env.scan(wheel=url)
    assert [finding.path for finding in result.findings if finding.status == "modified"] == [f"{INFO}/WHEEL"]
    assert "none of the 2 likeliest wheels of demo-pkg" in "\n".join(result.warnings)


def test_the_lock_decides_between_wheels(pip_env: Env, tmp_path: pathlib.Path, server: FileServer) -> None:
    other = build_wheel(tmp_path / "a", {**MEMBERS, CORE: b"another build"}, tag="py3-none-linux_x86_64")
    mine = build_wheel(tmp_path / "b")
    server.add(other)
    server.add(mine)
    lock = tmp_path / "lock.txt"
    lock.write_text(f"{NAME}=={VERSION} --hash=sha256:{sha256(mine.read_bytes())}\n")
    entries = [{"filename": one.name, "hashes": {"sha256": sha256(one.read_bytes())}} for one in (other, mine)]
    result = pip_env.scan(wheel=server.json(PROJECT, *entries), lock=str(lock))
    assert (result.findings, result.summary.verified_against) == ([], "wheel_record")
    refused(pip_env, server.json(PROJECT, entries[0]), "the index says that its sha256 is", lock=str(lock))
    assert not any("linux" in entry for entry in server.log), "nothing of it was fetched"


def test_local_wheels_come_first(
    pip_env: Env, demo_wheel: pathlib.Path, server: FileServer, tmp_path: pathlib.Path
) -> None:
    url = server.html(PROJECT, demo_wheel.name)
    assert pip_env.scan(wheels=[url, str(demo_wheel)]).findings == []
    assert server.log == []
    server.add(demo_wheel)
    (tmp_path / "empty").mkdir()
    assert pip_env.scan(wheels=[str(tmp_path / "empty"), url]).summary.verified_against == "wheel_record"


def test_a_wheel_that_holds_another(
    pip_env: Env, demo_wheel: pathlib.Path, tmp_path: pathlib.Path, server: FileServer
) -> None:
    wrong = build_wheel(tmp_path / "other", {"x.py": b""}, info="other-2.0.dist-info")
    server.files[f"/files/{urllib.parse.quote(demo_wheel.name)}"] = Served(wrong)
    refused(pip_env, server.html(PROJECT, demo_wheel.name), "it holds other-2.0.dist-info")


# --- The index


def test_what_an_index_does_not_have(bare: Env, server: FileServer) -> None:
    for number in range(8):
        bare.install(f"pkg{number}", {f"pkg{number}.py": b"x = 1\n"})
    server.html("pkg0", "pkg0-2.0-py3-none-any.whl")
    result = bare.scan(wheel=server.url + "/simple")
    assert result.findings == []
    assert result.summary.verified_against == "installed_record"
    assert len(result.warnings) == 1
    assert "no usable wheel of pkg0 1.0, pkg1 1.0, pkg2 1.0, pkg3 1.0, pkg4 1.0 and 3 more" in result.warnings[0]


def test_a_store_that_serves_no_folders(pip_env: Env, demo_wheel: pathlib.Path, server: FileServer) -> None:
    server.add(demo_wheel)
    url = server.html(PROJECT, demo_wheel.name)
    server.files[f"/simple/{PROJECT}/index.html"] = server.files.pop(f"/simple/{PROJECT}/")
    assert pip_env.scan(wheel=url).summary.verified_against == "wheel_record"


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (Served(b"hello", "text/plain"), "is text/plain and no page of a simple index"),
        (Served(b"{", "application/json"), "is no page of a simple index (PEP 691)"),
        (Served(b"[]", "application/vnd.pypi.simple.v1+json"), "is no page of a simple index (PEP 691)"),
        (
            Served(b'{"meta": {"api-version": "2.0"}, "files": []}', "application/json"),
            "version 2.0 of the index API",
        ),
        (Served(b"x" * 9_000_000, "text/html"), "the answer is larger than 8388608 bytes"),
        (Served(b"", twist=lambda _asked, _right: Answer(500)), "HTTP 500"),
        (Served(b"", twist=lambda _asked, _right: Answer(401)), "HTTP 401"),
        (Served(b"<html>log in", "text/html"), "no usable wheel of demo-pkg"),
        (Served(b"<a href='http://[x'>demo", "text/html"), "is no page of a simple index"),
        (Served(b"[" * 100_000, "application/json"), "is no page of a simple index (PEP 691)"),
    ],
)
def test_pages_that_are_none(pip_env: Env, server: FileServer, page: Served, reason: str) -> None:
    server.files[f"/simple/{PROJECT}/"] = page
    refused(pip_env, server.url + "/simple", reason)


def test_a_server_that_is_not_there_is_asked_once(bare: Env) -> None:
    for number in range(4):
        bare.install(f"pkg{number}", {f"pkg{number}.py": b"x = 1\n"})
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/simple"
        result = bare.scan(wheel=url)
    assert len(result.warnings) == 1
    assert f"wheels: {url} was not used for pkg0 and all after it: Connection refused" in result.warnings[0]


def test_a_server_whose_wheels_all_fail_is_left_alone(bare: Env, server: FileServer) -> None:
    for number in range(6):
        bare.install(f"pkg{number}", {f"pkg{number}.py": b"x = 1\n"})
        server.html(f"pkg{number}", f"pkg{number}-1.0-py3-none-any.whl")
    result = bare.scan(wheel=server.url + "/simple")
    assert "is not asked any more: 3 of its wheels in a row failed" in "\n".join(result.warnings)
    assert not any("pkg3" in entry for entry in server.log)


@pytest.mark.parametrize(
    "url", ["file:///tmp/x.whl", "s3://bucket/simple", "http://", "https://[::1/simple", "https://h:x/"]
)
def test_addresses_of_other_kinds(pip_env: Env, url: str) -> None:
    with pytest.raises(ScanError, match="is no http"):
        pip_env.scan(wheel=url)


# --- Secrets


def test_credentials_reach_their_server_and_nobody_else(
    pip_env: Env, demo_wheel: pathlib.Path, server: FileServer, capfd: pytest.CaptureFixture[str]
) -> None:
    token = "Basic " + base64.b64encode(b"me:s3cr3t word").decode()

    def guard(asked: Asked, right: Answer) -> Answer:
        return right if asked.headers.get("Authorization") == token else Answer(401)

    with file_server() as store:
        served = store.add(demo_wheel)
        place = f"/files/{urllib.parse.quote(demo_wheel.name)}"
        server.files[place] = Served(
            b"", twist=lambda asked, _right: guard(asked, Answer(302, headers={"Location": store.url + place}))
        )
        server.html(PROJECT, demo_wheel.name)
        server.files[f"/simple/{PROJECT}/"].twist = guard
        url = server.url.replace("://", "://me:s3cr3t%20word@") + "/simple"
        parameters: dict[str, Any] = {"environment": str(pip_env.root), "wheels": [url]}
        ran = run_module(capfd, wheel_record_info.main, **parameters)
        assert ran["summary"]["verified_against"] == "wheel_record", ran
        assert not any("Authorization" in headers for headers in store.seen)
        served.twist = lambda _asked, _right: Answer(404)
        ran = run_module(capfd, wheel_record_info.main, **parameters)
        assert "HTTP 404" in str(ran["warnings"])
        assert "s3cr3t" not in str(ran)
        plain = pip_env.scan(wheel=server.url + "/simple?token=hush")
        assert "HTTP 401" in str(plain.warnings) or "no usable wheel" in str(plain.warnings)
        assert "hush" not in str(plain.warnings)


def test_what_is_masked() -> None:
    urls = ["https://me:a%20b@host/x", "http://token@host:80", "https://host/@x:y@", "/a:b@c", "https://h/x?u=a:b@c"]
    assert secrets_of(urls) == {"a%20b", "a b", "token"}


# --- The modules


def test_the_module_counts_what_diff_and_probes_moved(
    bare: Env, large: pathlib.Path, server: FileServer, capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    unpack(bare, large)
    (bare.site / CORE).write_bytes(EDITED)
    server.add(large)
    url = server.html(PROJECT, large.name)
    ran = run_module(capfd, wheel_record_info.main, diff=True, environment=str(bare.root), wheels=[url], files=[CORE])
    assert ran["summary"]["remote_requests"] == len(server.log)
    assert "_t.save" in ran["diff"][0]["prepared"]
    kept = run_module(
        capfd,
        drift_archive.main,
        environment=str(bare.root),
        wheels=[url],
        findings=ran["findings"],
        quarantine=str(tmp_path / "quarantine"),
    )
    assert "_t.save" in pathlib.Path(kept["archived"][0]["patch"]).read_text()
    server.files.clear()
    kept = run_module(
        capfd,
        drift_archive.main,
        environment=str(bare.root),
        wheels=[url],
        findings=ran["findings"],
        quarantine=str(tmp_path / "other"),
    )
    assert kept["archived"][0]["patch"] is None
    assert "no patch: its pristine text is not known" in kept["archived"][0]["note"]
    assert "no usable wheel of demo-pkg" in str(kept["warnings"])


def test_files_are_put_back_from_afar(
    pip_env: Env,
    demo_wheel: pathlib.Path,
    server: FileServer,
    capfd: pytest.CaptureFixture[str],
    tmp_path: pathlib.Path,
) -> None:
    (pip_env.site / CORE).write_bytes(EDITED)
    (pip_env.site / "demo/lib.abi3.so").unlink()
    served = server.add(demo_wheel)
    given: dict[str, Any] = {
        "environment": str(pip_env.root),
        "wheels": [server.html(PROJECT, demo_wheel.name).replace("://", "://me:s3cr3t@")],
        "quarantine": str(tmp_path / "quarantine"),
        "caches": [],
    }
    served.twist = lambda asked, right: right if asked.number < 2 else Answer(403)
    ran = run_module(capfd, wheel_record.main, **given)
    assert ran.failed
    assert (pip_env.site / CORE).read_bytes() == EDITED
    assert not (pip_env.site / "demo/lib.abi3.so").exists()
    served.twist = None
    ran = run_module(capfd, wheel_record.main, **given)
    assert not ran.failed, ran
    assert ran["changed"]
    assert "s3cr3t" not in str(ran)
    assert (pip_env.site / CORE).read_bytes() == SOURCE
    assert pip_env.scan(wheel=demo_wheel).findings == []


# --- Noise

_TEXT = st.one_of(
    st.text(max_size=30), st.sampled_from(["demo_pkg-1.0-py3-none-any.whl", "http://[", "//", "a#sha256=0"])
)
_ENTRY = st.dictionaries(
    st.sampled_from(["filename", "url", "hashes", "size"]),
    st.one_of(_TEXT, st.none(), st.integers(), st.dictionaries(_TEXT, _TEXT, max_size=2)),
)


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(
        st.builds(lambda text: f"<a href='{text}'>{text}</a>".encode(), _TEXT),
        st.binary(max_size=200),
        st.builds(
            lambda entries, version: json.dumps({"meta": {"api-version": version}, "files": entries}).encode(),
            st.lists(_ENTRY, max_size=3),
            st.one_of(st.just("1.1"), _TEXT, st.none()),
        ),
    ),
    st.sampled_from(["text/html", "application/json", "text/plain"]),
)
def test_any_page_is_read_or_refused(body: bytes, content_type: str) -> None:
    answer = Page("http://127.0.0.1/simple/demo-pkg/", content_type, body, len(body))
    with contextlib.suppress(RemoteError):
        for wheel in wheels_on(answer, PROJECT):
            assert wheel.name.name == PROJECT


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_damage_is_refused_or_does_no_harm(demo_wheel: pathlib.Path, data: st.DataObject) -> None:
    """No checksum covers the archive's index; what it leads to has one."""
    whole = bytearray(demo_wheel.read_bytes())
    end = data.draw(st.booleans())
    # The index is at the end, and the place where damage does not show at once.
    places = st.integers(len(whole) - 1500 if end else 0, len(whole) - 1)
    for place in data.draw(st.lists(places, min_size=1, max_size=3)):
        whole[place] = data.draw(st.integers(0, 255))
    damaged = bytes(whole)
    with contextlib.suppress(WheelError):
        wheel = RemoteWheel("x", demo_wheel.name, RangeFile(lambda start, stop: damaged[start:stop], len(damaged)))
        assert wheel.read(CORE) == SOURCE
        wheel.close()


@pytest.mark.parametrize("comment", [1, 5_000, 65_535])
def test_an_archive_with_a_comment(tmp_path: pathlib.Path, comment: int) -> None:
    path = build_wheel(tmp_path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"x" * comment
    content = path.read_bytes()
    wheel = RemoteWheel("x", path.name, RangeFile(lambda start, stop: content[start:stop], len(content)))
    assert wheel.read(CORE) == SOURCE
    wheel.close()


# --- The file object


@settings(max_examples=60, deadline=None)
@given(
    st.binary(min_size=1, max_size=60_000),
    st.lists(st.tuples(st.integers(0, 70_000), st.integers(0, 70_000)), max_size=12),
)
def test_reads_as_a_file_does(data: bytes, reads: list[tuple[int, int]]) -> None:
    moved = []

    def fetch(start: int, stop: int) -> bytes:
        assert 0 <= start < stop <= len(data)
        moved.append(stop - start)
        return data[start:stop]

    far, near = RangeFile(fetch, len(data)), io.BytesIO(data)
    for offset, count in reads:
        assert far.seek(offset) == near.seek(offset)
        assert far.read(count) == near.read(count)
        assert far.tell() == max(near.tell(), 0)
    assert far.seek(0, os.SEEK_END) == len(data)
    far.seek(0)
    assert far.read() == data


def test_what_was_fetched_is_kept_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 200_000_000
    calls: list[tuple[int, int]] = []

    def fetch(start: int, stop: int) -> bytes:
        calls.append((start, stop))
        return bytes(stop - start)

    far = RangeFile(fetch, size)
    while far.read(1 << 20):
        assert len(far._blocks) <= 5000
    assert sum(stop - start for start, stop in calls) == size
    assert len(calls) < 100, "what is read in order is fetched in growing steps"
