# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a model's folder holds what a start needs: the most expensive mistake to find after the stop."""

from __future__ import annotations

import json
import os
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.preflight_report import Findings

_INDEX = "model.safetensors.index.json"
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
_DOWNLOAD = "Download the model again, or correct vllm_model_path"
# More would only hide the number.
_NAMED = 5


def check_weights(model_path: str, found: Findings) -> None:
    """``config.json`` is JSON, and every shard that the index names is there and holds something."""
    if not os.path.isabs(model_path):
        return found.block(
            "weights", model_path, "it is not an absolute path", "Give the folder with the model's files"
        )
    if not os.path.isdir(model_path):
        return found.block("weights", model_path, "there is no such folder", _DOWNLOAD)
    _read_object(os.path.join(model_path, "config.json"), found)
    index_path = os.path.join(model_path, _INDEX)
    if os.path.lexists(index_path):
        index = _read_object(index_path, found)
        if index is not None:
            _check_shards(model_path, index_path, index, found)
    elif not any(name.endswith(_WEIGHTS) for name in os.listdir(model_path)):
        found.caution("weights", model_path, f"it holds neither {_INDEX} nor a file of weights", _DOWNLOAD)
    return None


def model_files(model_path: str) -> list[str]:
    """The files that a start reads: ``config.json``, the index and its shards, else whatever holds weights."""
    index_path = os.path.join(model_path, _INDEX)
    index = _read_object(index_path, Findings())
    shards = index.get("weight_map") if index is not None else None
    if isinstance(shards, dict):
        names = sorted({str(name) for name in shards.values()})
    else:
        names = sorted(name for name in os.listdir(model_path) if name.endswith(_WEIGHTS))
    return [os.path.join(model_path, "config.json"), index_path, *(os.path.join(model_path, name) for name in names)]


def _check_shards(model_path: str, index_path: str, index: dict[str, Any], found: Findings) -> None:
    shards = index.get("weight_map")
    if not isinstance(shards, dict) or not shards:
        return found.block("weights", index_path, "it has no weight_map that names shards", _DOWNLOAD)
    names = sorted({str(name) for name in shards.values()})
    bad = [f"{name} {why}" for name in names for why in [_shard_problem(os.path.join(model_path, name))] if why]
    if bad:
        more = f" and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
        what = f"{len(bad)} of {len(names)} shards cannot be loaded: {', '.join(bad[:_NAMED])}{more}"
        found.block("weights", model_path, what, _DOWNLOAD)
    return None


def _shard_problem(path: str) -> Optional[str]:
    try:
        if not os.path.isfile(path):
            # In the Hugging Face cache each one is a link to a blob that may have been cleaned away.
            return "is a link to nothing" if os.path.islink(path) else "is missing"
        return "is empty" if os.path.getsize(path) == 0 else None
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def _read_object(path: str, found: Findings) -> Optional[dict[str, Any]]:
    try:
        with open(path, encoding="utf-8") as stream:
            value = json.load(stream)
    except FileNotFoundError:
        found.block("weights", path, "there is no such file", _DOWNLOAD)
    except OSError as error:
        found.block("weights", path, f"it cannot be read: {error.strerror}", "Correct its permissions")
    except ValueError as error:
        found.block("weights", path, f"it is not JSON: {error}", _DOWNLOAD)
    else:
        if isinstance(value, dict):
            return value
        found.block("weights", path, "it is JSON, but not an object", _DOWNLOAD)
    return None
