# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules are thin and documented; what they share knows no Ansible."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from .house import MODULES, ROOT

modules = pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
UTILITIES = sorted((ROOT / "plugins/module_utils").rglob("*.py"))


def constants(path: Path) -> dict[str, str]:
    """The texts that a module assigns at its top level: DOCUMENTATION, EXAMPLES, RETURN."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def documentation(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(constants(path)["DOCUMENTATION"])
    return loaded


def imported(path: Path) -> set[str]:
    """The full names of the modules that a file imports; relative ones begin with a dot."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add("." * node.level + (node.module or ""))
    return names


@modules
def test_support_for_check_and_diff_is_said(path: Path) -> None:
    document = documentation(path)
    assert "pristine.vllm.attributes" in document["extends_documentation_fragment"]
    attributes = document["attributes"]
    assert attributes["check_mode"]["support"] == "full"
    # Only what changes nothing and shows nothing may lack a diff, what carries out what others have shown, and a lock.
    silent = ("_info", "_ready", "_stopped", "_lock", "switchover")
    allowed = {"full", "none"} if path.stem.endswith(silent) else {"full"}
    assert attributes["diff_mode"]["support"] in allowed


@modules
def test_documentation_is_whole(path: Path) -> None:
    document = documentation(path)
    assert document["module"] == path.stem
    assert document["short_description"]
    assert document["version_added"] == "0.1.0"
    assert document["author"] == ["Pristine vLLM maintainers (@pristine-vllm)"]
    assert yaml.safe_load(constants(path)["EXAMPLES"])
    assert yaml.safe_load(constants(path)["RETURN"])


@modules
def test_a_module_is_thin(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    written = sum(len(value.splitlines()) for value in constants(path).values())
    assert len(text.splitlines()) - written < 200


@pytest.mark.parametrize("path", UTILITIES, ids=lambda path: str(path.relative_to(ROOT / "plugins/module_utils")))
def test_utilities_need_only_the_standard_library(path: Path) -> None:
    """They run on a host's own Python, and are tested without Ansible."""
    own = ("ansible_collections.pristine.vllm.plugins.module_utils", ".")
    foreign = {
        name
        for name in imported(path)
        if not name.startswith(own) and name.partition(".")[0] not in sys.stdlib_module_names
    }
    assert foreign == set()


def test_there_are_modules() -> None:
    """An empty parameter list is green as well."""
    assert "wheel_record_info" in {path.stem for path in MODULES}
