# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever bytes and names an environment holds, a scan ends with an answer and opens nothing outside of it."""

from __future__ import annotations

import builtins
import contextlib
import io
import json
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import ScanError
from ansible_collections.pristine.vllm.plugins.module_utils.record.parse import parse_record
from ansible_collections.pristine.vllm.tests.unit.plugins.record_support import (
    Env,
    build_wheel,
    encoded,
    record_text,
    sha256,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SECRET = b"a secret that no result may tell\n"
# Of 300 kB and more, files are read ahead of the plan; a canary is as large, so that this is tried as well.
LARGE = SECRET * 10000
OUTSIDE = ("../" * 5 + "canary", "../" * 5 + "large", "../" * 4 + "outside/canary", "linked/canary", "linked/large")
FUZZ = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

WORDS = st.sampled_from(
    [
        "demo",
        "core.py",
        "..",
        ".",
        "",
        "/",
        "\\",
        "\0",
        "\u00e4",
        "\udcff",
        "a" * 300,
        "bin",
        "lib64",
        "linked",
        "~x",
        "\r",
    ]
)
PATHS = st.one_of(st.sampled_from(OUTSIDE), st.lists(WORDS, max_size=12).map("/".join), st.text(max_size=40))
HASHES = st.one_of(
    st.sampled_from([encoded(SECRET), encoded(LARGE), encoded(b"", "sha512"), "", "md5=x", "sha256=%", "sha384="]),
    st.text(max_size=60),
)
SIZES = st.one_of(st.sampled_from(["", "0", str(len(SECRET)), str(len(LARGE)), "9" * 5000, "-1"]), st.text(max_size=5))
ROWS = st.tuples(PATHS, HASHES, SIZES, st.sampled_from(["\n", "\r\n", "\r", "", ',"\n'])).map(
    lambda parts: ",".join(parts[:3]) + parts[3]
)
RECORDS = st.one_of(
    st.binary(max_size=300),
    st.lists(ROWS, max_size=12).map(lambda rows: "".join(rows).encode("utf-8", "surrogateescape")),
)
NAMES = st.binary(min_size=1, max_size=60).filter(lambda name: not {0, 47} & set(name) and name not in (b".", b".."))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every path that is opened or listed, by any of the ways that there are."""
    paths: list[str] = []
    for module, name in ((os, "open"), (os, "scandir"), (os, "listdir"), (builtins, "open"), (io, "open")):
        real = getattr(module, name)

        def recorded(path: Any, *arguments: Any, real: Any = real, **named: Any) -> Any:
            paths.append(os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else "")
            return real(path, *arguments, **named)

        monkeypatch.setattr(module, name, recorded)
    return paths


@contextlib.contextmanager
def _environment() -> Iterator[Env]:
    """An environment beside canaries that no scan may touch: one is a FIFO, which would hang who opens it."""
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        env = Env.bare(folder / "in/env")
        for outside in (folder, folder / "in/outside", folder / "outside"):
            outside.mkdir(exist_ok=True)
            (outside / "canary").write_bytes(SECRET)
            (outside / "large").write_bytes(LARGE)
            os.mkfifo(outside / "fifo")
        (env.site / "linked").symlink_to(folder / "outside")
        (env.root / "lib64").symlink_to("lib")
        env.install("demo", {"demo/core.py": b"x = 1\n"})
        yield env
    finally:
        shutil.rmtree(folder)


def _answer(env: Env, opened: list[str], **options: Any) -> None:
    """A scan's answer can be told, holds no secret, and nothing outside was opened for it."""
    del opened[:]
    allowed = (str(env.root), *options.get("wheels", []))
    try:
        result = env.scan(workers=1, **options)
    except ScanError as error:
        text = str(error)
    else:
        text = json.dumps([finding.to_dict() for finding in result.findings], ensure_ascii=False)
        assert not any(finding.actual_sha256 in _SECRETS for finding in result.findings)
    text.encode("utf-8", "backslashreplace")
    seen = [path for path in opened if path]
    assert seen
    for path in seen:
        real = os.path.realpath(path)
        assert real.startswith(allowed) or _of_the_system(real), path


_SECRETS = [sha256(data) for data in (SECRET, LARGE)]


def _of_the_system(path: str) -> bool:
    """What Python itself opens: its modules and time zones."""
    return not path.startswith(tempfile.gettempdir()) and not path.endswith(("canary", "large", "fifo"))


@FUZZ
@given(data=RECORDS)
def test_records(opened: list[str], data: bytes) -> None:
    with _environment() as env:
        env.record().write_bytes(data)
        _answer(env, opened)
        _answer(env, opened, distributions=["demo"])
        _answer(env, opened, files=["demo/core.py", "linked/canary"])
        wheel = build_wheel(env.root.parent / "wheels", _members(), info="demo-1.0.dist-info")
        _answer(env, opened, wheels=[str(wheel)])


def _members() -> dict[str, bytes]:
    return {"demo/core.py": b"x = 1\n", "demo-1.0.dist-info/METADATA": b"Name: demo\nVersion: 1.0\n"}


@FUZZ
@given(data=RECORDS, entries=st.one_of(st.binary(max_size=200), st.text("[]=:\n consolescripts.py", max_size=200)))
def test_records_and_entry_points_of_wheels(opened: list[str], data: bytes, entries: object) -> None:
    text = entries if isinstance(entries, bytes) else str(entries).encode()
    members = {**_members(), "demo-1.0.dist-info/entry_points.txt": text}
    with _environment() as env:
        env.record().write_text(record_text(members))
        (env.site / "demo-1.0.dist-info/entry_points.txt").write_bytes(text)
        record = data.decode("utf-8", "replace").replace("\ufffd", "?")
        wheel = build_wheel(env.root.parent / "wheels", members, record, info="demo-1.0.dist-info")
        _answer(env, opened, wheels=[str(wheel)])
        _answer(env, opened, wheels=[str(wheel)], files=["demo/core.py"])


@FUZZ
@given(
    name=NAMES,
    files=st.dictionaries(
        st.sampled_from(["RECORD", "METADATA", "WHEEL", "INSTALLER", "direct_url.json", "top_level.txt"]),
        st.one_of(st.binary(max_size=200), RECORDS, st.text('{}[]":edirtablu_nfo,\n/.~', max_size=200).map(str.encode)),
    ),
    kind=st.sampled_from([b".dist-info", b".egg-info", b".egg", b".egg-link", b"", b".pth", b".py"]),
)
def test_dist_infos(opened: list[str], name: bytes, files: dict[str, bytes], kind: bytes) -> None:
    with _environment() as env:
        folder = os.path.join(os.fsencode(env.site), name + kind)
        try:
            os.mkdir(folder)
        except FileExistsError:
            return
        for file, data in files.items():
            with open(os.path.join(folder, file.encode()), "wb") as stream:
                stream.write(data)
        _answer(env, opened)


@given(RECORDS)
def test_every_row_has_a_hash_or_a_reason(data: bytes) -> None:
    for row in parse_record(data).rows:
        assert row.path
        assert bool(row.digest) is not bool(row.problem)
        assert row.size is None or row.size >= 0
