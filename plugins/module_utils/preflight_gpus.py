# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the GPUs and their driver can serve."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.pristine.vllm.plugins.module_utils.command import Run, run
from ansible_collections.pristine.vllm.plugins.module_utils.gpu import (
    Driver,
    Gpu,
    read_driver,
    read_gpus,
    version_tuple,
)
from ansible_collections.pristine.vllm.plugins.module_utils.preflight_report import Findings

# From compute capability 10 on the proprietary kernel module does not drive the device at all.
_OPEN_MODULE_FROM = (10, 0)


@dataclass(frozen=True)
class GpuNeed:
    """How many GPUs of what kind under which driver; with ``count`` 0 nothing is looked at."""

    count: int = 0
    min_driver: str = "580.95.05"
    min_compute_cap: str = "12.0"
    command: str = "nvidia-smi"
    driver_file: str = "/proc/driver/nvidia/version"


def check_gpus(need: GpuNeed, found: Findings, run_command: Run = run) -> None:
    """Compare what the driver tells with what is needed."""
    if need.count <= 0:
        return
    problems: list[str] = []
    driver = read_driver(need.driver_file, problems)
    gpus = read_gpus(need.command, problems, run_command)
    if problems:
        found.block(
            "gpus",
            need.command if not gpus else need.driver_file,
            "; ".join(problems),
            f"Install driver {need.min_driver} or newer with the open kernel modules, and reboot",
        )
    _check_driver(need, driver, found)
    if gpus:
        _check_devices(need, gpus, found)


def _check_driver(need: GpuNeed, driver: Driver, found: Findings) -> None:
    if driver.version is not None and version_tuple(driver.version) < version_tuple(need.min_driver):
        found.block(
            "driver",
            need.driver_file,
            f"the driver is {driver.version}, and {need.min_driver} is the oldest that will do",
            f"Install driver {need.min_driver} or newer, and reboot",
        )
    if driver.open_kernel_module is False and version_tuple(need.min_compute_cap) >= _OPEN_MODULE_FROM:
        found.block(
            "driver",
            need.driver_file,
            "the kernel module is the proprietary one, and Blackwell requires the open one",
            "Install the open kernel modules of the same driver version (nvidia-open), and reboot",
        )


def _check_devices(need: GpuNeed, gpus: tuple[Gpu, ...], found: Findings) -> None:
    if len(gpus) < need.count:
        found.block(
            "gpus",
            need.command,
            f"{len(gpus)} GPUs are there, and {need.count} are needed",
            "See `dmesg` for a GPU that fell off the bus, or set vllm_gpu_count to what the host has",
        )
    least = version_tuple(need.min_compute_cap)
    weak = [gpu for gpu in gpus if gpu.compute_cap is not None and version_tuple(gpu.compute_cap) < least]
    if len(gpus) - len(weak) < need.count and weak:
        names = ", ".join(f"{gpu.index}: {gpu.name} ({gpu.compute_cap})" for gpu in weak)
        found.block(
            "gpus",
            need.command,
            f"below compute capability {need.min_compute_cap}: {names}",
            "Use a host with GPUs of the kind that this release is built for",
        )
    idle = [str(gpu.index) for gpu in gpus if gpu.persistence_mode is False]
    if idle:
        found.caution(
            "gpus",
            need.command,
            f"persistence mode is off on GPU {', '.join(idle)}: the driver unloads and loses its settings between runs",
            "Enable the unit nvidia-persistenced",
        )
