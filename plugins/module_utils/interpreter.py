# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The system's Python, which builds environments and is part of none."""

from __future__ import annotations

import os

from ansible_collections.pristine.vllm.plugins.module_utils.messages import tail
from ansible_collections.pristine.vllm.plugins.module_utils.process import CommandError, clean_environment, run

OLDEST = (3, 9)


class InterpreterError(Exception):
    """The interpreter cannot be used. The text is for the operator: which, why and what to do next."""


def check_interpreter(python: str) -> str:
    """Make sure that a Python is there, runs, is new enough and is not an environment's own; return its version.

    An environment's interpreter starts that environment's ``.pth`` files and ``sitecustomize``, which drift may have
    touched.

    :raises InterpreterError: it is not.
    """
    next_step = "Set vllm_python to the system's interpreter, such as /usr/bin/python3"
    if not os.path.isabs(python):
        raise InterpreterError(f"python {python!r} is not an absolute path. {next_step}.")
    # Where Python itself looks for the mark (PEP 405), without following the link that an environment's python is.
    folder = os.path.dirname(python)
    for place in (folder, os.path.dirname(folder)):
        if os.path.exists(os.path.join(place, "pyvenv.cfg")):
            raise InterpreterError(
                f"python {python} belongs to the environment {place}, which may have been edited: "
                f"nothing is built with it. {next_step}."
            )
    code = "import sys; print('.'.join(map(str, sys.version_info[:3])))"
    try:
        ran = run([python, "-I", "-S", "-c", code], clean_environment("/", "/tmp"), timeout=60)
    except CommandError as error:
        raise InterpreterError(f"python {python} does not run: {error}. {next_step}.") from error
    version = ran.stdout.strip()
    if ran.returncode or not version:
        raise InterpreterError(f"python {python} does not run: {tail(ran.stderr) or ran.returncode}. {next_step}.")
    if tuple(map(int, version.split(".")))[:2] < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise InterpreterError(f"python {python} is {version}, and {oldest} is the oldest that serves. {next_step}.")
    return version
