# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib

import pytest
from ansible_collections.pristine.vllm.tests.unit.plugins.record_support import Env, build_wheel, make_environment

INSTALLERS = ("pip", "uv-copy", "uv-hardlink")


@pytest.fixture(scope="session")
def demo_wheel(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A wheel with all that a wheel can have: awkward names, scripts, data, headers, entry points."""
    return build_wheel(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory, demo_wheel: pathlib.Path) -> dict[str, pathlib.Path]:
    """The wheel installed by pip and by uv, once for all tests."""
    base = tmp_path_factory.mktemp("templates")
    return {name: make_environment(base / name, name, demo_wheel) for name in (*INSTALLERS, "uv-symlink")}


@pytest.fixture(params=INSTALLERS)
def env(request: pytest.FixtureRequest, templates: dict[str, pathlib.Path], tmp_path: pathlib.Path) -> Env:
    """A fresh copy of an environment that an installer made; a test runs once for each installer."""
    return Env.copied(templates[request.param], tmp_path / "env")


@pytest.fixture
def pip_env(templates: dict[str, pathlib.Path], tmp_path: pathlib.Path) -> Env:
    return Env.copied(templates["pip"], tmp_path / "env")


@pytest.fixture
def bare(tmp_path: pathlib.Path) -> Env:
    """An environment made by hand, for what no installer makes."""
    return Env.bare(tmp_path / "env")
