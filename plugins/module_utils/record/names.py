# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the names of a Python source stand for, as far as its own text tells."""

from __future__ import annotations

import ast
from typing import Optional

_DEPTH = 8


class Names:
    """Import aliases and simple assignments of one source.

    A name is looked up in the function that it is used in, then at the top of the source; an attribute (``self.x``) in
    the whole source. What is set in more than one way, or by a loop or a caller, is not known.
    """

    def __init__(self, tree: ast.Module) -> None:
        """Collect them."""
        self._imported: dict[str, str] = {}
        # First and last line of each function, outer ones first.
        self._functions: list[tuple[int, int]] = []
        # (dotted target, first line of its function or 0) -> line and value of each assignment; None: not known.
        self._assigned: dict[tuple[str, int], list[tuple[int, Optional[ast.expr]]]] = {}
        nodes = list(ast.walk(tree))
        for node in nodes:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                self._functions.append((node.lineno, node.end_lineno or node.lineno))
        self._functions.sort(key=lambda span: (span[0], -span[1]))
        for node in nodes:
            self._import(node)
            self._collect(node)

    def _import(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                whole = alias.name if alias.asname else alias.name.split(".")[0]
                self._imported[alias.asname or whole] = whole
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                self._imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def _collect(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self._assign(node.target, node.value)
        elif isinstance(node, ast.NamedExpr):
            self._assign(node.target, node.value)
        elif isinstance(node, ast.withitem):
            if node.optional_vars is not None:
                self._assign(node.optional_vars, node.context_expr)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension, ast.AugAssign)):
            self._assign(node.target, None)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            for argument in ast.walk(node.args):
                if isinstance(argument, ast.arg):
                    self._assigned.setdefault((argument.arg, node.lineno), []).append((node.lineno, None))

    def _assign(self, target: ast.expr, value: Optional[ast.expr]) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            for element in target.elts:
                self._assign(element, None)
            return
        name = _dotted(target)
        if name:
            self._assigned.setdefault((name, self._function(name, target.lineno)), []).append((target.lineno, value))

    def _function(self, name: str, line: int) -> int:
        """The first line of the function whose own name this is; attributes belong to the source as a whole."""
        inside = [start for start, end in self._functions if start <= line <= end]
        return 0 if "." in name or not inside else inside[-1]

    def value(self, node: ast.expr, line: int) -> Optional[ast.expr]:
        """What a name or an attribute is set to above a line, None where that is not known for sure."""
        name = _dotted(node) or ""
        for function in dict.fromkeys((self._function(name, node.lineno), 0)):
            values = self._assigned.get((name, function), [])
            above = [value for at, value in values if "." in name or function == 0 or at <= line]
            if above:
                first = above[0]
                same = first is not None and all(value is not None and _same(value, first) for value in above)
                return first if same else None
        return None

    def resolve(self, node: ast.AST, depth: int = _DEPTH) -> str:
        """The full dotted name behind an expression, or an empty string: ``_t.save`` is ``torch.save``."""
        if depth <= 0:
            return ""
        if isinstance(node, ast.Name):
            if node.id in self._imported:
                return self._imported[node.id]
            value = self.value(node, node.lineno)
            if isinstance(value, (ast.Name, ast.Attribute, ast.Call)):
                return self.resolve(value, depth - 1) or node.id
            return node.id
        if isinstance(node, ast.Attribute):
            base = self.resolve(node.value, depth - 1)
            return f"{base}.{node.attr}" if base else ""
        if isinstance(node, ast.Call):
            return self._called(node, depth)
        return ""

    def _called(self, node: ast.Call, depth: int) -> str:
        """``__import__("torch")``, ``importlib.import_module("torch")`` and ``getattr(torch, "save")``."""
        function = self.resolve(node.func, depth - 1)
        texts = [argument.value if isinstance(argument, ast.Constant) else None for argument in node.args]
        if function in ("__import__", "importlib.import_module") and texts and isinstance(texts[0], str):
            return texts[0]
        if function == "getattr" and len(texts) > 1 and isinstance(texts[1], str):
            base = self.resolve(node.args[0], depth - 1)
            return f"{base}.{texts[1]}" if base else ""
        return ""


def _dotted(node: ast.expr) -> Optional[str]:
    parts: list[str] = []
    current: ast.expr = node
    while isinstance(current, ast.Attribute):
        parts.append(current.attr)
        current = current.value
    if not isinstance(current, ast.Name):
        return None
    return ".".join([current.id, *reversed(parts)])


def _same(one: ast.expr, other: ast.expr) -> bool:
    return one is other or ast.dump(one) == ast.dump(other)
