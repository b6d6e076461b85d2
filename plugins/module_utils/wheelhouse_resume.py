# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetch one large wheel by its own address, so that a cut or a kill costs only what had not arrived yet.

What has arrived lies under a name of its own beside a note of the file's validator and size. The next request asks for
the rest only where the file is still the same (RFC 9110, If-Range); the lock's digest decides in the end.
"""

from __future__ import annotations

import contextlib
import errno
import http.client
import json
import os
import posixpath
import re
import shutil
import time
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.exclusive import discard
from ansible_collections.pristine.vllm.plugins.module_utils.files import (
    CHUNK,
    atomic_write,
    fsync_directory,
    open_regular,
    read_file,
    sha256_file,
)
from ansible_collections.pristine.vllm.plugins.module_utils.index_folder import as_path
from ansible_collections.pristine.vllm.plugins.module_utils.index_http import ATTEMPTS, FetchError, IndexClient, why
from ansible_collections.pristine.vllm.plugins.module_utils.lock import LockRow
from ansible_collections.pristine.vllm.plugins.module_utils.messages import human_bytes, redact_urls
from ansible_collections.pristine.vllm.plugins.module_utils.quarantine import Quarantine
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_name import canonical_version, parse_wheel_name

RESUME = ".resume-"
# Seconds that a server may stay silent in the middle of a file.
SILENCE = 60.0
FULL = (errno.ENOSPC, errno.EDQUOT)
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)", re.IGNORECASE)


class WheelhouseError(Exception):
    """The wheelhouse cannot be completed. The text is for the operator."""


@dataclass(frozen=True)
class Direct:
    """Where the one wheel is: its address without credentials, and the index that lists it, which may have some."""

    url: str
    index_url: str = ""

    @property
    def filename(self) -> str:
        """The name of the file that it is the address of."""
        return urllib.parse.unquote(posixpath.basename(urllib.parse.urlsplit(self.url).path))

    def is_for(self, row: LockRow) -> bool:
        """Whether it is the row's wheel, by its name."""
        return _key(self.filename) == row.key


class Partial:
    """What has arrived of a wheel: ``.resume-<name>.part``, and ``.resume-<name>.json`` that tells of which file."""

    def __init__(self, folder: str, filename: str) -> None:
        self.path = os.path.join(folder, f"{RESUME}{filename}.part")
        self._note = os.path.join(folder, f"{RESUME}{filename}.json")
        self.validator = ""
        self.total: Optional[int] = None
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            noted = json.loads(read_file(self._note))
            self.validator, self.total = str(noted["validator"]), noted["total"]

    @property
    def size(self) -> int:
        """How many bytes have arrived."""
        try:
            return os.stat(self.path).st_size
        except FileNotFoundError:
            return 0

    def begin(self, validator: str, total: Optional[int]) -> None:
        """Forget what has arrived, and note what arrives from here on."""
        self.drop()
        self.validator, self.total = validator, total
        atomic_write(self._note, json.dumps({"validator": validator, "total": total}).encode())

    def drop(self) -> None:
        """Give the room back."""
        self.validator, self.total = "", None
        discard(self.path)
        discard(self._note)


def _key(filename: str) -> Optional[tuple[str, str]]:
    """What a row's key must equal; None where it is no wheel's name."""
    name = parse_wheel_name(filename)
    return (name.name, canonical_version(name.version)) if name else None


def sweep_partials(folder: str, missing: Sequence[LockRow]) -> None:
    """Remove what cannot be resumed: of wheels that are whole by now, and of those that no row names."""
    wanted = {row.key for row in missing}
    for entry in list(os.scandir(folder)):
        if entry.name.startswith(RESUME) and _key(entry.name[len(RESUME) :].rpartition(".")[0]) not in wanted:
            discard(entry.path)


def fetch_direct(folder: str, row: LockRow, direct: Direct, kept: Quarantine, timeout: float) -> int:
    """Fetch the row's wheel from its own address into the folder; return the bytes that were read for it.

    :param kept: where a wheel goes that arrives with another digest.
    :raises WheelhouseError: it cannot be had. What has arrived stays for the next run, unless the disk is full.
    """
    partial = Partial(folder, direct.filename)
    client = IndexClient(SILENCE)
    client.trust(direct.index_url)
    deadline = time.monotonic() + timeout
    refused = []
    try:
        # What arrived in parts may be of two files, or damaged: that deserves a second try, from the beginning.
        for _attempt in range(2):
            path = as_path(direct.url)
            if path:
                client.received += _copy(path, partial, folder)
            else:
                _receive(direct.url, partial, client, deadline, folder)
            digest = sha256_file(partial.path)
            if digest in row.hashes:
                _accept(partial, os.path.join(folder, direct.filename))
                return client.received
            refused.append(f"{digest} (kept as {kept.keep(partial.path, move=True).kept})")
            partial.drop()
    except OSError as error:
        if error.errno not in FULL:
            raise
        partial.drop()
        raise WheelhouseError(_say_full(folder, direct.filename, "the disk is full")) from error
    raise WheelhouseError(
        f"wheelhouse {folder} cannot be completed: {redact_urls(direct.url)} was fetched twice and has not the sha256 "
        f"that the lock pins, {' or '.join(row.hashes)}, but {', then '.join(refused)}. The wheel was replaced, or the "
        "pin is wrong: find out which, and do not change the pin to what came. Nothing that runs was touched."
    )


