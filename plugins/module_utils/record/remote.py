# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wheels on HTTP servers as references: found on an index or given by URL, read by parts, or else downloaded whole."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from typing import IO, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import CHUNK, read_file
from ansible_collections.pristine.vllm.plugins.module_utils.index_http import FetchError, IndexClient, why
from ansible_collections.pristine.vllm.plugins.module_utils.messages import human_bytes
from ansible_collections.pristine.vllm.plugins.module_utils.nightly_index import ListedWheel
from ansible_collections.pristine.vllm.plugins.module_utils.record.environment import Distribution
from ansible_collections.pristine.vllm.plugins.module_utils.record.http_range import (
    ChangedError,
    NoRangesError,
    RangeReader,
    RemoteError,
    shown,
)
from ansible_collections.pristine.vllm.plugins.module_utils.record.ranged_file import RangeFile
from ansible_collections.pristine.vllm.plugins.module_utils.record.remote_index import direct, listed, ranked
from ansible_collections.pristine.vllm.plugins.module_utils.record.remote_wheel import RemoteWheel
from ansible_collections.pristine.vllm.plugins.module_utils.record.wheel import Wheel, WheelError
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_name import canonical_version

# Wheels of one version that only their content tells apart are few; who has more is asked for a direct URL.
_TRIED = 3
# Wheels in a row that cannot be read before a scan stops trying: each may cost its time-outs.
_FAILURES = 3
_SLOWEST = 64 * 1024


def _said_by_the_server(error: WheelError) -> Exception:
    """What the server did wrong, where that is why a wheel cannot be read; else the error itself."""
    cause = error.__cause__
    return cause if isinstance(cause, RemoteError) else error


class _RefusedError(RemoteError):
    """The wheel has a digest that it must not have, which is no fault of the server's."""


@dataclass
class Limits:
    """``timeout``: seconds that a server may stay silent. ``whole``: bytes of wheels that a scan may download whole."""

    timeout: float = 30.0
    whole: int = 2 * 1024 * 1024 * 1024


