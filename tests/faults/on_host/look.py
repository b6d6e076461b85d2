# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on a test host: what an operator would look at, as JSON. look.py UNIT ROOT MODEL-NAME [PATTERN...]

With patterns also the digest of every file and link below what they match, and of everything in the quarantine.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import subprocess
import sys
import urllib.request
from typing import Any


def show(unit: str, name: str) -> str:
    done = subprocess.run(["systemctl", "show", "-P", name, unit], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def completion(model: str) -> str | None:
    """What the service completes; None when it does not."""
    body = json.dumps({"model": model, "prompt": "The", "max_tokens": 4, "temperature": 0}).encode()
    request = urllib.request.Request("http://127.0.0.1:8000/v1/completions", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return str(json.load(answer)["choices"][0]["text"])
    except (OSError, ValueError, LookupError):
        return None


def digest(path: str) -> str | None:
    try:
        if os.path.islink(path):
            return "link:" + hashlib.sha256(os.fsencode(os.readlink(path))).hexdigest()
        with open(path, "rb") as stream:
            return hashlib.sha256(stream.read()).hexdigest()
    except OSError:
        return None


def digests(tops: list[str]) -> dict[str, str]:
    found = {}
    for top in tops:
        names = [top] if os.path.islink(top) or not os.path.isdir(top) else []
        for folder, folders, files in os.walk(top):
            links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
            names += [os.path.join(folder, name) for name in files + links]
        found.update({name: told for name in names if (told := digest(name)) is not None})
    return found


def unended(root: str) -> list[str]:
    """Runs whose switchover has neither ended nor been given up."""
    return sorted(path.split(os.sep)[-2] for path in glob.glob(f"{root}/switchover/*/order.json"))


def last_phases(root: str) -> list[str]:
    """The phases that the last switchover came to."""
    journals = sorted(glob.glob(f"{root}/switchover/*/journal.json"))
    if not journals:
        return []
    with open(journals[-1], encoding="utf-8") as stream:
        return [str(phase["name"]) for phase in json.load(stream)["phases"]]


def runs_from(pid: str) -> str:
    """The environment of the main process: the folder of its interpreter's bin."""
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as stream:
            return os.path.dirname(os.path.dirname(stream.read().split("\0")[0]))
    except OSError:
        return ""


def main() -> None:
    unit, root, model, *patterns = sys.argv[1:]
    pid = show(unit, "MainPID")
    state: dict[str, Any] = {
        "completion": completion(model),
        "unit": f"{show(unit, 'ActiveState')} ({show(unit, 'SubState')})",
        "enabled": show(unit, "UnitFileState"),
        "main_pid": pid,
        "live": os.path.realpath(f"{root}/current"),
        "previous": os.path.realpath(f"{root}/previous"),
        "runs_from": runs_from(pid),
        "unended": unended(root),
        "phases": last_phases(root),
    }
    if patterns:
        state["files"] = digests(sorted({path for pattern in patterns for path in glob.glob(pattern)}))
        state["kept"] = sorted(set(digests([f"{root}/quarantine"]).values()))
    print(json.dumps(state))


if __name__ == "__main__":
    main()
