# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the user that serves can read the model: tried as that user, as only the kernel knows ACLs and mounts."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pwd
import select
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.preflight_model import model_files
from ansible_collections.pristine.vllm.plugins.module_utils.preflight_report import Findings

# A network file system that hangs would hang the service as well.
_PATIENCE = 60.0
# What is not there is found by the look at the weights.
_ABSENT = (errno.ENOENT, errno.ENOTDIR)


@dataclass(frozen=True)
class Denied:
    """The first path that the user cannot pass or read, and why."""

    path: str
    why: str


def check_access(model_path: str, user: str, found: Findings, patience: float = _PATIENCE) -> None:
    """The user reads each file that a start needs. Only root can find out; a user that is not there yet cannot try.

    :param patience: seconds that it may take at most.
    """
    if os.geteuid() != 0 or not os.path.isdir(model_path):
        return
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        return
    model_path = os.path.normpath(model_path)
    denied = try_as(entry, [model_path, *model_files(model_path)], patience)
    if denied is not None:
        folder = denied.path if os.path.isdir(denied.path) else os.path.dirname(denied.path)
        advice = (
            f"Let {user} read it (`setfacl -R -m u:{user}:rX {folder}`, or `chmod o+rX`), "
            f"or move the model to a folder that {user} can read and correct vllm_model_path"
        )
        if folder == denied.path and folder != model_path:
            advice = (
                f"Let {user} pass it (`setfacl -m u:{user}:x {folder}`, or `chmod o+x`), "
                f"or move the model to a folder that {user} can read and correct vllm_model_path"
            )
        found.block("access", denied.path, f"user {user}, who serves, {denied.why}", advice)


def try_as(entry: pwd.struct_passwd, paths: Sequence[str], patience: float) -> Optional[Denied]:
    """Open each path for reading in a child that has become the user; the first one that fails, or None.

    The child is gone when this returns, unless it hangs in the kernel, where nothing ends it.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        _child(entry, paths, write)
    os.close(write)
    try:
        said = _read_all(read, time.monotonic() + patience)
    finally:
        os.close(read)
        _end(child)
    if said is None:
        return Denied(paths[0], f"could not be shown to read the model within {patience:g} seconds")
    try:
        told = json.loads(said)
    except ValueError:
        return Denied(paths[0], "could not be tried: the process that tried ended without a word")
    return Denied(str(told["path"]), str(told["why"])) if told else None


def first_denied(paths: Sequence[str]) -> Optional[Denied]:
    """The first path that this very process cannot read, or the first folder on the way to it that it cannot pass."""
    for path in paths:
        try:
            # A pipe among the files would wait for a writer.
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
            if os.path.isdir(path) and not os.access(path, os.X_OK):
                return Denied(path, "cannot pass this folder")
        except OSError as error:
            if error.errno in _ABSENT:
                continue
            return _on_the_way(path) or Denied(path, f"cannot read it: {error.strerror}")
    return None


def _on_the_way(path: str) -> Optional[Denied]:
    """The folder that stops us, by the path as it is written and then by the one that its links lead to."""
    for way in (path, os.path.realpath(path)):
        parents = [os.path.dirname(way)]
        while os.path.dirname(parents[0]) != parents[0]:
            parents.insert(0, os.path.dirname(parents[0]))
        for folder in parents:
            if not os.access(folder, os.X_OK):
                return Denied(folder, f"cannot pass this folder on the way to {path}")
    return None


def _child(entry: pwd.struct_passwd, paths: Sequence[str], write: int) -> NoReturn:
    """Never returns: what the parent would do at its end, such as writing its output, is not the child's to do."""
    status = 1
    with contextlib.suppress(BaseException):
        os.initgroups(entry.pw_name, entry.pw_gid)
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
        denied = first_denied(paths)
        data = json.dumps(None if denied is None else {"path": denied.path, "why": denied.why}).encode()
        while data:
            data = data[os.write(write, data) :]
        status = 0
    os._exit(status)


def _read_all(descriptor: int, until: float) -> Optional[bytes]:
    """All that the child writes; None when it has not ended in time."""
    said = b""
    while select.select([descriptor], [], [], max(0.0, until - time.monotonic()))[0]:
        data = os.read(descriptor, 65536)
        if not data:
            return said
        said += data
    return None


def _end(child: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    until = time.monotonic() + 2.0
    while os.waitpid(child, os.WNOHANG)[0] == 0 and time.monotonic() < until:
        time.sleep(0.01)
