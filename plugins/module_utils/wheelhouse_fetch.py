# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetch pinned wheels with a pip that nobody has touched: that of a fresh environment made by the system's Python."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import tempfile
import time
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import fsync_directory, sha256_file
from ansible_collections.pristine.vllm.plugins.module_utils.fresh_pip import fresh_pip
from ansible_collections.pristine.vllm.plugins.module_utils.index_folder import as_address, as_path
from ansible_collections.pristine.vllm.plugins.module_utils.interpreter import InterpreterError, check_interpreter
from ansible_collections.pristine.vllm.plugins.module_utils.lock import LockRow
from ansible_collections.pristine.vllm.plugins.module_utils.messages import human_bytes, redact_urls, tail
from ansible_collections.pristine.vllm.plugins.module_utils.process import (
    NETWORK,
    CommandError,
    Completed,
    clean_environment,
    run,
)
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_name import canonical_version, parse_wheel_name
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_target import Target
from ansible_collections.pristine.vllm.plugins.module_utils.wheelhouse_resume import Direct, WheelhouseError

INCOMING = ".incoming-"
# pip hands over nothing before it has everything: a call for each few rows keeps what a failed or killed run fetched.
ROWS_AT_ONCE = 16
# A fresh environment with pip, and what unpacking it takes besides.
PIP_BYTES = 40_000_000
# Where this host fetches packages from is its own matter; what pip does with them is not.
_PIP_SETTINGS = (
    *("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_TRUSTED_HOST", "PIP_CONFIG_FILE"),
    *("PIP_CERT", "PIP_CLIENT_CERT", "PIP_PROXY", "PIP_DEFAULT_TIMEOUT", "PIP_RETRIES", "PIP_KEYRING_PROVIDER"),
)


@dataclass(frozen=True)
class Source:
    """Where wheels come from.

    ``index_url`` replaces the host's own pip settings (None: those are used), ``find_links`` are pages and folders
    besides, ``no_index`` means these only. ``timeout`` is in seconds, for everything that is fetched. ``target`` is
    the host that the wheels are for (None: this one). ``direct`` is the one wheel that is fetched without pip.
    """

    python: str
    index_url: Optional[str] = None
    find_links: list[str] = field(default_factory=list)
    no_index: bool = False
    timeout: float = 3600.0
    target: Optional[Target] = None
    direct: Optional[Direct] = None

    @property
    def words(self) -> str:
        """For messages."""
        index = [] if self.no_index else [self.index_url or "the index of this host's pip settings"]
        return redact_urls(", ".join([*self.find_links, *index])) or "nowhere"


def fetch(path: str, rows: Sequence[LockRow], source: Source, held: int, pip: Optional[list[str]] = None) -> int:
    """Fetch a wheel for each row into the folder; return the number of bytes.

    A wheel appears under its name when it is complete, has a right digest and is on disk, and not before.

    :param held: the folder's lock, see `exclusive`.
    :param pip: one that `make_pip` has made already.
    :raises WheelhouseError: pip could not be made, did not find a wheel, or found one with another digest.
    """
    try:
        check_interpreter(source.python)
    except InterpreterError as error:
        raise WheelhouseError(f"wheelhouse {path} cannot be completed: {error}") from error
    source = _with_folders(path, source)
    deadline = time.monotonic() + source.timeout
    scratch = tempfile.mkdtemp(prefix=INCOMING, dir=path)
    total = 0
    try:
        pip = pip or make_pip(scratch, source.python, held)
        for start in range(0, len(rows), ROWS_AT_ONCE):
            some = rows[start : start + ROWS_AT_ONCE]
            folder = os.path.join(scratch, str(start))
            os.mkdir(folder)
            ran = _download(pip, folder, some, source, deadline, held)
            if ran.returncode:
                raise WheelhouseError(_refused(path, some, source, ran, start))
            total += sum(_accept(folder, path, row) for row in some)
            fsync_directory(path)
    except CommandError as error:
        raise WheelhouseError(
            f"wheelhouse {path} cannot be completed from {source.words}: {redact_urls(str(error))} "
            "Run again: what was fetched is kept."
        ) from error
    finally:
        shutil.rmtree(scratch)
    return total


def _with_folders(path: str, source: Source) -> Source:
    """The source as pip takes it: an index that is a folder of wheels is a place to find links in, and the only one.

    :raises WheelhouseError: a folder is not there. pip would go on without it and say that there is no such wheel.
    """
    index = as_path(source.index_url or "")
    folders = [folder for folder in [*map(as_path, source.find_links), index] if folder]
    absent = [folder for folder in folders if not os.path.exists(folder)]
    if absent:
        raise WheelhouseError(
            f"wheelhouse {path} cannot be completed: there is no {', '.join(absent)} on this host, where wheels should "
            "be. Mount it or name another folder. Nothing that runs was touched."
        )
    if index is None:
        return source
    if any(name.endswith(".whl") for name in os.listdir(index)):
        return replace(source, index_url=None, find_links=[*source.find_links, index], no_index=True)
    return replace(source, index_url=as_address(index))


