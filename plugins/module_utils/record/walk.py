# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Walking an environment for files that nobody lists and that could be imported or executed."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Container
from typing import NamedTuple, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import read_file

_LIBRARY = re.compile(r"\.so(\.\d+)*\Z")
# What makes a virtual environment puts these into bin; no wheel and no RECORD has them.
_OF_THE_ENVIRONMENT = re.compile(
    r"(activate(\.\w+|_this\.py)?|Activate\.ps1|deactivate(\.\w+)?|pydoc\.bat|(python|pypy|\U0001d70bthon)[\d.]*t?)\Z"
)
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

    def escape(self, directory: str) -> str:
        """The link that leads out on the way to a directory in the environment, or nothing."""
        known = self._known.get(directory)
        if known is None:
            known = self.escape(os.path.dirname(directory))
            if not known and os.path.islink(directory) and self.leads_out(directory):
                known = directory
            self._known[directory] = known
        return known

    def leads_out(self, path: str) -> bool:
        """Whether a path's end, all links followed, is outside."""
        real = os.path.realpath(path)
        return real != self._root and not real.startswith(self._root + "/")


class Walker:
    """Looks at every name in site-packages and in ``bin``, opening nothing but what is executable and unknown."""

    def __init__(self, listed: Container[str], links: Links, skip: Container[str]) -> None:
        """``skip`` holds paths at the top of a site-packages, with or without suffix, that are passed over."""
        self.strays: list[Stray] = []
        # In __pycache__, files and links; for others to judge.
        self.bytecode: list[str] = []
        self._listed = listed
        self._links = links
        self._skip = skip

    def site(self, directory: str, only: Optional[Container[str]] = None) -> None:
        """Walk a site-packages directory; with ``only``, no other names at its top."""
        for entry in self._entries(directory):
            stem = f"{directory}/{entry.name.partition('.')[0]}"
            if not (entry.path in self._skip or stem in self._skip or (only is not None and entry.name not in only)):
                self._entry(entry, top=True)

    def scripts(self, directory: str) -> None:
        """Walk ``bin``: its scripts find modules there before any other, the standard library's included."""
        if os.path.isdir(directory) and not self._links.escape(directory):
            for entry in self._entries(directory):
                if not _OF_THE_ENVIRONMENT.match(entry.name):
                    self._entry(entry, top=False)

    def _entries(self, directory: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(directory) as entries:
                return list(entries)
        except OSError as error:
            self.strays.append(Stray(directory, "unreadable", f"the directory cannot be read: {error.strerror}"))
            return []

    def _entry(self, entry: os.DirEntry[str], top: bool) -> None:
        if entry.is_symlink():
            if entry.path not in self._listed:
                self._link(entry, top)
        elif entry.is_dir(follow_symlinks=False):
            self._directory(entry.path)
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

    def _link(self, entry: os.DirEntry[str], top: bool) -> None:
        if self._links.leads_out(entry.path):
            if could_run(entry.name, top) or not os.path.isfile(entry.path):
                self._add(entry, "redirected", f"a symlink to {os.readlink(entry.path)}, out of the environment")
        elif could_run(entry.name, top) or os.path.isdir(entry.path):
            self._add(entry, "unexpected", f"nobody lists it: a symlink to {os.readlink(entry.path)}")

    def _file(self, entry: os.DirEntry[str], top: bool) -> None:
        what = could_run(entry.name, top)
        if top and entry.name in _VIRTUALENV and _is_virtualenv(entry.path):
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
        if top and name in ("sitecustomize.py", "usercustomize.py"):
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


def _is_virtualenv(path: str) -> bool:
    """The .pth is one line that is known; the module behind it comes in as many forms as there are releases."""
    try:
        return not path.endswith(".pth") or read_file(path, 100).strip() == b"import _virtualenv"
    except OSError:
        return False
