# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A difference of any kind that a scan of a host found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.report import HARMLESS

# What one scan answers for. The order is that of reports.
KINDS = ("code", "model_config", "unit", "link", "process", "artifacts")


@dataclass(frozen=True)
class Finding:
    """One difference. ``status`` is of ``wheel_record_info`` for code, and in its spirit for the other kinds."""

    kind: str
    path: str
    status: str
    distribution: Optional[str] = None
    detail: str = ""
    expected_sha256: Optional[str] = None
    actual_sha256: Optional[str] = None

    @property
    def counts(self) -> bool:
        """Whether it is drift, and not only something to be shown."""
        return self.status not in HARMLESS

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What makes two findings of two scans the same one: a file that is edited once more is another finding."""
        return self.kind, self.path, self.status, self.actual_sha256 or ""

    def to_dict(self) -> dict[str, Any]:
        """As modules return it, and as `from_dict` takes it."""
        return {
            "kind": self.kind,
            "path": self.path,
            "status": self.status,
            "distribution": self.distribution,
            "detail": self.detail,
            "expected_sha256": self.expected_sha256,
            "actual_sha256": self.actual_sha256,
        }


def from_dict(data: Mapping[str, Any]) -> Finding:
    """A finding as a module returned it; what else it holds is left aside.

    :raises ValueError: it is none.
    """
    kind, path, status = (data.get(name) for name in ("kind", "path", "status"))
    if kind not in KINDS:
        raise ValueError(f"a finding has the kind {kind!r}: give one of {', '.join(KINDS)}")
    if not isinstance(path, str) or not path or not isinstance(status, str) or not status:
        raise ValueError(f"a finding of the kind {kind} has no path or no status: {dict(data)!r}")
    optional = (data.get(name) for name in ("distribution", "expected_sha256", "actual_sha256"))
    distribution, expected, actual = (str(value) if value else None for value in optional)
    return Finding(kind, path, status, distribution, str(data.get("detail") or ""), expected, actual)


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """As they are shown: what counts first, then by kind and path."""
    return sorted(findings, key=lambda one: (not one.counts, KINDS.index(one.kind), one.path, one.status))
