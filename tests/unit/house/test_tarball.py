# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user gets: the tarball's list, and the collection installed from it into an empty folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from .house import MODULES, PLAYBOOKS, ROLES, ROOT, git_files

# ansible-galaxy adds these two; galaxy.yml becomes the first of them.
MADE_BY_BUILD = {"MANIFEST.json", "FILES.json"}
SHIPPED_FOLDERS = {"changelogs", "docs", "inventory", "meta", "playbooks", "plugins", "roles"}
SHIPPED_FILES = {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md"}


def ansible(command: str, *arguments: str, cwd: Path, collections: str = "") -> str:
    """Runs a command of the ansible that runs this test, with no settings of this checkout; returns what it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    # An empty one here goes before the user's and the machine's.
    (cwd / "ansible.cfg").touch()
    environment.update(ANSIBLE_HOME=str(cwd / ".ansible"), LC_ALL="C.UTF-8")
    if collections:
        environment["ANSIBLE_COLLECTIONS_PATH"] = collections
    done = subprocess.run(
        [str(Path(sys.executable).parent / command), *arguments],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command} {' '.join(arguments)} failed:\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="session")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    ansible("ansible-galaxy", "collection", "build", str(ROOT), "--output-path", str(folder), cwd=folder)
    (built,) = folder.glob("*.tar.gz")
    return built


@pytest.fixture(scope="session")
def installed(tarball: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder that the tarball, and nothing else, was installed into."""
    folder = tmp_path_factory.mktemp("empty")
    ansible("ansible-galaxy", "collection", "install", str(tarball), "--collections-path", ".", "--offline", cwd=folder)
    return folder


@pytest.fixture(scope="session")
def names(tarball: Path) -> set[str]:
    with tarfile.open(tarball) as archive:
        return {member.name for member in archive if not member.isdir()}


def test_only_what_a_user_needs_is_in_it(names: set[str]) -> None:
    top = {name.partition("/")[0] for name in names}
    assert top <= SHIPPED_FOLDERS | SHIPPED_FILES | MADE_BY_BUILD
    assert [name for name in sorted(names) if "__pycache__" in name or name.endswith((".pyc", ".tar.gz"))] == []


def test_nothing_that_git_does_not_know_is_in_it(names: set[str]) -> None:
    assert names - MADE_BY_BUILD - set(git_files()) == set()


def test_all_that_a_user_needs_is_in_it(names: set[str]) -> None:
    wanted = {name for name in git_files() if name.partition("/")[0] in SHIPPED_FOLDERS} | SHIPPED_FILES
    assert wanted - names == set()
    assert {f"roles/{role.name}/README.md" for role in ROLES} <= names


def test_it_needs_no_other_collection(tarball: Path) -> None:
    with tarfile.open(tarball) as archive:
        manifest = archive.extractfile("MANIFEST.json")
        assert manifest is not None
        information = json.load(manifest)["collection_info"]
    assert information["dependencies"] == {}
    assert (information["namespace"], information["name"]) == ("pristine", "vllm")


@pytest.mark.parametrize("playbook", [path.stem for path in PLAYBOOKS])
def test_a_playbook_is_found_by_name(installed: Path, playbook: str) -> None:
    inventory = installed / "ansible_collections/pristine/vllm/inventory/hosts.yml"
    arguments = ["--syntax-check", "--inventory", str(inventory), f"pristine.vllm.{playbook}"]
    assert "playbook: " in ansible("ansible-playbook", *arguments, cwd=installed, collections=str(installed))


def test_every_module_is_found_by_name(installed: Path) -> None:
    listed = json.loads(
        ansible("ansible-doc", "--list", "--json", "pristine.vllm", cwd=installed, collections=str(installed))
    )
    assert set(listed) == {f"pristine.vllm.{path.stem}" for path in MODULES}


def test_every_role_is_found_by_name(installed: Path) -> None:
    arguments = ["--type", "role", "--list", "--json", "pristine.vllm"]
    listed = json.loads(ansible("ansible-doc", *arguments, cwd=installed, collections=str(installed)))
    assert set(listed) == {f"pristine.vllm.{role.name}" for role in ROLES}
