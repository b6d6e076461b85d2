# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was added to a Python source, told from the two syntax trees, and the files that it writes.

Names are resolved through the source's own imports: ``import torch as _t`` makes ``_t.save`` what it is.
"""

from __future__ import annotations

import ast
import difflib
import re
from typing import Optional, Union

from ansible_collections.pristine.vllm.plugins.module_utils.record.artifacts import artifact_glob
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import Probe
from ansible_collections.pristine.vllm.plugins.module_utils.record.names import Names
from ansible_collections.pristine.vllm.plugins.module_utils.redact import redact

# Callable -> where its path argument is: position, and name when given by keyword.
DUMPS: dict[str, tuple[int, str]] = {
    "torch.save": (1, "f"),
    "torch.jit.save": (1, "f"),
    "numpy.save": (0, "file"),
    "numpy.savez": (0, "file"),
    "numpy.savez_compressed": (0, "file"),
    "numpy.savetxt": (0, "fname"),
    "pickle.dump": (1, "file"),
    "cloudpickle.dump": (1, "file"),
    "dill.dump": (1, "file"),
    "joblib.dump": (1, "filename"),
    "json.dump": (1, "fp"),
    "safetensors.torch.save_file": (1, "filename"),
    "safetensors.numpy.save_file": (1, "filename"),
}
# Methods of an object of unknown type that write it to a file.
_METHODS: dict[str, tuple[int, str]] = {"tofile": (0, "fid"), "write_bytes": (-1, ""), "write_text": (-1, "")}
_BREAKPOINTS = re.compile(r"breakpoint|(i?pdb|pudb|web_pdb)\.(set_trace|post_mortem|run)|code\.interact|debugpy\.\w+")
_PRINTS = re.compile(r"print|sys\.std(out|err)\.write|rich\.print|pprint\.pp(rint)?|traceback\.print_\w+")
_ENVIRONMENT = re.compile(r"os\.(getenv|environ)(\.\w+)?")
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")
_MOST = 200
_CODE_CHARACTERS = 200
_Node = Union[ast.stmt, ast.ExceptHandler]


def find_probes(path: str, pristine: bytes, installed: bytes) -> list[Probe]:
    """The statements that ``installed`` has and ``pristine`` has not, in the order of the file, 200 at most.

    A source that does not parse (for the Python that runs this) has no probes: the diff still shows it.
    """
    try:
        before, after = ast.parse(pristine), ast.parse(installed)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    names = Names(after)
    lines = installed.decode("utf-8", "surrogateescape").split("\n")
    return [_probe(path, node, names, lines) for node in added_statements(before, after)[:_MOST]]


def added_statements(before: ast.Module, after: ast.Module) -> list[_Node]:
    """Statements of the second tree that a comparison of the two, statement by statement, shows as new or changed."""
    old = [_key(node) for node in _flatten(before)]
    nodes = _flatten(after)
    new = [_key(node) for node in nodes]
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    matcher = difflib.SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False)
    added = []
    for kind, _i, _j, start, end in matcher.get_opcodes():
        if kind in ("insert", "replace"):
            added += nodes[head + start : head + end]
    return added


def _flatten(tree: ast.AST) -> list[_Node]:
    """Every statement, a compound one before those in it."""
    found: list[_Node] = []
    for field in _BODIES:
        for child in getattr(tree, field, []):
            if isinstance(child, (ast.stmt, ast.ExceptHandler)):
                found.append(child)
            found += _flatten(child)
    return found


def _parts(node: _Node) -> list[ast.AST]:
    """A statement's own expressions: those of a compound one's head, without the statements in it."""
    parts: list[ast.AST] = []
    for field, value in ast.iter_fields(node):
        if field not in _BODIES:
            parts += [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, ast.AST)]
    return parts


def _key(node: _Node) -> str:
    plain = [
        f"{field}={value!r}"
        for field, value in ast.iter_fields(node)
        if field not in _BODIES and not isinstance(value, (ast.AST, list))
    ]
    return " ".join([type(node).__name__, *plain, *(ast.dump(part) for part in _parts(node))])


def _probe(path: str, node: _Node, names: Names, lines: list[str]) -> Probe:
    kind, dump = "other", None
    calls = [child for part in _parts(node) for child in ast.walk(part) if isinstance(child, ast.Call)]
    called = [(call, names.resolve(call.func)) for call in calls]
    dumps = [(call, _dump_path(call, name)) for call, name in called if _is_dump(call, name)]
    if dumps:
        kind, dump = "tensor_dump", dumps[0]
    elif any(_BREAKPOINTS.fullmatch(name) for _call, name in called):
        kind = "breakpoint"
    elif any(_ENVIRONMENT.fullmatch(names.resolve(child)) for part in _parts(node) for child in ast.walk(part)):
        kind = "env_read"
    elif _is_counter(node):
        kind = "counter"
    elif any(_PRINTS.fullmatch(name) for _call, name in called):
        kind = "print"
    glob = artifact_glob(dump[1], names, node.lineno) if dump is not None and dump[1] is not None else None
    return Probe(path, node.lineno, kind, _code(node, lines), glob)


def _is_dump(call: ast.Call, name: str) -> bool:
    return name in DUMPS or (isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS)


def _dump_path(call: ast.Call, name: str) -> Optional[ast.expr]:
    """The argument of a dump that says where it goes."""
    position, keyword = DUMPS.get(name) or _METHODS[call.func.attr if isinstance(call.func, ast.Attribute) else ""]
    if position < 0:
        return call.func.value if isinstance(call.func, ast.Attribute) else None
    for given in call.keywords:
        if given.arg == keyword:
            return given.value
    return call.args[position] if position < len(call.args) else None


def _is_counter(node: _Node) -> bool:
    """``x += 1``, or ``x = <something with x> + 1``."""
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, ast.Add) and _is_number(node.value)
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.BinOp):
        return False
    target = node.targets[0]
    if not isinstance(node.value.op, ast.Add) or not _is_number(node.value.right):
        return False
    name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
    return bool(name) and any(
        name in (getattr(child, "attr", None), getattr(child, "id", None), getattr(child, "value", None))
        for child in ast.walk(node.value.left)
    )


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float))


def _code(node: _Node, lines: list[str]) -> str:
    """The statement's text, a compound one's head only, on one line, secrets masked."""
    end = node.end_lineno or node.lineno
    bodies = [child.lineno for field in _BODIES for child in getattr(node, field, []) if hasattr(child, "lineno")]
    if bodies:
        end = max(node.lineno, min(bodies) - 1)
    text = " ".join(line.strip() for line in lines[node.lineno - 1 : end])
    return redact(text[:_CODE_CHARACTERS])
