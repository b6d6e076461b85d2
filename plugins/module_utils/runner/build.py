# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs the scans on a host without a controller: a pinned ansible-core and this collection, in one folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.command import Run, run
from ansible_collections.pristine.vllm.plugins.module_utils.files import atomic_write, sha256_file
from ansible_collections.pristine.vllm.plugins.module_utils.fresh_pip import fresh_pip
from ansible_collections.pristine.vllm.plugins.module_utils.runner import tick
from ansible_collections.pristine.vllm.plugins.module_utils.switchover.bundle import source_of

RUNNERS = "runners"
COLLECTION = "collections/ansible_collections/pristine/vllm"
#: Written last: a runner without it was never whole.
MARK = "manifest.sha256"
_MIN_PYTHON = (3, 11)
_VERSION = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
_SETTINGS = """\
# Written by pristine.vllm. What other users of Ansible on this host have set does not count here.
[defaults]
collections_path = {folder}/collections
home = {top}/ansible
remote_tmp = {top}/ansible/tmp
inventory = {top}/inventory.yml
inject_facts_as_vars = false
callback_result_format = yaml
display_skipped_hosts = false
nocows = true
[inventory]
unparsed_is_failed = true
[connection]
pipelining = true
"""


class RunnerError(Exception):
    """The runner cannot be had. The text says what, where, why and what to do next."""


@dataclass(frozen=True)
class Ask:
    """A runner that is to be there. ``path`` holds all of them."""

    path: str
    lock: str
    collection: str
    sha256: str
    python: str = "/usr/bin/python3"
    pip_arguments: tuple[str, ...] = ()
    timeout: float = 900.0


@dataclass(frozen=True)
class Plan:
    """The folder of the runner, the digest of its collection's manifest, and why it has to be built, if so."""

    folder: str
    manifest_sha256: str
    reasons: list[str] = field(default_factory=list)


def plan(ask: Ask, run_command: Run = run) -> Plan:
    """Decide; changes nothing.

    :raises RunnerError: it cannot be built from what there is.
    """
    manifest = _manifest(ask)
    version = _python(ask, run_command)
    name = hashlib.sha256("\0".join((ask.lock, ask.sha256, version)).encode()).hexdigest()[:12]
    reasons: list[str] = []
    # One that was damaged stays until its successor is in use: a tick may be running from it.
    for number in range(1, 1000):
        folder = os.path.join(ask.path, RUNNERS, f"{name}-{number}")
        if not os.path.lexists(folder):
            break
        damage = _damage(folder, manifest)
        if not damage:
            return Plan(folder, manifest)
        reasons += [f"{folder}: {what}" for what in damage]
    return Plan(folder, manifest, reasons or ["there is none of this version"])


def apply(ask: Ask, todo: Plan, run_command: Run = run) -> None:
    """Build it. Nothing uses it before its folder is named in a unit.

    :raises RunnerError: it could not be built; what there was before is as it was.
    """
    folder = todo.folder
    try:
        os.makedirs(folder, mode=0o700)
        os.makedirs(os.path.join(ask.path, "ansible"), mode=0o700, exist_ok=True)
        atomic_write(os.path.join(folder, "lock.txt"), ask.lock.encode(), mode=0o600)
        settings = _SETTINGS.format(folder=folder, top=ask.path)
        atomic_write(os.path.join(folder, "ansible.cfg"), settings.encode(), mode=0o600)
        atomic_write(os.path.join(folder, "tick.py"), source_of(tick), mode=0o600)
        for what, words in _steps(ask, folder):
            done = run_command(words, timeout=ask.timeout)
            if done.failure is not None:
                raise RunnerError(f"{what} failed in {folder}: {done.failure}. Nothing is scheduled with it. {_NEXT}")
        damage = tick.problems(os.path.join(folder, COLLECTION), todo.manifest_sha256)
        if damage:
            raise RunnerError(f"the collection in {folder} is not what {ask.collection} holds: {damage[0]}. {_NEXT}")
        atomic_write(os.path.join(folder, MARK), todo.manifest_sha256.encode(), mode=0o600)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


_NEXT = "Mend the reason and run again."


def _steps(ask: Ask, folder: str) -> list[tuple[str, list[str]]]:
    environment = os.path.join(folder, "venv")
    # -I: nothing of the user's site or of PYTHONPATH gets in. What the host has set for pip counts.
    pip = [f"{environment}/bin/python", "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--no-cache-dir", "--no-deps", "--require-hashes", "--only-binary=:all:", *ask.pip_arguments]
    clean = ["/usr/bin/env", "-i", "PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", f"ANSIBLE_CONFIG={folder}/ansible.cfg"]
    galaxy = [f"{environment}/bin/ansible-galaxy", "collection", "install", "--offline", ask.collection]
    return [
        ("making the environment", fresh_pip(ask.python, environment)),
        ("installing ansible-core", [*pip, "--requirement", f"{folder}/lock.txt"]),
        ("installing the collection", [*clean, *galaxy, "--collections-path", f"{folder}/collections"]),
    ]


def runners(path: str) -> list[str]:
    """The folders of those that are there, whole or not."""
    top = os.path.join(path, RUNNERS)
    return [os.path.join(top, name) for name in sorted(os.listdir(top))] if os.path.isdir(top) else []


def prune(path: str, keep: Sequence[str], remove: bool = True) -> list[str]:
    """Remove all runners but these; which that are, or would be."""
    gone = [folder for folder in runners(path) if folder not in keep]
    for folder in gone if remove else []:
        shutil.rmtree(folder)
    return gone


def _manifest(ask: Ask) -> str:
    """The digest of the tarball's manifest; that tells of every file, as it is."""
    try:
        actual: Optional[str] = sha256_file(ask.collection)
        if actual != ask.sha256.lower():
            raise RunnerError(
                f"the collection's tarball {ask.collection} has the sha256 {actual}, and it must be {ask.sha256}. "
                "Nothing was installed. Next: bring the tarball that you mean, or correct the digest."
            )
        with tarfile.open(ask.collection) as archive:
            member = archive.extractfile(tick.MANIFEST)
            if member is None:
                raise KeyError(tick.MANIFEST)
            return hashlib.sha256(member.read()).hexdigest()
    except (OSError, tarfile.TarError, KeyError) as error:
        raise RunnerError(f"the collection's tarball {ask.collection} cannot be read: {error}. {_NEXT}") from error


def _python(ask: Ask, run_command: Run) -> str:
    done = run_command([ask.python, "-I", "-c", _VERSION])
    if done.failure is not None:
        raise RunnerError(
            f"{ask.python} cannot make an environment: {done.failure}. Nothing was installed. "
            "Next: install python3-venv, or name another Python in drift_watch_schedule_python."
        )
    version = done.stdout.strip()
    if tuple(int(part) for part in version.split(".")) < _MIN_PYTHON:
        least = ".".join(map(str, _MIN_PYTHON))
        raise RunnerError(
            f"{ask.python} is Python {version}, and ansible-core needs {least} or newer. "
            "Nothing was installed. Next: name a newer one in drift_watch_schedule_python, or use mode controller."
        )
    return version


def _damage(folder: str, manifest: str) -> list[str]:
    if not os.path.isfile(os.path.join(folder, MARK)):
        return ["it was never whole"]
    if not os.path.exists(os.path.join(folder, "venv/bin/ansible-playbook")):
        return ["it has no ansible-playbook"]
    return tick.problems(os.path.join(folder, COLLECTION), manifest)
