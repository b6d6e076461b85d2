# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lies in a virtual environment: site-packages and the distributions in them, read without running any of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from dataclasses import dataclass, field
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import read_file
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import ScanError
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_name import normalise

_PYTHON = re.compile(r"(?:python|pypy)3(?:\.\d+)?t?\Z")
# pip renames what it is about to replace to "~..."; uv and this collection write beside the target.
LEFTOVER = re.compile(r"~|\.tmp[A-Za-z0-9]{6}\Z|\.pristine-")
# No RECORD comes near; a larger one would only be there to exhaust the memory.
_RECORD_LIMIT = 64 * 1024 * 1024


@dataclass
class Distribution:
    """An installed distribution: ``directory`` is its ``.dist-info`` (or what an older tool left instead).

    ``record`` is None and ``problem`` says why where there is nothing to verify it with.
    """

    name: str
    version: str
    directory: str
    site: str
    record: Optional[bytes] = None
    problem: str = ""
    editable: str = ""
    top_level: list[str] = field(default_factory=list)


@dataclass
class Environment:
    """A virtual environment: real paths of its root and of each site-packages, distributions sorted by name.

    ``aliases`` are the names that a site-packages has besides its real path, such as those through ``lib64``.
    """

    root: str
    sites: list[str]
    distributions: list[Distribution]
    leftovers: list[str]
    escaped: list[str]
    unreadable: dict[str, str]
    aliases: dict[str, str] = field(default_factory=dict)

    def relative(self, path: str) -> str:
        """A path as findings name it."""
        for site in self.sites:
            if path.startswith(site + "/"):
                return path[len(site) + 1 :]
        return path[len(self.root) + 1 :] if path.startswith(self.root + "/") else path

    def absolute(self, path: str) -> list[str]:
        """The places that a path given by a user may mean, best first: in site-packages, in the environment."""
        places = [os.path.normpath(os.path.join(site, path)) for site in self.sites]
        places.append(os.path.normpath(os.path.join(self.root, path)))
        return list(dict.fromkeys(places))

    def contains(self, path: str) -> bool:
        """Whether a normalised absolute path lies inside, by its text alone."""
        return path.startswith(self.root + "/")


def resolved(path: str) -> str:
    """The real path; that of a link that vanishes while it is followed is in no environment."""
    try:
        return os.path.realpath(path)
    except OSError:
        return "/"


def discover(path: str) -> Environment:
    """Find the distributions of an environment.

    :raises ScanError: it is no environment, cannot be read, or holds no distribution: never an empty answer.
    """
    root = resolved(path)
    if not os.path.isdir(root):
        raise ScanError(
            f"environment {path!r} is not a directory, so nothing can be verified: "
            "give the root of a virtual environment, the directory that holds bin/ and lib/"
        )
    environment = Environment(root, [], [], [], [], {})
    for site in _sites(root, path):
        if not resolved(site).startswith(root + "/"):
            environment.escaped.append(site)
            continue
        real = resolved(site)
        if real != site:
            environment.aliases[site] = real
        if real not in environment.sites:
            environment.sites.append(real)
            _read_site(environment, real)
    if not environment.distributions:
        where = ", ".join(environment.sites + environment.escaped) or "no lib/python3.*/site-packages"
        raise ScanError(
            f"environment {path!r} holds no distribution (looked at: {where}), so nothing can be verified: "
            "check that this is the root of the virtual environment that the service runs from"
        )
    environment.distributions.sort(key=lambda distribution: (distribution.name, distribution.directory))
    return environment


def _sites(root: str, given: str) -> list[str]:
    """Every site-packages directory below the root, links among them."""
    sites = []
    for library in ("lib", "lib64"):
        folder = os.path.join(root, library)
        try:
            names = sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise ScanError(
                f"environment {given!r} cannot be read: {error}; run as a user who may read it (become: true)"
            ) from error
        for name in names:
            if _PYTHON.match(name):
                sites += [os.path.join(folder, name, kind) for kind in ("site-packages", "dist-packages")]
    return [site for site in sites if _is_folder(site, given)]


def _is_folder(path: str, given: str) -> bool:
    """Whether a directory is there. One that cannot be looked at must not read as one that is not there.

    :raises ScanError: it cannot be looked at.
    """
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except PermissionError as error:
        raise ScanError(
            f"environment {given!r} cannot be read: {error}; run as a user who may read it (become: true)"
        ) from error
    except OSError:
        return False


def _read_site(environment: Environment, site: str) -> None:
    try:
        names = sorted(os.listdir(site))
    except OSError as error:
        raise ScanError(
            f"{site} cannot be read: {error}; run as a user who may read the environment (become: true)"
        ) from error
    for name in names:
        path = os.path.join(site, name)
        if LEFTOVER.match(name):
            environment.leftovers.append(path)
        elif name.endswith(".dist-info"):
            _read_dist_info(environment, path, site)
        elif name.endswith((".egg-info", ".egg", ".egg-link")):
            environment.distributions.append(_legacy(path, site))


def _read_dist_info(environment: Environment, path: str, site: str) -> None:
    name, _dash, version = os.path.basename(path)[: -len(".dist-info")].partition("-")
    distribution = Distribution(normalise(name), version, path, site)
    environment.distributions.append(distribution)
    if not resolved(path).startswith(environment.root + "/"):
        distribution.problem = "its .dist-info is a link that leads out of the environment and was not opened"
        environment.escaped.append(path)
        return
    distribution.editable = _editable(path)
    record = os.path.join(path, "RECORD")
    try:
        data = read_file(record, _RECORD_LIMIT)
        if data.strip() and len(data) < _RECORD_LIMIT:
            distribution.record = data
            return
        distribution.problem = "its RECORD is empty" if not data.strip() else "its RECORD is larger than any can be"
        environment.leftovers += [] if data.strip() else [path]
    except FileNotFoundError:
        distribution.problem = "it has no RECORD (as with packages of the system's own package manager)"
        if not os.path.exists(os.path.join(path, "METADATA")):
            environment.leftovers.append(path)
    except OSError as error:
        distribution.problem = f"its RECORD cannot be read: {error.strerror}"
        if os.path.islink(record) and not resolved(record).startswith(environment.root + "/"):
            environment.escaped.append(record)
        else:
            environment.unreadable[record] = str(error.strerror)
    distribution.top_level = _top_level(path, name)


def _legacy(path: str, site: str) -> Distribution:
    """A distribution that setuptools installed by itself, as it did before wheels."""
    base, kind = os.path.splitext(os.path.basename(path))
    name, _dash, rest = base.partition("-")
    distribution = Distribution(normalise(name), rest.split("-")[0], path, site)
    distribution.problem = f"it was installed as {kind[1:]}, which has no RECORD"
    if kind == ".egg-link":
        distribution.editable = "its source tree"
    distribution.top_level = [os.path.basename(path), *_top_level(path, name)]
    return distribution


def _top_level(path: str, name: str) -> list[str]:
    """The import names of a distribution that has no RECORD, as far as it says."""
    names = [name, re.sub(r"[-.]+", "_", name)]
    with contextlib.suppress(OSError):
        names += read_file(os.path.join(path, "top_level.txt"), 65536).decode("utf-8", "replace").split()
    return sorted({top.split("/")[0] for top in names})


def _editable(path: str) -> str:
    """Where an editable install has its code, or nothing. https://peps.python.org/pep-0660/"""
    try:
        data = json.loads(read_file(os.path.join(path, "direct_url.json"), 65536))
        return str(data.get("url", "its source tree")) if data.get("dir_info", {}).get("editable") else ""
    except (OSError, ValueError, AttributeError, RecursionError):
        return ""
