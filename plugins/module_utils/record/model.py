# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words that the parts of the RECORD engine share: statuses, levels of trust, findings, options, results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Optional

# Status -> does it count against "pristine". The order is the one in which a summary lists them.
STATUSES: dict[str, bool] = {
    "modified": True,
    "missing": True,
    "unexpected": True,
    "redirected": True,
    "record_edited": True,
    "outside": True,
    "duplicate": True,
    "leftover": True,
    "bytecode": True,
    "unreadable": True,
    "unadapted": True,
    "declared": False,
    "unverifiable": False,
}

# From the weakest to the strongest.
INSTALLED_RECORD = "installed_record"
WHEEL_RECORD = "wheel_record"
PINNED_WHEEL = "pinned_wheel"
LEVELS = (INSTALLED_RECORD, WHEEL_RECORD, PINNED_WHEEL)


class ScanError(Exception):
    """The scan cannot answer; the message says what, where, why and what to do next."""


def printable(text: str) -> str:
    """A path or a line of text that JSON and a terminal can carry: bytes that are no UTF-8 become ``\\xNN``."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class Adaptation:
    """A declared difference: the file at ``path`` (as findings name it) must have this sha256 (64 hex digits)."""

    path: str
    sha256: str
    reason: str


@dataclass
class Finding:
    """One thing that is not as the wheel says.

    ``path`` is relative to site-packages where it lies in it, else to the environment; ``file`` is absolute.
    """

    path: str
    file: str
    status: str
    detail: str
    distribution: Optional[str] = None
    expected_sha256: Optional[str] = None
    actual_sha256: Optional[str] = None
    verified_against: str = INSTALLED_RECORD

    @property
    def counts(self) -> bool:
        """Whether it counts against "pristine"."""
        return STATUSES[self.status]

    def to_dict(self) -> dict[str, Any]:
        """The finding as the modules return it."""
        return {
            "path": printable(self.path),
            "file": printable(self.file),
            "distribution": None if self.distribution is None else printable(self.distribution),
            "status": self.status,
            "detail": printable(self.detail),
            "expected_sha256": self.expected_sha256,
            "actual_sha256": self.actual_sha256,
            "verified_against": self.verified_against,
        }


@dataclass(frozen=True)
class Probe:
    """A statement that a modified Python source has and the pristine one has not.

    ``kind`` is one of tensor_dump, counter, print, breakpoint, env_read, other; ``line`` counts from 1.
    """

    path: str
    line: int
    kind: str
    code: str
    artifact_glob: Optional[str] = None

    def to_dict(self) -> dict[str, Any]:
        """The probe as the modules return it."""
        return {
            "path": printable(self.path),
            "line": self.line,
            "kind": self.kind,
            "code": printable(self.code),
            "artifact_glob": self.artifact_glob,
        }


@dataclass
class ScanOptions:
    """What to scan, as the options of ``wheel_record_info`` say; empty lists mean "all" or "none" as they do there."""

    environment: str
    distributions: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    wheels: list[str] = field(default_factory=list)
    lock: Optional[str] = None
    adaptations: list[Adaptation] = field(default_factory=list)
    ignore: list[str] = field(default_factory=list)
    recompile: bool = False
    workers: Optional[int] = None
    cache: Optional[str] = None
    progress: Optional[Callable[[int, int], None]] = None


@dataclass
class Summary:
    """How much was looked at: ``seconds`` is wall time, ``from_cache`` the files that were not read.

    ``remote_requests`` and ``remote_bytes`` (of bodies) are what wheels on HTTP servers took.
    """

    distributions: int = 0
    files: int = 0
    bytes_hashed: int = 0
    seconds: float = 0.0
    verified_against: str = INSTALLED_RECORD
    from_cache: int = 0
    ignored: int = 0
    remote_requests: int = 0
    remote_bytes: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STATUSES, 0))

    def to_dict(self) -> dict[str, Any]:
        """The summary as the modules return it: the counts lie beside the rest."""
        return {
            "distributions": self.distributions,
            "files": self.files,
            "bytes_hashed": self.bytes_hashed,
            "seconds": round(self.seconds, 3),
            "verified_against": self.verified_against,
            "from_cache": self.from_cache,
            "ignored": self.ignored,
            "remote_requests": self.remote_requests,
            "remote_bytes": self.remote_bytes,
            **self.counts,
        }


@dataclass
class ScanResult:
    """Findings sorted by path, and what else the scan learnt; ``warnings`` are for the operator."""

    findings: list[Finding]
    summary: Summary
    probes: list[Probe] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def pristine(self) -> bool:
        """Nothing but declared differences (and what nobody can verify, which is counted and shown)."""
        return not any(finding.counts for finding in self.findings)