def make_pip(scratch: str, python: str, held: int) -> list[str]:
    """A fresh environment's pip, as the start of a command.

    :raises WheelhouseError: this Python cannot make environments.
    """
    place = os.path.join(scratch, "venv")
    ran = run(
        fresh_pip(python, place),
        clean_environment(scratch, scratch),
        timeout=300,
        cwd=scratch,
        hold=[held],
    )
    free = shutil.disk_usage(scratch).free
    if ran.returncode and free < PIP_BYTES:
        # How much it takes is not in what Python says of it.
        raise WheelhouseError(
            f"wheelhouse {os.path.dirname(scratch)} has no room for a pip that could fetch wheels: {human_bytes(free)} "
            f"are free and it takes {human_bytes(PIP_BYTES)}. Nothing that runs was touched. "
            "Prune old releases and quarantines or enlarge the disk, and run again."
        )
    if ran.returncode:
        raise WheelhouseError(
            f"python {python} cannot make an environment with pip: {tail(ran.stderr + ran.stdout, 4)}. "
            "Install its venv and ensurepip modules (Debian: python3-venv) and run again."
        )
    return [os.path.join(place, "bin", "python"), "-I", "-m", "pip"]


def _download(
    pip: list[str], folder: str, rows: Sequence[LockRow], source: Source, deadline: float, held: int
) -> Completed:
    environment = pip_environment(source, folder)
    requirements = os.path.join(folder, "requirements.txt")
    # In a file that only its owner reads: an address with a password is not for the list of processes.
    with open(os.open(requirements, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
        stream.write("\n".join([*source_options(source), *(row.render() for row in rows), ""]))
    argv = [*pip, "download", "--no-deps", "--only-binary=:all:", "--require-hashes", "--no-cache-dir", "--no-input"]
    argv += ["--disable-pip-version-check", "--progress-bar=off", "--dest", folder, "--requirement", requirements]
    if source.target:
        argv += [f"--platform={tag}" for tag in source.target.platforms]
        if source.target.python:
            argv += ["--implementation=cp", f"--python-version={'.'.join(map(str, source.target.python))}"]
    return run(argv, environment, max(deadline - time.monotonic(), 1.0), cwd=folder, hold=[held])


def pip_environment(source: Source, temporary: str) -> dict[str, str]:
    """What pip gets to know of this host: its network and where it fetches from, and nothing besides."""
    environment = clean_environment(os.environ.get("HOME", "/"), temporary, (*NETWORK, *_PIP_SETTINGS))
    if source.index_url:
        # It would silence the index that was asked for.
        environment.pop("PIP_NO_INDEX", None)
    # A constraint in the host's settings could only contradict the lock.
    environment["PIP_CONSTRAINT"] = os.devnull
    return environment


def source_options(source: Source) -> list[str]:
    """Where to fetch from, as lines of a requirements file."""
    lines = [f"--find-links {shlex.quote(place)}" for place in source.find_links]
    if source.no_index:
        lines.append("--no-index")
    elif source.index_url:
        lines.append(f"--index-url {shlex.quote(source.index_url)}")
    for address in [*source.find_links, source.index_url or ""]:
        parts = urllib.parse.urlsplit(address)
        if parts.scheme == "http":
            # pip would pass over it in silence. The digests vouch for what comes, and the operator named the address.
            lines.append(f"--trusted-host {shlex.quote(parts.netloc.rpartition('@')[2])}")
    return lines


def _accept(folder: str, path: str, row: LockRow) -> int:
    """Move the wheel that was fetched for a row into the wheelhouse; return its size.

    :raises WheelhouseError: pip left no wheel that the row names.
    """
    for filename in sorted(os.listdir(folder)):
        name = parse_wheel_name(filename)
        place = os.path.join(folder, filename)
        if name is None or (name.name, canonical_version(name.version)) != row.key:
            continue
        # pip checked it. So do we: it is what everything later is compared with.
        if sha256_file(place) not in row.hashes:
            break
        with open(place, "rb+") as stream:
            os.fsync(stream.fileno())
            os.fchmod(stream.fileno(), 0o644)
            size = os.fstat(stream.fileno()).st_size
        os.replace(place, os.path.join(path, filename))
        return size
    raise WheelhouseError(f"pip said that it fetched {row.pin} into {path} and left no wheel with the lock's digest.")


def _refused(path: str, rows: Sequence[LockRow], source: Source, ran: Completed, done: int) -> str:
    said = tail(ran.stderr) or tail(ran.stdout) or f"pip ended with {ran.returncode}"
    named = [row.pin for row in rows if row.name in said.lower() or row.name.replace("-", "_") in said.lower()]
    pins = ", ".join(named or [row.pin for row in rows][:5])
    kept = f"The {done} wheels fetched before are kept. " if done else ""
    full = [line.strip() for line in ran.stderr.splitlines() if os.strerror(errno.ENOSPC) in line]
    if full:
        return (
            f"wheelhouse {path} has no room for {pins}: {full[-1]}. What had arrived of them was removed again. {kept}"
            "Prune old releases and quarantines or enlarge the disk, and run again. Nothing that runs was touched."
        )
    return (
        f"wheelhouse {path} cannot be completed: pip could not fetch {pins} from {source.words}: {said}\n"
        "Check that the index has that very version for this machine and Python, and that the lock's digest is the "
        f"one of its wheel; or put the wheel into {path} by hand. {kept}Nothing that runs was touched."
    )
