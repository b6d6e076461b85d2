# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import base64
import csv
import hashlib
import io
import os

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.record.parse import parse_hash, parse_record
from ansible_collections.pristine.vllm.plugins.module_utils.record.places import locate
from hypothesis import given, settings
from hypothesis import strategies as st

DIGEST = hashlib.sha256(b"x").digest()
GOOD = "sha256=" + base64.urlsafe_b64encode(DIGEST).rstrip(b"=").decode()
WITH_SIGNS = bytes(range(0xE0, 0x100))


@pytest.mark.parametrize(
    ("line", "path", "malformed"),
    [
        (f"a/b.py,{GOOD},1\n", "a/b.py", False),
        (f"a/b.py,{GOOD},1\r\n", "a/b.py", False),
        (f'"a/E=8,N=1,[x].json",{GOOD},1\r\n', "a/E=8,N=1,[x].json", False),
        (f'"a/say ""hi"", you",{GOOD},1\n', 'a/say "hi", you', False),
        (f'"a/two\nlines",{GOOD},1\n', "a/two\nlines", False),
        (f"a/E=8,N=1.json,{GOOD},1\n", "a/E=8,N=1.json", True),
        (f'a/say "hi", you,{GOOD},1\n', 'a/say "hi", you', True),
        (f'"a/open.py,{GOOD},1\n', '"a/open.py', True),
        (f"\ufeffa/bom.py,{GOOD},1", "a/bom.py", False),
        (f"a/\udcff.py,{GOOD},1\n", "a/\udcff.py", False),
    ],
)
def test_rows_as_they_are_found(line: str, path: str, malformed: bool) -> None:
    record = parse_record(line.encode("utf-8", "surrogateescape"))
    assert [row.path for row in record.rows] == [path]
    assert bool(record.malformed) is malformed
    row = record.rows[0]
    assert (row.algorithm, row.digest, row.size, row.problem) == ("sha256", DIGEST, 1, "")


def test_a_quote_that_never_closes_does_not_swallow_the_rest() -> None:
    rows = parse_record(f'"a,{GOOD},1\n'.encode() + "".join(f"b{n}.py,{GOOD},1\n" for n in range(20)).encode()).rows
    assert [row.path for row in rows[1:]] == [f"b{n}.py" for n in range(20)]


@pytest.mark.parametrize("data", [b"", b"\n\n\r\n", b",,\n", b"\0,sha256=x,1\n"])
def test_rows_that_name_nothing(data: bytes) -> None:
    assert parse_record(data).rows == []


def test_short_rows_and_wrong_sizes() -> None:
    record = parse_record(f"only\nonly,{GOOD}\nrow,{GOOD},many\nrow,{GOOD},\u00b2\nrow,{GOOD},-1\n".encode())
    assert [row.size for row in record.rows] == [None] * 5
    assert record.rows[0].problem
    assert len(record.malformed) == 2


@pytest.mark.parametrize("algorithm", ["sha256", "sha384", "sha512"])
def test_digests_in_every_spelling_that_is_clear(algorithm: str) -> None:
    digest = hashlib.new(algorithm, b"x").digest()[:-3] + b"\xff\xfe\xfb"
    spellings = [
        base64.urlsafe_b64encode(digest).rstrip(b"="),
        base64.urlsafe_b64encode(digest),
        base64.b64encode(digest),
        base64.b64encode(digest).rstrip(b"="),
        digest.hex().encode(),
        digest.hex().upper().encode(),
    ]
    for spelling in spellings:
        assert parse_hash(f"{algorithm}={spelling.decode()}") == (algorithm, digest, "")
    assert parse_hash(f"{algorithm.upper()}={spellings[0].decode()}")[1] == digest


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sha256",
        "sha256=",
        "sha256=AAAA",
        "sha256=" + "!" * 43,
        "md5=XrY7u-Ae7tCTyyK7j1rNww",
        "crc=1",
        "sha256=" + "z" * 64,
    ],
)
def test_digests_that_prove_nothing(text: str) -> None:
    _algorithm, digest, problem = parse_hash(text)
    assert digest == b""
    assert problem


PATHS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1).filter(
    # csv leaves a lone carriage return at an end, and a byte-order mark at the start, to whoever reads.
    lambda text: (
        text.strip("\r\n") == text and not text.startswith("\ufeff") and text.count("\n") < 8 and "\r" not in text
    )
)


@given(st.lists(PATHS, min_size=1, max_size=5), st.sampled_from(["\n", "\r\n"]))
def test_what_csv_writes_is_read_back(paths: list[str], end: str) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator=end).writerows([path, GOOD, 1] for path in paths)
    record = parse_record(text.getvalue().encode())
    assert [row.path for row in record.rows] == paths
    assert not record.malformed


@settings(max_examples=300)
@given(st.one_of(st.binary(), st.text(alphabet=',"\n\r=sha256./\u00e4\0ab1').map(lambda text: text.encode())))
def test_no_bytes_crash_the_reader_and_no_row_escapes(data: bytes) -> None:
    for row in parse_record(data).rows:
        assert row.path
        assert "\0" not in row.path
        assert bool(row.digest) is not bool(row.problem)
        path = locate("/env/lib/python3.11/site-packages", "/env", row.path)
        assert path is None or os.path.normpath(path).startswith("/env/")


@pytest.mark.parametrize(
    ("row", "path"),
    [
        ("a/b.py", "/env/lib/site/a/b.py"),
        ("./a/b.py", "/env/lib/site/a/b.py"),
        ("a//b.py", "/env/lib/site/a/b.py"),
        ("a/./b.py", "/env/lib/site/a/b.py"),
        ("a/../b.py", "/env/lib/site/b.py"),
        ("a/.hidden/b.py", "/env/lib/site/a/.hidden/b.py"),
        ("../../bin/x", "/env/bin/x"),
        ("/env/bin/x", "/env/bin/x"),
        ("../../../etc/passwd", None),
        ("a/../../../../etc/passwd", None),
        ("/etc/passwd", None),
        ("//etc/passwd", None),
        ("/envious/x", None),
        ("../../../env", None),
        ("../../..", None),
    ],
)
def test_where_rows_lead(row: str, path: str) -> None:
    assert locate("/env/lib/site", "/env", row) == path
