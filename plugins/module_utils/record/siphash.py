# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hash of a source that Python writes into hash-based bytecode (PEP 552), for any CPython from 3.7 on."""

from __future__ import annotations

import struct
import sys
from importlib.util import source_hash as own_hash

_MASK = 0xFFFFFFFFFFFFFFFF
# CPython took fewer rounds from here on.
_SIPHASH13 = (3, 11)


def source_hash(source: bytes, magic: bytes, version: tuple[int, int]) -> bytes:
    """The eight bytes that a CPython of this version, with this magic number (4 bytes), writes for a source.

    Its key is the magic number; the algorithm is SipHash-2-4, from 3.11 on SipHash-1-3.
    """
    if sys.implementation.name == "cpython" and version == sys.version_info[:2]:
        return own_hash(source)
    compress, finish = (1, 3) if version >= _SIPHASH13 else (2, 4)
    return siphash(int.from_bytes(magic, "little"), source, compress, finish).to_bytes(8, "little")


def siphash(key: int, data: bytes, compress: int, finish: int) -> int:
    """SipHash with a key whose upper half is 0. https://www.aumasson.jp/siphash/siphash.pdf"""
    state = [key ^ 0x736F6D6570736575, 0x646F72616E646F6D, key ^ 0x6C7967656E657261, 0x7465646279746573]
    whole = len(data) // 8 * 8
    words = [word for (word,) in struct.iter_unpack("<Q", data[:whole])]
    words.append((len(data) & 0xFF) << 56 | int.from_bytes(data[whole:], "little"))
    for word in words:
        state[3] ^= word
        _rounds(state, compress)
        state[0] ^= word
    state[2] ^= 0xFF
    _rounds(state, finish)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _rounds(state: list[int], count: int) -> None:
    a, b, c, d = state
    for _number in range(count):
        a = (a + b) & _MASK
        b = (b << 13 & _MASK | b >> 51) ^ a
        a = a << 32 & _MASK | a >> 32
        c = (c + d) & _MASK
        d = (d << 16 & _MASK | d >> 48) ^ c
        a = (a + d) & _MASK
        d = (d << 21 & _MASK | d >> 43) ^ a
        c = (c + b) & _MASK
        b = (b << 17 & _MASK | b >> 47) ^ c
        c = c << 32 & _MASK | c >> 32
    state[:] = a, b, c, d
