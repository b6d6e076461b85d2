# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that a dump writes, as a glob derived from its path argument."""

from __future__ import annotations

import ast
import glob
import posixpath
import re
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.record.names import Names

# Stands for a part of a path that is not known before the code runs.
_HOLE = "\0"
_DEPTH = 12
_PERCENT = re.compile(r"%(?:%|(?:\(\w*\))?[#0 +-]*(?:\d+|\*)?(?:\.(?:\d+|\*))?[a-zA-Z])")
_BRACES = re.compile(r"\{\{|\}\}|\{[^{}]*\}")


def artifact_glob(node: ast.expr, names: Names, line: int) -> Optional[str]:
    """A glob for what is written to the path that an expression gives; None when that could be anything.

    Unknown parts become ``*``, and what lies between two of them in one name goes with them, since what is between
    them may vary with them. Only an absolute path counts, with a name that is not unknown as a whole.
    """
    path = posixpath.normpath(_text(node, names, line, _DEPTH) or _HOLE)
    if not path.startswith("/") or path.count("/") < 2:
        return None
    directory, name = posixpath.split(path)
    if not name.strip(_HOLE) or not directory.split("/")[1].strip(_HOLE):
        return None
    return "/".join(_component(part) for part in path.split("/"))


def _component(part: str) -> str:
    if _HOLE not in part:
        return glob.escape(part)
    return glob.escape(part[: part.index(_HOLE)]) + "*" + glob.escape(part[part.rindex(_HOLE) + 1 :])


def _text(node: ast.expr, names: Names, line: int, depth: int) -> str:
    """The text of an expression, with holes."""
    if depth <= 0:
        return _HOLE
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) and _HOLE not in node.value else _HOLE
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(value, names, line, depth - 1) for value in node.values)
    if isinstance(node, ast.FormattedValue):
        # A number's text is not its value's; only a string is sure to appear as it is.
        return _text(node.value, names, line, depth - 1) if node.format_spec is None else _HOLE
    if isinstance(node, ast.BinOp):
        return _operator(node, names, line, depth)
    if isinstance(node, ast.Call):
        return _call(node, names, line, depth)
    if isinstance(node, (ast.Name, ast.Attribute)):
        value = names.value(node, line)
        return _text(value, names, line, depth - 1) if value is not None else _HOLE
    return _HOLE


def _operator(node: ast.BinOp, names: Names, line: int, depth: int) -> str:
    left = _text(node.left, names, line, depth - 1)
    if isinstance(node.op, ast.Mod):
        return _PERCENT.sub(lambda match: "%" if match.group() == "%%" else _HOLE, left)
    right = _text(node.right, names, line, depth - 1)
    if isinstance(node.op, ast.Add):
        return left + right
    return posixpath.join(left, right) if isinstance(node.op, ast.Div) else _HOLE


def _call(node: ast.Call, names: Names, line: int, depth: int) -> str:
    name = names.resolve(node.func)
    texts = [_text(argument, names, line, depth - 1) for argument in node.args]
    if name == "tempfile.gettempdir":
        return "/tmp"
    if name in ("os.path.join", "posixpath.join", "pathlib.Path", "pathlib.PurePath") and texts:
        return posixpath.join(*texts)
    if name in ("os.getenv", "os.environ.get") and len(texts) > 1:
        return texts[1]
    if name in ("open", "io.open", "builtins.open", "str", "os.fspath", "gzip.open", "os.path.expanduser") and texts:
        return texts[0]
    if isinstance(node.func, ast.Attribute):
        base = _text(node.func.value, names, line, depth - 1)
        if node.func.attr == "format":
            known = {"{{": "{", "}}": "}"}
            return _BRACES.sub(lambda match: known.get(match.group(), _HOLE), base)
        if node.func.attr == "joinpath":
            return posixpath.join(base, *texts)
        if node.func.attr in ("open", "as_posix", "resolve", "absolute"):
            return base
    return _HOLE
