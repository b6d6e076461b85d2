# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import pathlib
import subprocess
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils import model_config as util
from ansible_collections.pristine.vllm.plugins.module_utils.quarantine import Quarantine
from ansible_collections.pristine.vllm.plugins.modules import model_config
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import Ran, run_module

SCHEME = {"dynamic": False, "num_bits": 8, "type": "float"}
# The shape of the published Kimi-K2.5-NVFP4 config.json: vLLM reads the block at the top, a nested one has a null.
KIMI: dict[str, Any] = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "auto_map": {"AutoConfig": "configuration_kimi_k25.KimiK25Config"},
    "media_placeholder_token_id": 163605,
    "model_type": "kimi_k25",
    "name": "月之暗面 Kimi — K2.5",
    "text_config": {
        "hidden_size": 7168,
        "kv_lora_rank": 512,
        "quantization_config": {
            "config_groups": {"group_0": {"weights": {"num_bits": 4, "strategy": "group"}}},
            "ignore": ["lm_head", "re:.*self_attn.*"],
            "kv_cache_scheme": None,
            "quant_method": "compressed-tensors",
        },
        "rope_theta": 50000.0,
        "routed_scaling_factor": 2.827,
    },
    "quantization_config": {
        "config_groups": {"group_0": {"input_activations": {"dynamic": False, "num_bits": 4}, "targets": ["Linear"]}},
        "ignore": ["lm_head", "mm_projector*"],
        "quant_algo": "NVFP4",
        "kv_cache_scheme": SCHEME,
        "producer": {"name": "modelopt", "version": "0.41.0"},
        "quant_method": "modelopt",
    },
    "vocab_size": 163840,
}
REASON = "SM120 serves MLA with an unquantised KV cache only"
EDITS = [
    {"path": ["quantization_config", "kv_cache_scheme"], "reason": REASON},
    {"path": ["quantization_config", "kv_cache_quant_algo"]},
    {"path": ["text_config", "quantization_config", "kv_cache_scheme"]},
]


def adapted() -> dict[str, Any]:
    block = {key: value for key, value in KIMI["quantization_config"].items() if key != "kv_cache_scheme"}
    return {**KIMI, "quantization_config": block}


def text_of(document: dict[str, Any], indent: int, end: str, ascii_only: bool = False) -> bytes:
    return (json.dumps(document, indent=indent, ensure_ascii=ascii_only) + end).encode()


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    file = tmp_path / "models" / "kimi" / "config.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(text_of(KIMI, 2, "\n"))
    file.chmod(0o640)
    return file


class Edited:
    """Runs the module on one file."""

    def __init__(self, capfd: pytest.CaptureFixture[str], path: pathlib.Path, quarantine: pathlib.Path) -> None:
        self.capfd, self.path, self.quarantine = capfd, path, quarantine

    def run(self, check: bool = False, **more: Any) -> Ran:
        options = {"path": str(self.path), "edits": EDITS, "quarantine": str(self.quarantine), **more}
        return run_module(self.capfd, model_config.main, check=check, diff=True, **options)


@pytest.fixture
def edited(capfd: pytest.CaptureFixture[str], path: pathlib.Path, tmp_path: pathlib.Path) -> Edited:
    return Edited(capfd, path, tmp_path / "quarantine" / "20261130T032512Z")


def comparable(ran: Ran) -> dict[str, Any]:
    """All but where things are kept, which only the real run can know."""
    return {key: value for key, value in ran.items() if key not in ("kept", "kept_link", "patch", "invocation")}


@pytest.mark.parametrize("indent", [2, 4])
@pytest.mark.parametrize("end", ["\n", "", "\n\n"])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_nothing_but_the_member_goes(edited: Edited, indent: int, end: str, ascii_only: bool) -> None:
    edited.path.write_bytes(text_of(KIMI, indent, end, ascii_only))
    result = edited.run()
    assert edited.path.read_bytes() == text_of(adapted(), indent, end, ascii_only)
    assert result["removed"] == ["quantization_config.kv_cache_scheme"]
    assert [edit["outcome"] for edit in result["edits"]] == ["removed", "unchanged", "null_kept"]
    assert result["edits"][0] == {
        "path": ["quantization_config", "kv_cache_scheme"],
        "outcome": "removed",
        "before": SCHEME,
        "reason": REASON,
    }


