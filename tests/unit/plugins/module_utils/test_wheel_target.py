# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_name import parse_wheel_name
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_target import (
    Target,
    describe,
    fits_python,
    target_of,
    this_glibc,
)

HOST = Target("x86_64", (3, 12), (2, 36))


@pytest.mark.parametrize(
    ("tags", "misfit"),
    [
        ("cp38-abi3-manylinux_2_31_x86_64", ""),
        ("cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64", ""),
        ("cp312-cp312-manylinux1_x86_64", ""),
        ("cp312-cp312-linux_x86_64", ""),
        ("py3-none-any", ""),
        ("py2.py3-none-any", ""),
        ("cp312-none-any", ""),
        ("py3-none-manylinux_2_28_x86_64", ""),
        ("cp38-abi3-manylinux_2_31_aarch64", "machine"),
        ("cp38-abi3-win_amd64", "machine"),
        ("cp38-abi3-manylinux_2_39_x86_64", "glibc"),
        ("cp38-abi3-musllinux_1_2_x86_64", "glibc"),
        ("cp313-abi3-manylinux_2_31_x86_64", "python"),
        ("cp311-cp311-manylinux_2_31_x86_64", "python"),
        ("cp312-cp312t-manylinux_2_31_x86_64", "python"),
        ("py2-none-any", "python"),
        ("py313-none-any", "python"),
        ("cp311-none-any", "python"),
        ("pp310-pypy310_pp73-manylinux_2_31_x86_64", "python"),
    ],
)
def test_what_a_wheel_is_for(tags: str, misfit: str) -> None:
    name = parse_wheel_name(f"vllm-0.16.0-{tags}.whl")
    assert name is not None
    assert HOST.misfit(name) == misfit


def test_what_is_not_known_is_not_compared() -> None:
    name = parse_wheel_name("vllm-0.16.0-cp399-cp399-manylinux_2_99_x86_64.whl")
    assert name is not None
    assert Target("x86_64").misfit(name) == ""
    assert not fits_python(name, (3, 12))


def test_what_pip_is_told() -> None:
    tags = Target("aarch64", (3, 12), (2, 18)).platforms
    assert tags[:2] == ["manylinux_2_18_aarch64", "manylinux_2_17_aarch64"]
    assert tags[-4:] == ["manylinux2014_aarch64", "manylinux2010_aarch64", "manylinux1_aarch64", "linux_aarch64"]
    assert "manylinux_2_19_aarch64" not in tags


def test_a_target_as_options() -> None:
    assert target_of(describe(HOST)) == HOST
    assert target_of({"machine": "riscv64"}) == Target("riscv64")
    glibc = this_glibc()
    assert glibc is None or glibc >= (2, 17)
