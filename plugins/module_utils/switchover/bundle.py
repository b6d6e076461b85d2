# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The code of a switchover, written beside its order: the play's temporary files will be gone by then."""

from __future__ import annotations

import os
import shutil
import sys
from types import ModuleType
from typing import Callable, Optional, Union

from ansible_collections.pristine.vllm.plugins.module_utils.files import atomic_write, fsync_directory

_PACKAGE = "ansible_collections.pristine.vllm.plugins.module_utils"
CODE = "code"
_MAIN = "main.py"
TRIAL = "--trial"

_PROGRAM = f"""\
import sys

sys.path.insert(0, sys.argv[1])
from {_PACKAGE}.switchover.background import main

if sys.argv[2] != "{TRIAL}":
    sys.exit(main(sys.argv[2]))
"""


def save_code(directory: str, python: str) -> list[str]:
    """Write the source of every module of ours that is loaded; returns the words of the program, its argument apart.

    Synced, all of it: after a power cut this is what brings the host back.
    """
    code = os.path.join(directory, CODE)
    shutil.rmtree(code, ignore_errors=True)
    for name, module in sorted(sys.modules.items()):
        if not name.startswith(f"{_PACKAGE}."):
            continue
        parts = name.split(".")
        path = os.path.join(code, *parts) + ".py"
        if hasattr(module, "__path__"):
            path = os.path.join(code, *parts, "__init__.py")
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        atomic_write(path, source_of(module), mode=0o600)
    main = os.path.join(code, _MAIN)
    atomic_write(main, _PROGRAM.encode(), mode=0o600)
    fsync_directory(directory)
    return [os.path.realpath(python), "-I", "-S", "-B", main, code]


def source_of(module: ModuleType) -> bytes:
    """The source of a loaded module, from a file as well as from the archive that Ansible runs a module from."""
    loader = getattr(module, "__loader__", None)
    # Ansible's own loader of collections gives bytes.
    get_source: Optional[Callable[[str], Union[str, bytes, None]]] = getattr(loader, "get_source", None)
    source = (get_source(module.__name__) if get_source else None) or b""
    return source if isinstance(source, bytes) else source.encode()
