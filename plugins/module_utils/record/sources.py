# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finding the wheel that a distribution was installed from, among files, folders and addresses of wheels."""

from __future__ import annotations

import contextlib
import os
import platform
import urllib.parse
from collections.abc import Callable
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.files import read_file, sha256_file
from ansible_collections.pristine.vllm.plugins.module_utils.record.environment import Distribution
from ansible_collections.pristine.vllm.plugins.module_utils.record.http_range import shown
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import ScanError
from ansible_collections.pristine.vllm.plugins.module_utils.record.remote import RemoteSources
from ansible_collections.pristine.vllm.plugins.module_utils.record.wheel import Wheel, WheelError
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_name import canonical_version, parse_wheel_name


class WheelSources:
    """The wheels that pristine content may come from, in the order given; addresses are asked after what is local.

    ``pins`` are the sha256 (hex) that a lock allows for each normalised name; a wheel of a name in it that has another
    digest is refused. ``warnings`` says what was refused or could not be used. ``remote`` counts what was transferred.
    """

    def __init__(self, sources: list[str], pins: Optional[dict[str, set[str]]] = None) -> None:
        """List the wheels; none is opened yet.

        :raises ScanError: a source is not there, is no wheel, or is of a kind that is not supported.
        """
        self.pins = pins or {}
        self.warnings: list[str] = []
        self._paths: dict[str, list[str]] = {}
        self._digests: dict[str, str] = {}
        #: Reads a wheel and says its sha256 in hex digits.
        self.digest: Callable[[str], str] = sha256_file
        self._wheels: list[Wheel] = []
        self.remote = RemoteSources([source for source in sources if _is_address(source)], self.pins, self.warnings)
        for source in sources:
            for path in _wheels_of(source):
                name = parse_wheel_name(os.path.basename(path))
                if name is not None and path not in self._paths.setdefault(name.name, []):
                    self._paths[name.name].append(path)

    def find(self, distribution: Distribution) -> Optional[Wheel]:
        """The best wheel for a distribution: same name and version, not refused, open."""
        usable = []
        for path in self._paths.get(distribution.name, []):
            wheel = self._open(path, distribution)
            if wheel is not None:
                usable.append(wheel)
        if len(usable) > 1:
            usable.sort(key=lambda wheel: _likeness(wheel, distribution), reverse=True)
        for wheel in usable[1:]:
            wheel.close()
        found = usable[0] if usable else self.remote.find(distribution)
        if found is not None:
            self._wheels.append(found)
        return found

    def pinned(self, distributions: list[Distribution]) -> list[str]:
        """The wheel files whose digest `find` is going to compare with the lock."""
        return [
            path
            for distribution in distributions
            if distribution.name in self.pins
            for path in self._paths.get(distribution.name, [])
            if _is_of(path, distribution) and os.path.isfile(path)
        ]

    def close(self) -> None:
        """Close every wheel that `find` gave."""
        for wheel in self._wheels:
            wheel.close()

    def _open(self, path: str, distribution: Distribution) -> Optional[Wheel]:
        if not _is_of(path, distribution):
            return None
        try:
            allowed = self.pins.get(distribution.name)
            if allowed is not None and self._digest(path) not in allowed:
                self.warnings.append(
                    f"wheel {path} was refused: its sha256 is {self._digest(path)}, and the lock pins "
                    f"{distribution.name} to {', '.join(sorted(allowed))}; fetch the wheel again, or correct the lock"
                )
                return None
            wheel = Wheel(path)
        except (OSError, WheelError) as error:
            self.warnings.append(f"{error}; it was not used, fetch it again")
            return None
        if wheel.key != (distribution.name, canonical_version(distribution.version)):
            self.warnings.append(f"wheel {path} was not used: its name says one version and it holds {wheel.dist_info}")
            wheel.close()
            return None
        wheel.pinned = allowed is not None
        return wheel

    def _digest(self, path: str) -> str:
        if path not in self._digests:
            self._digests[path] = self.digest(os.path.realpath(path))
        return self._digests[path]


def _is_of(path: str, distribution: Distribution) -> bool:
    """Whether a wheel, by its file name, is of the version that is installed."""
    name = parse_wheel_name(os.path.basename(path))
    return name is not None and canonical_version(name.version) == canonical_version(distribution.version)


def _is_address(source: str) -> bool:
    """:raises ScanError: it is one of a kind that is not supported."""
    if "://" not in source:
        return False
    try:
        parts = urllib.parse.urlsplit(source)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ScanError(
            f"wheels: {shown(source)!r} is no http(s) address: give the address of a wheel or of a simple index, "
            "or the path of a wheel or of a folder of wheels"
        )
    return True


def _wheels_of(source: str) -> list[str]:
    if _is_address(source):
        return []
    try:
        if not os.path.isdir(source):
            os.stat(source)
            if parse_wheel_name(os.path.basename(source)) is None:
                raise ScanError(f"wheels: {source!r} is not named like a wheel (name-version-python-abi-platform.whl)")
            return [source]
        names = sorted(os.listdir(source))
    except OSError as error:
        raise ScanError(
            f"wheels: {source!r} cannot be read: {error.strerror}; give a wheel file or a folder of wheels"
        ) from error
    return [os.path.join(source, name) for name in names if name.endswith(".whl")]


def _likeness(wheel: Wheel, distribution: Distribution) -> tuple[bool, bool, bool]:
    """How sure it is that this wheel is the one: pinned, same WHEEL file as installed, made for this machine."""
    same = False
    with contextlib.suppress(OSError, WheelError):
        same = wheel.read(wheel.dist_info + "/WHEEL", 65536) == read_file(
            os.path.join(distribution.directory, "WHEEL"), 65536
        )
    name = parse_wheel_name(wheel.filename)
    return wheel.pinned, same, name is not None and name.fits_machine(platform.machine())
