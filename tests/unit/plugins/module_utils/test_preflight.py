# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import pathlib
import sys
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.preflight import Need, inspect
from ansible_collections.pristine.vllm.plugins.module_utils.preflight_gpus import GpuNeed
from ansible_collections.pristine.vllm.plugins.module_utils.preflight_report import Finding
from ansible_collections.pristine.vllm.tests.unit.plugins.service_support import UNIT, FakeSystemd

# The interpreter that the test environment was made from: it has venv and ensurepip, and is not an environment's own.
PYTHON = os.path.join(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
GPU = "{index}, NVIDIA RTX PRO 6000 Blackwell Server Edition, {cap}, 97887, 2, {driver}, {persistence}, 600.00"


@dataclass
class Host:
    """A host on which all is well, made of real files; a test spoils what it is about."""

    directory: pathlib.Path
    systemd: FakeSystemd
    more: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        model, environment = self.directory / "model", self.directory / "env"
        for path in (
            model,
            environment / "lib/python3.12/site-packages",
            environment / "bin",
            self.directory / "proc",
            self.directory / "iommu",
        ):
            path.mkdir(parents=True)
        (model / "config.json").write_text('{"model_type": "kimi_k25"}', encoding="utf-8")
        shards = {f"layer.{number}": f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3)}
        (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}), encoding="utf-8")
        for name in shards.values():
            (model / name).write_bytes(b"weights")
        (environment / "bin/python").symlink_to(PYTHON)
        (environment / "pyvenv.cfg").write_text("home = /usr/bin\n", encoding="utf-8")
        (self.directory / "proc/meminfo").write_text("MemTotal:  2113000000 kB\nMemFree: 1 kB\n", encoding="utf-8")
        (self.directory / "proc/cmdline").write_text("BOOT_IMAGE=/vmlinuz root=/dev/sda ro quiet\n", encoding="utf-8")
        self.driver("NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build")
        self.gpus()

    def gpus(self, count: int = 8, cap: str = "12.0", driver: str = "580.95.05", persistence: str = "Enabled") -> None:
        rows = [GPU.format(index=index, cap=cap, driver=driver, persistence=persistence) for index in range(count)] or [
            "No devices were found"
        ]
        self.systemd.program("nvidia-smi", "cat <<'END'\n" + "\n".join(rows) + "\nEND\n")

    def driver(self, text: str) -> None:
        (self.directory / "version").write_text(f"NVRM version: {text}\n", encoding="utf-8")

    def need(self) -> Need:
        gpus = GpuNeed(count=8, driver_file=str(self.directory / "version"))
        need = Need(
            root=str(self.directory / "not/yet/there"),
            python=PYTHON,
            model_path=str(self.directory / "model"),
            unit=UNIT,
            unit_required=True,
            environment=str(self.directory / "env"),
            environment_required=True,
            min_disk_bytes=1,
            min_memory_bytes=64 * 10**9,
            gpus=gpus,
            proc=str(self.directory / "proc"),
            iommu_groups=str(self.directory / "iommu"),
        )
        return replace(need, **self.more)

    def blockers(self) -> tuple[Finding, ...]:
        return inspect(self.need())[0]

    def cautions(self) -> dict[str, Finding]:
        # How large /dev/shm is depends on the machine that runs the tests.
        return {finding.check: finding for finding in inspect(self.need())[1] if finding.check != "shm"}

    def blocker(self) -> Finding:
        found = self.blockers()
        assert len(found) == 1, found
        assert found[0].what
        assert found[0].next
        return found[0]


@pytest.fixture
def host(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, FakeSystemd(tmp_path / "systemd", monkeypatch.setenv))


def test_a_host_on_which_all_is_well(host: Host) -> None:
    assert host.blockers() == ()
    assert host.cautions() == {}


def test_nothing_asked_is_nothing_found() -> None:
    assert inspect(Need()) == ((), ())


def test_all_blockers_at_once(host: Host) -> None:
    host.more = {
        "python": "/nonexistent/python3",
        "min_disk_bytes": 10**18,
        "min_memory_bytes": 10**16,
        "environment": str(host.directory),
    }
    host.gpus(count=4)
    host.driver("NVIDIA UNIX x86_64 Kernel Module  570.124.06  Release Build")
    host.systemd.set(LoadState="not-found")
    (host.directory / "model/config.json").unlink()
    found = host.blockers()
    names = [finding.check for finding in found]
    assert names == ["interpreter", "disk", "memory", "driver", "driver", "gpus", "weights", "unit", "environment"]
    assert all(finding.where and finding.what and finding.next for finding in found)