class RemoteSources:
    """The http(s) addresses among the sources of wheels, asked in their order, one distribution after the other."""

    def __init__(self, urls: list[str], pins: dict[str, set[str]], warnings: list[str]) -> None:
        """Nothing is asked yet.

        :param pins: as `WheelSources` has them.
        :param warnings: is added to.
        """
        self.limits = Limits()
        self.client = IndexClient(self.limits.timeout)
        self.warnings = warnings
        self._given = urls
        self._urls = list(urls)
        self._pins = pins
        self._whole = self.limits.whole
        self._absent: list[str] = []
        self._failures = 0

    def find(self, distribution: Distribution) -> Optional[Wheel]:
        """The distribution's wheel, open; None, and a reason in ``warnings``, where none can be used."""
        told = len(self.warnings)
        for url in list(self._urls):
            try:
                wheel = self._find(url, distribution)
            except (FetchError, RemoteError) as error:
                reason = error.reason if isinstance(error, FetchError) else str(error)
                self.warnings.append(
                    f"wheels: {shown(url)} was not used for {distribution.name} and all after it: {reason}; "
                    "check the address, the network and the proxy, or download the wheels and give their folder"
                )
                # A server that is down would cost its time-out for each distribution.
                self._urls.remove(url)
                continue
            if wheel is not None:
                return wheel
            if self._failures >= _FAILURES:
                self.warnings.append(
                    f"wheels: {shown(url)} is not asked any more: {_FAILURES} of its wheels in a row failed"
                )
                self._urls.remove(url)
                self._failures = 0
        if self._urls and len(self.warnings) == told:
            self._absent.append(f"{distribution.name} {distribution.version}")
        return None

    def absent(self) -> list[str]:
        """A warning that names what was asked for and not found, if there is any."""
        if not self._absent:
            return []
        more = f" and {len(self._absent) - 5} more" if len(self._absent) > 5 else ""
        what, where = ", ".join(self._absent[:5]) + more, ", ".join(map(shown, self._given))
        return [f"wheels: {where}: no usable wheel of {what}, for which only the installed RECORD vouches"]

    def _find(self, url: str, distribution: Distribution) -> Optional[Wheel]:
        wheel = direct(url)
        wheels = listed(self.client, url, distribution.name) if wheel is None else [wheel]
        pins = self._pins.get(distribution.name)
        candidates = ranked([one for one in wheels if one.name.name == distribution.name], distribution, pins)
        spare: Optional[Wheel] = None
        for number, candidate in enumerate(candidates[:_TRIED]):
            opened = self._open(candidate, distribution, pins)
            if opened is None:
                continue
            if opened.pinned or (number == 0 and len(candidates) == 1) or _same_build(opened, distribution):
                if spare is not None:
                    spare.close()
                return opened
            if spare is None:
                spare = opened
            else:
                opened.close()
        if spare is not None and len(candidates) > 1:
            self.warnings.append(
                f"wheels: none of the {min(len(candidates), _TRIED)} likeliest wheels of {distribution.name} "
                f"{distribution.version} at {shown(url)} has the installed WHEEL file; {spare.filename} was used: "
                "give the address or the path of the right one to be sure"
            )
        return spare

    def _open(self, wheel: ListedWheel, distribution: Distribution, pins: Optional[set[str]]) -> Optional[Wheel]:
        """One wheel, begun anew once when it is replaced in between."""
        try:
            _check_digest(wheel.sha256, pins, "the index says that its sha256 is")
            try:
                opened = self._by_parts(wheel)
            except ChangedError:
                opened = self._by_parts(wheel)
            except NoRangesError as error:
                opened = self._download(wheel, pins, str(error))
        except (FetchError, RemoteError, WheelError) as error:
            reason = error.reason if isinstance(error, FetchError) else str(error)
            self.warnings.append(f"wheel {shown(wheel.url)} was not used: {reason}")
            self._failures += 0 if isinstance(error, _RefusedError) else 1
            return None
        self._failures = 0
        if opened.key != (distribution.name, canonical_version(distribution.version)):
            self.warnings.append(
                f"wheel {shown(wheel.url)} was not used: its name says one version and it holds {opened.dist_info}"
            )
            opened.close()
            return None
        return opened

    def _by_parts(self, wheel: ListedWheel) -> Wheel:
        """:raises RemoteError: the server's answers cannot be used; WheelError: what they hold is no wheel."""
        reader = RangeReader(self.client, wheel.url, self.limits.timeout, wheel.size)
        file = RangeFile(reader.fetch, reader.measure())
        try:
            opened = RemoteWheel(shown(wheel.url), wheel.name.filename, file)
            # What a scan reads of any wheel: a server that fails is found out here, where it can be left aside.
            opened.entry_points()
            for member in opened.sizes:
                if member.startswith(opened.data + "scripts/"):
                    opened.starts_with(member, b"#!python")
        except WheelError as error:
            said = _said_by_the_server(error)
            if said is not error:
                raise said from error
            raise
        return opened

    def _download(self, wheel: ListedWheel, pins: Optional[set[str]], reason: str) -> Wheel:
        """The whole wheel in a temporary file without a name, checked against every digest that is known.

        :raises RemoteError: it is too large, not whole, or not the one that the index or the lock means.
        """
        stream: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (the wheel closes it)
        try:
            with self.client.retry(lambda: self.client.stream(wheel.url)) as response:
                if response.status != 200:
                    raise RemoteError(f"{reason}, and answers HTTP {response.status} when asked for the whole")
                self._check_room(response.length or wheel.size or 0, reason)
                digest = self._save(response, stream, reason)
            _check_digest(digest, {wheel.sha256} if wheel.sha256 else None, "its sha256 is")
            _check_digest(digest, pins, "its sha256 is")
            opened = Wheel(shown(wheel.url), stream, wheel.name.filename)
        except BaseException:
            stream.close()
            raise
        opened.pinned = pins is not None
        return opened

    def _check_room(self, size: int, reason: str) -> None:
        free = shutil.disk_usage(tempfile.gettempdir()).free
        bound = min(self._whole, free)
        if size > bound:
            raise RemoteError(
                f"{reason}, and the whole of {human_bytes(size)} is more than may be downloaded for a scan "
                f"({human_bytes(self.limits.whole)} in all, {human_bytes(free)} free in {tempfile.gettempdir()}): "
                "download the wheel, and give its path"
            )

    def _save(self, response: http.client.HTTPResponse, stream: IO[bytes], reason: str) -> str:
        """Copy the body; its sha256."""
        digest = hashlib.sha256()
        count = 0
        began = time.monotonic()
        try:
            while True:
                piece = response.read1(CHUNK)
                if not piece:
                    break
                count += len(piece)
                self.client.received += len(piece)
                if count > self._whole:
                    self._check_room(count, reason)
                if time.monotonic() - began > self.limits.timeout + count / _SLOWEST:
                    raise RemoteError(f"{reason}, and sends the whole too slowly: {human_bytes(count)} so far")
                digest.update(piece)
                stream.write(piece)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise RemoteError(f"{reason}, and the download failed: {why(error)}") from error
        if response.length:
            raise RemoteError(f"{reason}, and the download ended {response.length} bytes early")
        self._whole -= count
        return digest.hexdigest()


def _check_digest(digest: Optional[str], allowed: Optional[set[str]], what: str) -> None:
    """:raises RemoteError: the digest is known and none of those allowed."""
    if digest is not None and allowed is not None and digest not in allowed:
        raise _RefusedError(
            f"it was refused: {what} {digest}, and {' or '.join(sorted(allowed))} is pinned or announced: "
            "find out which is wrong, and correct the lock or the address"
        )


def _same_build(wheel: Wheel, distribution: Distribution) -> bool:
    """Whether the installed WHEEL file is this wheel's."""
    with contextlib.suppress(OSError, WheelError):
        installed = read_file(os.path.join(distribution.directory, "WHEEL"), 65536)
        return wheel.read(wheel.dist_info + "/WHEEL", 65536) == installed
    return False
