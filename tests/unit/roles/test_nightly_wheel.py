# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role's own decisions, run by the real Ansible on this machine: whether a lock is written, a release refused."""

from __future__ import annotations

import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import (
    PYTHON,
    Reply,
    Server,
    ansible_environment,
    fake_release,
    http_server,
    lock_text,
    make_wheel,
    sha256,
    uv_wheel,
)

VERSION = "0.16.0rc2.dev313+g662205d34"
COMMIT = "662205d34eb1bb42228768d7a69a1ac4abf38c89"
CONFLICT = "The package `vllm` requires `tiny-dep>=2`, but `1.0` is installed"


class Host:
    """This machine as a host, with a nightly index, an index of dependencies, and a root in a temporary folder."""

    def __init__(self, base: pathlib.Path, server: Server) -> None:
        self.base, self.root, self.lock = base, base / "root", base / "locks" / "lock.txt"
        self.lock.parent.mkdir()
        (self.root / "wheels").mkdir(parents=True)
        os.link(uv_wheel(), self.root / "wheels" / uv_wheel().name)
        self.tiny = make_wheel(base / "built", "tiny_dep", "1.0", {"tiny_dep.py": ""})
        self.index = server.serve_simple(base / "built")
        tag = f"cp38-abi3-manylinux_2_31_{platform.machine()}"
        self.vllm = make_wheel(base / "n", "vllm", VERSION, {"vllm.py": ""}, requires=("tiny-dep==1.0",), tag=tag)
        self.serve(server)
        self.server = server

    def serve(self, server: Server) -> None:
        quoted = self.vllm.name.replace("+", "%2B")
        server.routes[f"/{COMMIT}/vllm/"] = Reply(f'<a href="../{quoted}">{self.vllm.name}</a>'.encode())
        server.routes[f"/{COMMIT}/{quoted}"] = Reply(self.vllm.read_bytes())

    def variables(self) -> dict[str, Any]:
        return {
            "ansible_connection": "local",
            "ansible_python_interpreter": PYTHON,
            "vllm_python": PYTHON,
            "vllm_root": str(self.root),
            "vllm_version": VERSION,
            "vllm_commit": COMMIT,
            "vllm_wheel_sha256": sha256(self.vllm),
            "vllm_index_url": self.server.url,
            "vllm_lock": str(self.lock),
            "nightly_wheel_dependency_index_url": self.index,
        }

    def play(self, playbook: str, *arguments: str, **variables: Any) -> str:
        """Runs a playbook; what it prints begins with its exit status."""
        inventory = self.base / "hosts.json"
        inventory.write_text(json.dumps({"vllm_hosts": {"hosts": {"here": {**self.variables(), **variables}}}}))
        # Neither this checkout's settings nor this machine's indexes.
        settings = self.base / "ansible.cfg"
        settings.touch()
        environment = ansible_environment(
            self.base / "a", ANSIBLE_CONFIG=str(settings), ANSIBLE_CALLBACK_RESULT_FORMAT="yaml"
        )
        environment = {name: value for name, value in environment.items() if not name.startswith("PIP_")}
        environment.update(PIP_CONFIG_FILE=os.devnull, no_proxy="127.0.0.1")
        command = str(pathlib.Path(sys.executable).parent / "ansible-playbook")
        argv = [command, "-i", str(inventory), playbook, *arguments]
        done = subprocess.run(argv, env=environment, cwd=self.base, capture_output=True, text=True, check=False)
        return f"{done.returncode}\n{done.stdout}{done.stderr}"

    def entry(self, name: str, more: Sequence[dict[str, Any]] = (), **variables: Any) -> str:
        """Runs an entry point of the role, and more tasks."""
        task = {"ansible.builtin.import_role": {"name": "pristine.vllm.nightly_wheel", "tasks_from": name}}
        playbook = self.base / "play.yml"
        playbook.write_text(json.dumps([{"hosts": "vllm_hosts", "gather_facts": False, "tasks": [task, *more]}]))
        return self.play(str(playbook), **variables)


