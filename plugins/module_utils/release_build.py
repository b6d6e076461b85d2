# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build a release from the wheelhouse, without a network, a cache, a configuration or an interpreter that drift knows.

An environment does not move (PEP 405: its scripts name its path), so it is built where it will serve from. What makes
it a release is ``release.json``, written last: killed at any step, it is not one, and the next call builds it again.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import discard, exclusive, sweep
from ansible_collections.pristine.vllm.plugins.module_utils.files import atomic_write
from ansible_collections.pristine.vllm.plugins.module_utils.interpreter import InterpreterError, check_interpreter
from ansible_collections.pristine.vllm.plugins.module_utils.lock import LockRow, parse_lock, read_lock
from ansible_collections.pristine.vllm.plugins.module_utils.messages import tail
from ansible_collections.pristine.vllm.plugins.module_utils.process import (
    CommandError,
    Completed,
    clean_environment,
    readable_files,
    run,
)
from ansible_collections.pristine.vllm.plugins.module_utils.release import (
    MARK,
    REMOVED,
    TEMPORARY,
    Layout,
    Place,
    ReleaseError,
    environment_problem,
)
from ansible_collections.pristine.vllm.plugins.module_utils.release_import import check_imports
from ansible_collections.pristine.vllm.plugins.module_utils.release_prune import (
    plan_unfinished,
    refuse_if_used,
    remove_tree,
)
from ansible_collections.pristine.vllm.plugins.module_utils.release_wheels import (
    check_disk,
    extract_uv,
    find_wheels,
    need_of,
)
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_target import this_host

# What tells when and by which run a release was built, and what was seen of it then, and not what it is.
VOLATILE = ("created_at", "run_id", "python_version", "conflicts")
_ALWAYS = ("--no-config", "--no-cache", "--offline", "--no-python-downloads", "--no-progress", "--color", "never")


@dataclass(frozen=True)
class Request:
    """What to build. ``spare`` is in bytes; the time limits are in seconds, for each program that is run."""

    release: str
    python: str
    lock: str
    wheels: str
    builder: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    import_check: Sequence[str] = ("vllm",)
    spare: int = 1024**3
    build_timeout: float = 1800.0
    import_timeout: float = 300.0


@dataclass(frozen=True)
class Decision:
    """Whether to build, the metadata that the release is to have (without `VOLATILE`), and what is there now."""

    changed: bool
    place: Place
    wanted: dict[str, Any]


@dataclass
class Built:
    """What was decided, the metadata as written, and the unfinished releases that were removed to make room."""

    decision: Decision
    metadata: Optional[dict[str, Any]]
    removed: list[Place] = field(default_factory=list)

    @property
    def conflicts(self) -> list[str]:
        """What `uv pip check` said about the requirements when the release was built, a line each.

        Kept with it: who judges them may not have come to it before the run was killed.
        """
        return list((self.metadata or {}).get("conflicts", []))


def decide(layout: Layout, request: Request) -> Decision:
    """Compare the release with what is asked for.

    :raises ReleaseError: it would have to be built again and is in use.
    :raises OSError: the lock cannot be read.
    """
    place = layout.release(request.release)
    with open(request.lock, "rb") as stream:
        digest = hashlib.sha256(stream.read()).hexdigest()
    wanted = {key: value for key, value in request.metadata.items() if key not in VOLATILE}
    # As it comes back from the file.
    wanted = json.loads(json.dumps({**wanted, "lock_sha256": digest, "python": request.python}))
    known = {key: value for key, value in (place.metadata or {}).items() if key not in VOLATILE}
    if known == wanted and environment_problem(place.path) is None:
        return Decision(False, place, wanted)
    if os.path.lexists(place.path):
        refuse_if_used(layout, place)
    return Decision(True, place, wanted)


def build(layout: Layout, request: Request) -> Built:
    """Build the release unless it is there; remove whatever a failed build left.

    :raises ReleaseError: refused or failed. What serves was not touched, and there is no such release.
    :raises BusyError: another run is building.
    :raises LockError: the lock is not complete.
    """
    rows = read_lock(request.lock)
    builder = parse_lock(request.builder, "builder") if request.builder else rows
    with readable_files():
        os.makedirs(layout.releases_dir, exist_ok=True)
        with exclusive(layout.releases_dir) as held:
            sweep(layout.releases_dir, TEMPORARY, REMOVED)
            decision = decide(layout, request)
            if not decision.changed:
                return Built(decision, decision.place.metadata)
            return _build(layout, request, decision, rows, builder, held)


