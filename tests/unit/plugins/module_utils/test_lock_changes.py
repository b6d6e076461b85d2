# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.lock import LockError
from ansible_collections.pristine.vllm.plugins.module_utils.lock_changes import (
    lock_versions,
    package_changes,
    undeclared_conflicts,
)

HASH = f"--hash=sha256:{'a' * 64}"
TORCH = "The package `compressed-tensors` requires `torch>=2.10`, but `2.9.1` is installed"
PYTHON = "The package `numba` requires Python >=3.10, <3.14, but `3.14.0` is installed"


def test_package_by_package() -> None:
    before = {"torch": "2.9.1", "bar": "3", "Same_Name": "1.0", "local": "1+cu129"}
    after = {"torch": "2.10.0", "foo": "1.2", "same-name": "1.0.0", "local": "1+cu130"}
    assert package_changes(before, after) == [
        "- bar 3",
        "+ foo 1.2",
        "local 1+cu129 -> 1+cu130",
        "torch 2.9.1 -> 2.10.0",
    ]
    assert package_changes(before, before) == []
    assert package_changes({}, {"foo": "1"}) == ["+ foo 1"]


def test_several_versions_of_one_are_a_change() -> None:
    assert package_changes({"foo": "1.0, 2.0"}, {"foo": "2.0"}) == ["foo 1.0, 2.0 -> 2.0"]


def test_the_versions_of_a_lock() -> None:
    assert lock_versions(f"# why\nFoo.Bar==1.0 {HASH}\nvllm==1+g1 \\\n    {HASH}\n") == {
        "foo-bar": "1.0",
        "vllm": "1+g1",
    }
    with pytest.raises(LockError, match=r"lock my\.txt is not complete: line 2: 'foo' does not pin"):
        lock_versions(f"vllm==1 {HASH}\nfoo\n", "my.txt")


@pytest.mark.parametrize(
    ("accepted", "left"),
    [
        ([], [TORCH, PYTHON]),
        ([TORCH], [PYTHON]),
        (["Compressed_Tensors", f" {PYTHON} "], []),
        # The one that is installed is not the one whose requirements are contradicted.
        (["torch"], [TORCH, PYTHON]),
        (["compressed"], [TORCH, PYTHON]),
    ],
)
def test_conflicts_that_nobody_declared(accepted: list[str], left: list[str]) -> None:
    assert undeclared_conflicts([TORCH, PYTHON], accepted) == left


def test_a_line_that_uv_words_otherwise_is_accepted_as_a_whole_only() -> None:
    assert undeclared_conflicts(["Something new about `foo`"], ["foo"]) == ["Something new about `foo`"]
    assert undeclared_conflicts(["Something new about `foo`"], ["Something new about `foo`"]) == []
