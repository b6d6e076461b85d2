# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What puts the findings of a scan right in place, and whether the service has to be restarted for it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.run_record.ways import (
    expected_seconds,
    expected_text,
    may_be_run,
)

_DROPIN = re.compile(r"/[^/]+\.d/[^/]+\.conf")
# Cured when systemd reads the unit again.
_WITHOUT_RESTART = ("reload_needed",)
_PIN_KEYS = ("version", "commit", "variant", "wheel_sha256", "lock_sha256", "python")


@dataclass(frozen=True)
class Host:
    """What is known of the host: ``releases`` is what ``env_release_info`` returned, ``expected`` the release that
    should be live, ``unit_file`` where the unit belongs.

    ``started`` is when the service's process began and ``changed_at`` when files were changed, in seconds since the
    epoch; ``main_pid`` is None where nothing runs.
    """

    provisioned: bool
    releases: Mapping[str, Any]
    unit_file: str
    expected: str = ""
    main_pid: Optional[int] = None
    started: Optional[float] = None
    changed_at: Mapping[str, float] = field(default_factory=dict)


@dataclass
class Remedy:
    """What is to be done in one switchover. ``remove`` are files as an order takes them, ``refused`` tells why not."""

    restart: bool = False
    code: bool = False
    unit: bool = False
    adapt: bool = False
    clean: bool = False
    release: str = ""
    remove: list[dict[str, str]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def remedy(findings: Iterable[Mapping[str, Any]], kinds: Sequence[str], host: Host) -> Remedy:
    """Decide.

    :param findings: those of the scan, as ``drift_state`` returns them.
    :param kinds: the kinds that are to be put right; of the others nothing is touched.
    """
    wanted = [one for one in findings if one["counts"] and one["kind"] in kinds]
    of = {kind: [one for one in wanted if one["kind"] == kind] for kind in kinds}
    done = Remedy(
        code="code" in kinds,
        unit="unit" in kinds,
        adapt="model_config" in kinds,
        # Which files to look for the debug code says: once that is gone, nobody knows of them.
        clean="artifacts" in kinds or "code" in kinds,
    )
    if not host.provisioned:
        done.refused.append(
            "this host is only watched: without vllm_version nothing says what it should be. Set the policy to report, "
            "or describe the host in the inventory and run the playbook reinstall"
        )
        return done
    _unit(of.get("unit", []), host, done)
    _link(of.get("link", []), host, done)
    done.restart = host.main_pid is not None and any(_needs_restart(one, host) for one in wanted)
    return done


def plan_of(
    done: Remedy, kinds: Sequence[str], host: Host, estimates: Optional[Mapping[str, Any]] = None
) -> dict[str, Any]:
    """The same in the form of the plan of a reinstall, so that phases and record take either."""
    live: Mapping[str, Any] = host.releases.get("current") or {}
    metadata: Mapping[str, Any] = live.get("metadata") or {}
    known = dict(estimates or {})
    return {
        "build": False,
        "restore": done.code,
        "adapt": done.adapt,
        "install_unit": done.unit,
        "clean": done.clean,
        "stop": done.restart,
        "restart": done.restart,
        "change": True,
        "release": done.release or str(live.get("id") or (host.releases.get("environment") or {}).get("path") or ""),
        "wipe_caches": bool(done.release),
        "reasons": [f"the policy is to restore: {', '.join(kinds)}"],
        "pin": {key: str(metadata[key]) for key in _PIN_KEYS if metadata.get(key)},
        "expected": {
            "downtime_seconds": expected_seconds(known) if done.restart else 0.0,
            "downtime": expected_text(known) if done.restart else "none",
            "phases": known.get("phases") or {},
        },
        "ways": [],
    }


def as_dict(done: Remedy) -> dict[str, Any]:
    """As Ansible hands it on."""
    return asdict(done)


def _unit(findings: Sequence[Mapping[str, Any]], host: Host, done: Remedy) -> None:
    if findings and not host.releases.get("current"):
        done.refused.append("the unit is not ours before a reinstall has adopted the environment: run that first")
    for one in findings:
        path, status = str(one["path"]), one["status"]
        if status == "masked":
            done.refused.append(f"{path} is masked: systemctl unmask it, or find who masked it")
        elif status == "unexpected" and _DROPIN.search(path):
            done.remove.append({"path": path})
        elif path != host.unit_file and path.startswith("/") and status not in ("unexpected", "reload_needed"):
            done.refused.append(f"what {path} should hold is known by its digest alone: put it back by hand")


def _link(findings: Sequence[Mapping[str, Any]], host: Host, done: Remedy) -> None:
    if not findings:
        return
    if host.expected and "/" not in host.expected:
        done.release = host.expected
    else:
        done.refused.append(
            f"nothing says which release {findings[0]['path']} should lead to: name it in drift_watch_release, or set "
            "the policy for link to reinstall"
        )


def _needs_restart(finding: Mapping[str, Any], host: Host) -> bool:
    """Whether the running process has, or may have, read what is put right."""
    kind = finding["kind"]
    if kind == "code":
        return may_be_run(finding)
    if kind == "unit":
        return finding["status"] not in _WITHOUT_RESTART
    if kind == "model_config":
        # Read once, at the start: a file that a refresh of the model brought later is not what is served.
        changed = host.changed_at.get(str(finding["path"]))
        return changed is None or host.started is None or changed <= host.started
    return kind in ("process", "link")