def test_check_real_check_real(edited: Edited) -> None:
    before = edited.path.read_bytes()
    would = edited.run(check=True)
    assert edited.path.read_bytes() == before
    assert not edited.quarantine.exists()
    did = edited.run()
    assert comparable(would) == comparable(did)
    assert would["changed"]
    assert did["diff"]["before"].encode() == before
    assert did["diff"]["after"].encode() == edited.path.read_bytes()
    assert did["sha256_before"] != did["sha256_after"]
    kept = sorted(edited.quarantine.rglob("*"))
    would_again, did_again = edited.run(check=True), edited.run()
    assert comparable(would_again) == comparable(did_again)
    assert not did_again["changed"]
    assert did_again["diff"]["before"] == did_again["diff"]["after"]
    assert did_again["kept"] is None
    assert sorted(edited.quarantine.rglob("*")) == kept


def test_the_diff_is_as_small_as_it_can_be(edited: Edited) -> None:
    result = edited.run()
    lines = pathlib.Path(result["patch"]).read_text(encoding="utf-8").splitlines()
    removed = [line for line in lines if line.startswith("-") and not line.startswith("---")]
    assert removed == [
        '-    "kv_cache_scheme": {',
        '-      "dynamic": false,',
        '-      "num_bits": 8,',
        '-      "type": "float"',
        "-    },",
    ]
    assert not [line for line in lines if line.startswith("+") and not line.startswith("+++")]


@pytest.mark.parametrize("end", ["\n", ""])
def test_what_was_replaced_is_kept_and_the_patch_applies(edited: Edited, end: str, tmp_path: pathlib.Path) -> None:
    before = text_of({"a": 1, "quantization_config": {"kv_cache_scheme": SCHEME}}, 2, end)
    edited.path.write_bytes(before)
    result = edited.run()
    assert pathlib.Path(result["kept"]).read_bytes() == before
    assert result["kept"] == f"{edited.quarantine}/files{edited.path}"
    again = tmp_path / "again" / str(edited.path)[1:]
    again.parent.mkdir(parents=True)
    again.write_bytes(before)
    subprocess.run(["patch", "-s", "-p1", "-i", result["patch"]], cwd=tmp_path / "again", check=True)
    assert again.read_bytes() == edited.path.read_bytes()


def test_mode_and_owner_stay(edited: Edited) -> None:
    if os.geteuid() == 0:
        os.chown(edited.path, 1234, 4321)
    before = edited.path.stat()
    edited.run()
    after = edited.path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert after.st_ino != before.st_ino


def test_a_link_into_the_cache_is_replaced_and_its_blob_untouched(edited: Edited) -> None:
    """Other revisions share the blob (paiml/aprender#3971)."""
    blob = edited.path.parent.parent / "blobs" / "0a1b2c"
    blob.parent.mkdir()
    edited.path.rename(blob)
    edited.path.symlink_to("../blobs/0a1b2c")
    before = blob.read_bytes()
    would, did = edited.run(check=True), edited.run()
    assert comparable(would) == comparable(did)
    assert did["link_target"] == "../blobs/0a1b2c"
    assert not edited.path.is_symlink()
    assert edited.path.read_bytes() == text_of(adapted(), 2, "\n")
    assert edited.path.stat().st_mode & 0o7777 == 0o640
    assert blob.read_bytes() == before
    assert pathlib.Path(did["kept"]).read_bytes() == before
    assert not pathlib.Path(did["kept"]).is_symlink()
    assert os.readlink(did["kept_link"]) == "../blobs/0a1b2c"
    assert edited.run()["link_target"] is None


def test_a_link_that_needs_no_edit_stays(edited: Edited) -> None:
    blob = edited.path.parent / "blob"
    blob.write_bytes(text_of(adapted(), 2, "\n"))
    edited.path.unlink()
    edited.path.symlink_to("blob")
    assert not edited.run()["changed"]
    assert edited.path.is_symlink()


def test_another_name_of_the_file_keeps_the_old_content(edited: Edited) -> None:
    other = edited.path.parent / "other.json"
    os.link(edited.path, other)
    before = other.read_bytes()
    edited.run()
    assert other.read_bytes() == before


def test_nulls_go_when_they_are_said_to(edited: Edited) -> None:
    result = edited.run(keep_null=False)
    assert result["removed"] == [
        "quantization_config.kv_cache_scheme",
        "text_config.quantization_config.kv_cache_scheme",
    ]


