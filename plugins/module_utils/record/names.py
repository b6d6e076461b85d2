# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the names of a Python source stand for, as far as its own text tells."""

from __future__ import annotations

import ast
from typing import Optional

_DEPTH = 8


class Names:
    """Import aliases and simple assignments of one source, scopes not kept apart."""

    def __init__(self, tree: ast.Module) -> None:
        """Collect them."""
        self._imported: dict[str, str] = {}
        # Dotted target -> (line, value) of each assignment, in the order of the file.
        self._assigned: dict[str, list[tuple[int, ast.expr]]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    whole = alias.name if alias.asname else alias.name.split(".")[0]
                    self._imported[alias.asname or whole] = whole
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for alias in node.names:
                    self._imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    self._assign(target, node.lineno, node.value)
            elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
                self._assign(node.target, node.lineno, node.value)
            elif isinstance(node, ast.withitem) and node.optional_vars is not None:
                self._assign(node.optional_vars, node.context_expr.lineno, node.context_expr)
        for values in self._assigned.values():
            values.sort(key=lambda pair: pair[0])

    def _assign(self, target: ast.expr, line: int, value: ast.expr) -> None:
        name = _dotted(target)
        if name:
            self._assigned.setdefault(name, []).append((line, value))

    def value(self, node: ast.expr, line: int) -> Optional[ast.expr]:
        """What a name or an attribute was last set to at or above a line, or None."""
        values = self._assigned.get(_dotted(node) or "", [])
        above = [value for at, value in values if at <= line and value is not node]
        return above[-1] if above else None

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
