# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import subprocess
import sys

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.lock_settings import (
    parse_settings,
    uv_variables,
    without_index,
)


def listing(**variables: str) -> str:
    """What a real pip says of these settings."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PIP_CONFIG_FILE": os.devnull, **variables}
    argv = [sys.executable, "-I", "-m", "pip", "config", "list"]
    return subprocess.run(argv, env=environment, check=True, capture_output=True, text=True).stdout


def test_as_pip_prints_them() -> None:
    settings = parse_settings(
        listing(
            PIP_INDEX_URL="https://user:it's@packages.example.com/simple",
            PIP_EXTRA_INDEX_URL="https://one.example.com/ https://two.example.com/",
            PIP_FIND_LINKS="/srv/wheels\n/mnt/wheels",
            PIP_TRUSTED_HOST="one.example.com",
            PIP_CERT="/etc/ssl/own.pem",
            PIP_DEFAULT_TIMEOUT="180",
        )
    )
    assert uv_variables(settings) == {
        "UV_SYSTEM_CERTS": "1",
        "UV_DEFAULT_INDEX": "https://user:it's@packages.example.com/simple",
        "UV_EXTRA_INDEX_URL": "https://one.example.com/ https://two.example.com/",
        "UV_FIND_LINKS": "/srv/wheels,/mnt/wheels",
        "UV_INSECURE_HOST": "one.example.com",
        "SSL_CERT_FILE": "/etc/ssl/own.pem",
        "UV_HTTP_TIMEOUT": "180",
    }
    assert not without_index(settings)


def test_no_settings_are_pips_own_defaults() -> None:
    assert uv_variables(parse_settings("")) == {"UV_SYSTEM_CERTS": "1"}


def test_the_narrower_section_wins_and_other_commands_do_not_count() -> None:
    text = """\
:env:.find-links='/env'
download.index-url='https://download.example.com/'
global.extra-index-url='\\nhttps://a.example.com/\\nhttps://b.example.com/'
global.find-links='/global'
global.index-url='https://global.example.com/'
install.index-url='https://install.example.com/'
"""
    variables = uv_variables(parse_settings(text))
    assert variables["UV_DEFAULT_INDEX"] == "https://download.example.com/"
    assert variables["UV_FIND_LINKS"] == "/env"
    assert variables["UV_EXTRA_INDEX_URL"] == "https://a.example.com/ https://b.example.com/"


def test_an_index_that_was_asked_for_takes_the_place() -> None:
    settings = parse_settings(listing(PIP_INDEX_URL="https://other.example.com/", PIP_FIND_LINKS="/srv/wheels"))
    variables = uv_variables(settings, "http://packages.example.com/simple")
    assert variables["UV_DEFAULT_INDEX"] == "http://packages.example.com/simple"
    assert variables["UV_FIND_LINKS"] == "/srv/wheels"


@pytest.mark.parametrize(("value", "alone"), [("1", True), ("true", True), ("0", False), ("", False)])
def test_folders_alone(value: str, alone: bool) -> None:
    assert without_index({"no-index": value}) is alone
