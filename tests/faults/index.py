# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The index of a row that is about a bad one, in a container of its own."""

from __future__ import annotations

import subprocess

from ansible_collections.pristine.vllm.molecule.shared import hosts
from ansible_collections.pristine.vllm.tests.faults.machine import HERE, LABELS, NETWORK, SCENARIO, docker

FOLDER = hosts.CHECKOUT / hosts.FLAVOURS["tiny"].index


class BadIndex:
    """Serves the fixtures' index as it is until it is told to misbehave."""

    def __init__(self, row: str, fault: str) -> None:
        self.name = hosts.container(SCENARIO, f"index-{row}")
        self.url = f"http://index-{row}"
        self._fault = fault

    def start(self) -> None:
        self.remove()
        labels = [word for label in LABELS for word in ("--label", label)]
        mounts = ["--volume", f"{FOLDER}:/srv/index:ro", "--volume", f"{HERE / 'on_host'}:/srv/scripts:ro"]
        alias = self.url.removeprefix("http://")
        docker(
            *("run", "--detach", "--name", self.name, "--network", NETWORK, "--network-alias", alias, *labels, *mounts),
            *("--entrypoint", "/usr/bin/python3", hosts.IMAGE[0], "-I", "/srv/scripts/bad_index.py", "/srv/index"),
        )

    def misbehave(self) -> None:
        docker("exec", "--interactive", self.name, "tee", "/run/fault", stdin=self._fault)

    def remove(self) -> None:
        subprocess.run(["docker", "rm", "--force", self.name], capture_output=True, check=False)
