# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A package index in a folder, for hosts without a network: it answers like `IndexClient`, by file: addresses."""

from __future__ import annotations

import errno
import os
import pathlib
import posixpath
import stat
import urllib.parse
from typing import Optional, Protocol, Union

from ansible_collections.pristine.vllm.plugins.module_utils.files import read_file, sha256_file
from ansible_collections.pristine.vllm.plugins.module_utils.index_http import (
    ATTEMPTS,
    PAGE_LIMIT,
    Answer,
    FetchError,
    IndexClient,
)

_TYPES = {".html": "text/html", ".json": "application/json"}


class Index(Protocol):
    """What finding a wheel needs of an index, wherever that is."""

    def page(self, url: str, headers: Optional[dict[str, str]] = None) -> Answer:
        """A small file, or a folder's page. Raises FetchError."""

    def probe(self, url: str) -> Answer:
        """Whether there is such a file, and its length. Raises FetchError."""


class FolderIndex:
    """Reads pages and looks for files. Links of a page that lead to a server lead nowhere."""

    def page(self, url: str, headers: Optional[dict[str, str]] = None) -> Answer:
        """The file, or the ``index.html`` of a folder.

        :raises FetchError: it is not there or cannot be read.
        """
        del headers
        path = self._path(url)
        if url.endswith("/"):
            path = os.path.join(path, "index.html")
        try:
            body = read_file(os.path.realpath(path), PAGE_LIMIT + 1)
        except OSError as error:
            raise _failed(error) from error
        if len(body) > PAGE_LIMIT:
            raise FetchError(f"the file is larger than {PAGE_LIMIT} bytes", 200)
        return Answer(url, _TYPES.get(posixpath.splitext(path)[1], "application/octet-stream"), body, len(body))

    def probe(self, url: str) -> Answer:
        """The length of a regular file.

        :raises FetchError: it is not there.
        """
        try:
            state = os.stat(self._path(url))
        except OSError as error:
            raise _failed(error) from error
        if not stat.S_ISREG(state.st_mode):
            raise FetchError("it is not a regular file", 404)
        return Answer(url, "application/zip", b"", state.st_size)

    def sha256(self, url: str) -> str:
        """The digest of a file.

        :raises FetchError: it cannot be read.
        """
        try:
            return sha256_file(os.path.realpath(self._path(url)))
        except OSError as error:
            raise _failed(error) from error

    def wheels(self, url: str) -> list[str]:
        """The addresses of the wheels that lie in a folder, sorted by name.

        :raises FetchError: it is no folder, or cannot be read.
        """
        path = self._path(url)
        try:
            names = sorted(name for name in os.listdir(path) if name.endswith(".whl"))
        except OSError as error:
            raise _failed(error) from error
        return [as_address(os.path.join(path, name)) for name in names]

    def _path(self, url: str) -> str:
        path = as_path(url)
        if path is None:
            raise FetchError("it is not in the folder", 404)
        return path


def open_index(address: str, timeout: float, attempts: int = ATTEMPTS) -> Union[IndexClient, FolderIndex]:
    """What answers for an index: a folder, or a server with a time limit for each of a few attempts."""
    return FolderIndex() if as_path(address) else IndexClient(timeout, attempts=attempts)


def as_path(address: str) -> Optional[str]:
    """The path that an absolute path or a file: address names; None for any other address."""
    if address.startswith("/"):
        return address
    parts = urllib.parse.urlsplit(address)
    local = parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path.startswith("/")
    return urllib.parse.unquote(parts.path) if local else None


def as_address(path: str) -> str:
    """The file: address of an absolute path, in which + is %2B as in the pages of an index."""
    return pathlib.Path(path).as_uri()


def _failed(error: OSError) -> FetchError:
    absent = error.errno in (errno.ENOENT, errno.ENOTDIR)
    return FetchError(error.strerror or str(error), 404 if absent else None)
