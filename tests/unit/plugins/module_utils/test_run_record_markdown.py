# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record as people read it."""

from __future__ import annotations

from ansible_collections.pristine.vllm.plugins.module_utils.run_record.markdown import (
    cell,
    code,
    markdown,
    summary_lines,
)
from ansible_collections.pristine.vllm.tests.unit.plugins.run_record_support import (
    FINDING,
    JOURNAL,
    MARKS,
    before,
    recorded,
)


def test_what_came_of_it_stands_first() -> None:
    text = markdown(recorded())
    heads = [line for line in text.splitlines() if line.startswith("## ")]
    assert heads == ["## Checklist", "## Plan", "## Phases", "## Found before: 1", "## Debug code", "## Kept"]
    top = text.partition("## ")[0]
    for told in (
        "**reinstalled**; the service serves",
        "**550.0 s, 542.0 s of it the model's load**",
        "`one-1`",
        "ada@control01",
    ):
        assert told in top


def test_a_failure_is_told_whole_and_its_first_line_in_the_summary() -> None:
    record = recorded(journal={**JOURNAL, "outcome": "rolled back", "failure": "ImportError: x\n```\nmore"})
    assert "failure: ImportError: x" in summary_lines(record)
    assert "NOT SO: deepseek_v2.py is pristine" in summary_lines(record)
    assert "````text\nImportError: x\n```\nmore\n````" in markdown(record)


def test_a_run_without_a_plan_can_be_told() -> None:
    record = recorded(journal={}, marks=MARKS[:1], plan={}, before={}, failure="refused")
    assert "None was made." in markdown(record)
    assert summary_lines(record)[0] == "nothing was stopped: what is installed may serve: nobody asked"


def test_what_others_wrote_cannot_break_the_page() -> None:
    assert cell("a | b\n<script> `x` *y*") == r"a \| b \<script\> \`x\` \*y\*"
    assert code("a`b``c") == "``` a`b``c ```"
    text = markdown(
        recorded(about={"reason": "x\n## Checklist | yes"}, before=before(findings=[{**FINDING, "path": "a`|\nb"}]))
    )
    assert text.count("\n## Checklist") == 1
    assert "`` a`| b ``: modified" in text


def test_the_missing_copy_is_told() -> None:
    record = {**recorded(), "controller_problem": "No space left on device"}
    assert "only there: No space left on device" in summary_lines(record)
    assert "| only on the host | No space left on device |" in markdown(record)


def test_long_lists_say_how_much_is_left_out() -> None:
    text = markdown(recorded(before=before(findings=[FINDING] * 205, package_changes=["torch 1 -> 2"] * 201)))
    assert "- ... and 5 more" in text
    assert "### 201 packages change" in text