def test_an_interpreter_without_its_library(host: Host) -> None:
    host.systemd.program("python3", 'echo \'{"version": [3, 11, 2], "missing": ["venv", "ensurepip"]}\'\n')
    host.more = {"python": str(host.systemd.bin / "python3")}
    found = host.blocker()
    assert (found.check, found.next) == ("interpreter", "Install python3-venv")
    assert found.what == "it lacks venv, ensurepip, so it cannot make a virtual environment"


@pytest.mark.parametrize(
    ("script", "wanted"),
    [
        ('echo \'{"version": [3, 8, 18], "missing": []}\'', "it is Python 3.8.18, and 3.9 is the oldest"),
        ("echo hello", "it is no Python 3: it said 'hello'"),
        ("echo broken >&2; exit 1", "it does not run: "),
    ],
)
def test_an_interpreter_that_will_not_do(host: Host, script: str, wanted: str) -> None:
    host.systemd.program("python3", script + "\n")
    host.more = {"python": str(host.systemd.bin / "python3")}
    assert host.blocker().what.startswith(wanted)


def test_the_interpreter_of_the_very_environment(host: Host) -> None:
    path = host.directory / "env/bin/python3"
    path.symlink_to(PYTHON)
    host.more = {"python": str(path)}
    assert "it belongs to the environment" in host.blocker().what


def test_a_full_disk_names_what_is_missing(host: Host) -> None:
    host.more = {"min_disk_bytes": 10**18}
    found = host.blocker()
    assert found.check == "disk"
    assert f"GB are free on the file system of {host.directory}, and 1000000000.0 GB are needed" in found.what


def test_a_root_below_a_file(host: Host) -> None:
    host.more = {"root": str(host.directory / "version/x")}
    assert host.blocker().what == f"{host.directory}/version is not a directory"


def test_too_little_memory(host: Host) -> None:
    host.more = {"min_memory_bytes": 3 * 10**12}
    assert host.blocker().what.startswith("the host has 2163.7 GB of memory, and 3000.0 GB are needed")


def test_no_gpu_is_asked_for_none(host: Host) -> None:
    host.more = {"gpus": GpuNeed(count=0, command="/nonexistent/nvidia-smi", driver_file="/nonexistent")}
    assert host.blockers() == ()


def test_no_driver(host: Host) -> None:
    """The proprietary module drives no Blackwell (amazon-eks-ami#2768): no devices."""
    host.gpus(count=0)
    found = host.blocker()
    assert "No devices were found" in found.what
    assert "open kernel modules" in found.next


def test_too_few_gpus(host: Host) -> None:
    host.gpus(count=7)
    assert host.blocker().what == "7 GPUs are there, and 8 are needed"


def test_gpus_of_another_kind(host: Host) -> None:
    host.gpus(cap="9.0")
    assert "below compute capability 12.0: 0: NVIDIA RTX PRO 6000" in host.blocker().what


def test_an_old_driver(host: Host) -> None:
    host.driver("NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build")
    assert host.blocker().what == "the driver is 570.124.06, and 580.95.05 is the oldest that will do"


def test_the_proprietary_module(host: Host) -> None:
    host.driver("NVIDIA UNIX x86_64 Kernel Module  595.12  Release Build")
    assert host.blocker().what == "the kernel module is the proprietary one, and Blackwell requires the open one"


def test_persistence_mode_is_a_caution(host: Host) -> None:
    host.gpus(persistence="Disabled")
    assert host.blockers() == ()
    assert "persistence mode is off on GPU 0, 1, 2" in host.cautions()["gpus"].what


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("config.json", None, "there is no such file"),
        ("config.json", "{", "it is not JSON: "),
        ("config.json", "[]", "it is JSON, but not an object"),
        ("model.safetensors.index.json", "not json", "it is not JSON: "),
        ("model.safetensors.index.json", "{}", "it has no weight_map that names shards"),
        (
            "model-00002-of-00003.safetensors",
            None,
            "1 of 3 shards cannot be loaded: model-00002-of-00003.safetensors is missing",
        ),
        (
            "model-00002-of-00003.safetensors",
            "",
            "1 of 3 shards cannot be loaded: model-00002-of-00003.safetensors is empty",
        ),
    ],
)
def test_a_model_that_cannot_be_loaded(host: Host, name: str, content: str, wanted: str) -> None:
    path = host.directory / "model" / name
    path.unlink()
    if content is not None:
        path.write_text(content, encoding="utf-8")
    found = host.blocker()
    assert found.check == "weights"
    assert found.what.startswith(wanted)


def test_shards_in_a_cache(host: Host) -> None:
    """Links into blobs count as what they lead to."""
    blobs = host.directory / "blobs"
    blobs.mkdir()
    (host.directory / "model/model-00001-of-00003.safetensors").rename(blobs / "abc")
    (host.directory / "model/model-00001-of-00003.safetensors").symlink_to("../blobs/abc")
    assert host.blockers() == ()
    (blobs / "abc").unlink()
    assert "model-00001-of-00003.safetensors is a link to nothing" in host.blocker().what


