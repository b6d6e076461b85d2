# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bytecode that Python would run although it is not its source's, told from the header where that is possible.

The rules are those of ``importlib._bootstrap_external.SourceLoader.get_code`` and PEP 552. What Python would ignore and
write anew is no finding. A header with the source's time and size proves nothing of the code behind it: that takes a
recompilation.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections.abc import Callable, Iterable
from importlib.util import MAGIC_NUMBER
from typing import NamedTuple, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import read_file
from ansible_collections.pristine.vllm.plugins.module_utils.record.environment import Environment
from ansible_collections.pristine.vllm.plugins.module_utils.record.siphash import source_hash
from ansible_collections.pristine.vllm.plugins.module_utils.record.walk import Links, Stray

HEADER = 16
CACHE = "__pycache__"
_NAME = re.compile(r"(?P<stem>.+)\.(?P<tag>cpython-3\d+t?)(?:\.opt-(?P<level>[12]))?\.pyc\Z")
_LIBRARY = re.compile(r"/lib(?:64)?/python(3)\.(\d+)t?/")
# The numbers that each released CPython writes and runs (Lib/importlib/_bootstrap_external.py, Include/internal).
_MAGIC = {7: 3394, 8: 3413, 9: 3425, 10: 3439, 11: 3495, 12: 3531, 13: 3571, 14: 3627}
_UNCHECKED, _CHECKED = 1, 3
_FLAGS = slice(4, 8)
# Any other bit makes Python refuse the file.
_KINDS = {flags.to_bytes(4, "little") for flags in range(4)}
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Version = tuple[int, int]
# A path with the first bytes of the file, or the number of the error.
Header = tuple[str, bytes, int]


class Cached(NamedTuple):
    """A bytecode file that Python takes for its source's; ``level`` is 0, 1 or 2, as of ``-O`` and ``-OO``."""

    path: str
    source: str
    level: int
    version: Version


def headers_of(paths: list[str], everything: bool) -> list[Header]:
    """The headers of these files; unless all are wanted, only those that say something."""
    opened, read, close, harmless = os.open, os.read, os.close, bytes(4)
    found: list[Header] = []
    for path in paths:
        try:
            descriptor = opened(path, _OPEN)
            try:
                header = read(descriptor, HEADER)
            finally:
                close(descriptor)
        except OSError as error:
            found.append((path, b"", error.errno or errno.EIO))
            continue
        # Nearly all are of this kind, which the header says no more about.
        if header[_FLAGS] != harmless or everything:
            found.append((path, header, 0))
    return found


