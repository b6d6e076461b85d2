# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scan: every file of an environment against what its wheel says. Reads only, runs nothing that it looks at."""

from __future__ import annotations

import gc
import os
import time
from dataclasses import dataclass
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.lock import LockError, read_lock
from ansible_collections.pristine.vllm.plugins.module_utils.record.bytecode import Headers
from ansible_collections.pristine.vllm.plugins.module_utils.record.claims import Expected, Owner
from ansible_collections.pristine.vllm.plugins.module_utils.record.environment import (
    Distribution,
    Environment,
    discover,
)
from ansible_collections.pristine.vllm.plugins.module_utils.record.expected import Builder, record_mentions
from ansible_collections.pristine.vllm.plugins.module_utils.record.globs import Ignore
from ansible_collections.pristine.vllm.plugins.module_utils.record.hashing import Job
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import (
    Finding,
    ScanError,
    ScanOptions,
    ScanResult,
    Summary,
)
from ansible_collections.pristine.vllm.plugins.module_utils.record.reader import Reader
from ansible_collections.pristine.vllm.plugins.module_utils.record.recompile import recompiled
from ansible_collections.pristine.vllm.plugins.module_utils.record.sources import WheelSources
from ansible_collections.pristine.vllm.plugins.module_utils.record.verdicts import Judge
from ansible_collections.pristine.vllm.plugins.module_utils.record.walk import Links, Walker
from ansible_collections.pristine.vllm.plugins.module_utils.record.wheel import WheelError
from ansible_collections.pristine.vllm.plugins.module_utils.record.work import large_files
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_name import normalise


@dataclass
class Scan:
    """A finished scan, its wheels still open, so that pristine bytes can be asked for: `close` it."""

    environment: Environment
    expected: Expected
    sources: WheelSources
    result: ScanResult

    def close(self) -> None:
        """Close the wheels."""
        self.sources.close()

    def count_transfer(self) -> None:
        """Bring the summary's counts of what was fetched up to date: pristine bytes are fetched when asked for."""
        self.result.summary.remote_requests = self.sources.remote.client.requests
        self.result.summary.remote_bytes = self.sources.remote.client.received

    def pristine_bytes(self, finding: Finding, limit: Optional[int] = None) -> Optional[tuple[bytes, str]]:
        """What the wheel holds for a finding's file and the wheel's file name; None where no wheel holds it.

        :raises WheelError: the member is damaged or larger than ``limit`` bytes.
        """
        for claim in self.expected.claims.get(finding.file, []):
            if claim.member and claim.owner.wheel is not None and claim.member in claim.owner.wheel.sizes:
                wheel = claim.owner.wheel
                return wheel.read(claim.member, limit), wheel.filename
        return None


def scan(options: ScanOptions) -> Scan:
    """Scan an environment as the options say.

    :raises ScanError: there is no answer: no environment, no distribution, a name that nothing there has, no such
        wheel, a lock that cannot be read, a worker that died.
    """
    started = time.monotonic()
    collecting = gc.isenabled()
    # Hundreds of thousands of small objects, none of them in a cycle: looking for some would cost a third of the time.
    gc.disable()
    try:
        done = _scan(options)
    except WheelError as error:
        raise ScanError(f"{error}; nothing can be said without it: fetch the wheel again, or leave it out") from error
    finally:
        if collecting:
            gc.enable()
    done.result.summary.seconds = time.monotonic() - started
    return done


def _scan(options: ScanOptions) -> Scan:
    environment = discover(options.environment)
    selected = _select(environment, options)
    sources = WheelSources(options.wheels, _pins(options.lock))
    try:
        wanted = _wanted(environment, options.files)
        with _reader(environment, options) as reader:
            _read_ahead(reader, environment, selected, sources, options)
            expected = _expect(environment, selected, sources, wanted)
            result = _compare(environment, expected, options, wanted, reader)
    except BaseException:
        sources.close()
        raise
    result.warnings += sources.warnings + sources.remote.absent() + reader.warnings
    done = Scan(environment, expected, sources, result)
    done.count_transfer()
    return done


def _reader(environment: Environment, options: ScanOptions) -> Reader:
    """Workers and a cache are not worth it for single files."""
    if options.files:
        return Reader(environment.root, 1)
    return Reader(environment.root, options.workers, options.cache or "", bool(options.distributions), options.progress)


def _read_ahead(
    reader: Reader,
    environment: Environment,
    selected: list[Distribution],
    sources: WheelSources,
    options: ScanOptions,
) -> None:
    """Begin to read what is going to be asked for: pinned wheels, large files."""
    sources.digest = reader.digest
    if not options.files:
        reader.digests_ahead(sources.pinned(selected))
        if not reader.remembers:
            reader.ahead(large_files(environment, selected))


def _select(environment: Environment, options: ScanOptions) -> list[Distribution]:
    """The distributions that are asked for.

    :raises ScanError: one is not installed: an answer without it would read as "pristine".
    """
    if not options.distributions:
        return environment.distributions
    names = {normalise(name) for name in options.distributions}
    chosen = [distribution for distribution in environment.distributions if distribution.name in names]
    absent = sorted(names - {distribution.name for distribution in chosen})
    if absent:
        raise ScanError(
            f"distributions: {', '.join(absent)} not installed in {options.environment!r}, "
            f"which holds {len(environment.distributions)} distributions: correct the name or leave it out"
        )
    return chosen


