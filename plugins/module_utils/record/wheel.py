# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wheel as the reference: its RECORD, the bytes of its members, and where each of them is installed."""

from __future__ import annotations

import configparser
import contextlib
import hashlib
import importlib
import io
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Optional, Union

from ansible_collections.pristine.vllm.plugins.module_utils.files import CHUNK
from ansible_collections.pristine.vllm.plugins.module_utils.record.environment import Distribution
from ansible_collections.pristine.vllm.plugins.module_utils.record.parse import Record, Row, parse_record
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_name import canonical_version, normalise

_RECORD = re.compile(r"[^/]+\.dist-info/RECORD\Z")
_BROKEN: tuple[type[Exception], ...] = (
    OSError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    ValueError,
    RuntimeError,
    NotImplementedError,
    EOFError,
    LookupError,
)
# What zipfile takes other ways of compression from; a Python may be built without.
for _module, _error in (("lzma", "LZMAError"), ("compression.zstd", "ZstdError")):
    with contextlib.suppress(ImportError):
        _BROKEN += (getattr(importlib.import_module(_module), _error),)
_INDEX_LIMIT = 64 * 1024 * 1024


class WheelError(Exception):
    """The wheel cannot be used as a reference; the message says which and why."""


class Wheel:
    """An open wheel file. ``pinned`` is for who compares its digest with a lock to set."""

    def __init__(self, path: str, stream: Union[IO[bytes], io.RawIOBase, None] = None, filename: str = "") -> None:
        """Read the wheel's index and its RECORD.

        :param stream: its content where ``path`` is no file but what to call it; closed with the wheel.
        :param filename: its file name, where that is not the end of ``path``.
        :raises WheelError: it cannot be read, is no zip file, or has no RECORD.
        """
        self.path = path
        self.filename = filename or os.path.basename(path)
        self.pinned = False
        self._stream = stream
        try:
            self._zip = zipfile.ZipFile(path if stream is None else stream)
            self.sizes = {info.filename: info.file_size for info in self._zip.infolist() if not info.is_dir()}
            names = [name for name in self.sizes if _RECORD.match(name)]
            if len(names) != 1:
                raise WheelError(f"wheel {path}: it holds {len(names)} RECORD files instead of one")
            self.dist_info = os.path.dirname(names[0])
            self.record: Record = parse_record(self.read(names[0], _INDEX_LIMIT))
        except _BROKEN as error:
            raise WheelError(f"wheel {path} cannot be read: {error or type(error).__name__}") from error
        self.rows: dict[str, Row] = {row.path: row for row in self.record.rows}

    @property
    def key(self) -> tuple[str, str]:
        """Normalised name and canonical version, as the wheel's own .dist-info has them."""
        name, _dash, version = self.dist_info[: -len(".dist-info")].partition("-")
        return normalise(name), canonical_version(version)

    @property
    def data(self) -> str:
        """The prefix of the members that do not go to site-packages."""
        return self.dist_info[: -len(".dist-info")] + ".data/"

    def read(self, member: str, limit: Optional[int] = None) -> bytes:
        """A member's bytes, CRC checked.

        :raises WheelError: it is damaged, or larger than ``limit`` bytes.
        """
        try:
            with self._zip.open(member) as stream:
                content = stream.read() if limit is None else stream.read(limit + 1)
        except _BROKEN as error:
            raise WheelError(f"wheel {self.path}: member {member} cannot be read: {error}") from error
        if limit is not None and len(content) > limit:
            raise WheelError(f"wheel {self.path}: member {member} is larger than {limit} bytes")
        return content

    def chunks(self, member: str) -> Iterator[bytes]:
        """A member's bytes piece by piece, CRC checked at the end, whatever RECORD says.

        :raises WheelError: it is damaged.
        """
        try:
            with self._zip.open(member) as stream:
                yield from iter(lambda: stream.read(CHUNK), b"")
        except _BROKEN as error:
            raise WheelError(f"wheel {self.path}: member {member} cannot be read: {error}") from error

    def sha256(self, member: str) -> str:
        """The sha256 of a member's bytes, as hex digits, whatever RECORD says.

        :raises WheelError: it is damaged.
        """
        digest = hashlib.sha256()
        for chunk in Wheel.chunks(self, member):
            digest.update(chunk)
        return digest.hexdigest()

    def mode(self, member: str) -> int:
        """The permission bits that the archive has for a member; 0 where it has none."""
        return self._zip.getinfo(member).external_attr >> 16 & 0o777

    def starts_with(self, member: str, prefix: bytes) -> bool:
        """Whether a member's first bytes are these."""
        try:
            with self._zip.open(member) as stream:
                return stream.read(len(prefix)) == prefix
        except _BROKEN as error:
            raise WheelError(f"wheel {self.path}: member {member} cannot be read: {error}") from error

    def entry_points(self) -> dict[str, str]:
        """Console and GUI scripts that an installer makes: name -> ``module:attribute``."""
        member = self.dist_info + "/entry_points.txt"
        if member not in self.sizes:
            return {}
        parser = configparser.ConfigParser(delimiters=("=",), interpolation=None, strict=False)
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        try:
            parser.read_string(self.read(member, 1 << 20).decode("utf-8", "replace"))
        except configparser.Error:
            return {}
        scripts: dict[str, str] = {}
        for section in ("console_scripts", "gui_scripts"):
            if parser.has_section(section):
                scripts.update({name: value.partition("[")[0].strip() for name, value in parser.items(section)})
        return scripts

    def close(self) -> None:
        """Close the file."""
        self._zip.close()
        if self._stream is not None:
            self._stream.close()


def install_path(wheel: Wheel, member: str, distribution: Distribution, root: str, installed: set[str]) -> str:
    """The absolute path a member is installed at, not normalised.

    :param installed: absolute paths that the installed RECORD lists: they decide where headers went, because installers
        name that folder as they please.
    """
    if member.startswith(wheel.dist_info + "/"):
        return distribution.directory + member[len(wheel.dist_info) :]
    if not member.startswith(wheel.data):
        return f"{distribution.site}/{member}"
    kind, _slash, rest = member[len(wheel.data) :].partition("/")
    if kind == "scripts":
        return f"{root}/bin/{rest}"
    if kind == "data":
        return f"{root}/{rest}"
    if kind == "headers":
        python = os.path.basename(os.path.dirname(distribution.site))
        for path in installed:
            if path.startswith(root + "/include/") and path.endswith("/" + rest):
                return path
        return f"{root}/include/site/{python}/{distribution.name}/{rest}"
    return f"{distribution.site}/{rest}"
