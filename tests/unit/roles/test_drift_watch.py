# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role on this machine: of an environment that nobody provisioned it needs no more than the path."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import ansible_environment
from jinja2.nativetypes import NativeEnvironment

ROOT = pathlib.Path(__file__).resolve().parents[3]
PLAY = """
- name: Watch
  hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - name: Watch
      ansible.builtin.include_role:
        name: pristine.vllm.drift_watch
"""


@dataclass
class Watched:
    """An environment and the folder that the runs write to."""

    folder: pathlib.Path
    environment: pathlib.Path

    def run(self, *arguments: str, **more: Any) -> tuple[int, str]:
        """Run the role; the exit status, and what it prints."""
        (self.folder / "metrics").mkdir(exist_ok=True)
        (self.folder / "play.yml").write_text(PLAY)
        variables = {
            "drift_watch_environment": str(self.environment),
            "drift_watch_state": str(self.folder / "history/state.json"),
            "drift_watch_textfile_directory": str(self.folder / "metrics"),
            "drift_watch_hold_file": str(self.folder / "hold"),
            # Other tests beside this one would have all of the processor.
            "drift_watch_background": False,
            **more,
        }
        done = subprocess.run(
            [
                str(pathlib.Path(sys.executable).parent / "ansible-playbook"),
                *("play.yml", "--inventory", "localhost,", "--extra-vars", json.dumps(variables)),
                *("--extra-vars", json.dumps({"ansible_python_interpreter": sys.executable}), *arguments),
            ],
            cwd=self.folder,
            env=ansible_environment(self.folder / "ansible", ANSIBLE_INJECT_FACT_VARS="false", ANSIBLE_NOCOLOR="1"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, " ".join(done.stdout.split())

    def metrics(self) -> str:
        (path,) = (self.folder / "metrics").glob("pristine_vllm-*.prom")
        return path.read_text()


@pytest.fixture
def watched(tmp_path: pathlib.Path) -> Watched:
    """An environment with one distribution, as an installer leaves it."""
    environment = tmp_path / "env"
    packages = environment / "lib/python3.11/site-packages"
    (packages / "demo-1.0.dist-info").mkdir(parents=True)
    (environment / "bin").mkdir()
    (environment / "bin/python").symlink_to(sys.executable)
    (environment / "pyvenv.cfg").write_text(f"home = {pathlib.Path(sys.executable).parent}\n")
    (packages / "demo.py").write_text("")
    # The digest of nothing.
    rows = [
        "demo.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0",
        "demo-1.0.dist-info/METADATA,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0",
        "demo-1.0.dist-info/RECORD,,",
    ]
    (packages / "demo-1.0.dist-info/METADATA").write_text("")
    (packages / "demo-1.0.dist-info/RECORD").write_text("".join(f"{row}\n" for row in rows))
    return Watched(tmp_path, environment)


def test_from_pristine_to_held(watched: Watched) -> None:
    status, said = watched.run("--check", drift_watch_background=True)
    assert (status, "localhost: pristine: nothing differs" in said) == (0, True), said
    assert not (watched.folder / "history").exists()
    assert list((watched.folder / "metrics").iterdir()) == []
    assert "(verified against installed_record)" in said

    (watched.environment / "lib/python3.11/site-packages/demo.py").write_text("import pdb\n")
    status, said = watched.run()
    assert status == 2
    assert "localhost: drifted and reported (1 finding, 1 new, since" in said
    assert "modified demo.py" in said

    (watched.folder / "hold").write_text("benchmark until Friday\n")
    status, said = watched.run(drift_watch_policy={"code": "restore"}, drift_watch_fail_on=[])
    assert status == 0, said
    assert "localhost: held (1 finding, 0 new, since" in said
    assert "the host is held: benchmark until Friday" in said
    labels = f'environment="{watched.environment}",distribution="demo",status="modified"'
    assert f"pristine_vllm_drifted_files{{{labels}}} 1" in watched.metrics()


def test_a_remediation_is_known_before_it_is_handed_over(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = """
    - name: Note that it begins
      ansible.builtin.include_role:
        name: pristine.vllm.drift_watch
        tasks_from: begun.yml
"""
    (watched.environment / "lib/python3.11/site-packages/demo.py").write_text("import pdb\n")
    monkeypatch.setattr(sys.modules[__name__], "PLAY", PLAY + begun)
    more: dict[str, Any] = {"drift_watch_policy": {"code": "restore"}, "drift_watch_fail_on": []}
    status, said = watched.run(run_record_id="first", **more)
    assert status == 0, said
    (noted,) = json.loads((watched.folder / "history/state.json").read_text())["remediations"]
    assert (noted["action"], noted["run_id"], noted["begun"]) == ("restore", "first", True)
    # Its play is gone, and the next run has the host.
    monkeypatch.undo()
    status, said = watched.run(run_record_id="second", **more)
    assert "restore for code is due, but the last one failed and the host cools down" in said
    assert 'action="restore"} 0' in watched.metrics()


def test_a_dump_is_found_until_it_is_gone(watched: Watched) -> None:
    """Also where nobody names it any more, whatever its name."""

    def known() -> dict[str, Any]:
        (one,) = json.loads((watched.folder / "history/state.json").read_text())["known"]
        return dict(one)

    (watched.folder / "dumps").mkdir()
    dump = watched.folder / "dumps/layer[0]*.pt"
    dump.write_text("x")
    (watched.folder / "dumps/layer0.pt").write_text("of somebody else")
    pattern = {"drift_watch_artifact_globs": [f"{watched.folder}/dumps/layer[[]*.pt"]}
    assert "(1 finding, 1 new" in watched.run(**pattern)[1]
    first = known()
    status, said = watched.run()
    assert (status, "(1 finding, 0 new" in said) == (2, True), said
    # It was looked for and found: a clean-up would take it.
    assert known()["last_seen"] > first["last_seen"] == first["first_seen"]
    dump.unlink()
    status, said = watched.run()
    assert (status, "localhost: pristine" in said) == (0, True), said


def test_what_one_part_could_not_look_at_the_other_does_not_know() -> None:
    """The unit's own file is looked at by one, and what systemd makes of it by the other."""
    note = yaml.safe_load((ROOT / "roles/drift_watch/tasks/service.yml").read_text())[1]["ansible.builtin.set_fact"]
    templar = NativeEnvironment()
    templar.tests["match"] = lambda text, pattern: re.match(pattern, text) is not None
    for error, kinds in (("unit: no such secret", ["code", "link"]), ("code: unit: x", ["code", "unit", "link"])):
        told: Any = templar.from_string(note["drift_watch_kinds"]).render(
            drift_watch_kinds=["code"], drift_watch_service={"kinds": ["unit", "link"]}, drift_watch_errors=[error]
        )
        assert told == kinds


def test_how_often_a_scan_is_due_says_the_schedule(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told by its timer, kept through a run by hand, and gone with the schedule."""
    for more, told in (({"drift_watch_interval": 86400}, True), ({}, True)):
        status, said = watched.run(**more)
        assert status == 0, said
        assert ("pristine_vllm_scan_interval_seconds{" in watched.metrics()) == told
    assert f'interval_seconds{{environment="{watched.environment}"}} 86400' in watched.metrics()
    forget = """
        tasks_from: forget.yml
"""
    monkeypatch.setattr(sys.modules[__name__], "PLAY", PLAY.rstrip() + forget)
    for changed in (1, 0):
        status, said = watched.run()
        assert (status, f"changed={changed}" in said) == (0, True), said
    monkeypatch.undo()
    assert watched.run()[0] == 0
    assert "pristine_vllm_scan_interval_seconds" not in watched.metrics()


def test_an_environment_that_is_not_there_is_a_scan_that_failed(watched: Watched) -> None:
    status, said = watched.run(drift_watch_environment=str(watched.folder / "none"))
    assert status == 2
    assert "localhost: scan failed: the scan is not whole: code: " in said
    # What was watched was the other one: of this one nothing is known but that.
    assert "pristine_vllm_scan_success{" in watched.metrics()
    assert "pristine_vllm_pristine{" not in watched.metrics()
