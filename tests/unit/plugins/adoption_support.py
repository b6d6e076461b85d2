# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with an environment that others made, as it was before anything of this collection touched it."""

from __future__ import annotations

import os
import pathlib
import stat
import subprocess

from ansible_collections.pristine.vllm.plugins.module_utils.adoption import Adopted, adopt, plan_adoption
from ansible_collections.pristine.vllm.plugins.module_utils.release import Layout, Place, describe_environment
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import PYTHON, fake_release

ID = "adopted-ml-env-1"


class Seed:
    """``<base>/root/ml-env``, a real environment with a script and a module, and ``<base>/vllm``."""

    def __init__(self, base: pathlib.Path) -> None:
        self.base = base
        self.env = base / "root" / "ml-env"
        self.root = base / "vllm"
        self.layout = Layout(str(self.root))
        self.release = self.root / "releases" / ID
        (self.root / "releases").mkdir(parents=True)
        subprocess.run([PYTHON, "-m", "venv", "--without-pip", self.env], check=True)
        self.site = next(self.env.glob("lib/python3*/site-packages"))
        (self.site / "dirty.py").write_text("print('dirt and all')\n")
        (self.site / "vllm-0.16.0+g1.dist-info").mkdir()
        (self.env / "bin" / "tool").write_text(f"#!{self.env}/bin/python\nimport sys, dirty\nprint(sys.prefix)\n")
        (self.env / "bin" / "tool").chmod(0o755)

    def adopt(self) -> Adopted:
        plan = plan_adoption(self.layout, str(self.env))
        return adopt(self.layout, plan, {"run_id": "20261130T032512Z"})

    def new_release(self, name: str = "v-1", created: str = "2027-01-01T00:00:00Z") -> None:
        fake_release(self.root, name, created)

    def links(self) -> dict[str, str]:
        """What each name that matters says; a directory has no entry."""
        paths = {"env": self.env, "current": self.root / "current", "previous": self.root / "previous"}
        return {name: os.readlink(path) for name, path in paths.items() if path.is_symlink()}

    def adopted(self) -> None:
        """Assert that it is: completely, and with nothing left over."""
        assert self.links()["env"] == str(self.root / "current")
        assert self.links()["current"] == f"releases/{ID}"
        assert sorted(os.listdir(self.root)) == ["current", "releases"]
        assert os.listdir(self.root / "releases") == [ID]
        assert os.listdir(self.env.parent) == ["ml-env"]
        linked = self.layout.link("current")
        assert linked
        assert (linked.id, (linked.metadata or {})["adopted_from"]) == (ID, str(self.env))

    def serves(self) -> None:
        """Assert that whoever starts it by its old path gets it, and that what looks at the host sees it."""
        ran = subprocess.run([self.env / "bin" / "tool"], check=True, capture_output=True, text=True)
        assert ran.stdout.splitlines() == ["dirt and all", str(self.env)]
        live = self.root / "current"
        assert describe_environment(str(live if os.path.lexists(live) else self.env))["version"] == "0.16.0+g1"

    def removable(self) -> list[Place]:
        """Releases that are in use by no link."""
        return [place for place in self.layout.releases() if not self.layout.live(place)]

    def tree(self) -> dict[str, tuple[int, object]]:
        """Mode and content of every name on the host, links not followed."""
        found: dict[str, tuple[int, object]] = {}
        for folder, folders, files in os.walk(self.base):
            for name in (*folders, *files):
                path = os.path.join(folder, name)
                mode = os.lstat(path).st_mode
                content: object = None
                if stat.S_ISLNK(mode):
                    content = os.readlink(path)
                elif stat.S_ISREG(mode) and "__pycache__" not in path:
                    content = pathlib.Path(path).read_bytes()
                if "__pycache__" not in path:
                    found[path] = (mode, content)
        return found