class Headers:
    """Checks headers; ``valid`` collects what only a recompilation can tell more about, when that is wanted."""

    def __init__(self, environment: Environment, links: Links, collect: bool) -> None:
        """Find out which Python the environment has."""
        self.strays: list[Stray] = []
        self.valid: list[Cached] = []
        self._links = links
        self._collect = collect
        self._versions = versions_of(environment)
        self._magics = {magic for version in self._versions for magic in [magic_of(version)] if magic}
        # An unknown release may run anything: rather look at too much.
        self._any = any(magic_of(version) is None for version in self._versions) or not self._versions

    def check(self, paths: list[str], look: Optional[Callable[[list[str], bool], list[Header]]] = None) -> None:
        """Look at bytecode in ``__pycache__`` directories; nothing of it is loaded.

        :param look: does what `headers_of` does.
        """
        for path, header, number in (look or headers_of)(paths, self._collect):
            if number:
                self._unreadable(path, OSError(number, os.strerror(number), path))
            else:
                self._one(path, header)

    def sources(self, sources: Iterable[str]) -> None:
        """Look at whatever bytecode there is of these sources, in the environment."""
        for source in sources:
            folder = f"{os.path.dirname(source)}/{CACHE}"
            escaped = self._links.escape(folder)
            if not escaped:
                with contextlib.suppress(OSError):
                    self.check(cached_of(source))
            elif escaped == folder and all(stray.path != folder for stray in self.strays):
                detail = f"a symlink to {os.readlink(folder)}, out of the environment"
                self.strays.append(Stray(folder, "redirected", detail))

    def regrade(self, strays: list[Stray]) -> list[Stray]:
        """Bytecode that lies where a source could, listed by nobody, is ``bytecode`` when Python would run it."""
        return [self._beside(stray) if stray.path.endswith(".pyc") else stray for stray in strays]

    def _beside(self, stray: Stray) -> Stray:
        if stray.status != "unexpected" or os.path.islink(stray.path):
            return stray
        try:
            header = read_file(stray.path, HEADER)
        except OSError:
            return stray
        if not self._runs(header):
            return stray
        shadowed = os.path.lexists(stray.path[:-1])
        what = "without a source; Python would import it"
        if shadowed:
            what = "beside its source; Python would import it as soon as that is gone"
        return Stray(stray.path, "bytecode", f"nobody lists it: bytecode {what}")

    def _unreadable(self, path: str, error: OSError) -> None:
        if not os.path.islink(path):
            if not isinstance(error, FileNotFoundError):
                self.strays.append(Stray(path, "unreadable", f"bytecode that cannot be read: {error.strerror}"))
            return
        target = os.readlink(path)
        if self._links.leads_out(path):
            self.strays.append(
                Stray(path, "redirected", f"bytecode that is a symlink to {target}, out of the environment")
            )
        elif self._of(path) is not None and os.path.isfile(path):
            # No Python writes one: compileall refuses to.
            self.strays.append(Stray(path, "bytecode", f"a symlink to {target}, which no Python writes"))

    def _one(self, path: str, header: bytes) -> None:
        cached = self._of(path)
        if cached is None or not self._runs(header):
            return
        flags = int.from_bytes(header[_FLAGS], "little")
        try:
            if flags in (_UNCHECKED, _CHECKED):
                expected = source_hash(read_file(cached.source), header[:4], cached.version)
                valid = header[8:] == expected
            else:
                info = os.stat(cached.source)
                stamp = int(info.st_mtime) & 0xFFFFFFFF, info.st_size & 0xFFFFFFFF
                valid = stamp == (int.from_bytes(header[8:12], "little"), int.from_bytes(header[12:], "little"))
        except OSError:
            return  # Without a source Python does not look into __pycache__; a link as a source has its own finding.
        if flags == _UNCHECKED and not valid:
            detail = "its header says that its source is not to be looked at (PEP 552), and it is not made from it"
            self.strays.append(Stray(path, "bytecode", detail))
        elif valid and self._collect:
            self.valid.append(cached)

    def _runs(self, header: bytes) -> bool:
        """Whether the environment's Python takes such a header at all."""
        if len(header) < HEADER or header[2:4] != b"\r\n" or header[_FLAGS] not in _KINDS:
            return False
        return self._any or header[:4] in self._magics

    def _of(self, path: str) -> Optional[Cached]:
        """The source that the environment's Python takes this file for the bytecode of."""
        folder, _slash, name = path.rpartition("/")
        match = _NAME.match(name)
        if match is None:
            return None
        version = _tagged(match["tag"])
        if self._versions and version not in self._versions:
            return None
        return Cached(path, f"{folder[: -len(CACHE)]}{match['stem']}.py", int(match["level"] or 0), version)


def cached_of(source: str) -> list[str]:
    """Every bytecode file in ``__pycache__`` that is named after a source, whatever Python or tool made it.

    None behind a link: what it leads to may be others'.

    :raises OSError: there is no such directory, or it cannot be read.
    """
    folder, name = os.path.split(source)
    start = name[:-2]
    if os.path.islink(os.path.join(folder, CACHE)):
        return []
    names = sorted(os.listdir(os.path.join(folder, CACHE)))
    return [f"{folder}/{CACHE}/{cached}" for cached in names if cached.startswith(start) and cached.endswith(".pyc")]


def pyvenv(root: str) -> dict[str, str]:
    """What ``pyvenv.cfg`` says (PEP 405), keys in lower case; nothing where there is none to read."""
    with contextlib.suppress(OSError):
        lines = read_file(os.path.join(root, "pyvenv.cfg"), 65536).decode("utf-8", "replace").splitlines()
        pairs = [line.partition("=") for line in lines]
        return {name.strip().lower(): value.strip() for name, equals, value in pairs if equals}
    return {}


def versions_of(environment: Environment) -> set[Version]:
    """The Pythons that could run this environment's code: nearly always one."""
    found = {version for site in environment.sites for version in [version_of(site)] if version}
    settings = pyvenv(environment.root)
    match = re.match(r"3\.(\d+)", settings.get("version_info", settings.get("version", "")))
    return found | {(3, int(match[1]))} if match else found


def version_of(site: str) -> Optional[Version]:
    """The Python that looks for modules in a site-packages directory; None where its path does not say."""
    match = _LIBRARY.search(site + "/")
    return (3, int(match[2])) if match else None


def magic_of(version: Version) -> Optional[bytes]:
    """What bytecode of this CPython begins with; None where it is not known."""
    if sys.implementation.name == "cpython" and version == sys.version_info[:2]:
        return MAGIC_NUMBER
    number = _MAGIC.get(version[1])
    return None if number is None else number.to_bytes(2, "little") + b"\r\n"


def _tagged(tag: str) -> Version:
    return 3, int(tag[len("cpython-3") :].rstrip("t"))
