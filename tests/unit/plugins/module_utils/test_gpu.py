# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.gpu import (
    ComputeApp,
    Driver,
    Gpu,
    read_report,
    version_tuple,
)
from ansible_collections.pristine.vllm.tests.unit.plugins.service_support import ROOT

OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@x)  Tue Sep 23\n"
)
CLOSED = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024\nGCC version: 12.2.0\n"
)


@pytest.fixture
def driver_file(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "version"
    path.write_text(OPEN, encoding="utf-8")
    return path


def smi(tmp_path: pathlib.Path, gpus: str, apps: str = "") -> str:
    path = tmp_path / "nvidia-smi"
    path.write_text(
        f"#!/bin/sh\ncase $1 in --query-gpu=*) {gpus} ;; --query-compute-apps=*) {apps or ':'} ;; esac\n",
        encoding="utf-8",
    )
    path.chmod(0o755)
    return str(path)


def test_the_stand_in_answers_what_is_asked() -> None:
    fixtures = ROOT / "tests/fixtures"
    report = read_report(str(fixtures / "nvidia-smi"), str(fixtures / "driver-version"))
    assert report.problem is None
    assert len(report.gpus) == 8
    assert report.gpus[7] == Gpu(
        index=7,
        name="NVIDIA RTX PRO 6000 Blackwell Server Edition",
        compute_cap="12.0",
        memory_total_mib=97887,
        memory_used_mib=report.gpus[7].memory_used_mib,
        driver_version="580.95.05",
        persistence_mode=True,
        power_limit_watts=600.0,
    )
    assert report.driver == Driver("580.95.05", True)


def test_what_the_driver_does_not_tell(tmp_path: pathlib.Path, driver_file: pathlib.Path) -> None:
    gpus = "echo '0, NVIDIA GB10, [N/A], [N/A], [Not Supported], 580.95.05, Disabled, [Insufficient Permissions]'"
    report = read_report(smi(tmp_path, gpus, "echo '12, [N/A]'; echo '13, 97'"), str(driver_file))
    assert report.gpus == (Gpu(0, "NVIDIA GB10", None, None, None, "580.95.05", False, None),)
    assert report.compute_apps == (ComputeApp(12, None), ComputeApp(13, 97))
    assert report.problem is None


def test_a_proprietary_module(tmp_path: pathlib.Path, driver_file: pathlib.Path) -> None:
    driver_file.write_text(CLOSED, encoding="utf-8")
    assert read_report(smi(tmp_path, ":"), str(driver_file)).driver == Driver("550.54.14", False)


@pytest.mark.parametrize(
    ("gpus", "wanted"),
    [
        ("echo 'No devices were found'", "'No devices were found' where 8 columns were expected"),
        (
            'echo "NVIDIA-SMI has failed because it couldn\'t communicate"; exit 9',
            "ended with status 9: NVIDIA-SMI has",
        ),
    ],
)
def test_a_driver_that_does_not_work(tmp_path: pathlib.Path, driver_file: pathlib.Path, gpus: str, wanted: str) -> None:
    report = read_report(smi(tmp_path, gpus), str(driver_file))
    assert report.gpus == ()
    assert report.problem is not None
    assert wanted in report.problem


def test_a_host_without_any(tmp_path: pathlib.Path) -> None:
    report = read_report("/nonexistent/nvidia-smi", str(tmp_path / "none"))
    assert report.gpus == ()
    assert report.compute_apps == ()
    assert report.driver == Driver(None, None)
    assert report.problem is not None
    assert "cannot run /nonexistent/nvidia-smi" in report.problem
    assert "is the NVIDIA kernel module loaded?" in report.problem


def test_a_file_that_is_no_driver_version(tmp_path: pathlib.Path, driver_file: pathlib.Path) -> None:
    driver_file.write_text("GCC version: 12.2.0\n", encoding="utf-8")
    report = read_report(smi(tmp_path, ":"), str(driver_file))
    assert report.problem == f"{driver_file} has no line 'NVRM version: ...' that names a version"


def test_versions_compare_as_numbers() -> None:
    assert version_tuple("580.95.05") == (580, 95, 5)
    assert version_tuple("580.105.08") > version_tuple("580.95.05")
    assert version_tuple("12.0") > version_tuple("9.0")
    assert version_tuple("595.x") < version_tuple("595.1")
