# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file object over a function that fetches parts of a file, for zipfile to read an archive that is elsewhere."""

from __future__ import annotations

import io
import os
from collections import OrderedDict
from typing import Callable

from ansible_collections.pristine.vllm.plugins.module_utils.record.http_range import RemoteError

BLOCK = 8 * 1024
# Fetched at once where nobody said beforehand what will be read; doubled as long as the reading goes on in order.
_AHEAD = 64 * 1024
_AHEAD_MOST = 4 * 1024 * 1024
# In memory: what was fetched, and one read. An archive that claims an index of gigabytes is none of ours.
_KEPT_BLOCKS = 32 * 1024 * 1024 // BLOCK
_READ_MOST = 64 * 1024 * 1024


class RangeFile(io.RawIOBase):
    """A seekable file for reading; what was fetched is kept in blocks, the least recently used ones dropped."""

    def __init__(self, fetch: Callable[[int, int], bytes], size: int) -> None:
        """
        :param fetch: gives the bytes from one offset to before another, exactly as many.
        :param size: of the file in bytes.
        """
        self.size = size
        self._fetch = fetch
        self._position = 0
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._ahead = _AHEAD
        self._fetched_to = -1

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}[whence]
        if position < 0:
            raise ValueError(f"negative seek position {position}")
        self._position = position
        return position

    def read(self, size: int = -1) -> bytes:
        rest = max(0, self.size - self._position)
        size = rest if size is None or size < 0 else min(size, rest)
        if size > _READ_MOST:
            raise RemoteError(f"it wants {size} bytes in one piece, which no wheel does")
        if not size:
            return b""
        start, stop = self._position, self._position + size
        self._ensure(start, stop)
        first = start // BLOCK
        data = b"".join(self._block(number) for number in range(first, (stop - 1) // BLOCK + 1))
        self._position = stop
        self._evict()
        return data[start - first * BLOCK : stop - first * BLOCK]

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def need(self, start: int, stop: int) -> None:
        """Fetch a part that is going to be read, at once.

        :raises RemoteError: as the function that fetches.
        """
        start, stop = max(0, start), min(stop, self.size)
        missing = [number for number in range(start // BLOCK, -(-stop // BLOCK)) if number not in self._blocks]
        if not missing:
            return
        begin, end = missing[0] * BLOCK, min((missing[-1] + 1) * BLOCK, self.size)
        data = self._fetch(begin, end)
        for number in range(missing[0], missing[-1] + 1):
            self._blocks[number] = data[number * BLOCK - begin : (number + 1) * BLOCK - begin]
            self._blocks.move_to_end(number)
        self._fetched_to = end

    def _ensure(self, start: int, stop: int) -> None:
        """Fetch what a read lacks, and more where it lacks the end."""
        missing = [number for number in range(start // BLOCK, (stop - 1) // BLOCK + 1) if number not in self._blocks]
        if not missing:
            return
        begin = missing[0] * BLOCK
        self._ahead = min(self._ahead * 2, _AHEAD_MOST) if begin == self._fetched_to else _AHEAD
        stop = (missing[-1] + 1) * BLOCK
        while stop - begin < self._ahead and stop < self.size and stop // BLOCK not in self._blocks:
            stop += BLOCK
        self.need(begin, stop)

    def _block(self, number: int) -> bytes:
        self._blocks.move_to_end(number)
        return self._blocks[number]

    def _evict(self) -> None:
        while len(self._blocks) > _KEPT_BLOCKS:
            self._blocks.popitem(last=False)