@pytest.fixture
def host(tmp_path: pathlib.Path) -> Iterator[Host]:
    with http_server() as server:
        yield Host(tmp_path, server)


def test_a_lock_is_made_and_replaced_only_when_that_is_said(host: Host) -> None:
    os.link(host.vllm, host.root / "wheels" / host.vllm.name)
    check = host.play("pristine.vllm.lock", "--check")
    assert check.startswith("0\n"), check
    assert "changed=1" in check
    assert not host.lock.exists()
    made = host.play("pristine.vllm.lock")
    assert made.startswith("0\n"), made
    assert "changed=1" in made
    assert "+ tiny-dep 1.0" in made, "what it changes in the environment that serves: here there is none"
    text = host.lock.read_text()
    assert f"--hash=sha256:{sha256(host.vllm)}" in text
    assert host.server.url.rpartition("/")[2] not in text
    again = host.play("pristine.vllm.lock")
    assert again.startswith("0\n"), again
    assert "changed=0" in again
    old = text.replace("tiny-dep==1.0", "tiny-dep==0.9")
    host.lock.write_text(old)
    refused = host.play("pristine.vllm.lock", "--check")
    assert refused.startswith("2\n"), refused
    assert "tiny-dep 0.9 -> 1.0" in refused
    assert "-e lock_replace=true" in " ".join(refused.split())
    replaced = host.play("pristine.vllm.lock", "-e", "lock_replace=true")
    assert replaced.startswith("0\n"), replaced
    assert host.lock.read_text() == text
    (kept,) = set(host.lock.parent.iterdir()) - {host.lock}
    assert kept.name.startswith("lock.txt.")
    assert kept.read_text() == old


def test_a_pin_that_cannot_be_had_makes_no_lock(host: Host) -> None:
    refused = host.play("pristine.vllm.lock", vllm_wheel_sha256="")
    assert refused.startswith("2\n"), refused
    assert "vllm_wheel_sha256" in refused
    assert "There is no such file on the controller" not in refused, "that is what it was asked to make"
    assert not host.lock.exists()


def test_a_lock_of_another_pin_is_a_blocker(host: Host) -> None:
    def blockers(text: str) -> str:
        host.lock.write_text(text)
        show = {"ansible.builtin.debug": {"var": "nightly_wheel_blockers"}}
        return " ".join(host.entry("preflight", more=[show]).split())

    row = lock_text(host.tiny)
    assert "nightly_wheel_blockers: []" in blockers(row)
    assert "nightly_wheel_blockers: []" in blockers(row + lock_text(host.vllm))
    said = blockers(row + lock_text(host.vllm).replace("dev313", "dev312"))
    assert f"It is the lock of vllm {VERSION.replace('dev313', 'dev312')}, and the pin is {VERSION}." in said
    assert "playbooks/lock.yml" in said


def test_what_is_left_of_a_damaged_release_is_evidence(host: Host) -> None:
    for wheel in (host.tiny, host.vllm):
        os.link(wheel, host.root / "wheels" / wheel.name)
    host.lock.write_text(lock_text(host.tiny))
    live = fake_release(host.root, "r-1", "2026-11-01T00:00:00Z")
    (host.root / "current").symlink_to("releases/r-1")
    site = live / "lib" / "python3.11" / "site-packages"
    with zipfile.ZipFile(host.tiny) as archive:
        archive.extractall(site)
    (site / "tiny_dep.py").write_text("debug = True\n")
    (live / "pyvenv.cfg").unlink()

    def evidence() -> str:
        names = ("releases", "evidence")
        tasks = [
            {"ansible.builtin.import_role": {"name": "pristine.vllm.nightly_wheel", "tasks_from": x}} for x in names
        ]
        show: dict[str, Any] = {"ansible.builtin.debug": {"var": "nightly_wheel_evidence"}}
        return host.entry("preflight", more=[*tasks, show])

    said = evidence()
    assert said.startswith("0\n"), said
    assert "pristine: false" in said
    assert "path: tiny_dep.py" in said
    assert [path.read_text() for path in host.root.glob("quarantine/*/files/**/tiny_dep.py")] == ["debug = True\n"]
    shutil.rmtree(live / "lib")
    gone = evidence()
    assert gone.startswith("0\n"), gone
    assert "problem:" in gone
    assert "holds no distribution" in gone
    # Where it is an environment, no evidence is no answer.
    shutil.rmtree(live)
    fake_release(host.root, "r-1", "2026-11-01T00:00:00Z")
    assert evidence().startswith("2\n")


