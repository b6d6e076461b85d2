# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Walking an environment for files that nobody lists and that could be imported or executed."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Container
from typing import NamedTuple, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import read_file
from ansible_collections.pristine.vllm.plugins.module_utils.record.environment import LEFTOVER, resolved

_LIBRARY = re.compile(r"\.so(\.\d+)*\Z")
# What makes a virtual environment puts these into bin; no wheel and no RECORD has them.
_OF_THE_ENVIRONMENT = re.compile(
    r"(activate(\.\w+|_this\.py)?|Activate\.ps1|deactivate(\.\w+)?|pydoc\.bat|(python|pypy|\U0001d70bthon)[\d.]*t?)\Z"
)
# Temporary names of single files: uv's, this collection's, and pip's in .dist-info.
_TEMPORARY = re.compile(
    r"\.tmp[A-Za-z0-9]{6}\Z|\.pristine-|(RECORD|INSTALLER|REQUESTED|direct_url\.json)[a-z0-9_]{8}\.tmp\Z"
)
_CUSTOMIZE = ("sitecustomize.py", "usercustomize.py")
_VIRTUALENV = ("_virtualenv.py", "_virtualenv.pth")


class Stray(NamedTuple):
    """A file that nobody lists: ``status`` is that of its finding."""

    path: str
    status: str
    detail: str


class Links:
    """Which directories are, or are reached through, a symlink that leads out of the environment."""

    def __init__(self, root: str) -> None:
        """Name the real path of the environment's root."""
        self._root = root
        self._known: dict[str, str] = {root: ""}
        self._linked: set[str] = set()

    def escape(self, directory: str) -> str:
        """The link that leads out on the way to a directory in the environment, or nothing."""
        unknown = []
        while directory not in self._known:
            unknown.append(directory)
            directory = os.path.dirname(directory)
        found, linked = self._known[directory], directory in self._linked
        for folder in reversed(unknown):
            link = os.path.islink(folder)
            if link and not found and self.leads_out(folder):
                found = folder
            self._known[folder] = found
            linked = linked or link
            if linked:
                self._linked.add(folder)
        return found

    def hides(self, directory: str) -> bool:
        """Whether a directory in the environment is, or is reached through, any symlink at all."""
        self.escape(directory)
        return directory in self._linked

    def leads_out(self, path: str) -> bool:
        """Whether a path's end, all links followed, is outside."""
        real = resolved(path)
        return real != self._root and not real.startswith(self._root + "/")


