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
from pathlib import Path
from typing import TextIO

from ansible_collections.pristine.vllm.plugins.module_utils.record.evidence import diff_of, probes_of
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import ScanError, ScanOptions
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
    """What was found, the verdict first; at most a screen of it unless everything is wanted."""
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
    room = max(5, size.lines - len(lines) - 4)
    probes = [
        f"added: {probe.kind} {probe.artifact_glob or ''} {probe.path}:{probe.line} {probe.code}"
        for probe in probes_of(done)
        if everything or probe.kind != "other"
    ]
    head = len(lines)
    if everything:
        return [*lines, *findings_lines([one.to_dict() for one in result.findings], len(result.findings)), *probes]
    # Probes may take a third of the screen.
    findings = result.findings
    shown = room - min(len(probes), room // 3)
    lines += findings_lines([one.to_dict() for one in findings], len(findings))[:shown]
    lines += probes[: room // 3]
    hidden = max(0, len(findings) - shown) + max(0, len(probes) - room // 3)
    if hidden:
        lines.append(f"... and {hidden} more: make drift ENV={environment} WHEELS='--all'")
    cut = [line if len(line) <= size.columns else line[: size.columns - 3] + "..." for line in lines[head:]]
    return lines[:head] + cut


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
