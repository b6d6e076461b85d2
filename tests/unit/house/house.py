# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of the house look at: this checkout's files, roles and plugins."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
ROLES = sorted(path for path in (ROOT / "roles").iterdir() if path.is_dir())
MODULES = sorted(path for path in (ROOT / "plugins/modules").glob("*.py") if path.name != "__init__.py")
PLAYBOOKS = sorted((ROOT / "playbooks").glob("*.yml"))


def git_files() -> list[str]:
    """Paths of what git tracks, or would if it were added, relative to the checkout; only what is there."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted(name for name in listing.split("\0") if name and (ROOT / name).exists())


def load(path: Path) -> Any:
    """A YAML file as data, with what only Ansible gives a meaning (!vault) refused."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))