def _receive(url: str, partial: Partial, client: IndexClient, deadline: float, folder: str) -> None:
    """Go on until the file is whole. An attempt that brings it further does not count.

    :raises WheelhouseError: the server does not deliver, or the time is up.
    """
    most, fruitless = partial.size, 0
    while True:
        try:
            return _continue(url, partial, client, deadline, folder)
        except FetchError as error:
            came, most = partial.size > most, max(most, partial.size)
            fruitless = 0 if came else fruitless + 1
            late = time.monotonic() > deadline
            if late or fruitless >= ATTEMPTS or not error.transient:
                reason = "the time for it is up" if late else error.reason
                raise WheelhouseError(_say_cut(folder, url, partial, reason)) from error
        client.pause(fruitless)


def _continue(url: str, partial: Partial, client: IndexClient, deadline: float, folder: str) -> None:
    """One request for what is lacking.

    :raises FetchError: the file is not whole yet.
    """
    have = partial.size
    if have and have == partial.total:
        return
    headers = {"Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        if partial.validator:
            headers["If-Range"] = partial.validator
    try:
        response = client.stream(url, headers)
    except FetchError as error:
        if not have or error.status not in (400, 416, 501):
            raise
        # It has no such bytes any more, or knows no Range.
        partial.drop()
        raise FetchError(f"the server refuses the rest of the file: {error.reason}") from error
    with response:
        _place(response, partial, have)
        if partial.total is not None:
            _check_room(folder, partial, url)
        _append(response, partial, client, deadline)
    if partial.total is not None and partial.size != partial.total:
        short = partial.total - partial.size
        if short < 0:
            partial.drop()
        raise FetchError(f"the connection ended {short} bytes early" if short > 0 else "more came than was announced")


def _place(response: Any, partial: Partial, have: int) -> None:
    """Make the partial file end where the body of the answer begins.

    :raises FetchError: the body is of another place or another file.
    """
    headers = response.headers
    etag = headers.get("ETag", "")
    # A weak ETag must not be used in If-Range (RFC 9110, 13.1.5).
    validator = etag if etag and not etag.startswith("W/") else headers.get("Last-Modified", "")
    if response.status != 206:
        length = headers.get("Content-Length", "")
        partial.begin(validator, int(length) if length.isdigit() else None)
        return
    match = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", "").strip())
    total = int(match[3]) if match and match[3].isdigit() else None
    # An answer to If-Range need not repeat Last-Modified.
    other = bool(validator and partial.validator and validator != partial.validator)
    if total is not None and partial.total is not None:
        other = other or total != partial.total
    if match is None or int(match[1]) != have or other:
        partial.drop()
        raise FetchError("the file was replaced, or the server sent another part than it was asked for")


def _append(response: Any, partial: Partial, client: IndexClient, deadline: float) -> None:
    """:raises FetchError: the connection broke or the time is up; OSError: the file cannot be written."""
    with open(partial.path, "ab") as stream:
        while True:
            try:
                piece = response.read1(CHUNK)
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise FetchError(why(error)) from error
            if not piece:
                return
            client.received += len(piece)
            stream.write(piece)
            if time.monotonic() > deadline:
                raise FetchError("the time for it is up")


def _copy(path: str, partial: Partial, folder: str) -> int:
    """The file of a folder that serves as the index.

    :raises WheelhouseError: it cannot be read.
    """
    partial.begin("", None)
    try:
        descriptor = open_regular(os.path.realpath(path))
    except OSError as error:
        raise WheelhouseError(_say_cut(folder, path, partial, error.strerror or str(error))) from error
    with open(descriptor, "rb") as source, open(partial.path, "wb") as copy:
        shutil.copyfileobj(source, copy, CHUNK)
        return copy.tell()


def _accept(partial: Partial, target: str) -> None:
    with open(partial.path, "rb+") as stream:
        os.fsync(stream.fileno())
        os.fchmod(stream.fileno(), 0o644)
    os.replace(partial.path, target)
    partial.drop()
    fsync_directory(os.path.dirname(target))


def _check_room(folder: str, partial: Partial, url: str) -> None:
    """:raises WheelhouseError: the rest does not fit; what has arrived is given up, and its room with it."""
    needed = (partial.total or 0) - partial.size
    free = shutil.disk_usage(folder).free
    if needed > free:
        partial.drop()
        why_not = f"{human_bytes(needed)} are to come and {human_bytes(free)} are free"
        raise WheelhouseError(_say_full(folder, redact_urls(url), why_not))


def _say_full(folder: str, what: str, reason: str) -> str:
    return (
        f"wheelhouse {folder} has no room for {what}: {reason}. What had arrived was removed again, and nothing that "
        "runs was touched. Prune old releases and quarantines or enlarge the disk, and run again."
    )


def _say_cut(folder: str, url: str, partial: Partial, reason: str) -> str:
    come = human_bytes(partial.size) + (f" of {human_bytes(partial.total)}" if partial.total else "")
    stays = f"{come} have arrived and stay: the next run fetches the rest. " if partial.size else ""
    return (
        f"wheelhouse {folder} cannot be completed: {redact_urls(url)} does not come: {reason}. "
        f"Check that the index still has it, or put the wheel into {folder} by hand, and run again. {stays}"
        "Nothing that runs was touched."
    )
