# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How releases lie on a host, as it is now; nothing here changes anything.

``<root>/releases/<id>/`` is an environment. Its ``release.json`` is written last, so a directory without one was never
finished. ``<root>/current`` and ``<root>/previous`` are symlinks: relative into ``releases``, absolute to elsewhere. An
adopted environment is a release whose mark says ``adopted_from``; in its place is a symlink to ``<root>/current``.
"""

from __future__ import annotations

import glob
import json
import os
import re
from dataclasses import dataclass
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import read_file
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_name import normalise

MARK = "release.json"
# Names in <root>/releases and <root> that are ours to sweep.
TEMPORARY = ".tmp-"
REMOVED = ".removed-"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")
_LARGEST_MARK = 1024 * 1024
# What an interrupted pip leaves begins with ~ and is no distribution.
_DIST_INFO = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._]*)-(?P<version>[^-]+)\.dist-info")


class ReleaseError(Exception):
    """What was asked for is refused or failed. The text is for the operator."""


@dataclass(frozen=True)
class Place:
    """What a link or an id means: ``id`` is None outside of ``releases``, ``metadata`` is None where unfinished."""

    id: Optional[str]
    path: str
    metadata: Optional[dict[str, Any]]

    def describe(self) -> dict[str, Any]:
        """As the modules return it."""
        return {"id": self.id, "path": self.path, "metadata": self.metadata}


class Layout:
    """The releases below one root directory, which need not exist."""

    def __init__(self, root: str) -> None:
        """
        :raises ReleaseError: the root is no absolute path.
        """
        if not os.path.isabs(root):
            raise ReleaseError(f"root {root!r} is not an absolute path. Set vllm_root to one.")
        self.root = os.path.normpath(root)
        self.releases_dir = os.path.join(self.root, "releases")

    def release(self, release_id: str) -> Place:
        """A release by its id, whether it is there or not.

        :raises ReleaseError: no directory of ours can have that name.
        """
        if not _ID.fullmatch(release_id):
            raise ReleaseError(
                f"release {release_id!r} is no id: letters, digits, dots, dashes and underscores, no dot at the start. "
                "Take next_id from env_release_info."
            )
        path = os.path.join(self.releases_dir, release_id)
        return Place(release_id, path, read_mark(path))

    def releases(self) -> list[Place]:
        """All of them, finished or not, oldest first."""
        try:
            names = [entry.name for entry in os.scandir(self.releases_dir) if entry.is_dir(follow_symlinks=False)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted((self.release(name) for name in names if _ID.fullmatch(name)), key=_age)

    def link_text(self, name: str) -> Optional[str]:
        """What ``current`` or ``previous`` says, None when it is not there.

        :raises ReleaseError: there is something else under that name.
        """
        path = os.path.join(self.root, name)
        try:
            return os.readlink(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ReleaseError(
                f"{path} is not a symlink, so it cannot be switched: {error.strerror}. "
                "Nothing was changed. Move it away, or set vllm_root to another directory."
            ) from error

    def place(self, text: Optional[str]) -> Optional[Place]:
        """What a link with this text leads to."""
        if text is None:
            return None
        path = os.path.normpath(os.path.join(self.root, text))
        if os.path.islink(path):
            # Such as where an adopted environment was, when its adoption was killed half way.
            real = os.path.realpath(path)
            if os.path.dirname(real) == os.path.realpath(self.releases_dir):
                path = os.path.join(self.releases_dir, os.path.basename(real))
        if os.path.dirname(path) == self.releases_dir and _ID.fullmatch(os.path.basename(path)):
            return self.release(os.path.basename(path))
        return Place(None, path, None)

    def link(self, name: str) -> Optional[Place]:
        """What ``current`` or ``previous`` leads to, None when it is not there.

        :raises ReleaseError: see `link_text`.
        """
        return self.place(self.link_text(name))

    def live(self, place: Place) -> Optional[str]:
        """Which link, by whatever way, leads to this place; None when none does."""
        real = os.path.realpath(place.path)
        for name in ("current", "previous"):
            linked = self.link(name)
            if linked and (linked.path == place.path or os.path.realpath(linked.path) == real):
                return name
        return None

    def next_id(self, version: str) -> str:
        """The id for a new release of a version. What was never finished and is not live is built over."""
        stem = release_stem(version)
        taken = [0]
        # What a link leads to counts although its directory is gone: a build there would be live while it goes on.
        linked = [place for place in map(self.link, ("current", "previous")) if place]
        for place in [*self.releases(), *linked]:
            number = (place.id or "")[len(stem) + 1 :]
            if place.id == f"{stem}-{number}" and number.isdigit() and (place.metadata is not None or self.live(place)):
                taken.append(int(number))
        return f"{stem}-{max(taken) + 1}"


def release_stem(version: str) -> str:
    """A version as it stands in release ids: without the +, which some tools take for a space in a path."""
    return re.sub(r"[^A-Za-z0-9._]", ".", version)


def read_mark(path: str) -> Optional[dict[str, Any]]:
    """The metadata in a release's ``release.json``; None when it is not there or is not what we write."""
    try:
        mark = json.loads(read_file(os.path.join(path, MARK), _LARGEST_MARK))
    except (OSError, ValueError):
        return None
    return mark if isinstance(mark, dict) else None


def environment_problem(path: str) -> Optional[str]:
    """Why a path is not a virtual environment (PEP 405), None when it is."""
    if not os.path.isdir(path):
        return f"{path} is not a directory" if os.path.lexists(path) else f"{path} is not there"
    if not os.path.isfile(os.path.join(path, "pyvenv.cfg")):
        return f"{path} has no pyvenv.cfg"
    if not site_packages(path):
        return f"{path} has no lib/python3*/site-packages"
    if not os.access(os.path.join(path, "bin", "python"), os.X_OK):
        return f"{path} has no bin/python that runs"
    return None


def describe_environment(path: str) -> dict[str, Any]:
    """What is at a path, as `env_release_info` returns it; nothing of the environment is run or imported."""
    problem = environment_problem(path)
    return {
        "path": path,
        "real_path": os.path.realpath(path),
        "exists": os.path.lexists(path),
        "is_environment": problem is None,
        "problem": problem,
        "version": _installed_version(path, "vllm"),
        # Where there are several of one distribution, all their versions: none of them is the version.
        "distributions": {name: ", ".join(sorted(versions)) for name, versions in sorted(distributions(path).items())},
    }


def site_packages(path: str) -> list[str]:
    """The directories of an environment that hold its distributions."""
    return sorted(filter(os.path.isdir, glob.glob(os.path.join(glob.escape(path), "lib", "python3*", "site-packages"))))


def distributions(path: str) -> dict[str, set[str]]:
    """The versions that each distribution's ``.dist-info`` are named after, by normalised name; no content is read."""
    found: dict[str, set[str]] = {}
    for directory in site_packages(path):
        for entry in os.listdir(directory):
            match = _DIST_INFO.fullmatch(entry)
            if match:
                found.setdefault(normalise(match["name"]), set()).add(match["version"])
    return found


def _installed_version(path: str, name: str) -> Optional[str]:
    """The version of a distribution; None without one or with several."""
    found = distributions(path).get(name, set())
    return next(iter(found)) if len(found) == 1 else None


def _age(place: Place) -> tuple[str, int, str]:
    """A key that sorts the oldest first: when it was built, then its number; unfinished ones before all."""
    identity = place.id or ""
    number = identity.rpartition("-")[2]
    return str((place.metadata or {}).get("created_at", "")), int(number) if number.isdigit() else 0, identity
