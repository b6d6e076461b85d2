# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a reinstall has to do on one host, decided from what its preflight and evidence phases found.

Pure: no file, no process, no clock. The phases act on the answer and on nothing else, so a check run, which ends with
the plan, tells exactly what a real run does.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.record.model import STATUSES
from ansible_collections.pristine.vllm.plugins.module_utils.report import HARMLESS

#: The keys of a release's metadata that make it the pinned one. The Python is one of them: a release is built for it.
PIN_KEYS = ("version", "commit", "variant", "wheel_sha256", "lock_sha256", "python")


@dataclass(frozen=True)
class Plan:
    """The decisions of one run. ``change`` is false when there is nothing to do."""

    build: bool
    """Build a new release, or take one that an earlier run left and that is pristine, and switch to it."""
    adapt: bool
    """Apply the declared changes of the model configuration."""
    install_unit: bool
    """Write the systemd unit."""
    clean: bool
    """Move debug artifacts to the quarantine."""
    stop: bool
    """Drain and stop what serves before that: the only decision that costs downtime."""
    restart: bool
    """Start and prove the service."""
    change: bool
    release: str
    """Id of the release that serves at the end."""
    wipe_caches: bool
    """Throw away compiled kernels: those of another version garble output (vllm#41871)."""
    reasons: list[str] = field(default_factory=list)


def _same_pin(metadata: dict[str, Any], pin: dict[str, Any]) -> bool:
    return all((metadata.get(key) or "") == (pin.get(key) or "") for key in PIN_KEYS)


def _differences(metadata: dict[str, Any], pin: dict[str, Any]) -> str:
    changed = [
        f"{key} {metadata.get(key) or 'none'} -> {pin.get(key) or 'none'}"
        for key in PIN_KEYS
        if (metadata.get(key) or "") != (pin.get(key) or "")
    ]
    return ", ".join(changed)


def _build_reason(environment: dict[str, Any], live: Optional[dict[str, Any]], pin: dict[str, Any]) -> str:
    if not environment.get("is_environment"):
        if live is None:
            return f"no environment is installed at {environment.get('path')}"
        return (
            f"the live release {live.get('id') or live.get('path')} is damaged: {environment.get('problem')}; "
            "should the new one fail, the service may not start from it again"
        )
    if live is None or not live.get("metadata") or live["metadata"].get("adopted_from"):
        return f"{environment.get('path')} was not built by this collection, so nothing says which wheels it came from"
    metadata: dict[str, Any] = live["metadata"]
    if not _same_pin(metadata, pin):
        return f"the live release {live.get('id')} is not the pinned one: {_differences(metadata, pin)}"
    return ""


def _scan_reason(scan: dict[str, Any]) -> str:
    if scan.get("problem"):
        return f"what is left of it was not compared with its wheels, and nothing of it archived: {scan['problem']}"
    if not scan or scan.get("pristine", True):
        return ""
    counts = Counter(finding["status"] for finding in scan["findings"] if finding["status"] not in HARMLESS)
    if scan.get("summary", {}).get("truncated"):
        counts = Counter({status: scan["summary"][status] for status, counting in STATUSES.items() if counting})
    told = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()) if count)
    return f"the live environment is not pristine: {told}"


def reusable(releases: list[dict[str, Any]], pin: dict[str, Any], taken: set[str]) -> Optional[str]:
    """Return the id of a finished release of this pin that is not in use, as a run killed before its switch leaves it.

    One that was gone back from looks the same and may be dirty: staging takes it up where it is pristine, and builds it
    anew where it is not. ``taken`` are the ids of the live and the previous release, which must not be touched.
    """
    for release in reversed(releases):
        if release.get("id") not in taken and _same_pin(release.get("metadata") or {}, pin):
            return str(release["id"])
    return None


def plan(
    releases: dict[str, Any],
    pin: dict[str, Any],
    scan: dict[str, Any],
    *,
    config_differs: bool,
    unit_differs: bool,
    ready: bool,
    not_ready_reason: str = "",
    artifacts: int = 0,
    force: bool = False,
) -> Plan:
    """Decide what one run does.

    :param releases: what ``env_release_info`` returned: ``environment``, ``current``, ``previous``, ``releases`` and
        ``next_id``
    :param pin: the wanted release: the keys of :data:`PIN_KEYS`
    :param scan: what ``wheel_record_info`` returned for the live environment, or ``{}`` where there is none; of a
        damaged one that cannot be scanned, ``problem`` says why
    :param config_differs: a declared adaptation of the model configuration is not in place
    :param unit_differs: the unit file on the host is not the one that the role would write
    :param ready: the service answered a completion
    :param artifacts: number of debug artifacts found
    :param force: build a new release even where the live one is pristine, and whatever an earlier run left
    """
    environment: dict[str, Any] = releases.get("environment") or {}
    live: Optional[dict[str, Any]] = releases.get("current")
    previous: dict[str, Any] = releases.get("previous") or {}
    reasons = [text for text in (_build_reason(environment, live, pin), _scan_reason(scan)) if text]
    if force:
        reasons.append("a new release was asked for")
    build = bool(reasons)
    # A damaged one may serve all the same: its process has what it needs in memory.
    installed = bool(environment.get("is_environment") or live)
    if config_differs:
        reasons.append("the model configuration lacks a declared adaptation")
    if unit_differs:
        reasons.append("the unit file is not the declared one")
    if installed and not ready:
        reasons.append(f"the service does not serve: {not_ready_reason or 'no reason given'}")
    restart = bool(reasons)
    if artifacts:
        reasons.append(f"{artifacts} debug artifacts lie about")
    metadata: dict[str, Any] = (live or {}).get("metadata") or {}
    taken = {str(entry["id"]) for entry in (live, previous) if entry and entry.get("id")}
    left = None if force else reusable(releases.get("releases") or [], pin, taken)
    wanted = left or str(releases.get("next_id") or "")
    return Plan(
        build=build,
        adapt=config_differs,
        install_unit=unit_differs,
        clean=bool(artifacts),
        stop=restart and installed,
        restart=restart,
        change=restart or bool(artifacts),
        release=wanted if build else str((live or {}).get("id") or ""),
        wipe_caches=build and bool(metadata) and metadata.get("version") != pin.get("version"),
        reasons=reasons,
    )


def as_dict(decided: Plan) -> dict[str, Any]:
    """Return the plan as plain data, as Ansible hands it on."""
    return asdict(decided)
