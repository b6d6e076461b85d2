# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The short cut through RECORD finds what the long way finds, on anything."""

from __future__ import annotations

import base64
import hashlib
import os
from typing import Any, Optional

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.record import expected as module
from ansible_collections.pristine.vllm.plugins.module_utils.record.claims import Owner
from ansible_collections.pristine.vllm.plugins.module_utils.record.environment import Distribution, Environment
from ansible_collections.pristine.vllm.plugins.module_utils.record.expected import Builder
from ansible_collections.pristine.vllm.plugins.module_utils.record.plain import Plain, only, split
from hypothesis import given, settings
from hypothesis import strategies as st

DIGEST = base64.urlsafe_b64encode(hashlib.sha256(b"1").digest()).decode().rstrip("=")
OTHER = base64.urlsafe_b64encode(hashlib.sha256(b"?>").digest()).decode().rstrip("=")
SITE = "/env/lib/python3.11/site-packages"
LINES = [
    f"a/b.py,sha256={DIGEST},12",
    f"a/c.py,sha256={OTHER},0\r",
    f"a/b.py,sha256={OTHER},12",
    f"./a/b.py,sha256={OTHER},12",
    f"a/../a/b.py,sha256={OTHER},12",
    f"a//b.py,sha256={DIGEST},12",
    f"a\\b.py,sha256={DIGEST},12",
    f'"a/b.py",sha256={OTHER},12',
    f'"x,1.json",sha256={DIGEST},3',
    f"x,2.json,sha256={DIGEST},3",
    f'"open,sha256={DIGEST},3',
    f"../../../bin/tool,sha256={DIGEST},3",
    f"../../../../etc/passwd,sha256={DIGEST},3",
    f"/env/lib/python3.11/site-packages/a/b.py,sha256={DIGEST},3",
    f"a/__pycache__/b.cpython-311.pyc,sha256={DIGEST},3",
    "a/__pycache__/c.cpython-311.pyc,,",
    f"a/folder/,sha256={DIGEST},3",
    f"p-1.dist-info/RECORD,sha256={DIGEST},3",
    "p-1.dist-info/RECORD,,",
    f"p-1.dist-info/RECORD.jws,sha256={DIGEST},3",
    f"a/d.py,sha256={DIGEST},{'9' * 19}",
    f"a/d.py,sha256={DIGEST},{'9' * 30}",
    f"a/e.py,sha256={DIGEST}=,4",
    f"a/e.py,sha256={DIGEST[:-1]}+,4",
    f"a/f.py,sha512={DIGEST},4",
    f"a/g.py,sha256={DIGEST},",
    f"a/\udcff.py,sha256={DIGEST},1",
    f"a/\u0661.py,sha256={DIGEST},\u0661",
    f"\ufeffa/h.py,sha256={DIGEST},1",
    "\ufeffa/i.py,,",
    f"a/\0.py,sha256={DIGEST},1",
    f"a/\x0b\u2028.py,sha256={DIGEST},1",
    "",
    "rubbish",
    ",,",
]


def taken(record: bytes, short: bool, monkeypatch: pytest.MonkeyPatch) -> Any:
    environment = Environment("/env", [SITE], [], [], [], {})
    builder = Builder(environment)
    first = Distribution("first", "1", f"{SITE}/first-1.dist-info", SITE, f"a/b.py,sha256={OTHER},12\n".encode())
    second = Distribution("p", "1", f"{SITE}/p-1.dist-info", SITE, record)
    with monkeypatch.context() as patch:
        if not short:
            patch.setattr(module, "split", lambda _record: None)
        for distribution in (first, second):
            builder.add(Owner(distribution, None))
    found = builder.expected
    claims = {
        path: [(claim.owner.distribution.name, *claim[1:]) for claim in claims] for path, claims in found.claims.items()
    }
    return claims, found.listed, found.findings


@pytest.mark.parametrize("line", LINES)
def test_each_kind_of_row(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    record = os.fsencode("\n".join([LINES[0], line, f"z.py,sha256={DIGEST},1", ""]))
    assert taken(record, True, monkeypatch) == taken(record, False, monkeypatch)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(LINES), max_size=8), st.sampled_from(["\n", "\r\n", "\r"]))
def test_any_rows(lines: list[str], end: str) -> None:
    record = os.fsencode(end.join(lines))
    with pytest.MonkeyPatch.context() as monkeypatch:
        assert taken(record, True, monkeypatch) == taken(record, False, monkeypatch)


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=80), st.integers(0, 200))
def test_any_bytes(noise: bytes, place: int) -> None:
    good = os.fsencode("\n".join(LINES[:2] + LINES[8:9]) + "\n")
    record = good[:place] + noise + good[place:]
    with pytest.MonkeyPatch.context() as monkeypatch:
        assert taken(record, True, monkeypatch) == taken(record, False, monkeypatch)


def wanted(record: bytes, path: str, short: bool) -> Any:
    environment = Environment("/env", [SITE], [], [], [], {})
    builder = Builder(environment, {f"{SITE}/{path}"})
    distribution = Distribution("p", "1", f"{SITE}/p-1.dist-info", SITE, record)
    with pytest.MonkeyPatch.context() as patch:
        if not short:
            patch.setattr(module, "only", lambda record, _names: record)
        builder.add(Owner(distribution, None))
    return {path: [claim[1:] for claim in claims] for path, claims in builder.expected.claims.items()}


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.sampled_from(LINES), max_size=8),
    st.sampled_from(["a/b.py", "a/\udcff.py", "x,1.json", "a/h.py", "a/i.py", "open", "p-1.dist-info/RECORD"]),
)
def test_lines_that_do_not_mention_a_file_say_nothing_of_it(lines: list[str], path: str) -> None:
    record = os.fsencode("\n".join(lines))
    assert wanted(record, path, True) == wanted(record, path, False)


def test_other_lines_are_not_even_parsed() -> None:
    record = os.fsencode("\n".join([LINES[0], LINES[1], LINES[8], 'x""y.py,,']))
    assert only(record, {"b.py"}) == os.fsencode(LINES[0])
    assert only(record, {'x"y.py'}) == b'x""y.py,,'
    assert only(record + b'\n"', {"b.py"}) == record + b'\n"'


def test_nearly_all_rows_are_plain() -> None:
    plain: Optional[Plain] = split(os.fsencode("\n".join([LINES[0], LINES[1], LINES[8], LINES[18], ""])))
    assert plain is not None
    assert plain.paths == ["a/b.py", "a/c.py"]
    assert plain.digests == [hashlib.sha256(b"1").digest(), hashlib.sha256(b"?>").digest()]
    assert plain.sizes == [12, 0]
    assert plain.rest == os.fsencode(f"{LINES[8]}\n{LINES[18]}")
    assert split(b"") == Plain([], [], [], b"")
