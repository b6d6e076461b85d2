# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scripts in ``bin``: those that an installer generates from an entry point, and those whose first line it rewrites."""

from __future__ import annotations

import ast
import os
import re
from typing import Optional

# What installers write, comments and quotes aside: distlib (pip to 25), pip since, uv.
_TEMPLATES = (
    """
import re
import sys
from {module} import {name}
if __name__ == '__main__':
    sys.argv[0] = re.sub(r'(-script\\.pyw|\\.exe)?$', '', sys.argv[0])
    sys.exit({function}())
""",
    """
import re
import sys
from {module} import {name}
if __name__ == '__main__':
    sys.argv[0] = re.sub(r'(-script\\.pyw?|\\.exe)?$', '', sys.argv[0])
    sys.exit({function}())
""",
    """
import sys
from {module} import {name}
if __name__ == '__main__':
    sys.argv[0] = sys.argv[0].removesuffix('.exe')
    sys.exit({function}())
""",
    """
import sys
from {module} import {name}
if __name__ == '__main__':
    if sys.argv[0].endswith('.exe'):
        sys.argv[0] = sys.argv[0][:-4]
    sys.exit({function}())
""",
    """
import sys
from {module} import {name}
if __name__ == '__main__':
    if sys.argv[0].endswith('-script.pyw'):
        sys.argv[0] = sys.argv[0][:-11]
    elif sys.argv[0].endswith('.exe'):
        sys.argv[0] = sys.argv[0][:-4]
    sys.exit({function}())
""",
)
_ENTRY = re.compile(r"([A-Za-z_][\w.]*)\s*:\s*([A-Za-z_][\w.]*)\Z")
# Where the interpreter's path is too long or has a space, sh finds it: to sh a command, to Python a string.
_TRAMPOLINE = re.compile(rb"#!/bin/sh\r?\n'''exec' [^\n]+ \"\$0\" \"\$@\"\r?\n' '''\r?\n")
_SHEBANG = re.compile(rb"#![^\n]*\n?")
_EXEC = re.compile(rb"""#!/bin/sh\r?\n'''exec' (?:"([^"$`\\]+)"|'([^']+)'|([^\s"'$`\\]+)) "\$0" "\$@"\r?\n""")
# uv's relocatable environments: the interpreter beside the script, wherever that is.
_BESIDE = re.compile(
    rb"""#!/bin/sh\r?\n'''exec' "\$\((?:dirname -- "\$\(realpath -- "\$0"\)"|"""
    rb"""CDPATH= cd -- "\$\(dirname -- "\$0"\)" && echo "\$PWD")\)"/'?(?:python|pypy)[\d.]*t?'? "\$0" "\$@"\r?\n"""
)


def without_interpreter(data: bytes) -> bytes:
    """A script without the lines that name its interpreter, which differ from environment to environment."""
    match = _TRAMPOLINE.match(data) or _SHEBANG.match(data)
    return data[match.end() :] if match else data


def interpreter(data: bytes) -> Optional[str]:
    """What a script's first lines start: a path, nothing for the interpreter beside it, None for what is not known."""
    if _BESIDE.match(data):
        return ""
    match = _EXEC.match(data)
    if match:
        return os.fsdecode(match.group(match.lastindex or 1))
    words = data.split(b"\n", 1)[0][2:].split() if data.startswith(b"#!") else []
    return os.fsdecode(words[0]) if words and words[0].startswith(b"/") else None


def is_generated(data: bytes, entry: str) -> bool:
    """Whether a script does what an installer's for this entry point (``module:attribute``) does, and no more."""
    match = _ENTRY.match(entry)
    if match is None:
        return False
    function = match.group(2)
    found = _shape(without_interpreter(data))
    values = {"module": match.group(1), "function": function, "name": function.split(".")[0]}
    return found is not None and any(found == _shape(text.format(**values).encode()) for text in _TEMPLATES)


def generated(entry: str, uv: bool) -> list[bytes]:
    """What installers write for an entry point (``module:attribute``), less the lines that name the interpreter.

    The first is uv's, or that of pip to 25.
    """
    match = _ENTRY.match(entry)
    if match is None:
        return []
    function = match.group(2)
    found = []
    for template in _TEMPLATES:
        text = template.format(module=match.group(1), function=function, name=function.split(".")[0])[1:]
        for quoted in (text, text.replace("'", '"')):
            for spaced in (quoted, re.sub(r"\n(from .*\n)", r"\n\n\1\n", quoted)):
                found += [f"# -*- coding: utf-8 -*-\n{spaced}".encode(), spaced.encode()]
    return sorted(found, key=lambda body: (b'.pyw")' in body) is not uv)


def interpreter_lines(python: str) -> list[bytes]:
    """The first line or lines by which installers name an interpreter."""
    name = os.fsencode(python)
    exec_ = b"#!/bin/sh\n'''exec' %s \"$0\" \"$@\"\n' '''\n"
    return [b"#!" + name + b"\n", exec_ % name, exec_ % (b'"' + name + b'"'), exec_ % (b"'" + name + b"'")]


def interpreter_of(data: bytes) -> bytes:
    """The lines at the beginning of a script that name its interpreter, or nothing."""
    return data[: len(data) - len(without_interpreter(data))]


def entry_for(script: str, entries: dict[str, str]) -> Optional[str]:
    """The entry point that a script in ``bin`` comes from; pip gives its own a version too."""
    if script in entries:
        return entries[script]
    return entries.get("pip") if re.fullmatch(r"pip\d+(\.\d+)?", script) else None


def _shape(source: bytes) -> Optional[str]:
    try:
        return ast.dump(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
