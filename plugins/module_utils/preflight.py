# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that stands in the way of serving on this host, found in one pass: all of it, not the first one."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from ansible_collections.pristine.vllm.plugins.module_utils.command import Run, run
from ansible_collections.pristine.vllm.plugins.module_utils.preflight_access import check_access
from ansible_collections.pristine.vllm.plugins.module_utils.preflight_gpus import GpuNeed, check_gpus
from ansible_collections.pristine.vllm.plugins.module_utils.preflight_model import check_weights
from ansible_collections.pristine.vllm.plugins.module_utils.preflight_report import Finding, Findings
from ansible_collections.pristine.vllm.plugins.module_utils.release import environment_problem
from ansible_collections.pristine.vllm.plugins.module_utils.unit import UnitError, unit_problem, unit_state

_MIN_PYTHON = (3, 9)
# Isolated and without site: nothing that lies in its site-packages may run or be mistaken for the standard library.
_ASK_PYTHON = (
    "import json, sys, importlib.util as u; "
    "print(json.dumps({'version': list(sys.version_info[:3]), "
    "'missing': [m for m in ('venv', 'ensurepip', 'ssl', 'zlib') if u.find_spec(m) is None]}))"
)
_SHM_BYTES = 1 << 30


@dataclass(frozen=True)
class Need:
    """What the host must have. Sizes in bytes; an empty path or name and a 0 mean: do not look.

    The last three are where the kernel tells about itself.
    """

    root: str = ""
    python: str = ""
    model_path: str = ""
    user: str = ""
    unit: str = ""
    unit_required: bool = False
    environment: str = ""
    environment_required: bool = False
    min_disk_bytes: int = 0
    min_memory_bytes: int = 0
    gpus: GpuNeed = field(default_factory=GpuNeed)
    proc: str = "/proc"
    iommu_groups: str = "/sys/kernel/iommu_groups"
    shm: str = "/dev/shm"


def inspect(need: Need, run_command: Run = run) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """The blockers and the cautions. Reads only, and runs nothing but the interpreter, nvidia-smi and systemctl."""
    found = Findings()
    if need.python:
        _check_interpreter(need, found, run_command)
    if need.root:
        _check_disk(need, found)
    if need.min_memory_bytes:
        _check_memory(need, found)
    check_gpus(need.gpus, found, run_command)
    if need.model_path:
        check_weights(need.model_path, found)
    if need.model_path and need.user:
        check_access(need.model_path, need.user, found)
    if need.unit:
        _check_unit(need, found, run_command)
    if need.environment:
        _check_environment(need, found)
    if need.gpus.count > 1:
        _check_iommu(need, found)
        _check_shm(need, found)
    return tuple(found.blockers), tuple(found.cautions)


def _check_interpreter(need: Need, found: Findings, run_command: Run) -> None:
    advice = "Install python3 and python3-venv, or name another interpreter"

    def block(what: str, advice: str = advice) -> None:
        found.block("interpreter", need.python, what, advice)

    home = os.path.normpath(need.environment) if need.environment else ""
    if home and os.path.normpath(need.python).startswith(home + os.sep):
        return block(
            f"it belongs to the environment {home}, which is what is being checked",
            "Name the system's interpreter, e.g. /usr/bin/python3",
        )
    if not os.path.isfile(need.python):
        return block("it does not exist")
    done = run_command([need.python, "-I", "-S", "-c", _ASK_PYTHON])
    if done.failure is not None:
        return block(f"it does not run: {done.failure}")
    try:
        told = json.loads(done.stdout)
        version, missing = tuple(told["version"]), [str(name) for name in told["missing"]]
    except (ValueError, KeyError, TypeError):
        return block(f"it is no Python 3: it said {done.stdout.strip()[:100]!r}")
    if version < _MIN_PYTHON:
        block(f"it is Python {'.'.join(map(str, version))}, and 3.9 is the oldest that will do")
    if missing:
        block(f"it lacks {', '.join(missing)}, so it cannot make a virtual environment", "Install python3-venv")
    return None


def _check_disk(need: Need, found: Findings) -> None:
    place = os.path.abspath(need.root)
    while not os.path.exists(place):
        place = os.path.dirname(place)
    if not os.path.isdir(place):
        return found.block(
            "disk", need.root, f"{place} is not a directory", "Choose another root, or move that file away"
        )
    info = os.statvfs(place)
    free = info.f_bavail * info.f_frsize
    if free < need.min_disk_bytes:
        found.block(
            "disk",
            need.root,
            f"{_gb(free)} are free on the file system of {place}, and {_gb(need.min_disk_bytes)} are needed",
            "Make room, or choose a root on a larger file system",
        )
    return None


