# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pathlib

import pytest
from ansible_collections.pristine.vllm.tests.unit.plugins.record_support import INSTALLERS, Env, Templates


def pytest_configure(config: pytest.Config) -> None:
    """One process for all tests in ansible-test too: it forks for each, and each would make what a session shares."""
    forked = config.pluginmanager.get_plugin("ansible_forked")
    if forked is not None:
        config.pluginmanager.unregister(forked)


@pytest.fixture(scope="session")
def templates() -> Templates:
    """The demo wheel installed by pip and by uv. Tests copy an environment and leave these alone."""
    return Templates()


@pytest.fixture(scope="session")
def demo_wheel(templates: Templates) -> pathlib.Path:
    """A wheel with all that a wheel can have: awkward names, scripts, data, headers, entry points."""
    return templates.wheel


@pytest.fixture(params=INSTALLERS)
def env(request: pytest.FixtureRequest, templates: Templates, tmp_path: pathlib.Path) -> Env:
    """A fresh copy of an environment that an installer made; a test runs once for each installer."""
    return Env.copied(templates[request.param], tmp_path / "env")


@pytest.fixture
def pip_env(templates: Templates, tmp_path: pathlib.Path) -> Env:
    return Env.copied(templates["pip"], tmp_path / "env")


@pytest.fixture
def bare(tmp_path: pathlib.Path) -> Env:
    """An environment made by hand, for what no installer makes."""
    return Env.bare(tmp_path / "env")
