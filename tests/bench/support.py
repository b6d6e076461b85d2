# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the benches share: the real environment, scans in fresh processes, alternating runs."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Optional

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / ".cache" / "bench"
RUNS = 5
FILE = "vllm/model_executor/models/deepseek_v2.py"
_REAL = ROOT / "tests" / "fixtures" / "real"
# One scan in a process of its own; its result as JSON on standard output.
_SCAN = """
import json, resource, sys
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import ScanOptions
from ansible_collections.pristine.vllm.plugins.module_utils.record.scan import scan
options = json.loads(sys.argv[1])
paths = options.pop("paths", None)
done = scan(ScanOptions(**options))
if paths:
    there = [path for path in done.expected.claims if path not in {finding.file for finding in done.result.findings}]
    with open(paths, "wb") as stream:
        stream.write(b"".join(path.encode("utf-8", "surrogateescape") + b"\\0" for path in there))
print(json.dumps({**done.result.summary.to_dict(), "warnings": done.result.warnings}))
"""

Entry = dict[str, Any]


class BenchError(Exception):
    """A message for whoever runs the bench."""


def entry(name: str, ours: float, theirs: float, unit: str, runs: int = RUNS) -> Entry:
    """A row of the table and of ``build/bench.json``."""
    return {"name": name, "ours": ours, "theirs": theirs, "ratio": ours / theirs, "unit": unit, "runs": runs}


def timed(command: Sequence[str], stdin: Optional[Path] = None) -> float:
    """The wall time of a command in seconds; its output is thrown away.

    :raises BenchError: it failed.
    """
    with open(stdin or os.devnull, "rb") as given:
        started = time.perf_counter()
        done = subprocess.run(command, check=False, stdin=given, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        seconds = time.perf_counter() - started
    if done.returncode:
        raise BenchError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.decode()[-500:]}")
    return seconds


def scan_command(environment: Path, **options: Any) -> list[str]:
    """The command that scans in a fresh process."""
    return [sys.executable, "-c", _SCAN, json.dumps({"environment": str(environment), **options})]


def scanned(environment: Path, **options: Any) -> dict[str, Any]:
    """The summary of a scan in a fresh process; ``seconds`` is the engine's own wall time.

    :raises BenchError: it failed.
    """
    done = subprocess.run(scan_command(environment, **options), check=False, capture_output=True, text=True)
    if done.returncode:
        raise BenchError(f"the scan of {environment} failed: {done.stderr[-2000:]}")
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def alternating(*measures: Callable[[], float], runs: int = RUNS) -> list[float]:
    """The median of each, measured in turn, after one round that nobody counts (it warms the page cache)."""
    rounds = [[measure() for measure in measures] for _run in range(runs + 1)][1:]
    return [statistics.median(values) for values in zip(*rounds)]


def real_environment() -> Path:
    """The stand-in nightly and all that it needs, installed by uv and byte-compiled as a release is; made once."""
    made_of = hashlib.sha256((_REAL / "lock.txt").read_bytes() + (_REAL / "build.py").read_bytes()).hexdigest()
    environment, stamp = BENCH / "env", BENCH / "env.json"
    if stamp.is_file() and json.loads(stamp.read_text(encoding="utf-8")) == made_of:
        return environment
    subprocess.run([sys.executable, str(_REAL / "build.py")], check=True, stdout=subprocess.DEVNULL)
    print("installing the real environment into .cache/bench (once, two minutes)", file=sys.stderr, flush=True)
    shutil.rmtree(BENCH, ignore_errors=True)
    BENCH.mkdir(parents=True)
    uv = str(Path(sys.executable).with_name("uv"))
    quiet = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_"))}
    nightly = next((ROOT / ".cache" / "real" / "wheels").glob("*+g662205d34*.whl"))
    install = [uv, "pip", "install", "--quiet", "--offline", "--no-index", "--no-cache", "--no-deps"]
    install += ["--link-mode", "copy", "--python", str(environment / "bin" / "python")]
    wheelhouse = [
        "--find-links",
        str(ROOT / ".cache" / "wheelhouse"),
        "--require-hashes",
        "-r",
        str(_REAL / "lock.txt"),
    ]
    for command in (
        [uv, "venv", "--quiet", "--no-project", "--python", sys.executable, str(environment)],
        [*install, *wheelhouse],
        [*install, str(nightly)],
        [str(environment / "bin" / "python"), "-m", "compileall", "-q", "-j0", str(environment / "lib")],
    ):
        # compileall ends with 1 where a package ships sources for other Pythons.
        if subprocess.run(command, check=False, env=quiet, stdout=subprocess.DEVNULL).returncode and command[0] == uv:
            raise BenchError(f"{' '.join(command)} failed")
    stamp.write_text(json.dumps(made_of), encoding="utf-8")
    return environment


def settle(environment: Path) -> None:
    """Wait until a cache may remember what was installed last: a minute after its times."""
    newest = max(path.lstat().st_ctime for path in environment.glob("lib/python3*/site-packages/*.dist-info"))
    while time.time() < newest + 61:
        time.sleep(0.5)