def _build(
    layout: Layout, request: Request, decision: Decision, rows: list[LockRow], builder: list[LockRow], held: int
) -> Built:
    path = decision.place.path
    try:
        version = check_interpreter(request.python)
        need = need_of(find_wheels(request.wheels, rows, this_host(version)))
    except InterpreterError as error:
        raise ReleaseError(f"release {request.release} cannot be built: {error}") from error
    # Under the lock of the links too: nobody may switch to one between the look and the removal.
    with exclusive(layout.root):
        if os.path.lexists(path):
            refuse_if_used(layout, decision.place)
            remove_tree(layout, decision.place)
        unfinished = plan_unfinished(layout, but=decision.place.id)
        for place in unfinished:
            remove_tree(layout, place)
    check_disk(layout.releases_dir, need, request.spare)
    scratch = tempfile.mkdtemp(prefix=TEMPORARY, dir=layout.releases_dir)
    try:
        steps = _Steps(request, path, scratch, held)
        exact = os.path.join(scratch, "lock.txt")
        with open(exact, "w", encoding="utf-8") as stream:
            stream.writelines(f"{row.render(exact=True)}\n" for row in rows)
        steps.install(extract_uv(request.wheels, builder, platform.machine(), scratch), exact)
        check_imports(path, request.import_check, scratch, request.import_timeout, held)
        steps.sync()
        created = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        seen = {"python_version": version, "created_at": created, "conflicts": steps.conflicts}
        metadata = {**request.metadata, **decision.wanted, **seen}
        mark = json.dumps(metadata, indent=2, sort_keys=True) + "\n"
        atomic_write(os.path.join(path, MARK), mark.encode(), mode=0o644)
    except (ReleaseError, CommandError, OSError) as error:
        # Half a release is of no use, and its room may be what was missing.
        if os.path.lexists(path):
            remove_tree(layout, decision.place)
        raise ReleaseError(
            f"release {request.release} could not be built in {path}: {error}\n"
            "It was removed again; what serves was not touched. Correct the cause and run again."
        ) from error
    finally:
        shutil.rmtree(scratch)
    return Built(decision, metadata, unfinished)


class _Steps:
    """The programs of one build, run with nothing of this host's or user's uv, pip or Python settings."""

    def __init__(self, request: Request, path: str, scratch: str, held: int) -> None:
        self._request = request
        self._path = path
        self._python = os.path.join(path, "bin", "python")
        self._held = held
        self.conflicts: list[str] = []
        # uv's private cache goes to its TMPDIR: beside the release, because /tmp may be small and in memory.
        temporary = os.path.join(scratch, "tmp")
        os.mkdir(temporary)
        self._environment = clean_environment(scratch, temporary)
        # The default of a minute is too short for a large module on a slow disk.
        self._environment["UV_COMPILE_BYTECODE_TIMEOUT"] = "600"

    def install(self, uv: str, lock: str) -> None:
        """Make the environment and install the lock into it.

        :param lock: the rows in the form that takes no other wheel of the folder.
        :raises ReleaseError: uv failed, with what it says.
        """
        request = self._request
        self._uv([uv, "venv", "--no-project", "--python", request.python, *_ALWAYS, self._path])
        install = [uv, "pip", "install", "--python", self._python, *_ALWAYS]
        install += ["--no-index", "--no-build", "--no-deps", "--require-hashes", "--link-mode", "copy"]
        install += ["--compile-bytecode", "--find-links", request.wheels, "--requirements", lock]
        self._uv(install)
        # uv leaves its lock behind for everybody to write to.
        discard(os.path.join(self._path, ".lock"))
        # Wheels of nightlies do contradict each other and serve all the same: said, not judged.
        checked = self._run([uv, "pip", "check", "--python", self._python, *_ALWAYS])
        self.conflicts = [line for line in checked.stderr.splitlines() if line.startswith("The package ")]
        if checked.returncode and not self.conflicts:
            raise _ended(checked, "pip check")

    def sync(self) -> None:
        """Bring every file to the disk, so that a power cut never leaves a mark without its release."""
        if self._run(["sync", "--file-system", self._path]).returncode:
            os.sync()

    def _uv(self, argv: list[str]) -> None:
        ran = self._run(argv)
        if ran.returncode:
            raise _ended(ran, " ".join(argv[1:3] if argv[1] == "pip" else argv[1:2]))

    def _run(self, argv: list[str]) -> Completed:
        return run(argv, self._environment, self._request.build_timeout, cwd="/", hold=[self._held])


def _ended(ran: Completed, what: str) -> ReleaseError:
    said = tail(ran.stderr) or tail(ran.stdout) or "it says nothing"
    return ReleaseError(f"uv {what} ended with {ran.returncode}: {said}")
