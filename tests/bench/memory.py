# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory that a scan takes, its workers included, and how that grows with the number of files."""

from __future__ import annotations

import base64
import hashlib
import shutil
import statistics
import subprocess
import time
from pathlib import Path

from ansible_collections.pristine.vllm.tests.bench.support import (
    BENCH,
    RUNS,
    BenchError,
    Entry,
    entry,
    real_environment,
    scan_command,
)

LIMIT_MB = 150
_FILES = 5000


def measure() -> list[Entry]:
    """Proportional set sizes, summed over the scan's processes, at their peak; looked at every few milliseconds."""
    environment, cache = real_environment(), str(BENCH / "memory-cache")
    peak = statistics.median(max(_peak(environment), _peak(environment, cache=cache)) for _run in range(RUNS))
    small, tenfold, bare = (_synthetic(count) for count in (_FILES, _FILES * 10, 1))
    try:
        least, one, ten = (statistics.median(_peak(tree) for _run in range(3)) for tree in (bare, small, tenfold))
    finally:
        for tree in (small, tenfold, bare):
            shutil.rmtree(tree)
    growth = entry("scan_memory_growth", ten - least, 10 * (one - least), "MB", 3)
    return [
        {**entry("scan_memory", peak, LIMIT_MB, "MB"), "comparator": "the limit"},
        {**growth, "comparator": "ten times that of a tenth of the files", "of": f"{_FILES} and {_FILES * 10} files"},
    ]


def _peak(environment: Path, **options: str) -> float:
    """In MB. :raises BenchError: the scan failed."""
    process = subprocess.Popen(scan_command(environment, **options), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    highest = 0
    while process.poll() is None:
        highest = max(highest, sum(_pss(one) for one in (process.pid, *_children(process.pid))))
        time.sleep(0.004)
    _out, said = process.communicate()
    if process.returncode:
        raise BenchError(f"the scan of {environment} failed: {said.decode()[-2000:]}")
    return highest / 1000


def _children(pid: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _pss(pid: int) -> int:
    """In kB; 0 for a process that is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 // 1000 for line in lines if line.startswith("Pss:")), 0)


def _synthetic(files: int) -> Path:
    """An environment with so many small files."""
    root = BENCH / f"synthetic-{files}"
    shutil.rmtree(root, ignore_errors=True)
    site = root / "lib" / "python3.11" / "site-packages"
    info = site / "many-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: many\nVersion: 1.0\n")
    rows = []
    for number in range(files):
        data = b"value = %d\n" % number
        name = f"many/package_{number % 500}/a_module_with_a_name_{number}.py"
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_bytes(data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        rows.append(f"{name},sha256={digest},{len(data)}\n")
    (info / "RECORD").write_text("".join(rows))
    return root
