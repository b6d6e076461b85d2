# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The incident's five assumptions and its operator's list, each answered by what the run saw. Pure."""

from __future__ import annotations

from typing import Any, Optional

from ansible_collections.pristine.vllm.plugins.module_utils.messages import human_bytes
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import PINNED_WHEEL, STATUSES
from ansible_collections.pristine.vllm.plugins.module_utils.run_record.history import SUCCEEDED

#: The file that carried the debug code.
SUSPECT = "vllm/model_executor/models/deepseek_v2.py"
_STOP = "drain and stop"


def checklist(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Answer each question: ``check``, ``question``, ``assumption`` (one of the five, or empty), ``ok`` and ``how``.

    ``ok`` is None where the run had no occasion to find out; never true without something that was looked at.

    :param record: the record, complete but for this
    """
    return [
        _item("wheel_kept", "The wheel is kept and pinned", _wheel(record), "the nightly index still serves it"),
        _item(
            "distributions_verified",
            "Every distribution was verified",
            _distributions(record),
            "all patches are inside the vllm package",
        ),
        _item(
            "release_verified_first",
            "The release was built and verified before anything stopped",
            _release(record),
            "the reinstall will succeed",
        ),
        _item(
            "adaptations",
            "The declared adaptations are in place",
            _adaptations(record),
            "removing kv_cache_scheme is the only adaptation",
        ),
        _item("completion", "A real completion was answered", _completion(record), "the model will reload"),
        _item("suspect_pristine", f"{SUSPECT.rpartition('/')[2]} is pristine", _suspect(record)),
        _item("artifacts_moved", "The debug artifacts are moved to the quarantine", _artifacts(record)),
        _item("way_back", "The way back is kept", _way_back(record)),
        _item("record_written", "The record is written", (True, f"this file, on the host {record['host_copy']}")),
    ]


Answer = tuple[Optional[bool], str]


def _item(check: str, question: str, answer: Answer, assumption: str = "") -> dict[str, Any]:
    return {"check": check, "question": question, "assumption": assumption, "ok": answer[0], "how": answer[1]}


def _scanned(record: dict[str, Any]) -> dict[str, Any]:
    """The summary of the last scan that the run made, of the one before where it did not come to another."""
    summary: dict[str, Any] = record["after"]["summary"] or record["before"]["summary"]
    return summary


def _wheel(record: dict[str, Any]) -> Answer:
    digest = (record["plan"].get("pin") or {}).get("wheel_sha256") or ""
    if not digest:
        return None, "no plan was made that names one"
    trust = _scanned(record).get("verified_against")
    told = f"sha256 {digest}"
    if trust == PINNED_WHEEL:
        return True, f"{told}; the files were compared with wheels that match their pinned sha256"
    return None, f"{told}; the last scan compared with {trust or 'nothing'}, not with the pinned wheels"


def _distributions(record: dict[str, Any]) -> Answer:
    summary, pristine = record["after"]["summary"], record["after"]["pristine"]
    if not summary or pristine is None:
        return None, "nothing was scanned"
    told = (
        f"{summary.get('files', 0)} files of {summary.get('distributions', 0)} distributions against "
        f"{summary.get('verified_against', 'installed_record')}"
    )
    if summary.get("unverifiable"):
        told += f"; {summary['unverifiable']} findings that nobody can verify"
    return bool(pristine), told if pristine else f"{told}: not pristine"


def _release(record: dict[str, Any]) -> Answer:
    names = [phase["name"] for phase in record["phases"]]
    if not record["plan"].get("build"):
        return None, "no release was needed: the live one stayed" if record["plan"] else "no plan was made"
    if "stage" not in names:
        return False, "the run did not come to phase stage"
    if record["outcome"] == "nothing was stopped" and names[-1] in ("stage", "record"):
        return False, "phase stage did not end well; nothing was stopped"
    seconds = next(phase["seconds"] for phase in record["phases"] if phase["name"] == "stage")
    served = record["before"]["serving"] and _STOP in names
    return True, f"{record['plan']['release']}, in {seconds:.1f} s" + (f", before phase {_STOP}" if served else "")


def _adaptations(record: dict[str, Any]) -> Answer:
    in_place = record["after"]["adaptations"]
    if in_place is None:
        return None, "not looked at"
    missed = "; one was missing before" if record["before"]["model_config_differs"] else ""
    return bool(in_place), ("read from the files of the model" if in_place else "one is missing") + missed


def _completion(record: dict[str, Any]) -> Answer:
    after = record["after"]
    if after["completion"]:
        return True, f"the answer: {after['completion'][:60]!r}"
    if not after["serving"]:
        return False, "the service does not serve"
    if record["plan"].get("restart"):
        return None, "the service serves, but nobody asked again"
    return (True, "asked before; nothing was restarted") if record["before"]["serving"] else (None, "not asked")


def _suspect(record: dict[str, Any]) -> Answer:
    wrong = next(
        (
            finding
            for finding in record["before"]["findings"]
            if finding["path"] == SUSPECT and STATUSES.get(finding["status"], False)
        ),
        None,
    )
    if record["after"]["pristine"]:
        was = f"; it was {wrong['status']} before" if wrong else ""
        return True, f"compared with the wheel, like every file{was}"
    if wrong:
        return False, f"{wrong['status']}: {wrong.get('detail') or 'differs from the wheel'}"
    if record["after"]["pristine"] is None or record["before"]["findings_count"] > len(record["before"]["findings"]):
        return None, "not known: the run did not come to a scan that tells"
    return True, "compared with the wheel; other files are not pristine"


def _artifacts(record: dict[str, Any]) -> Answer:
    found = record["before"]["artifacts_count"]
    moved, size = record["after"]["artifacts_count"], record["after"]["artifacts_bytes"]
    told = f"{moved} files, {human_bytes(size)}, to {record['quarantine']}"
    if record["before"]["unit_differs"] is None and not moved:
        return None, "the evidence phase, which looks for them, did not end"
    if moved >= found:
        return True, told if moved else "none was found"
    if record["outcome"] not in SUCCEEDED and not moved:
        return False, f"{found} files lie where they were: {record['outcome']}"
    return False, f"{found} files were found, {told}"


def _way_back(record: dict[str, Any]) -> Answer:
    before, after = record["before"]["release"], record["after"]["release"]
    if not before:
        return None, "nothing was installed before, or nobody looked"
    if record["outcome"] == "going back failed":
        return False, f"{before} could not be started; its files are kept"
    if before == after:
        return True, f"{before} stayed live; what was replaced is in {record['quarantine']}"
    return True, f"previous: {before}"
