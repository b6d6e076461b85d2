# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The work that there is: which files are read ahead, what goes together, and what a worker does of it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.record.bytecode import headers_of
from ansible_collections.pristine.vllm.plugins.module_utils.record.cache import Known
from ansible_collections.pristine.vllm.plugins.module_utils.record.environment import Distribution, Environment
from ansible_collections.pristine.vllm.plugins.module_utils.record.hashing import Hasher, Job
from ansible_collections.pristine.vllm.plugins.module_utils.record.places import locate
from ansible_collections.pristine.vllm.plugins.module_utils.record.walk import Links

# Files of 300 kB are read before anyone knows what they should be: there are few, and they hold most of the bytes.
_LARGE = re.compile(rb",([3-9]\d{5}|\d{7,15})\r?$", re.MULTILINE)
_BATCH_BYTES = 4 * 1024 * 1024
_BATCH_FILES = 64


class Work:
    """What a worker does: tasks of the kinds ``same``, ``headers``, ``contents`` and ``check``."""

    def __init__(self, remember: bool, known: Known) -> None:
        """With ``remember``, files are read so that a cache may hold what they held."""
        self._remember = remember
        self._known = known
        self._hasher: Optional[Hasher] = None

    def __call__(self, task: tuple[str, Any]) -> Any:
        """Do a task: its kind and what it is about."""
        kind, about = task
        if kind == "same":
            return self._known.same(*about)
        if kind == "headers":
            return headers_of(*about)
        # Made by the worker itself: the parent has no use for its buffer.
        self._hasher = self._hasher or Hasher(self._remember)
        return self._contents(self._hasher, about) if kind == "contents" else self._check(self._hasher, about)

    def _contents(self, hasher: Hasher, paths: list[str]) -> Any:
        seen = [(path, hasher.content(path)) for path in paths]
        return [(path, None if content is None else tuple(content)) for path, content in seen]

    def _check(self, hasher: Hasher, jobs: list[tuple[int, Job]]) -> Any:
        found, read = [], []
        before = hasher.bytes_hashed
        for number, job in jobs:
            outcome = hasher.check(job)
            if outcome is not None:
                found.append((number, tuple(outcome)))
            if hasher.last is not None and hasher.last.identity:
                read.append((number, hasher.last.identity, hasher.last.sha256))
        return found, hasher.bytes_hashed - before, read


def batches(files: list[tuple[int, Any]]) -> Iterable[tuple[int, list[Any]]]:
    """Files of (size, what) in their order, large ones alone and small ones together, with the bytes in each batch."""
    batch: list[Any] = []
    weight = 0
    for size, what in files:
        batch.append(what)
        weight += size
        if weight >= _BATCH_BYTES or len(batch) >= _BATCH_FILES:
            yield weight, batch
            batch, weight = [], 0
    if batch:
        yield weight, batch


def large_files(environment: Environment, distributions: list[Distribution]) -> Iterator[tuple[int, str]]:
    """Size and absolute path of large files, as the installed RECORDs have them; only what no link hides."""
    links = Links(environment.root)
    for distribution in distributions:
        record = distribution.record or b""
        for match in _LARGE.finditer(record):
            row = record[record.rfind(b"\n", 0, match.start()) + 1 : match.start()]
            name, comma, _digest = row.partition(b",sha256=")
            path = (
                locate(distribution.site, environment.root, os.fsdecode(name)) if comma and b'"' not in name else None
            )
            if path is not None and not links.escape(path.rpartition("/")[0]):
                yield int(match[1]), path
