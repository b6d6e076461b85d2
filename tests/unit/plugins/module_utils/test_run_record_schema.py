# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The schema that ships with the collection describes the records that the collection writes, and no others."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.run_record.checklist import checklist
from ansible_collections.pristine.vllm.tests.unit.plugins.run_record_support import (
    ARTIFACT,
    FINDING,
    JOURNAL,
    MARKS,
    PROBE,
    before,
    planned,
    recorded,
)
from jsonschema import Draft202012Validator

DOCS = Path(__file__).resolve().parents[4] / "docs"
SCHEMA: dict[str, Any] = json.loads((DOCS / "run-record.schema.json").read_text(encoding="utf-8"))
RECORDS = {
    "good": recorded(),
    "provisioned": recorded(about={"playbook": "provision"}, before=before(release="", version="", serving=False)),
    "rolled back": recorded(journal={**JOURNAL, "outcome": "rolled back", "failure": "ImportError"}),
    "going back failed": recorded(journal={**JOURNAL, "outcome": "going back failed", "completion": ""}),
    "stage failed": recorded(journal={}, marks=MARKS[:3], failure="no space left"),
    "refused": recorded(journal={}, marks=MARKS[:1], plan={}, before={}, failure="2 things stand in the way"),
    "nothing known": recorded(journal={"outcome": "done"}, plan=planned({}), before={}),
    "large": recorded(
        before=before(
            findings=[FINDING] * 500, probes=[PROBE] * 500, artifacts=[ARTIFACT] * 500, package_changes=["x"] * 500
        )
    ),
}


def problems(record: Any) -> list[str]:
    # As it is read: through JSON.
    found = Draft202012Validator(SCHEMA).iter_errors(json.loads(json.dumps(record)))
    return [f"{'/'.join(map(str, error.path))}: {error.message}" for error in found]


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", RECORDS)
def test_every_record_fits(name: str) -> None:
    assert problems(RECORDS[name]) == []


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 1},
        {"outcome": "fine"},
        {"downtime_seconds": "550"},
        {"started": 1796009112.5},
        {"unheard_of": 1},
        {"checklist": []},
        {"before": {**RECORDS["good"]["before"], "findings": [FINDING] * 201}},
        {"before": {}},
    ],
    ids=str,
)
def test_what_is_no_record_does_not_fit(change: dict[str, Any]) -> None:
    assert problems({**RECORDS["good"], **change}) != []


def test_every_question_of_the_checklist_is_in_the_schema() -> None:
    named = SCHEMA["properties"]["checklist"]["items"]["properties"]["check"]["enum"]
    assert [item["check"] for item in checklist(RECORDS["good"])] == named


def test_every_key_is_described_in_words() -> None:
    text = (DOCS / "run-record.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^\| `([\w.\[\]]+)` \|", text, flags=re.MULTILINE))
    properties = SCHEMA["properties"]
    keys = set(properties)
    for name in ("before", "after"):
        keys |= {f"{name}.{key}" for key in properties[name]["properties"]}
    keys |= {f"plan.{key}" for key in SCHEMA["$defs"]["plan"]["properties"]}
    keys |= {f"phases[].{key}" for key in properties["phases"]["items"]["properties"]}
    keys |= {f"checklist[].{key}" for key in properties["checklist"]["items"]["properties"]}
    ways = SCHEMA["$defs"]["plan"]["properties"]["ways"]["items"]["properties"]
    keys |= {f"plan.ways[].{key}" for key in ways}
    assert described == keys
