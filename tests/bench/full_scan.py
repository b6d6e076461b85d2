# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The full scan of the real environment against the tools that only hash the same files, and the rescan against it."""

from __future__ import annotations

import os
import subprocess

from ansible_collections.pristine.vllm.tests.bench.support import (
    BENCH,
    BenchError,
    Entry,
    alternating,
    entry,
    real_environment,
    scanned,
    settle,
    timed,
)


def measure() -> list[Entry]:
    """Wall time of the engine in a fresh process, interpreter start aside, against that of xargs with all its jobs."""
    environment = real_environment()
    settle(environment)
    paths, cache, cores = BENCH / "paths", BENCH / "cache", f"-P{os.cpu_count()}"
    cache.unlink(missing_ok=True)
    first = scanned(environment, paths=str(paths), cache=str(cache))
    count = paths.read_bytes().count(b"\0")
    again = scanned(environment, cache=str(cache))
    if again["from_cache"] < count * 0.99:
        raise BenchError(f"the cache knows {again['from_cache']} of {count} files: {again['warnings']}")

    def rescan() -> float:
        return float(scanned(environment, cache=str(cache))["seconds"])

    full, openssl, coreutils, cached = alternating(
        lambda: float(scanned(environment)["seconds"]),
        lambda: timed(["xargs", "-0", cores, "openssl", "dgst", "-sha256"], paths),
        lambda: timed(["xargs", "-0", cores, "sha256sum"], paths),
        rescan,
    )
    what = f"{count} files, {first['bytes_hashed'] / 1e9:.2f} GB, {first['distributions']} distributions"
    return [
        {**entry("full_scan_vs_openssl", full, openssl, "s"), "comparator": _version("openssl", "version"), "of": what},
        {**entry("full_scan_vs_sha256sum", full, coreutils, "s"), "comparator": _version("sha256sum", "--version")},
        {**entry("rescan_vs_full_scan", cached, full, "s"), "comparator": "the full scan"},
    ]


def _version(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[0]
