# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import ensurepip
import pathlib
import subprocess
import sys

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.fresh_pip import fresh_pip

# A Python whose bundled wheel is not where others have it.
ELSEWHERE = "import os.path\nos.path.isfile = lambda path: False\n"


@pytest.mark.parametrize("before", ["", ELSEWHERE], ids=["unpacked", "installed"])
def test_it_is_the_one_that_comes_with_python(tmp_path: pathlib.Path, before: str) -> None:
    python, isolated, flag, program, place = fresh_pip(sys._base_executable, str(tmp_path / "env"))  # type: ignore[attr-defined]
    subprocess.run([python, isolated, flag, before + program, place], check=True)
    # Installed it has a script of its own.
    assert pathlib.Path(place, "bin/pip").exists() == bool(before)
    command = [f"{place}/bin/python", "-I", "-m", "pip", "--version"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert said.startswith(f"pip {ensurepip.version()} from {place}/lib/")
