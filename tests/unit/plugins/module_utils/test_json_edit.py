# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
import json
from typing import Any, Optional

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.json_edit import JsonEditError, parse, put, remove
from hypothesis import given, settings
from hypothesis import strategies as st

KEYS = st.sampled_from(["a", "b", "kv_cache_scheme", "\N{SNOWMAN}", 'q"uo\\te', ""])
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)
INDENTS = st.sampled_from([None, 1, 2, 4, "\t"])


def dumps(value: Any, indent: Any, ascii_only: bool = False) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=ascii_only)


def paths(value: Any, so_far: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(value, dict):
        return []
    return [path for key in value for path in [(*so_far, key), *paths(value[key], (*so_far, key))]]


def holder(value: Any, path: tuple[str, ...]) -> dict[str, Any]:
    for key in path[:-1]:
        value = value[key]
    assert isinstance(value, dict)
    return value


@settings(max_examples=150, deadline=None, database=None)
@given(OBJECTS, INDENTS, st.booleans(), st.data())
def test_removing_is_what_writing_anew_would_give(
    document: dict[str, Any], indent: Any, ascii_only: bool, data: st.DataObject
) -> None:
    """On a text that Python wrote, whose layout is known, the smallest edit and a new text are the same bytes."""
    known = paths(document)
    if not known:
        return
    path = data.draw(st.sampled_from(known))
    wanted = copy.deepcopy(document)
    del holder(wanted, path)[path[-1]]
    assert remove(dumps(document, indent, ascii_only), path) == dumps(wanted, indent, ascii_only)


@settings(max_examples=150, deadline=None, database=None)
@given(OBJECTS, INDENTS, VALUES, st.data())
def test_putting_gives_the_right_document(
    document: dict[str, Any], indent: Any, value: Any, data: st.DataObject
) -> None:
    path = data.draw(
        st.one_of(st.sampled_from([("new",), ("new", "deep")]), *[st.sampled_from(p) for p in [paths(document)] if p])
    )
    wanted = copy.deepcopy(document)
    if path[0] == "new":
        wanted["new"] = value if len(path) == 1 else {"deep": value}
    else:
        holder(wanted, path)[path[-1]] = value
    text = put(dumps(document, indent), path, value)
    assert parse(text) == wanted
    assert list(parse(text)) == list(wanted)


@pytest.mark.parametrize("indent", [2, 4])
def test_putting_into_an_indented_text_looks_like_the_rest(indent: int) -> None:
    before = {"a": 1, "text_config": {"b": [1, 2], "q": {"c": "Ü"}}, "z": None}
    after = {"a": 1, "text_config": {"b": [1, 2], "q": {"c": "Ü", "d": {"e": [3]}}}, "z": None}
    text = put(dumps(before, indent), ("text_config", "q", "d"), {"e": [3]})
    assert text == dumps(after, indent)
    assert put(text, ("text_config", "q", "c"), "Ä") == dumps({**after}, indent).replace("Ü", "Ä")
    assert put("{}", ("a",), 1) == '{"a": 1}'


@pytest.mark.parametrize(
    ("text", "path", "wanted"),
    [
        ('{"a":1,"b":2,"c":3}', ["b"], '{"a":1,"c":3}'),
        ('{"a":1,"b":2}', ["b"], '{"a":1}'),
        ('{"a":1}', ["a"], "{}"),
        ('{ "a" : 1 , "b" : 2 }', ["a"], '{ "b" : 2 }'),
        ('{\r\n  "a": 1,\r\n  "b": 2\r\n}\r\n', ["b"], '{\r\n  "a": 1\r\n}\r\n'),
        ('{"a": 1,\n "b": {"x": [1,  2], "y": 1e5}, "c": "\\u00e9\\/"}', ["b", "y"], None),
        # Of two members of one name readers take the last: with that one gone they would take the other.
        ('{"a": 1, "b": 2, "a": 3}', ["a"], '{"b": 2}'),
        ('{"a": 1}', ["b"], '{"a": 1}'),
        ('{"a": 1}', ["b", "c"], '{"a": 1}'),
        ('{"a": null}', ["a", "c"], '{"a": null}'),
        ('\n {"a": "{\\"b\\": 1}", "b": 1}', ["b"], '\n {"a": "{\\"b\\": 1}"}'),
    ],
)
def test_texts_that_nobody_would_write_anew(text: str, path: list[str], wanted: Optional[str]) -> None:
    if wanted is None:
        wanted = text.replace(', "y": 1e5', "")
    assert remove(text, path) == wanted


def test_compact_texts_stay_compact() -> None:
    assert put('{"a":1,"b":2}', ["c"], {"d": [1, 2]}) == '{"a":1,"b":2,"c":{"d":[1,2]}}'
    assert put('{"a":1}', ["c"], 2) == '{"a":1,"c":2}'


def test_escapes_stay_escapes() -> None:
    assert put('{"a": "\\u00e9"}', ["b"], "é") == '{"a": "\\u00e9", "b": "\\u00e9"}'
    assert put('{"a": "é"}', ["b"], "é") == '{"a": "é", "b": "é"}'


@pytest.mark.parametrize(
    ("text", "path"), [('{"a": 1}', ["a", "b"]), ("[]", ["a"]), ('{"a": [{"b": 1}]}', ["a", "b"]), ("null", ["a"])]
)
def test_a_path_through_what_is_no_object(text: str, path: list[str]) -> None:
    with pytest.raises(JsonEditError, match="is not an object, so it has no"):
        remove(text, path)
    with pytest.raises(JsonEditError, match="is not an object, so it has no"):
        put(text, path, 1)


def test_null_on_the_way_becomes_an_object() -> None:
    assert put('{"a": null}', ["a", "b"], 1) == '{"a": {"b": 1}}'


def test_an_empty_path() -> None:
    with pytest.raises(JsonEditError, match="the path is empty"):
        remove("{}", [])


def test_what_is_not_json() -> None:
    with pytest.raises(JsonEditError, match="it is not JSON"):
        parse("{,}")