def test_a_model_without_weights_is_a_caution(host: Host) -> None:
    for path in (host.directory / "model").iterdir():
        if path.name != "config.json":
            path.unlink()
    assert host.blockers() == ()
    assert "weights" in host.cautions()


@pytest.mark.parametrize(
    ("path", "wanted"), [("relative", "not an absolute path"), ("/nonexistent/model", "no such folder")]
)
def test_a_model_that_is_not_there(host: Host, path: str, wanted: str) -> None:
    host.more = {"model_path": path}
    assert wanted in host.blocker().what


def test_a_unit_that_need_not_be_there_yet(host: Host) -> None:
    host.systemd.set(LoadState="not-found")
    assert host.blocker().what == "systemd knows no unit of that name"
    host.more = {"unit_required": False}
    assert host.blockers() == ()
    host.systemd.set(LoadState="masked")
    assert host.blocker().what == "it is masked, so nothing can start it"


def test_a_unit_that_systemd_has_not_read_again(host: Host) -> None:
    host.systemd.set(NeedDaemonReload="yes")
    assert host.cautions()["unit"].next == "systemctl daemon-reload"


def test_a_host_without_systemd(host: Host) -> None:
    host.systemd.program("systemctl", "echo 'System has not been booted with systemd' >&2; exit 1\n")
    assert "System has not been booted with systemd" in host.blocker().what


def test_what_is_no_environment(host: Host) -> None:
    host.more = {"environment": str(host.directory / "model")}
    assert "it has no pyvenv.cfg" in host.blocker().what
    host.more = {"environment": str(host.directory / "none")}
    assert host.blocker().what == "it is not there"
    host.more["environment_required"] = False
    assert host.blockers() == ()
    # What is there must not be taken over, required or not.
    host.more["environment"] = str(host.directory / "version")
    assert host.blocker().what == "it is not a directory"
    (host.directory / "env/lib/python3.12").rename(host.directory / "env/lib/other")
    host.more = {}
    assert host.blocker().what == "it has no lib/python3*/site-packages"
    (host.directory / "env/lib/other").rename(host.directory / "env/lib/python3.12")
    (host.directory / "env/bin/python").unlink()
    assert host.blocker().what == "it has no bin/python that runs"


@pytest.mark.parametrize("name", ["current", "adopted", "adopted and no current", "the release", "elsewhere"])
def test_a_damaged_release_is_a_caution(host: Host, name: str) -> None:
    """What repairs it must not be refused because of it."""
    root, adopted = host.directory / "root", host.directory / "ml-env"
    release = root / "releases" / "v-1"
    release.parent.mkdir(parents=True)
    (host.directory / "env").rename(release)
    (root / "current").symlink_to("releases/v-1")
    adopted.symlink_to(root / "current")
    host.more = {"root": str(root), "environment": str(root / "current")}
    if name.startswith("adopted"):
        host.more["environment"] = f"{adopted}/"
    assert host.blockers() == ()
    assert "environment" not in host.cautions()
    (release / "bin" / "python").unlink()
    (release / "bin" / "python").symlink_to("/nonexistent/python3")
    if name == "adopted and no current":
        (root / "current").unlink()
    if name == "the release":
        (root / "current").unlink()
        host.more["environment"] = str(release)
    if name == "elsewhere":
        # Such as one that could not be moved, and that somebody has removed since: the link says what serves.
        host.more["environment"] = str(host.directory / "gone")
    for required in (True, False):
        host.more["environment_required"] = required
        assert host.blockers() == ()
        caution = host.cautions()["environment"]
        assert caution.what.startswith("what serves is damaged: it ")
        assert "A reinstall or a rollback leads away from it" in caution.next
    host.more = {"root": str(root), "environment": str(host.directory / "model")}
    assert host.blocker().what == "it has no pyvenv.cfg", "that never was one"
    host.more = {"root": str(root), "environment": str(root / "releases" / "typo")}
    (root / "current").unlink(missing_ok=True)
    assert host.blocker().what == "it is not there"


@pytest.mark.parametrize(("word", "wanted"), [("quiet", True), ("amd_iommu=off", False), ("iommu=pt", True)])
def test_an_iommu_is_a_caution(host: Host, word: str, wanted: bool) -> None:
    (host.directory / "iommu/0").mkdir()
    (host.directory / "proc/cmdline").write_text(f"ro {word}\n", encoding="utf-8")
    assert host.blockers() == ()
    assert ("iommu" in host.cautions()) is wanted
