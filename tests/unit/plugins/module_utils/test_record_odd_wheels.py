# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wheels with the oddities of the field, as pip and uv install them: no drift where there is none, and all there is."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import STATUSES
from ansible_collections.pristine.vllm.tests.unit.plugins.record_odd_wheels import (
    ODDITIES,
    OddTemplates,
    named,
    package,
)
from ansible_collections.pristine.vllm.tests.unit.plugins.record_support import Env, record_text, sha256

CASES = [
    pytest.param(installer, name, id=f"{name}-{installer}")
    for name, odd in ODDITIES.items()
    for installer in ("pip", "uv-copy")
    if odd.uv or installer == "pip"
]


@pytest.fixture(scope="session")
def odd() -> OddTemplates:
    return OddTemplates()


@pytest.mark.parametrize(("installer", "name"), CASES)
def test_as_it_was_installed(odd: OddTemplates, installer: str, name: str) -> None:
    env, case, asked = odd.env(installer), ODDITIES[name], [package(name)]
    alone = case.alone_uv if case.alone_uv is not None and installer != "pip" else case.alone
    assert isinstance(alone, dict)
    assert env.found(distributions=asked) == {named(name, path): status for path, status in alone.items()}
    result = env.scan(distributions=asked, wheel=odd.wheel(name))
    found = {finding.path: finding.status for finding in result.findings}
    assert found == {named(name, path): status for path, status in case.wheel.items()}
    assert result.pristine, "with the wheel, what an installer made never counts as drift"
    assert result.warnings == []


@pytest.mark.parametrize(("installer", "name"), CASES)
def test_edited_with_an_edited_record(odd: OddTemplates, installer: str, name: str, tmp_path: pathlib.Path) -> None:
    """Whatever its rows look like: whoever edits each file and its row is found out as soon as the wheel is given."""
    env = Env.copied(odd.env(installer).root, tmp_path / "env")
    edited = {}
    for member in _members(name):
        data = (env.site / member).read_bytes() + b"# debug\n"
        (env.site / member).write_bytes(data)
        edited[member] = data
    info = env.site / f"{package(name)}-1.0.dist-info"
    (info / "RECORD").write_text(record_text(edited), encoding="utf-8")
    found = {finding.path: finding for finding in env.scan(wheels=[str(odd.wheels)]).findings}
    for path, data in edited.items():
        assert (found[path].status, found[path].actual_sha256) == ("modified", sha256(data))
        assert found[path].verified_against == "wheel_record"
    assert found[f"{info.name}/RECORD"].status == "record_edited"


def _members(name: str) -> list[str]:
    names = [named(name, path) for path in ODDITIES[name].members if ".data/" not in path]
    return [path for path in names if not path.endswith(".pyc") and not path.startswith("odd_owners/__init__")]


@pytest.mark.parametrize("installer", ["pip", "uv-copy"])
def test_all_of_them_in_one_environment(odd: OddTemplates, installer: str) -> None:
    result = odd.env(installer).scan(wheels=[str(odd.wheels)])
    assert [finding for finding in result.findings if finding.counts] == []
    assert {finding.status for finding in result.findings} == {"unverifiable"}
    assert result.summary.verified_against == "wheel_record"
    statuses = {finding.status for finding in odd.env(installer).scan().findings if STATUSES[finding.status]}
    assert statuses == ({"modified", "missing"} if installer == "pip" else {"modified"})
