# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on scripts whose bytes no wheel holds: do they start what the wheel says, with this environment's Python?"""

from __future__ import annotations

import os
import re
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import read_file
from ansible_collections.pristine.vllm.plugins.module_utils.record.claims import Script
from ansible_collections.pristine.vllm.plugins.module_utils.record.environment import Environment, resolved
from ansible_collections.pristine.vllm.plugins.module_utils.record.scripts import (
    interpreter,
    is_generated,
    without_interpreter,
)
from ansible_collections.pristine.vllm.plugins.module_utils.record.wheel import WheelError

LIMIT = 16 * 1024 * 1024
# Their scripts are known in every form; what another one writes can be honest and new.
_KNOWN_INSTALLERS = (b"pip", b"uv")
_PYTHON = re.compile(r"(python|pypy)[\d.]*t?\Z")
_HOME = re.compile(rb"^\s*(?:export )?VIRTUAL_ENV=['\"]?(/[^'\"\n]*?)['\"]?\s*$", re.MULTILINE)


class Launchers:
    """Judges the scripts of one environment."""

    def __init__(self, environment: Environment) -> None:
        """Learn what the environment calls itself: a copy of one keeps the scripts of the original."""
        self._bin = os.path.join(environment.root, "bin")
        self._is_venv = os.path.isfile(os.path.join(environment.root, "pyvenv.cfg"))
        match = _HOME.search(_start(os.path.join(self._bin, "activate")))
        self._home = os.path.join(os.fsdecode(match.group(1)), "bin") if match else self._bin

    def judge(self, script: Script, data: bytes) -> Optional[tuple[str, str]]:
        """Status and detail of the finding; None where the script is as it should be."""
        wheel = script.owner.wheel
        if script.member and wheel is not None:
            try:
                pristine = without_interpreter(wheel.read(script.member, LIMIT))
            except WheelError as error:
                return "unverifiable", str(error)
            if without_interpreter(data) != pristine:
                return "modified", "differs from the wheel's script in more than the line that names its interpreter"
        elif not is_generated(data, script.entry):
            detail = f"no installer known here writes such a script for {script.entry}"
            if _start(os.path.join(script.owner.distribution.directory, "INSTALLER")).strip() in _KNOWN_INSTALLERS:
                return "modified", detail
            return "unverifiable", f"{detail}; only the installed RECORD vouches"
        return self._started_by(interpreter(data))

    def _started_by(self, path: Optional[str]) -> Optional[tuple[str, str]]:
        if not self._is_venv or path == "":
            return None
        if path is not None:
            folder, name = os.path.split(path)
            if _PYTHON.match(name) and (folder == self._home or resolved(folder) == self._bin):
                return None
        what = f"names {path}" if path else "is of no known kind"
        return "modified", f"its first line {what}, which is not the interpreter of this environment"


def _start(path: str) -> bytes:
    try:
        return read_file(path, 65536)
    except OSError:
        return b""