def test_a_release_that_was_left_is_taken_up_only_where_it_is_pristine(host: Host) -> None:
    """Such as one that was live and was gone back from: what was edited in it is kept, and it is built anew."""
    for wheel in (host.tiny, host.vllm):
        os.link(wheel, host.root / "wheels" / wheel.name)
    host.lock.write_text(lock_text(host.tiny))
    (host.root / "lock.txt").write_text(lock_text(host.tiny, host.vllm))
    release = host.root / "releases" / "r-1"
    given: dict[str, Any] = {"nightly_wheel_release": "r-1", "nightly_wheel_folder": {"stat": {"exists": True}}}
    built = host.entry("stage", **given)
    assert built.startswith("0\n"), built
    again = host.entry("stage", **given)
    assert again.startswith("0\n"), again
    assert "changed=0" in again
    (module,) = release.glob("lib/python3*/site-packages/tiny_dep.py")
    module.write_text("debug = True\n")
    anew = host.entry("stage", **given)
    assert anew.startswith("0\n"), anew
    assert module.read_text() == ""
    kept = host.root / "quarantine" / "by-hand" / "r-1"
    assert [path.read_text() for path in kept.glob("files/**/tiny_dep.py")] == ["debug = True\n"]
    assert (kept / "findings.json").is_file()
    assert list(kept.glob("patches/**/tiny_dep.py.patch"))
    # So damaged that there is nothing to compare.
    shutil.rmtree(release / "lib")
    assert host.entry("stage", **given).startswith("0\n")
    assert module.read_text() == ""


def test_contradictions_are_refused_unless_they_are_declared(host: Host) -> None:
    """In a release that was built, verified against its wheels, and never went live."""
    wheel = make_wheel(host.root / "wheels", "vllm", VERSION, {"vllm.py": ""}, requires=("tiny-dep>=2",))
    os.link(host.tiny, host.root / "wheels" / host.tiny.name)
    # The inventory's lock may have vLLM's row, and the role adds it: once more is no contradiction.
    host.lock.write_text(lock_text(host.tiny, wheel))
    (host.root / "lock.txt").write_text(lock_text(host.tiny, wheel) + lock_text(wheel))
    release = host.root / "releases" / "r-1"
    given: dict[str, Any] = {"nightly_wheel_release": "r-1", "vllm_wheel_sha256": sha256(wheel)}
    # As releases.yml has found it.
    given["nightly_wheel_folder"] = {"stat": {"exists": True}}
    refused = host.entry("stage", **given)
    assert refused.startswith("2\n"), refused
    said = " ".join(refused.split())
    assert CONFLICT in said
    assert "nightly_wheel_accepted_conflicts" in said
    assert "Nothing was stopped" in said
    assert not release.exists()
    done = host.entry("stage", nightly_wheel_accepted_conflicts=[CONFLICT], **given)
    assert done.startswith("0\n"), done
    assert (release / "release.json").is_file()
    assert "changed=0" in host.entry("stage", nightly_wheel_accepted_conflicts=["vllm"], **given)
    # Built by a run that was killed before it judged them: they are judged all the same.
    left = host.entry("stage", **given)
    assert left.startswith("2\n"), left
    assert CONFLICT in " ".join(left.split())
    assert not release.exists()
