# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One tick of a host that scans itself: compare the installed collection with its own lists, then run the playbook.

Written beside the collection as a program: tick.py COLLECTION MANIFEST_SHA256 COMMAND... It imports nothing of ours, as
that is what it judges.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
import time
from typing import Any

MANIFEST, FILES = "MANIFEST.json", "FILES.json"
#: EX_CONFIG of sysexits.h, which systemd shows by that name. ansible-playbook does not use it.
REFUSED = 78
_SHOWN = 5
_PATIENCE = 10.0


def problems(collection: str, manifest_sha256: str) -> list[str]:
    """How the installed collection differs from what was installed; empty when it does not."""
    try:
        manifest = _read(collection, MANIFEST)
        if hashlib.sha256(manifest).hexdigest() != manifest_sha256:
            return [f"{MANIFEST} is not that of the tarball"]
        files = _read(collection, FILES)
        if hashlib.sha256(files).hexdigest() != json.loads(manifest)["file_manifest_file"]["chksum_sha256"]:
            return [f"{FILES} is not what {MANIFEST} says"]
        listed: list[dict[str, Any]] = json.loads(files)["files"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return [f"its lists cannot be read: {error}"]
    expected = {entry["name"]: entry["chksum_sha256"] for entry in listed if entry["ftype"] == "file"}
    there = set(_walk(collection)) - {MANIFEST, FILES}
    # Bytecode that nobody listed would be run in place of its source.
    found = [f"{name} is not of it" for name in there - set(expected)]
    return sorted(found + [what for name in sorted(expected) for what in _compare(collection, name, expected[name])])


def _compare(collection: str, name: str, expected: str) -> list[str]:
    try:
        return [] if hashlib.sha256(_read(collection, name)).hexdigest() == expected else [f"{name} was changed"]
    except OSError as error:
        return [f"{name} cannot be read: {error.strerror}"]


def _read(collection: str, name: str) -> bytes:
    """The content of a regular file; a link is none."""
    path = os.path.join(collection, name)
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise OSError(0, "it is no regular file", path)
    with open(path, "rb") as stream:
        return stream.read()


def _walk(collection: str) -> list[str]:
    """All that is in it, folders apart; a link to a folder is no folder."""
    names = []
    for top, folders, files in os.walk(collection):
        links = [folder for folder in folders if os.path.islink(os.path.join(top, folder))]
        names += [os.path.relpath(os.path.join(top, name), collection) for name in files + links]
    return names


def _others() -> list[str]:
    """The other processes of our unit."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as stream:
            (group,) = [line.strip()[3:] for line in stream if line.startswith("0::")]
        with open(f"/sys/fs/cgroup{group}/cgroup.procs", encoding="utf-8") as stream:
            return [pid for pid in stream.read().split() if pid != str(os.getpid())]
    except (OSError, ValueError):
        return []


def main(argv: list[str]) -> int:
    """Run the command when the collection is what was installed; returns its exit status."""
    collection, manifest_sha256, *command = argv
    found = problems(collection, manifest_sha256)
    if found:
        more = f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        sys.stderr.write(
            f"The collection in {collection} is not what was installed: {', '.join(found[:_SHOWN])}{more}. Nothing was "
            "run. Next: run the playbook pristine.vllm.schedule, which installs it anew beside the damaged one.\n"
        )
        return REFUSED
    status = subprocess.call(command)
    # The keeper of the run lock gives that back now. systemd would kill it as soon as we end, and the lock would stay
    # until it lapses.
    until = time.monotonic() + _PATIENCE
    while _others() and time.monotonic() < until:
        time.sleep(0.1)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