def _check_memory(need: Need, found: Findings) -> None:
    path = os.path.join(need.proc, "meminfo")
    total = 0
    try:
        with open(path, encoding="ascii", errors="replace") as stream:
            for line in stream:
                if line.startswith("MemTotal:"):
                    total = int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError) as error:
        return found.block("memory", path, f"the size of memory cannot be read: {error}", "See that /proc is mounted")
    if total < need.min_memory_bytes:
        found.block(
            "memory",
            path,
            f"the host has {_gb(total)} of memory, and {_gb(need.min_memory_bytes)} are needed to load the model",
            "Use a host with more memory, or lower the limit if the model is smaller",
        )
    return None


def _check_unit(need: Need, found: Findings, run_command: Run) -> None:
    try:
        state = unit_state(need.unit, run_command)
    except UnitError as error:
        return found.block("unit", need.unit, str(error), "Correct the unit's name, or boot the host with systemd")
    problem = unit_problem(state)
    if problem is not None and need.unit_required:
        advice = f"See `systemctl list-units --type=service --all` for the names, and `systemctl status {need.unit}`"
        return found.block("unit", need.unit, problem, advice)
    if state.load_state == "masked":
        return found.block("unit", need.unit, "it is masked, so nothing can start it", f"systemctl unmask {need.unit}")
    if problem is None and state.need_daemon_reload:
        found.caution(
            "unit", need.unit, "its file has changed and systemd has not read it again", "systemctl daemon-reload"
        )
    return None


def _check_environment(need: Need, found: Findings) -> None:
    ours = _ours(need)
    problem = environment_problem(ours or need.environment)
    if problem is not None and ours:
        what = f"what serves is damaged: {problem.replace(ours, 'it', 1)}"
        advice = (
            "A reinstall or a rollback leads away from it; should either fail, the service may not start from it again"
        )
        return found.caution("environment", ours, what, advice)
    # A bare host has none yet; a directory that is something else must not be taken over on any host.
    if problem is not None and (need.environment_required or os.path.exists(need.environment)):
        what = problem.replace(need.environment, "it", 1)
        found.block("environment", need.environment, what, "Give the root of the virtual environment that serves")
    return None


def _ours(need: Need) -> str:
    """The path of what serves where that is a release, or was before somebody damaged it; else empty.

    Nobody else's directory is taken over then, and a release is only replaced by another one.
    """
    if not need.root:
        return ""
    given, current = os.path.normpath(need.environment), os.path.join(need.root, "current")
    real, root = os.path.realpath(given), os.path.realpath(need.root)
    # Such as the link in the place of an environment that was adopted, with `current` gone.
    leads = os.path.islink(given) and real == os.path.join(root, "current")
    inside = os.path.lexists(given) and real.startswith(os.path.join(root, "releases") + os.sep)
    if not os.path.islink(current):
        return given if leads or inside else ""
    # With `current`, that is what serves, whatever became of an environment that did so before. What never was one is a
    # mistake all the same.
    known = leads or inside or real == os.path.realpath(current) or not os.path.lexists(given)
    return current if known or environment_problem(given) is None else ""


def _check_iommu(need: Need, found: Findings) -> None:
    """NCCL hangs or crawls where an IOMMU or ACS sends the traffic between GPUs through the CPU (nccl#1999)."""
    try:
        groups = os.listdir(need.iommu_groups)
        with open(os.path.join(need.proc, "cmdline"), encoding="utf-8", errors="replace") as stream:
            words = stream.read().split()
    except OSError:
        return
    if groups and not _iommu_off(words):
        found.caution(
            "iommu",
            os.path.join(need.proc, "cmdline"),
            "an IOMMU is on, and traffic between GPUs can hang or crawl behind it",
            "On bare metal boot with iommu=off (or amd_iommu=off, intel_iommu=off) and switch ACS off on the ports",
        )


def _iommu_off(words: Sequence[str]) -> bool:
    return any(word in ("iommu=off", "amd_iommu=off", "intel_iommu=off") for word in words)


def _check_shm(need: Need, found: Findings) -> None:
    """The ranks of one host exchange data through shared memory."""
    try:
        info = os.statvfs(need.shm)
    except OSError:
        return found.caution("shm", need.shm, "it is not there", "Mount a tmpfs on it")
    size = info.f_blocks * info.f_frsize
    if size < _SHM_BYTES:
        found.caution(
            "shm",
            need.shm,
            f"it holds {_gb(size)}, and {need.gpus.count} ranks exchange their data through it",
            "Mount it with size=8g or more",
        )
    return None


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
