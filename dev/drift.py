# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scans an environment on this machine as the module wheel_record_info does, and reports. Nothing is changed.

Without wheels the installed RECORDs are the reference, and whoever edited a file could have edited them too.
Exit code: 0 pristine, 1 drift, 2 not scanned.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from ansible_collections.pristine.vllm.plugins.module_utils.record.evidence import diff_of, probes_of
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import (
    INSTALLED_RECORD,
    Finding,
    ScanError,
    ScanOptions,
)
from ansible_collections.pristine.vllm.plugins.module_utils.record.scan import Scan, scan
from ansible_collections.pristine.vllm.plugins.module_utils.report import findings_lines

RESTS_ON = {
    "installed_record": "compared with the installed RECORDs, which anyone could have edited: give WHEELS to be sure",
    "wheel_record": "compared with wheels whose own digests were not checked: give --lock to be sure",
    "pinned_wheel": "compared with wheels that match the lock",
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make drift ENV=path", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("environment", help="root of a virtual environment (ENV)")
    parser.add_argument(
        "wheels", nargs="*", help="a wheel, a folder of wheels, or the http(s) address of either (WHEELS)"
    )
    parser.add_argument("--lock", help="requirements file with the sha256 of each wheel")
    parser.add_argument("--cache", help="a file that remembers what was read, so that the next scan is faster")
    parser.add_argument("--all", action="store_true", help="every finding and every probe, not one screen of them")
    parser.add_argument("--diff", action="store_true", help="the differences too, where a wheel has the pristine text")
    given = parser.parse_args()
    if not given.environment:
        parser.error("say which environment: make drift ENV=/path")
    return given


class Progress:
    """A line on a terminal that says how far the scan is, and is gone when it is done; on anything else nothing."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = 0.0
        self._terminal = stream.isatty()

    def __call__(self, done: int, whole: int) -> None:
        """Both in bytes."""
        now = time.monotonic()
        if self._terminal and whole and now > self._shown + 0.1:
            self._shown = now
            self._stream.write(f"\r\033[K{100 * done // whole:3d} % of {whole / 1e6:.0f} MB read")
            self._stream.flush()

    def clear(self) -> None:
        if self._shown:
            self._stream.write("\r\033[K")
            self._stream.flush()


def report(done: Scan, environment: str, everything: bool) -> list[str]:
    """The verdict first, what was found by distribution, then what next; a screen of it unless all is wanted."""
    result, summary = done.result, done.result.summary
    counts = ", ".join(f"{number} {status}" for status, number in summary.counts.items() if number)
    read = f"{summary.bytes_hashed / 1e6:.0f} MB read in {summary.seconds:.1f} s"
    if summary.from_cache:
        read += f"; {summary.from_cache} files not read, because the cache knows them"
    lines = [
        f"{environment} is {'pristine' if result.pristine else 'NOT pristine'}: {counts or 'no finding'}",
        f"{summary.files} files of {summary.distributions} distributions, {read}",
        RESTS_ON[summary.verified_against],
        *(f"warning: {warning}" for warning in result.warnings),
    ]
    size = shutil.get_terminal_size((120, 40))
    after = next_steps(done, environment)
    room = max(6, size.lines - len(lines) - len(after) - 2)
    probes = [
        f"added: {probe.kind} {probe.artifact_glob or ''} {probe.path}:{probe.line} {probe.code}"
        for probe in probes_of(done)
        if everything or probe.kind != "other"
    ]
    # Probes may take a third of the screen.
    shown = len(probes) if everything else min(len(probes), room // 3)
    middle = grouped(result.findings, sys.maxsize if everything else room - shown)
    middle += probes[:shown]
    if len(probes) > shown:
        middle.append(f"... and {len(probes) - shown} more that were added: --all shows them")
    if not everything:
        middle = [line if len(line) <= size.columns else line[: size.columns - 3] + "..." for line in middle]
    return [*lines, *middle, *after]


def grouped(findings: Sequence[Finding], room: int) -> list[str]:
    """The findings by distribution, those with the most to tell first, in about so many lines."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.distribution or "of no distribution", []).append(finding)
    # What could not be read is said once; what it is nobody knows.
    ordered = sorted(groups.items(), key=lambda group: (-sum(map(_telling, group[1])), group[0]))
    each = max(1, room // max(1, len(ordered)) - 2)
    lines: list[str] = []
    for name, members in ordered:
        counts = Counter(finding.status for finding in members)
        lines.append(f"{name}: " + ", ".join(f"{number} {status}" for status, number in counts.most_common()))
        first = sorted(members, key=lambda finding: (not _telling(finding), finding.path))
        most = len(first) if len(first) <= each + 1 else each
        lines += [f"  {line}" for one in first[:most] for line in findings_lines([one.to_dict()])]
        lines += [f"  ... and {len(first) - most} more: --all shows them"] if most < len(first) else []
    if len(lines) > room + len(ordered):
        return [*lines[:room], f"... and {len(lines) - room} more lines: --all shows them"]
    return lines


def _telling(finding: Finding) -> bool:
    return finding.counts and finding.status != "unreadable"


def next_steps(done: Scan, environment: str) -> list[str]:
    """What to do about it, one line each."""
    findings, summary = done.result.findings, done.result.summary
    again = f"make drift ENV={environment} WHEELS='"
    steps = []
    if any(finding.status == "unreadable" for finding in findings):
        steps.append("read what this user may not: run it as one who may, such as root")
    if summary.verified_against == INSTALLED_RECORD:
        steps.append(f"compare with the wheels themselves: {again}/folder/of/wheels'")
    if any(map(_telling, findings)):
        steps.append(f"see what was changed: {again}/folder/of/wheels --diff'")
        steps.append(
            "put it right: playbooks/drift.yml with drift_watch_policy for hosts that serve, else wheel_record"
        )
    return [f"next: {step}" for step in steps]


def main() -> int:
    given = arguments()
    progress = Progress(sys.stderr)
    options = ScanOptions(
        environment=str(Path(given.environment).absolute()),
        wheels=[wheel if "://" in wheel else str(Path(wheel).absolute()) for wheel in given.wheels],
        lock=given.lock,
        cache=given.cache and str(Path(given.cache).absolute()),
        progress=progress,
    )
    try:
        try:
            done = scan(options)
        finally:
            progress.clear()
        print("\n".join(report(done, given.environment, given.all)))
        if given.diff:
            print("\n".join(entry["prepared"] for entry in diff_of(done)))
    except ScanError as error:
        print(error, file=sys.stderr)
        return 2
    done.close()
    return 0 if done.result.pristine else 1


if __name__ == "__main__":
    sys.exit(main())