def _pins(lock: Optional[str]) -> dict[str, set[str]]:
    if lock is None:
        return {}
    try:
        return {row.name: set(row.hashes) for row in read_lock(lock)}
    except LockError as error:
        raise ScanError(str(error)) from error


def _wanted(environment: Environment, files: list[str]) -> Optional[dict[str, list[str]]]:
    """For each path that is asked for, the places it may mean; None when all files are."""
    if not files:
        return None
    wanted = {}
    for name in files:
        places = [place for place in environment.absolute(name) if environment.contains(place)]
        if not places:
            raise ScanError(
                f"files: {name!r} lies outside of the environment {environment.root}: give paths as RECORD has them, "
                "relative to site-packages"
            )
        wanted[name] = places
    return wanted


def _expect(
    environment: Environment,
    selected: list[Distribution],
    sources: WheelSources,
    wanted: Optional[dict[str, list[str]]],
) -> Expected:
    """What should be there. Where only some files are asked for, RECORDs that do not mention them stay unparsed."""
    builder = Builder(environment, None if wanted is None else {place for group in wanted.values() for place in group})
    chosen = {distribution.directory for distribution in selected}
    names = {os.path.basename(name) for name in wanted or ()}
    silent = []
    for distribution in environment.distributions:
        known = distribution.directory in chosen
        if wanted is not None and not record_mentions(distribution, names):
            silent += [distribution] if known else []
            continue
        builder.add(Owner(distribution, sources.find(distribution) if known else None, known))
    expected = builder.expected
    if wanted is not None and not all(any(place in expected.claims for place in group) for group in wanted.values()):
        # A row can be taken out of an installed RECORD; the wheel still knows the file.
        for distribution in silent:
            wheel = sources.find(distribution)
            if wheel is not None:
                builder.add(Owner(distribution, wheel, True))
    if len(selected) < len(environment.distributions):
        expected.claims = {
            path: claims for path, claims in expected.claims.items() if any(claim.owner.selected for claim in claims)
        }
    return expected


def _jobs(expected: Expected, links: Links, judge: Judge) -> list[Job]:
    """What is to be compared with its claims; what lies behind a link that leads out is judged and left alone."""
    jobs: list[Job] = []
    last, escaped = "", ""
    for path, claims in expected.claims.items():
        directory = path.rpartition("/")[0]
        if directory != last:
            last, escaped = directory, links.escape(directory)
        if escaped:
            judge.behind_link(path, claims)
        else:
            # Algorithm, digest and size.
            jobs.append((path, [claim[1:4] for claim in claims if claim[2]]))
    return jobs


def _compare(
    environment: Environment,
    expected: Expected,
    options: ScanOptions,
    wanted: Optional[dict[str, list[str]]],
    reader: Reader,
) -> ScanResult:
    links = Links(environment.root)
    judge = Judge(environment, expected, links)
    jobs = _jobs(expected, links, judge)
    skip = set(environment.leftovers) | judge.unlisted_tops()
    walker = Walker(expected.listed, links, skip)

    headers = Headers(environment, links, options.recompile)

    def walk() -> None:
        if wanted is not None:
            headers.sources(path for path in expected.claims if path.endswith(".py"))
            return
        for site in environment.sites:
            walker.site(site, judge.tops(site) if options.distributions else None)
            if options.distributions:
                # Those of modules at the top lie in a directory that belongs to everybody.
                tops = (path for path in expected.claims if path.startswith(f"{site}/"))
                headers.sources(path for path in tops if path.endswith(".py") and "/" not in path[len(site) + 1 :])
        if not options.distributions:
            walker.scripts(environment.root + "/bin")
        headers.check(walker.bytecode, reader.headers)

    checked = reader.check(jobs, links, walk)
    for number, (path, _claims) in enumerate(jobs):
        claims = expected.claims[path]
        # Of a file that is as its only owner says there is nothing to tell.
        if number in checked.outcomes or len(claims) > 1 or claims[0].problem:
            judge.file(path, claims, checked.outcomes.get(number))
    judge.scripts()
    judge.strays(headers.regrade(walker.strays) + headers.strays)
    if options.recompile:
        judge.strays(recompiled(environment, headers.valid, options.workers))
    if wanted is None:
        judge.environment(options.distributions)
    else:
        judge.unclaimed(wanted)
    findings = judge.adapt(options.adaptations, wanted)
    summary = Summary(
        distributions=len(
            {
                owner.distribution.directory
                for owner in {claim.owner for group in expected.claims.values() for claim in group}
            }
        ),
        files=len(expected.claims),
        bytes_hashed=checked.bytes_hashed,
        from_cache=checked.from_cache,
        verified_against=judge.weakest(),
    )
    return _report(findings, summary, Ignore(options.ignore))


def _report(findings: list[Finding], summary: Summary, ignore: Ignore) -> ScanResult:
    """Sort and count, less what is ignored."""
    shown = [finding for finding in findings if not ignore(finding.path)]
    shown.sort(key=lambda finding: (finding.path, finding.status))
    summary.ignored = len(findings) - len(shown)
    for finding in shown:
        summary.counts[finding.status] += 1
    return ScanResult(shown, summary)
