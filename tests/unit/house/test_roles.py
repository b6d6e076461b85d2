# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every role says the same in its defaults, its argument spec and its papers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2 import StrictUndefined, TemplateError
from jinja2.nativetypes import NativeEnvironment

from .house import ROLES, load

roles = pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)


def defaults_of(role: Path) -> dict[str, Any]:
    return load(role / "defaults/main.yml") or {}


def entry_points(role: Path) -> dict[str, dict[str, Any]]:
    """The options of each entry point of the role's argument spec."""
    specification = load(role / "meta/argument_specs.yml")["argument_specs"]
    return {name: entry.get("options", {}) for name, entry in specification.items()}


def options_of(role: Path) -> list[tuple[str, str, dict[str, Any]]]:
    return [(entry, name, option) for entry, options in entry_points(role).items() for name, option in options.items()]


@roles
def test_every_default_is_an_option(role: Path) -> None:
    documented = {name for _entry, name, _option in options_of(role)}
    assert set(defaults_of(role)) <= documented


@roles
def test_an_option_has_a_default_or_is_required(role: Path) -> None:
    defaults = defaults_of(role)
    undecided = [
        f"{entry}: {name}"
        for entry, name, option in options_of(role)
        if option.get("required", False) == (name in defaults)
    ]
    assert undecided == []


@roles
def test_the_argument_spec_states_the_default_that_the_role_has(role: Path) -> None:
    defaults = defaults_of(role)
    different = {
        f"{entry}: {name}": (option.get("default"), defaults.get(name))
        for entry, name, option in options_of(role)
        if not option.get("required") and option.get("default") not in alike(defaults.get(name))
    }
    assert different == {}


def alike(default: Any) -> list[Any]:
    """What a spec may state for a default: the same, or what its template yields where the inventory says nothing.

    The latter because a documented default must be of the option's type, which the text of a template is not.
    """
    if not isinstance(default, str) or "{{" not in default:
        return [default]
    try:
        return [default, NativeEnvironment(undefined=StrictUndefined).from_string(default).render()]
    except TemplateError:
        return [default]


@roles
def test_variables_carry_the_name_of_the_role(role: Path) -> None:
    names = {name for _entry, name, _option in options_of(role)} | set(defaults_of(role))
    assert [name for name in sorted(names) if not name.startswith(f"{role.name}_")] == []


@roles
def test_every_entry_point_is_a_file_of_tasks(role: Path) -> None:
    assert [entry for entry in entry_points(role) if not (role / f"tasks/{entry}.yml").is_file()] == []


@roles
def test_options_say_what_they_are(role: Path) -> None:
    silent = [
        name for _entry, name, option in options_of(role) if not option.get("description") or not option.get("type")
    ]
    assert silent == []


@roles
def test_papers(role: Path) -> None:
    galaxy = load(role / "meta/main.yml")["galaxy_info"]
    assert galaxy["role_name"] == role.name
    assert galaxy["license"] == "GPL-3.0-or-later"
    assert galaxy["min_ansible_version"] == "2.19"
    assert galaxy["description"]
    readme = (role / "README.md").read_text(encoding="utf-8")
    assert f"pristine.vllm.{role.name}" in readme
    # A variable that the role no longer has is worse than none.
    code = "".join(path.read_text(encoding="utf-8") for path in role.rglob("*.yml"))
    mentioned = set(re.findall(rf"`({role.name}_\w+)`", readme))
    assert [name for name in sorted(mentioned) if not re.search(rf"\b{name}\b", code)] == []


@roles
def test_tasks_hide_nothing(role: Path) -> None:
    """No shell, no swallowed failure; a task file stays short enough to be read at once."""
    for path in sorted(role.glob("tasks/**/*.yml")):
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 80, path
        for task in _tasks(yaml.safe_load(text) or []):
            assert not {"ansible.builtin.shell", "shell", "ignore_errors"} & set(task), (path, task)


def _tasks(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tasks of a file, with those inside of blocks."""
    inside = [task for outer in tasks for key in ("block", "rescue", "always") for task in _tasks(outer.get(key, []))]
    return [*tasks, *inside]
