# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading the files of an environment: in workers, large ones first, ahead of the plan, and with a cache not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import NamedTuple, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import sha256_file
from ansible_collections.pristine.vllm.plugins.module_utils.record.bytecode import Header
from ansible_collections.pristine.vllm.plugins.module_utils.record.cache import (
    CacheError,
    Clock,
    Known,
    load,
    save,
)
from ansible_collections.pristine.vllm.plugins.module_utils.record.hashing import (
    Content,
    Hasher,
    Job,
    Outcome,
    judge,
    only_sha256,
)
from ansible_collections.pristine.vllm.plugins.module_utils.record.pool import Pool, Progress, usable_cores
from ansible_collections.pristine.vllm.plugins.module_utils.record.walk import Links
from ansible_collections.pristine.vllm.plugins.module_utils.record.work import Work, batches

_SLICES = 8
_HEADERS = 500


class Checked(NamedTuple):
    """What `Reader.check` found: outcomes by job number, the bytes that were read, the files that were not."""

    outcomes: dict[int, Outcome]
    bytes_hashed: int
    from_cache: int


class Reader:
    """Reads files for one scan. Use as a context manager: its workers end with it.

    ``warnings`` are for the operator.
    """

    def __init__(
        self,
        root: str,
        workers: Optional[int] = None,
        cache: str = "",
        partial: bool = False,
        progress: Optional[Progress] = None,
    ) -> None:
        """Start the workers, which look at once what is still as the cache says.

        :param workers: processes to fork; default the number of usable cores; 1 forks none.
        :param cache: the file that remembers what was read; empty for none.
        :param partial: whether the jobs will be only some of the environment's files.
        :param progress: called from time to time.
        """
        self.warnings: list[str] = []
        self._root = root
        self._cache = cache
        self._partial = partial
        self._progress = progress
        self._clock = Clock.read()
        self._known = self._load()
        self._pool = Pool(workers or usable_cores(), Work(bool(cache), self._known))
        self._ahead: list[int] = []
        self._paths: set[str] = set()
        self._wheels: dict[str, int] = {}
        self._links = Links(root)
        self._same: Optional[dict[str, int]] = None
        count = len(self._known)
        step = count // _SLICES + 1
        self._slices = [
            self._pool.submit(("same", (start, min(start + step, count)))) for start in range(0, count, step)
        ]
        # Entries of the cache that are good, and new ones.
        self._fresh: list[int] = []
        self._new: dict[str, tuple[bytes, bytes]] = {}
        self._pool.push()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_error: object) -> None:
        self._pool.close()

    def _load(self) -> Known:
        if self._cache:
            try:
                return load(self._cache, self._root)
            except CacheError as problem:
                self.warnings.append(f"cache {self._cache} {problem}: it was not used, and is written anew")
        return Known([], b"", b"")

    @property
    def remembers(self) -> bool:
        """Whether there is a cache that knows of files, so that most are not going to be read at all."""
        return len(self._known) > 0

    def digests_ahead(self, wheels: list[str]) -> None:
        """Begin to read whole wheels, whose sha256 is going to be asked for."""
        for _size, real in sorted({(-os.path.getsize(path), os.path.realpath(path)) for path in wheels}):
            if real not in self._wheels and self._known.find(real) is None:
                self._wheels[real] = self._pool.submit(("contents", [real]))
        self._pool.push()

    def digest(self, wheel: str) -> str:
        """The sha256 of a wheel's bytes, as 64 hex digits.

        :raises OSError: it cannot be read.
        """
        real = os.path.realpath(wheel)
        place = self._unchanged().get(real)
        if place is not None:
            self._fresh.append(place)
            return self._known.sha256(place).hex()
        found = None
        if real in self._wheels:
            ((_path, found),) = self._pool.wait([self._wheels.pop(real)])[0]
        if found is None:
            return sha256_file(real)
        content = Content(*found)
        if content.identity:
            # No link leads here: it is the end of all links.
            self._new[real] = (content.identity, content.sha256)
        return content.sha256.hex()

    def ahead(self, files: Iterable[tuple[int, str]]) -> None:
        """Begin to read these files, given with their size in bytes; what the cache knows is not read."""
        wanted = sorted({(-size, path) for size, path in files if path not in self._paths})
        wanted = [(size, path) for size, path in wanted if self._known.find(path) is None]
        self._paths.update(path for _size, path in wanted)
        for weight, batch in batches([(-size, path) for size, path in wanted]):
            self._ahead.append(self._pool.submit(("contents", batch), weight))
        self._pool.push()

    def headers(self, paths: list[str], everything: bool) -> list[Header]:
        """As `bytecode.headers_of`, by the workers; while `check` calls ``meanwhile``."""
        starts = range(0, len(paths), _HEADERS)
        tasks = [self._pool.submit(("headers", (paths[start : start + _HEADERS], everything))) for start in starts]
        self._pool.push()
        return [header for found in self._pool.wait(tasks) for header in found]

    def check(self, jobs: list[Job], links: Links, meanwhile: Callable[[], None]) -> Checked:
        """Check every job; call ``meanwhile`` once in this process while the workers run. The workers end.

        :raises ScanError: a worker died: nothing is then known about its files.
        """
        self._links = links
        outcomes: dict[int, Outcome] = {}
        early: dict[str, int] = {}
        late: list[tuple[int, int]] = []
        from_cache = len(self._fresh)
        unchanged = self._unchanged()
        last, hidden = "", False
        for number, (path, claims) in enumerate(jobs):
            if only_sha256(claims):
                place = unchanged.get(path)
                if place is not None:
                    directory = path.rpartition("/")[0]
                    if directory != last:
                        last, hidden = directory, links.hides(directory)
                if place is not None and not hidden:
                    self._fresh.append(place)
                    if self._known.is_as(place, claims[0][1], claims[0][2]):
                        continue
                    outcome = judge(claims, self._known.size(place), self._known.sha256(place))
                    if outcome is not None:
                        outcomes[number] = outcome
                    continue
                if path in self._paths:
                    early[path] = number
                    continue
            late.append((max((claim[2] or 0 for claim in claims), default=0), number))
        from_cache = len(self._fresh) - from_cache
        late.sort(reverse=True)
        tasks = [
            self._pool.submit(("check", [(number, jobs[number]) for number in batch]), weight)
            for weight, batch in batches(late)
        ]
        self._pool.push()
        meanwhile()
        self._pool.finish(self._progress)
        total = self._late(tasks, jobs, outcomes) + self._early(early, jobs, outcomes)
        self._remember(jobs)
        return Checked(outcomes, total, from_cache)

    def _late(self, tasks: list[int], jobs: list[Job], outcomes: dict[int, Outcome]) -> int:
        total = 0
        for found, count, read in self._pool.wait(tasks):
            outcomes.update((number, Outcome(*outcome)) for number, outcome in found)
            total += count
            for number, identity, sha256 in read:
                self._note(jobs[number][0], identity, sha256)
        return total

    def _early(self, early: dict[str, int], jobs: list[Job], outcomes: dict[int, Outcome]) -> int:
        """Judge what was read ahead. Bytes count once, and only of files that somebody claims."""
        hasher = Hasher(bool(self._cache))
        total = 0
        for path, found in (pair for group in self._pool.wait(self._ahead) for pair in group):
            number = early.get(path)
            if number is None:
                continue
            if found is None:
                outcome = hasher.check(jobs[number])
            else:
                content = Content(*found)
                total += content.size
                outcome = judge(jobs[number][1], content.size, content.sha256)
                self._note(path, content.identity, content.sha256)
            if outcome is not None:
                outcomes[number] = outcome
        return total + hasher.bytes_hashed

    def _unchanged(self) -> dict[str, int]:
        """The cache's entries of files that are still the ones that were read, by path."""
        if self._same is None:
            same = b"".join(self._pool.wait(self._slices))
            self._same = {path: place for place, path in enumerate(self._known.paths) if same[place]}
        return self._same

    def _note(self, path: str, identity: bytes, sha256: bytes) -> None:
        if identity and not self._links.hides(path.rpartition("/")[0]):
            self._new[path] = (identity, sha256)

    def _remember(self, jobs: list[Job]) -> None:
        """Write the cache where it would change."""
        if not self._cache:
            return
        known, keep = self._known, set(self._fresh)
        if self._partial:
            # What this scan did not ask for is as good as it was.
            keep |= set(range(len(known))) - {known.find(path) for path, _claims in jobs}
        if not self._new and len(keep) == len(known):
            return
        if Clock.read().set_since(self._clock):
            self.warnings.append(f"cache {self._cache}: the clock was set during the scan, so nothing was remembered")
            return
        entries = {known.paths[place]: (known.identity(place), known.sha256(place)) for place in sorted(keep)}
        try:
            save(self._cache, self._root, {**entries, **self._new}, self._clock)
        except OSError as error:
            self.warnings.append(
                f"cache {self._cache} cannot be written: {error}; the next scan reads everything again"
            )
