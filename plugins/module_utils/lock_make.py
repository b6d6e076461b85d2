# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a lock for this host's Python and platform, from the pinned wheel or from the versions of an environment.

Nothing of the host is changed or trusted: uv is the pinned one, its cache is made for the purpose, and of an
environment only names are read. What comes out is checked as every lock is that goes in.
"""

from __future__ import annotations

import email.parser
import os
import pathlib
import platform
import re
import shutil
import tempfile
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import exclusive
from ansible_collections.pristine.vllm.plugins.module_utils.interpreter import InterpreterError, check_interpreter
from ansible_collections.pristine.vllm.plugins.module_utils.lock import LockError, LockRow, parse_lock
from ansible_collections.pristine.vllm.plugins.module_utils.lock_environment import read_pins
from ansible_collections.pristine.vllm.plugins.module_utils.lock_hashes import complete_rows
from ansible_collections.pristine.vllm.plugins.module_utils.lock_resolve import Resolver
from ansible_collections.pristine.vllm.plugins.module_utils.lock_settings import (
    parse_settings,
    uv_variables,
    without_index,
)
from ansible_collections.pristine.vllm.plugins.module_utils.messages import redact_urls, tail
from ansible_collections.pristine.vllm.plugins.module_utils.process import NETWORK, CommandError, clean_environment, run
from ansible_collections.pristine.vllm.plugins.module_utils.release import ReleaseError
from ansible_collections.pristine.vllm.plugins.module_utils.release_wheels import extract_uv
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_name import canonical_version
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_target import Target, this_host
from ansible_collections.pristine.vllm.plugins.module_utils.wheelhouse import plan
from ansible_collections.pristine.vllm.plugins.module_utils.wheelhouse_fetch import (
    Source,
    fetch,
    make_pip,
    pip_environment,
)
from ansible_collections.pristine.vllm.plugins.module_utils.wheelhouse_resume import WheelhouseError

# Large wheels pass through it, and /tmp may be small and in memory.
_SCRATCH = "/var/tmp"
_NEXT = {
    "wheel": (
        "Have the missing wheels put on an index, or name the index that has them in "
        "nightly_wheel_dependency_index_url; where requirements contradict each other, keep to the versions that serve "
        "with -e lock_from=environment."
    ),
    "environment": (
        "Put a wheel of each on an index (build it once from what is installed), remove what nobody needs, or resolve "
        "anew with -e lock_from=wheel."
    ),
}


@dataclass(frozen=True)
class Request:
    """What to lock. ``origin`` is ``wheel`` or ``environment``; ``wheels`` may be a folder that has what is needed."""

    version: str
    sha256: str
    builder: str
    origin: str
    wheels: str
    source: Source
    environment: str = ""


def make(request: Request) -> str:
    """The text of the lock.

    :raises LockError: it cannot be made, with every package that stands in the way.
    """
    vllm = parse_lock(f"vllm=={request.version} --hash=sha256:{request.sha256}", "pin of vLLM")[0]
    builder = parse_lock(request.builder, "builder")
    scratch = tempfile.mkdtemp(prefix="pristine-lock-", dir=_SCRATCH)
    try:
        python = check_interpreter(request.source.python)
        with exclusive(scratch) as held:
            rows = _Making(request, vllm, builder, scratch, held, this_host(python)).rows()
    except (InterpreterError, WheelhouseError, ReleaseError, CommandError) as error:
        # Those that fetch wheels speak of the folder that they fetch into, and ours will be gone.
        said = redact_urls(str(error)).replace(scratch, request.wheels)
        raise LockError(f"no lock can be made: {said}\nNothing was written. Correct that and run again.") from error
    finally:
        shutil.rmtree(scratch)
    text = _header(request, python, builder) + "".join(f"{row.render()}\n" for row in rows)
    # What cannot be read again is no lock, whoever wrote it.
    parse_lock(text, f"of vllm {request.version}")
    return text


class _Making:
    """One lock in the making, in its scratch directory."""

    def __init__(
        self, request: Request, vllm: LockRow, builder: list[LockRow], scratch: str, held: int, target: Target
    ) -> None:
        self._request = request
        self._vllm = vllm
        self._builder = builder
        self._scratch = scratch
        self._held = held
        self._target = target
        self._pip: list[str] = []
        self._deadline = time.monotonic() + request.source.timeout

    def rows(self) -> list[LockRow]:
        """Every package, sorted by name.

        :raises LockError: packages stand in the way; all are named.
        """
        request = self._request
        problems: list[str] = []
        pins: dict[str, str] = {}
        if request.origin == "environment":
            # First, because it costs nothing and may end it.
            pins, problems = read_pins(request.environment, request.version)
        self._pip = make_pip(self._scratch, request.source.python, self._held)
        resolver = self._resolver(no_deps=request.origin == "environment")
        if request.origin == "wheel":
            wheel = self._wheel(self._vllm)
            lines, more = resolver.resolve(_requirements(wheel), [f"vllm @ {pathlib.Path(wheel).as_uri()}"])
        else:
            # With === no local version stands in for the public one, as torch 2.9.1+cu130 would for 2.9.1.
            lines, more = resolver.resolve_most([f"{name}==={version}" for name, version in pins.items()])
        problems += [line.replace("===", "==") for line in more]
        if problems:
            what = {"wheel": f"wheel of {self._vllm.pin}", "environment": f"environment {request.environment}"}
            origin = f"{what[request.origin]} with {request.source.words}"
            listed = "".join(f"\n- {problem}" for problem in problems)
            raise LockError(
                f"no lock can be made from the {origin}; what stands in the way:{listed}\n"
                f"Nothing was written. {_NEXT[request.origin]}"
            )
        found = complete_rows(lines, self._pip, request.source, self._scratch, self._deadline, self._held)
        _check_versions(found, pins)
        return sorted([*(row for row in found if row.name != "vllm"), self._vllm], key=lambda row: row.name)

    def _resolver(self, no_deps: bool) -> Resolver:
        source = self._request.source
        listed = run([*self._pip, "config", "list"], pip_environment(source, self._scratch), 60, hold=[self._held])
        if listed.returncode:
            raise LockError(f"pip's settings on this host cannot be read: {tail(listed.stderr)}. Mend them, run again.")
        settings = parse_settings(listed.stdout)
        environment = clean_environment(os.environ.get("HOME", "/"), self._scratch, NETWORK)
        environment.update(uv_variables(settings, source.index_url))
        uv = extract_uv(os.path.dirname(self._wheel(*self._builder)), self._builder, platform.machine(), self._scratch)
        alone = without_index(settings) and not source.index_url
        return Resolver(uv, source.python, environment, self._scratch, self._deadline, self._held, alone, no_deps)

    def _wheel(self, *rows: LockRow) -> str:
        """The path of the first row's wheel, with its very digest: the wheelhouse's where it has it, else fetched."""
        folder = self._request.wheels
        present = plan(folder, rows, self._target).present if os.path.isdir(folder) else {}
        if rows[0].pin not in present:
            folder = os.path.join(self._scratch, "wheels")
            os.makedirs(folder, exist_ok=True)
            fetch(folder, rows, self._request.source, self._held, self._pip)
            present = plan(folder, rows).present
        return os.path.join(folder, present[rows[0].pin])


def _requirements(wheel: str) -> list[str]:
    """What a wheel asks for, less its extras. As requirements of our own, its pre-releases are asked for by name."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)]
            text = archive.read(names[0]).decode("utf-8", "replace") if names else ""
    except (OSError, zipfile.BadZipFile) as error:
        raise LockError(f"wheel {wheel} cannot be read: {error}. It has the pinned digest: pin another.") from error
    found = email.parser.HeaderParser().parsestr(text).get_all("Requires-Dist") or []
    return [" ".join(line.split()) for line in found if not re.search(r"\bextra\s*==", line.partition(";")[2])]