class Walker:
    """Looks at every name in site-packages and in ``bin``, opening nothing but what is executable and unknown."""

    def __init__(self, listed: Collection[str], links: Links, skip: Container[str]) -> None:
        """``skip`` holds paths at the top of a site-packages, with or without suffix, that are passed over."""
        self.strays: list[Stray] = []
        # In __pycache__, files and links; for others to judge.
        self.bytecode: list[str] = []
        self._listed = listed
        self._links = links
        self._skip = skip
        # Directories still to look at: a tree can be deeper than calls can be nested.
        self._pending: list[str] = []

    def site(self, directory: str, only: Optional[Container[str]] = None) -> None:
        """Walk a site-packages directory; with ``only``, no other names at its top."""
        for entry in self._entries(directory):
            if only is not None and entry.name not in only:
                continue
            stem = f"{directory}/{entry.name.partition('.')[0]}"
            if entry.path in self._skip or stem in self._skip:
                self._of_unlisted(entry)
            else:
                self._entry(entry, top=True)
        self._drain()

    def scripts(self, directory: str) -> None:
        """Walk ``bin``: its scripts find modules there before any other, the standard library's included."""
        if self._links.escape(directory):
            detail = f"a symlink out of the environment, to {resolved(directory)}"
            self.strays.append(Stray(directory, "redirected", detail))
            return
        for entry in self._entries(directory):
            if not _OF_THE_ENVIRONMENT.match(entry.name):
                self._entry(entry, top=False)
        self._drain()

    def _of_unlisted(self, entry: os.DirEntry[str]) -> None:
        """What may belong to a distribution without RECORD is passed over, unless Python runs it at every start."""
        if entry.name.endswith(".pth") and entry.path not in self._listed:
            self._add(entry, "unverifiable", "it may belong to a distribution that has no RECORD")
        elif entry.name in _CUSTOMIZE:
            self._entry(entry, top=True)

    def _drain(self) -> None:
        while self._pending:
            self._directory(self._pending.pop())

    def _entries(self, directory: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(directory) as entries:
                return list(entries)
        except (FileNotFoundError, NotADirectoryError):
            # Gone since its name was read: there is nothing in it, and what RECORDs list there is missing.
            return []
        except OSError as error:
            self.strays.append(Stray(directory, "unreadable", f"the directory cannot be read: {error.strerror}"))
            return []

    def _entry(self, entry: os.DirEntry[str], top: bool) -> None:
        if entry.is_symlink():
            if entry.path not in self._listed:
                self._link(entry, top)
        elif entry.is_dir(follow_symlinks=False):
            if entry.name[0] in "~." and self._is_leftover(entry, LEFTOVER):
                self._add(entry, "leftover", "remains of an interrupted installation")
            else:
                self._pending.append(entry.path)
        elif entry.path not in self._listed:
            self._file(entry, top)

    def _directory(self, directory: str) -> None:
        # The hot loop: an environment has more bytecode files than all others.
        cached = directory.endswith("/__pycache__")
        for entry in self._entries(directory):
            if not (cached and entry.name.endswith(".pyc")):
                self._entry(entry, top=False)
            elif entry.is_file(follow_symlinks=False) or entry.is_symlink():
                self.bytecode.append(entry.path)

    def _is_leftover(self, entry: os.DirEntry[str], names: re.Pattern[str]) -> bool:
        return bool(names.match(entry.name)) and not any(path.startswith(entry.path + "/") for path in self._listed)

    def _link(self, entry: os.DirEntry[str], top: bool) -> None:
        try:
            target = os.readlink(entry.path)
        except OSError:
            return  # Gone since its name was read.
        if self._links.leads_out(entry.path):
            if could_run(entry.name, top) or not os.path.isfile(entry.path):
                self._add(entry, "redirected", f"a symlink to {target}, out of the environment")
        elif could_run(entry.name, top) or os.path.isdir(entry.path):
            self._add(entry, "unexpected", f"nobody lists it: a symlink to {target}")

    def _file(self, entry: os.DirEntry[str], top: bool) -> None:
        what = could_run(entry.name, top)
        if self._is_leftover(entry, _TEMPORARY):
            self._add(entry, "leftover", "remains of an interrupted installation")
        elif top and entry.name == "easy-install.pth" and _is_of_setuptools(entry.path):
            self._add(entry, "unverifiable", "setuptools keeps the paths of its editable installs and eggs in it")
        elif top and entry.name in _VIRTUALENV and _is_virtualenv(entry.path):
            self._add(
                entry, "unverifiable", "made with the environment by virtualenv or uv: nothing to compare it with"
            )
        elif what:
            self._add(entry, "unexpected", f"nobody lists it: {what}")
        elif not entry.name.endswith(".pyc") and _is_program(entry):
            self._add(entry, "unexpected", "nobody lists it: a program that could be executed")

    def _add(self, entry: os.DirEntry[str], status: str, detail: str) -> None:
        self.strays.append(Stray(entry.path, status, detail))


def could_run(name: str, top: bool) -> str:
    """How a file of this name could come to run, or nothing."""
    if name.endswith(".py"):
        if top and name in _CUSTOMIZE:
            return "Python runs it at every start"
        return "a Python source that could be imported"
    if name.endswith(".pyc"):
        return "bytecode that could be imported without a source"
    if name.endswith(".pth"):
        return "Python runs it at every start" if top else ""
    return "a library that could be loaded" if ".so" in name and _LIBRARY.search(name) else ""


def _is_program(entry: os.DirEntry[str]) -> bool:
    try:
        info = entry.stat(follow_symlinks=False)
        if not stat.S_ISREG(info.st_mode) or not info.st_mode & 0o111:
            return False
        return read_file(entry.path, 4).startswith((b"#!", b"\x7fELF"))
    except OSError:
        return False


def _is_of_setuptools(path: str) -> bool:
    """Whether a .pth only names the trees of the .egg-link files, and the eggs, beside it: it runs no code then."""
    folder = os.path.dirname(path)
    known = {""}
    try:
        for name in os.listdir(folder):
            known |= {f"./{name}"} if name.endswith(".egg") else set()
            if name.endswith(".egg-link"):
                known.add(
                    read_file(os.path.join(folder, name), 65536).decode("utf-8", "replace").split("\n")[0].strip()
                )
        text = read_file(path, 1 << 20).decode("utf-8", "replace")
    except OSError:
        return False
    return all(line.strip() in known for line in text.split("\n"))


def _is_virtualenv(path: str) -> bool:
    """The .pth is one line that is known; the module behind it comes in as many forms as there are releases."""
    try:
        return not path.endswith(".pth") or read_file(path, 100).strip() == b"import _virtualenv"
    except OSError:
        return False
