# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures this collection against what a user would pick instead: one table, and build/bench.json.

Each bench is a module here with `measure()`, which returns its rows. A row is better the smaller its ratio is.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from typing import Any

from ansible_collections.pristine.vllm.tests.bench.support import ROOT, BenchError

# What each module measures, and the most that a ratio may be.
BENCHES: dict[str, dict[str, float]] = {
    "full_scan": {"full_scan_vs_openssl": 1.25, "full_scan_vs_sha256sum": 0.4, "rescan_vs_full_scan": 0.303},
    "remote_diff": {"remote_diff_bytes_vs_wheel": 0.002},
    "one_file": {"one_file_vs_module_start": 0.1},
    "memory": {"scan_memory": 1.0, "scan_memory_growth": 1.1},
    "scan_effect": {"scan_effect_p99": 1.1, "scan_effect_throughput": 1.1},
    # A controller must not spend more on a host than the host would by itself.
    "controller": {"controller_seconds_per_host": 1.0},
    "downtime": {"downtime_vs_in_place": 0.1, "downtime_beyond_load": 1.0},
}
LIMITS = {name: limit for names in BENCHES.values() for name, limit in names.items()}


def chosen(only: str) -> list[str]:
    """The modules that measure what is asked for.

    :raises BenchError: there is no such bench.
    """
    wanted = set(only.split()) or set(LIMITS)
    if wanted - set(LIMITS):
        raise BenchError(f"no bench {', '.join(sorted(wanted - set(LIMITS)))}; there are {', '.join(LIMITS)}")
    return [module for module, names in BENCHES.items() if wanted & set(names)]


def run(only: str) -> list[dict[str, Any]]:
    """The rows that are asked for."""
    wanted = only.split()
    rows = []
    for name in chosen(only):
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        module = importlib.import_module(f"ansible_collections.pristine.vllm.tests.bench.{name}")
        rows += [row for row in module.measure() if not wanted or row["name"] in wanted]
    return rows


def number(value: float, unit: str) -> str:
    """A value as the table shows it."""
    return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.3f} {unit}" if value < 100 else f"{value:.0f} {unit}"


def table(rows: list[dict[str, Any]]) -> list[str]:
    """One line for each row, and its remarks below it."""
    lines = [f"{'bench':<28} {'ours':>14} {'theirs':>16} {'ratio':>8} {'at most':>8}  against"]
    for row in rows:
        ratio, limit = row["ratio"], LIMITS[row["name"]]
        values = f"{number(row['ours'], row['unit']):>14} {number(row['theirs'], row['unit']):>16}"
        told = f"{ratio:>8.4f} {limit:>8}{' ' if ratio <= limit else '!'}"
        lines.append(f"{row['name']:<28} {values} {told} {row.get('comparator', '')}")
        if row.get("of"):
            lines.append(f"{'':<28} {row['of']}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--only", default="", help="names of benches")
    try:
        rows = run(parser.parse_args().only)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build" / "bench.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    load = os.getloadavg()[1]
    print("\n".join(table(rows)))
    print(f"medians, alternating, page cache warm, {os.cpu_count()} cores; load of the last five minutes {load:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
