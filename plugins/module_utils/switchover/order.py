# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a switchover is to do, as the play hands it over: plain data, typed, read from JSON by a process of its own."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import atomic_write, read_file

ORDER = "order.json"
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")
_LARGEST = 64 * 1024 * 1024


class OrderError(ValueError):
    """The order cannot be carried out. The text says which part, why, and what to give instead."""


@dataclass(frozen=True)
class Serving:
    """How to reach a server and what to ask it. Times in seconds."""

    url: str
    model: str
    prompt: str = "The capital of France is"
    max_tokens: int = 8
    timeout: float = 1200.0
    api_key: Optional[str] = None


@dataclass(frozen=True)
class Drain:
    """How the service is stopped. Times in seconds; ``before`` and ``after`` are commands, each a list of words."""

    timeout: float = 300.0
    stop_timeout: float = 120.0
    gpu_command: str = "nvidia-smi"
    before: list[list[str]] = field(default_factory=list)
    after: list[list[str]] = field(default_factory=list)
    command_timeout: float = 60.0


@dataclass(frozen=True)
class File:
    """A file that must be there with this content, or with that of ``source``; neither: it must not be there."""

    path: str
    content: Optional[str] = None
    source: Optional[str] = None
    mode: int = 0o644


@dataclass(frozen=True)
class Config:
    """A model configuration and its edits, as `model_config` takes them. Edits are dicts with path, state, value."""

    path: str
    edits: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Artifacts:
    """What debug code wrote: see `debug_artifacts.plan`."""

    globs: list[str] = field(default_factory=list)
    suggested_globs: list[str] = field(default_factory=list)
    protect: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Order:
    """One switchover of one host.

    ``release`` is made live ("" leaves the links), ``adopt`` is an environment elsewhere that becomes the way back
    first. ``keep_config`` says that the version that served before needs the edits of ``configs`` as well.
    ``record`` is what the play knows for the run record, ``about``, ``marks``, ``plan`` and ``before`` (see `compose`).
    ``verify`` holds options of `wheel_record_info`; without it only a restored environment is verified. ``restore``
    holds options of `wheel_record`: the environment it names is put back to what its wheels hold.
    """

    run_id: str
    root: str
    unit: str
    quarantine: str
    serving: Serving
    restart: bool = True
    release: str = ""
    adopt: str = ""
    drain: Drain = field(default_factory=Drain)
    files: list[File] = field(default_factory=list)
    configs: list[Config] = field(default_factory=list)
    keep_config: bool = False
    artifacts: Artifacts = field(default_factory=Artifacts)
    wipe: list[str] = field(default_factory=list)
    restore: Optional[dict[str, Any]] = None
    verify: Optional[dict[str, Any]] = None
    record: Optional[dict[str, Any]] = None

    def save(self, directory: str) -> None:
        """Write it for root alone: it may hold an API key."""
        data = json.dumps(dataclasses.asdict(self)).encode()
        atomic_write(os.path.join(directory, ORDER), data, mode=0o600)


def load_order(directory: str) -> Order:
    """The order that was saved in a directory.

    :raises OSError: there is none.
    :raises OrderError: it is damaged.
    """
    path = os.path.join(directory, ORDER)
    try:
        return order_of(json.loads(read_file(path, _LARGEST)))
    except (ValueError, TypeError, KeyError) as error:
        raise OrderError(
            f"{path} is damaged ({error}): the switchover can be neither carried out nor undone. How far it came is in "
            "journal.json beside it, what it replaced in the quarantine of its run. "
            f"Next: see that the service serves and from which release, then remove {directory} and run again."
        ) from error


def order_of(data: dict[str, Any]) -> Order:
    """Plain data as an order.

    :raises OrderError: a path is not absolute, or something else means nothing.
    """
    values = dict(data)
    values["serving"] = Serving(**values["serving"])
    values["drain"] = Drain(**values.get("drain", {}))
    values["artifacts"] = Artifacts(**values.get("artifacts", {}))
    values["files"] = [File(**entry) for entry in values.get("files", [])]
    values["configs"] = [Config(**entry) for entry in values.get("configs", [])]
    if values.get("adopt"):
        # As its release.json says it: a slash at its end would make another path of it on the way back.
        values["adopt"] = os.path.normpath(values["adopt"])
    order = Order(**values)
    _check(order)
    paths = [order.root, order.quarantine, *order.wipe]
    paths += [entry.path for entry in order.files] + [entry.path for entry in order.configs]
    paths += [str((order.restore or {}).get("environment"))] if order.restore is not None else []
    for path in [*paths, *([order.adopt] if order.adopt else [])]:
        if not os.path.isabs(path):
            raise OrderError(f"path {path!r} of the switchover is not absolute: give an absolute one")
    return order


def _check(order: Order) -> None:
    if not _RUN_ID.fullmatch(order.run_id):
        raise OrderError(f"run id {order.run_id!r} is no name of a folder: give one such as 20261130T020000Z")
    for words in [*order.drain.before, *order.drain.after]:
        if not words or not all(isinstance(word, str) for word in words):
            raise OrderError(f"command {words!r} of the drain is no list of words: give one such as [/usr/bin/lb, out]")
    for entry in order.files:
        if entry.content is not None and entry.source is not None:
            raise OrderError(f"file {entry.path} has both a content and a source: give one of them")
