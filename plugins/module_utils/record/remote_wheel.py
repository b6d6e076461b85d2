# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wheel that is read member by member from an HTTP server."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.record.http_range import RemoteError
from ansible_collections.pristine.vllm.plugins.module_utils.record.ranged_file import RangeFile
from ansible_collections.pristine.vllm.plugins.module_utils.record.wheel import Wheel, WheelError

# Of 148 wheels of a vLLM environment, this end holds index and RECORD of nine in ten.
_TAIL = 32 * 1024
_END = struct.Struct("<4s4H2LH")
# A member up to this is fetched in one request; of a larger one this is the first.
_AT_ONCE = 4 * 1024 * 1024
# Holds a member's header and the first that zipfile unpacks of it: some scripts are programs of megabytes.
_HEAD = 16 * 1024
# Compressed. To learn whether a large file is the member although RECORD denies it is not worth more than this.
_HASH_LIMIT = 64 * 1024 * 1024


class RemoteWheel(Wheel):
    """A `Wheel` of which only the parts that are asked for are fetched; what is read is compared with its RECORD."""

    def __init__(self, path: str, filename: str, file: RangeFile) -> None:
        """
        :param path: its URL, for messages.
        :param file: its content.
        :raises WheelError: as `Wheel`, or the server's answers cannot be used; the cause tells.
        """
        self._file = file
        self._ends: dict[str, tuple[int, int]] = {}
        # Until RECORD is read nothing can be compared with it.
        self.rows = {}
        try:
            self._fetch_index()
        except RemoteError as error:
            raise WheelError(f"wheel {path} cannot be read: {error}") from error
        super().__init__(path, file, filename)

    def _fetch_index(self) -> None:
        """Fetch the archive's index and RECORD, which wheels have right before it (PEP 427), at once.

        The index tells no RECORD's place before it is read, so the guess is by size: 16 kB and half of the index's.
        """
        size = self._file.size
        self._file.need(size - _TAIL, size)
        self._file.seek(max(0, size - _END.size))
        end = self._file.read(_END.size)
        if len(end) == _END.size and end.startswith(b"PK\5\6"):
            length, offset = _END.unpack(end)[5:7]
            if offset + length + _END.size == size and size - _TAIL > offset:
                self._file.need(offset - length // 2 - _TAIL // 2, size)

    def _fetch(self, member: str, at_once: int = _AT_ONCE) -> None:
        if not self._ends:
            infos = sorted(self._zip.infolist(), key=lambda info: info.header_offset)
            stops = [info.header_offset for info in infos[1:]] + [self._zip.start_dir]
            self._ends = {info.filename: (info.header_offset, stop) for info, stop in zip(infos, stops)}
        start, stop = self._ends.get(member, (0, 0))
        try:
            self._file.need(start, min(stop, start + at_once))
        except RemoteError as error:
            raise WheelError(f"wheel {self.path}: member {member} cannot be read: {error}") from error

    def read(self, member: str, limit: Optional[int] = None) -> bytes:
        """As `Wheel.read`; bytes that are not what the wheel's RECORD says are refused.

        :raises WheelError: as there, or its RECORD has another hash. Nobody has checked the wheel as a whole.
        """
        if limit is not None and self.sizes.get(member, 0) > limit:
            raise WheelError(f"wheel {self.path}: member {member} is larger than {limit} bytes")
        self._fetch(member)
        content = super().read(member, limit)
        row = self.rows.get(member)
        if row is not None and row.digest and hashlib.new(row.algorithm, content).digest() != row.digest:
            raise WheelError(
                f"wheel {self.path}: member {member} is not what the wheel's own RECORD says, and by its parts nobody "
                "can tell which is right: download the wheel, and give its path and a lock with its sha256"
            )
        return content

    def chunks(self, member: str) -> Iterator[bytes]:
        """As `Wheel.chunks`."""
        self._fetch(member)
        yield from super().chunks(member)

    def sha256(self, member: str) -> str:
        """As `Wheel.sha256`.

        :raises WheelError: as there, or the member is too large to fetch for that.
        """
        self._fetch_bounded(member)
        return super().sha256(member)

    def starts_with(self, member: str, prefix: bytes) -> bool:
        """As `Wheel.starts_with`."""
        self._fetch(member, _HEAD)
        return super().starts_with(member, prefix)

    def _fetch_bounded(self, member: str) -> None:
        info = self._zip.NameToInfo.get(member)
        if info is not None and info.compress_size > _HASH_LIMIT:
            raise WheelError(f"wheel {self.path}: member {member} is too large to fetch for its hash")
        self._fetch(member)
