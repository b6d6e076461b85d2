# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run by another Python, isolated and without site: compiles sources and compares the result with their bytecode.

It needs nothing but the standard library of any CPython from 3.7 on, executes nothing of what it reads, and writes
nothing. Each line of its input is a JSON list: bytecode file, source file, level of optimisation; each line of its
output is a JSON text: what is wrong with it, or empty. The first line of its output says which Python this is.
"""

from __future__ import annotations

import json
import marshal
import signal
import struct
import sys
import types
from importlib.util import MAGIC_NUMBER

HEADER_BYTES = 16
# A file that takes longer kills this process, and with that it is the one that is reported.
SECONDS_PER_FILE = 60
# What a code object does; where it came from and which line is which does not matter.
_FIELDS = (
    *("co_name", "co_qualname", "co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_nlocals"),
    *("co_stacksize", "co_flags", "co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars"),
    *("co_firstlineno", "co_exceptiontable"),
)


def main() -> None:
    """Answer each line of the input."""
    _say(json.dumps([list(sys.version_info[:2]), MAGIC_NUMBER.hex(), sys.implementation.name]))
    for line in sys.stdin:
        cached, source, level = json.loads(line)
        signal.alarm(SECONDS_PER_FILE)
        try:
            verdict = compare(cached, source, level)
        except FileNotFoundError:
            verdict = ""  # Gone by now, and with it what could be wrong with it.
        except (OSError, MemoryError, RecursionError) as error:
            verdict = "?" + (str(error) or type(error).__name__)
        _say(json.dumps(verdict))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def compare(cached: str, source: str, level: int) -> str:
    """What is wrong with a bytecode file, or nothing."""
    with open(source, "rb") as stream:
        text = stream.read()
    with open(cached, "rb") as stream:
        found = stream.read()[HEADER_BYTES:]
    try:
        code = compile(text, source, "exec", dont_inherit=True, optimize=level)
    except (SyntaxError, ValueError) as error:
        return f"its source does not compile ({error}), so it is not made from it"
    if marshal.dumps(code) == found:
        return ""
    try:
        # This process is here for nothing else, and no code that is loaded is run.
        loaded = marshal.loads(found)  # noqa: S302
    except (ValueError, EOFError, TypeError) as error:
        return f"it cannot be loaded: {error}"
    if not isinstance(loaded, types.CodeType):
        return f"it holds a {type(loaded).__name__} and no code"
    if key(loaded) == key(code):
        return ""
    return f"it does not do what its source does: {_where(loaded, code)}"


def key(value: object) -> object:
    """Equal for two constants or code objects exactly when they do the same: ``1``, ``1.0`` and ``True`` do not."""
    if isinstance(value, types.CodeType):
        fields = tuple(getattr(value, name, None) for name in _FIELDS)
        return ("code", fields, tuple(key(constant) for constant in value.co_consts))
    if isinstance(value, tuple):
        return ("tuple", tuple(key(item) for item in value))
    if isinstance(value, frozenset):
        return ("frozenset", frozenset(key(item) for item in value))
    if isinstance(value, slice):
        return ("slice", key(value.start), key(value.stop), key(value.step))
    if isinstance(value, float):
        return ("float", struct.pack("d", value))
    if isinstance(value, complex):
        return ("complex", struct.pack("dd", value.real, value.imag))
    return (type(value).__name__, value)


def _where(loaded: types.CodeType, code: types.CodeType) -> str:
    """The innermost function that differs, for a human."""
    ours = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    theirs = [constant for constant in loaded.co_consts if isinstance(constant, types.CodeType)]
    if len(ours) == len(theirs):
        for one, other in zip(theirs, ours):
            if key(one) != key(other):
                inner = _where(one, other)
                return inner if code.co_name == "<module>" else f"{code.co_name}.{inner}"
    return code.co_name


if __name__ == "__main__":
    main()
