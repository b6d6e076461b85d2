# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The other names of a file that has several: uv's cache and every environment that it linked from there."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ansible_collections.pristine.vllm.plugins.module_utils.record.model import printable

# A cache of 35,000 files for each of a few environments is walked in a second or two; no walk goes on for ever.
NAMES_AT_MOST = 2_000_000
FOUND_AT_MOST = 20


@dataclass(frozen=True)
class OtherLinks:
    """A file with other names: how many, and those that were found, at most `FOUND_AT_MOST`."""

    path: str
    file: str
    count: int
    found: list[str]

    def to_dict(self) -> dict[str, Any]:
        """As the module returns it."""
        return {
            "path": printable(self.path),
            "file": printable(self.file),
            "count": self.count,
            "found": [printable(name) for name in self.found],
        }


def other_links(files: Iterable[tuple[str, str]], places: list[str]) -> list[OtherLinks]:
    """Of these files (as findings name them, and absolute), those that have other names.

    :param places: directories that are searched for the names, as far as `NAMES_AT_MOST` goes. Links in them are not
        followed, what cannot be read is passed over.
    """
    by_inode: dict[tuple[int, int], list[OtherLinks]] = {}
    links = []
    for path, file in files:
        try:
            info = os.lstat(file)
        except OSError:
            continue
        if info.st_nlink > 1 and not os.path.isdir(file):
            links.append(OtherLinks(path, file, info.st_nlink - 1, []))
            by_inode.setdefault((info.st_dev, info.st_ino), []).append(links[-1])
    if by_inode:
        _search(by_inode, places)
    return links


def _search(by_inode: dict[tuple[int, int], list[OtherLinks]], places: list[str]) -> None:
    inodes = {inode for _device, inode in by_inode}
    todo = [os.path.realpath(place) for place in reversed(places) if os.path.isdir(place)]
    left = NAMES_AT_MOST
    while todo and left > 0:
        directory = todo.pop()
        try:
            with os.scandir(directory) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name):
                    left -= 1
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
                    elif entry.inode() in inodes:
                        _note(by_inode, entry.path)
        except OSError:
            continue


def _note(by_inode: dict[tuple[int, int], list[OtherLinks]], path: str) -> None:
    info = os.lstat(path)
    for link in by_inode.get((info.st_dev, info.st_ino), []):
        if path != link.file and path not in link.found and len(link.found) < FOUND_AT_MOST:
            link.found.append(path)
