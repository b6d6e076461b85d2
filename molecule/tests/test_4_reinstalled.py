# Copyright: Pristine vLLM maintainers (@pristine-vllm)
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host after the reinstall of a dirty one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pristine.vllm.molecule.shared.hosts import CHECKOUT
from jsonschema import Draft202012Validator
from testinfra.host import Host

DIRTY = (
    "vllm/model_executor/models/deepseek_v2.py",
    "vllm/model_executor/model_loader/gguf_loader.py",
    "vllm/model_executor/model_loader/weight_utils.py",
    "vllm/transformers_utils/config.py",
)


@pytest.fixture(scope="module")
def record(records: Callable[[str], list[dict[str, Any]]]) -> dict[str, Any]:
    """The last record of a reinstall that found dirt."""
    return [record for record in records("reinstall") if record["before"]["findings"]][-1]


def test_every_dirty_file_was_found_and_is_kept_with_a_patch(host: Host, record: dict[str, Any]) -> None:
    found = {finding["path"] for finding in record["before"]["findings"] if finding["status"] == "modified"}
    assert found == set(DIRTY)
    kept = host.check_output(f"find {record['quarantine']} -type f").split()
    for path in DIRTY:
        assert [name for name in kept if name.endswith(path) and "/files/" in name], f"{path} is not kept"
        patches = [name for name in kept if name.endswith(f"{path}.patch")]
        assert patches, f"{path} has no patch"


def test_a_patch_makes_the_pristine_file_dirty_again(host: Host, record: dict[str, Any]) -> None:
    live = host.check_output("ls -d /opt/vllm/current/lib/python3*/site-packages")
    kept = host.check_output(f"find {record['quarantine']} -type f -path '*models/deepseek_v2.py*'").split()
    patch = next(name for name in kept if name.endswith(".patch"))
    dirty = next(name for name in kept if not name.endswith(".patch"))
    host.check_output(f"cp {live}/{DIRTY[0]} /tmp/deepseek_v2.py && patch -s /tmp/deepseek_v2.py {patch}")
    same = host.run(f"cmp /tmp/deepseek_v2.py {dirty}")
    host.check_output("rm /tmp/deepseek_v2.py")
    assert same.rc == 0


def test_the_debug_code_was_told_by_what_it_does(record: dict[str, Any]) -> None:
    probes = record["before"]["probes"]
    assert {probe["artifact_glob"] for probe in probes if probe["kind"] == "tensor_dump"} == {
        "/tmp/nomla_debug_tp*.pt",
        "/tmp/embed_debug_tp*.pt",
    }
    assert "counter" in {probe["kind"] for probe in probes}


def test_the_live_environment_is_pristine_by_its_pinned_wheels(host: Host, record: dict[str, Any]) -> None:
    after = record["after"]
    assert after["pristine"] is True
    assert after["summary"]["verified_against"] == "pinned_wheel"
    assert host.run("grep -rl nomla_debug /opt/vllm/current/lib/ --include=*.py").stdout == ""


def test_the_dumps_are_gone_and_kept(host: Host, record: dict[str, Any]) -> None:
    assert host.check_output("find /tmp -maxdepth 1 -name '*.pt'") == ""
    artifacts = record["after"]["artifacts"]
    assert {artifact["path"].split("_debug")[0] for artifact in artifacts} == {"/tmp/nomla", "/tmp/embed"}
    for artifact in artifacts:
        assert host.file(artifact["kept"]).sha256sum == artifact["sha256"]


def test_the_adaptation_is_in_place(host: Host, record: dict[str, Any], variables: dict[str, Any]) -> None:
    assert record["before"]["model_config_differs"] is True
    config = json.loads(host.file(f"{variables['vllm_model_path']}/config.json").content_string)
    assert "kv_cache_scheme" not in config["quantization_config"]


def test_the_record_tells_downtime_and_phases(record: dict[str, Any]) -> None:
    names = [phase["name"] for phase in record["phases"]]
    assert names == [
        "preflight",
        "evidence",
        "stage",
        "drain and stop",
        "switch",
        "start and prove",
        "verify",
        "record",
    ]
    assert 0 < record["downtime_seconds"] < sum(phase["seconds"] for phase in record["phases"])


def test_the_record_is_as_described_and_every_answer_is_yes(record: dict[str, Any]) -> None:
    schema = json.loads((CHECKOUT / "docs/run-record.schema.json").read_text(encoding="utf-8"))
    assert [error.message for error in Draft202012Validator(schema).iter_errors(record)] == []
    assert [item["question"] for item in record["checklist"] if item["ok"] is not True] == []
    assert [(way["name"], way["possible"], way["taken"]) for way in record["plan"]["ways"]] == [
        ("restore", True, False),
        ("reinstall", True, True),
    ]


def test_host_and_controller_keep_the_same_record(
    host: Host, record: dict[str, Any], variables: dict[str, Any]
) -> None:
    kept = Path(variables["run_record_controller_path"], "vllm01", record["run_id"])
    for kind in ("json", "md"):
        there = host.file(f"/opt/vllm/records/{record['run_id']}.{kind}").content_string
        assert kept.with_name(f"{kept.name}.{kind}").read_text(encoding="utf-8") == there


def test_it_serves(host: Host, completion: Callable[[], str]) -> None:
    assert host.service("vllm-kimi-k25").is_running
    assert completion()
