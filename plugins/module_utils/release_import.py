# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove that a freshly built environment imports what will be served, without touching what serves."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from ansible_collections.pristine.vllm.plugins.module_utils.messages import tail
from ansible_collections.pristine.vllm.plugins.module_utils.process import CommandError, clean_environment, run
from ansible_collections.pristine.vllm.plugins.module_utils.release import ReleaseError

_CODE = "import importlib, sys\nfor name in sys.argv[1:]:\n    importlib.import_module(name)\n"
_QUIET = {
    # The GPUs are full with the model that serves, and an import must not ask for memory on them.
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}


def check_imports(path: str, names: Sequence[str], scratch: str, timeout: float, held: int) -> None:
    """Import modules in the environment's own interpreter, isolated (``-I``).

    :param scratch: directory for whatever the modules write to a home directory.
    :param timeout: seconds for all of them.
    :raises ReleaseError: one cannot be imported, with the end of its traceback.
    """
    if not names:
        return
    environment = {**clean_environment(scratch, os.path.join(scratch, "tmp")), **_QUIET}
    # -B: the release holds the bytecode of the build and nothing else.
    argv = [os.path.join(path, "bin", "python"), "-I", "-B", "-X", "faulthandler", "-c", _CODE, *names]
    what = f"import {', '.join(names)}"
    try:
        ran = run(argv, environment, timeout, cwd="/", hold=[held])
    except CommandError as error:
        raise ReleaseError(f"{what} failed: {error}") from error
    if ran.returncode < 0:
        name = signal.Signals(-ran.returncode).name
        raise ReleaseError(f"{what} ended by {name}: {tail(ran.stderr)}")
    if ran.returncode:
        raise ReleaseError(f"{what} failed: {tail(ran.stderr)}")
