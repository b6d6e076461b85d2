# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scan of one file against what Ansible needs to start any module; the whole time of tasks beside the engine's."""

from __future__ import annotations

import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ansible_collections.pristine.vllm.tests.bench.support import (
    FILE,
    RUNS,
    BenchError,
    Entry,
    entry,
    real_environment,
    scanned,
)


def measure() -> list[Entry]:
    """Ansible's own module start is a task with ``ansible.builtin.ping`` on this machine: all but the module's work."""
    environment = real_environment()
    module = {"environment": str(environment)}
    tasks: list[dict[str, Any]] = []
    for _run in range(RUNS + 1):
        tasks.append({"name": "ping", "ansible.builtin.ping": {}})
        tasks.append({"name": "one", "pristine.vllm.wheel_record_info": {**module, "files": [FILE]}})
        tasks.append({"name": "full", "pristine.vllm.wheel_record_info": module})
    play = _played(tasks)
    engine = statistics.median(scanned(environment, files=[FILE])["seconds"] for _run in range(RUNS))
    return [
        {
            **entry("one_file_vs_module_start", engine, play["ping"], "s"),
            "comparator": "ansible.builtin.ping",
            "of": f"as a task {play['one']:.2f} s; the full scan as a task {play['full']:.2f} s",
        }
    ]


def _played(tasks: list[dict[str, Any]]) -> dict[str, float]:
    """The median wall time of the tasks of each name, the first of each left out."""
    play = [{"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}]
    settings = {
        **os.environ,
        "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
        "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "play.yml"
        path.write_text(json.dumps(play), encoding="utf-8")
        command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "localhost,", str(path)]
        done = subprocess.run(command, check=False, env=settings, capture_output=True, text=True)
    if done.returncode:
        raise BenchError(f"ansible-playbook ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-500:]}")
    times: dict[str, list[float]] = {}
    for task in json.loads(done.stdout[done.stdout.index("{") :])["plays"][0]["tasks"]:
        start, end = (
            datetime.datetime.fromisoformat(task["task"]["duration"][name].rstrip("Z")) for name in ("start", "end")
        )
        times.setdefault(task["task"]["name"], []).append((end - start).total_seconds())
    return {name: statistics.median(values[1:]) for name, values in times.items()}