def _check_versions(rows: Sequence[LockRow], pins: dict[str, str]) -> None:
    """Make sure that each version is the environment's.

    :raises LockError: an index gave others.
    """
    found = {row.name: row.version for row in rows}
    others = [
        f"{name} {version} (the indexes give {found.get(name, 'nothing')})"
        for name, version in pins.items()
        if canonical_version(found.get(name, "")) != canonical_version(version)
    ]
    if others:
        raise LockError(
            f"no lock can be made: these versions are not to be had: {', '.join(others)}. Nothing was written. "
            "Put their wheels on an index, or resolve anew with -e lock_from=wheel."
        )


def _header(request: Request, python: str, builder: Sequence[LockRow]) -> str:
    tool = next((row.pin.replace("==", " ") for row in builder if row.name == "uv"), "uv")
    origin = {
        "wheel": "from what the pinned wheel of vllm asks for",
        "environment": "from the versions of the environment that served, with nothing resolved but the digests",
    }[request.origin]
    minor = ".".join(python.split(".")[:2])
    return (
        f"# Every package of vllm {request.version},\n"
        f"# each with the digests of its wheels, for Python {minor} on {platform.machine()}.\n"
        f"# Made by the lock playbook with lock_from={request.origin}: by {tool}, {origin}.\n"
        "# Make it anew instead of editing it.\n"
    )
