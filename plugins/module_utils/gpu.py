# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ``nvidia-smi`` and the driver say about the GPUs, as data."""

from __future__ import annotations

import csv
import os
import re
from dataclasses import dataclass
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.command import Run, run

_GPU_FIELDS = (
    "index",
    "name",
    "compute_cap",
    "memory.total",
    "memory.used",
    "driver_version",
    "persistence_mode",
    "power.limit",
)
_APP_FIELDS = ("pid", "used_memory")
_VERSION = re.compile(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b")
# nvidia-smi takes seconds to start the driver where no process keeps it loaded, times the number of GPUs.
_TIMEOUT = 60.0


@dataclass(frozen=True)
class Gpu:
    """One GPU. Memory in MiB, power in watts; None where the driver does not say."""

    index: int
    name: str
    compute_cap: Optional[str]
    memory_total_mib: Optional[int]
    memory_used_mib: Optional[int]
    driver_version: Optional[str]
    persistence_mode: Optional[bool]
    power_limit_watts: Optional[float]


@dataclass(frozen=True)
class ComputeApp:
    """A process that computes on a GPU, and the memory it holds there in MiB (None where the driver does not say)."""

    pid: int
    used_mib: Optional[int]


@dataclass(frozen=True)
class Driver:
    """The kernel driver's version and whether it is the open one, which Blackwell needs; None when not known."""

    version: Optional[str]
    open_kernel_module: Optional[bool]


@dataclass(frozen=True)
class GpuReport:
    """All of it. ``problem`` says in one sentence what could not be read, and then the lists may be empty."""

    gpus: tuple[Gpu, ...]
    driver: Driver
    compute_apps: tuple[ComputeApp, ...]
    problem: Optional[str]


def read_report(command: str, driver_file: str, run_command: Run = run) -> GpuReport:
    """Ask ``command`` (nvidia-smi or what stands for it) and read ``driver_file``. Never raises."""
    problems: list[str] = []
    gpus = read_gpus(command, problems, run_command)
    apps = read_compute_apps(command, problems, run_command) if gpus else ()
    return GpuReport(gpus, read_driver(driver_file, problems), apps, "; ".join(problems) or None)


def read_gpus(command: str, problems: list[str], run_command: Run = run) -> tuple[Gpu, ...]:
    """The GPUs, in nvidia-smi's order; what goes wrong is added to ``problems``."""
    gpus: list[Gpu] = []
    for row in _query(command, "gpu", _GPU_FIELDS, problems, run_command):
        index = _integer(row["index"])
        if index is None:
            problems.append(f"{command} gave a GPU without an index: {row}")
            continue
        gpus.append(
            Gpu(
                index=index,
                name=row["name"],
                compute_cap=_known(row["compute_cap"]),
                memory_total_mib=_integer(row["memory.total"]),
                memory_used_mib=_integer(row["memory.used"]),
                driver_version=_known(row["driver_version"]),
                persistence_mode={"Enabled": True, "Disabled": False}.get(row["persistence_mode"]),
                power_limit_watts=_number(row["power.limit"]),
            )
        )
    return tuple(gpus)


def read_compute_apps(command: str, problems: list[str], run_command: Run = run) -> tuple[ComputeApp, ...]:
    """The processes that compute on a GPU, one entry for each process and GPU."""
    apps: list[ComputeApp] = []
    for row in _query(command, "compute-apps", _APP_FIELDS, problems, run_command):
        pid = _integer(row["pid"])
        if pid is not None:
            apps.append(ComputeApp(pid, _integer(row["used_memory"])))
    return tuple(apps)


def read_driver(path: str, problems: list[str]) -> Driver:
    """The driver as its file in /proc names it, e.g. ``NVIDIA UNIX Open Kernel Module for x86_64  580.95.05``."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            text = stream.read(4096)
    except OSError as error:
        problems.append(f"cannot read {path}: {error.strerror} (is the NVIDIA kernel module loaded?)")
        return Driver(None, None)
    line = next((line for line in text.splitlines() if line.startswith("NVRM version:")), "")
    version = _VERSION.search(line)
    if version is None:
        problems.append(f"{path} has no line 'NVRM version: ...' that names a version")
        return Driver(None, None)
    return Driver(version.group(1), "Open Kernel Module" in line)


def version_tuple(text: str) -> tuple[int, ...]:
    """``580.95.05`` as numbers that compare; what is no number counts as 0."""
    return tuple(int(part) if part.isdigit() else 0 for part in text.split("."))


def _query(
    command: str, what: str, fields: tuple[str, ...], problems: list[str], run_command: Run
) -> list[dict[str, str]]:
    argv = [os.path.expanduser(command), f"--query-{what}={','.join(fields)}", "--format=csv,noheader,nounits"]
    done = run_command(argv, timeout=_TIMEOUT)
    if done.failure is not None:
        problems.append(done.failure)
        return []
    rows: list[dict[str, str]] = []
    for cells in csv.reader(done.stdout.splitlines(), skipinitialspace=True):
        if len(cells) == len(fields):
            rows.append({field: cell.strip() for field, cell in zip(fields, cells)})
        elif cells:
            # e.g. "No devices were found", with status 0 on some drivers.
            problems.append(f"{command} gave {', '.join(cells)!r} where {len(fields)} columns were expected")
    return rows


def _known(cell: str) -> Optional[str]:
    """None for [N/A], [Not Supported], [Insufficient Permissions] and the like."""
    return None if not cell or cell.startswith("[") or cell == "N/A" else cell


def _integer(cell: str) -> Optional[int]:
    return int(cell) if cell.isdigit() else None


def _number(cell: str) -> Optional[float]:
    try:
        return float(cell)
    except ValueError:
        return None