def test_members_can_be_set(edited: Edited) -> None:
    edits = [
        {"path": ["vocab_size"], "state": "present", "value": 163840},
        {"path": ["text_config", "rope_theta"], "state": "present", "value": 1e6},
        {"path": ["text_config", "extra"], "state": "present", "value": {"月": [1, None]}},
    ]
    would, did = edited.run(check=True, edits=edits), edited.run(edits=edits)
    assert comparable(would) == comparable(did)
    assert [edit["outcome"] for edit in did["edits"]] == ["unchanged", "set", "set"]
    wanted = {**KIMI, "text_config": {**KIMI["text_config"], "rope_theta": 1e6, "extra": {"月": [1, None]}}}
    assert edited.path.read_bytes() == text_of(wanted, 2, "\n")
    assert not edited.run(edits=edits)["changed"]


def test_one_is_not_true(edited: Edited) -> None:
    edited.path.write_text('{"a": true}', encoding="utf-8")
    assert edited.run(edits=[{"path": ["a"], "state": "present", "value": 1}])["changed"]
    assert edited.path.read_text(encoding="utf-8") == '{"a": 1}'


def test_a_mark_of_byte_order_and_line_ends_stay(edited: Edited) -> None:
    edited.path.write_bytes(b'\xef\xbb\xbf{\r\n  "a": 1,\r\n  "b": 2\r\n}\r\n')
    edited.run(edits=[{"path": ["a"]}])
    assert edited.path.read_bytes() == b'\xef\xbb\xbf{\r\n  "b": 2\r\n}\r\n'


def test_a_file_that_is_not_there(edited: Edited) -> None:
    edited.path.unlink()
    assert edited.run()["msg"] == f"{edited.path} does not exist: give the path of a model's config.json"
    result = edited.run(missing_ok=True)
    assert (result["changed"], result["exists"], result["sha256_after"]) == (False, False, None)


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (b'{"a": 1,}', "cannot be edited: it is not JSON"),
        (b"\xff\xfe", "is not UTF-8"),
        (b'{"quantization_config": "fp8"}', "quantization_config is not an object, so it has no 'kv_cache_scheme'"),
        (b"[]", "the document is not an object"),
    ],
)
def test_a_file_that_cannot_be_edited_stays(edited: Edited, content: bytes, wanted: str) -> None:
    edited.path.write_bytes(content)
    for check in (True, False):
        result = edited.run(check=check)
        assert result.failed
        assert str(edited.path) in result["msg"]
        assert wanted in result["msg"]
    assert edited.path.read_bytes() == content
    assert not edited.quarantine.exists()


def test_edits_that_contradict_each_other(edited: Edited) -> None:
    result = edited.run(edits=[{"path": ["a"], "state": "present", "value": 1}, {"path": ["a"]}])
    assert "the edits contradict each other at a" in result["msg"]


def test_a_link_to_nothing(edited: Edited) -> None:
    edited.path.unlink()
    edited.path.symlink_to("blobs/gone")
    result = edited.run(missing_ok=True)
    assert "is a link to blobs/gone, which is not there: download the model again" in result["msg"]


def test_a_directory(edited: Edited) -> None:
    assert "is not a regular file" in edited.run(path=str(edited.path.parent))["msg"]


def test_nothing_is_replaced_that_is_not_kept(edited: Edited) -> None:
    edited.quarantine.parent.mkdir()
    edited.quarantine.write_text("a file where the quarantine should be", encoding="utf-8")
    before = edited.path.read_bytes()
    result = edited.run()
    assert result.failed
    assert "It is as it was" in result["msg"]
    assert edited.path.read_bytes() == before


def test_a_change_in_between_is_noticed(edited: Edited, monkeypatch: pytest.MonkeyPatch) -> None:
    found = util.plan(str(edited.path), [util.Edit(("vocab_size",), False)])
    assert found is not None
    edited.path.write_bytes(b'{"vocab_size": 2, "mine": 1}')
    with pytest.raises(util.ModelConfigError, match="was changed by someone else during the edit"):
        util.apply(found, Quarantine(str(edited.quarantine)))
    assert edited.path.read_bytes() == b'{"vocab_size": 2, "mine": 1}'


def test_a_relative_quarantine_is_refused(edited: Edited) -> None:
    assert "is not an absolute path" in edited.run(quarantine="here")["msg"]
