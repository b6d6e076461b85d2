# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record for people: what came of it first, then what was checked, planned, done and found. Pure."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from ansible_collections.pristine.vllm.plugins.module_utils.messages import human_bytes
from ansible_collections.pristine.vllm.plugins.module_utils.report import plan_lines

_ANSWERS = {True: "yes", False: "**NO**", None: "not known"}


def summary_lines(record: dict[str, Any]) -> list[str]:
    """What a person wants to know first, and needs no more than ten seconds for."""
    before, after = record["before"], record["after"]
    state = {True: "serves", False: "DOES NOT SERVE", None: "may serve: nobody asked"}[after["serving"]]
    lines = [f"{record['outcome']}: {after['release'] or 'what is installed'} {state}"]
    if record["failure"]:
        lines.append(f"failure: {_first_line(record['failure'])}")
    lines.append(f"downtime: {_downtime(record)}")
    if record["requests_left"]:
        lines.append(f"requests cut off by the stop: {record['requests_left']}")
    lines.append(f"version: {_change(before['version'] or 'none', after['version'] or 'none')}")
    lines.append(f"scan: {_scan(before)} -> {_scan(after)}")
    checks = record["checklist"]
    wrong = [check["question"] for check in checks if check["ok"] is False]
    lines.append(f"checklist: {sum(check['ok'] is True for check in checks)} of {len(checks)} yes")
    lines += [f"NOT SO: {question}" for question in wrong]
    lines += [f"phase {phase['name']:<15} {phase['seconds']:7.1f} s" for phase in record["phases"]]
    lines.append(f"record: {record['host_copy']}")
    if record["controller_problem"]:
        lines.append(f"only there: {record['controller_problem']}")
    return lines


def _downtime(record: dict[str, Any]) -> str:
    notes = []
    if record["load_seconds"] is not None:
        notes.append(f"{record['load_seconds']} s of it the model's load")
    expected = (record["plan"].get("expected") or {}).get("downtime_seconds")
    if expected:
        notes.append(f"{expected} s expected")
    return ", ".join([f"{record['downtime_seconds']} s", *notes])


def _change(before: str, after: str) -> str:
    return f"{after}, as before" if before == after else f"{before} -> {after}"


def _scan(state: dict[str, Any]) -> str:
    if state["pristine"] is None:
        return "none"
    files = f" ({state['summary']['files']} files)" if state["summary"].get("files") else ""
    return ("pristine" if state["pristine"] else "not pristine") + files


def _first_line(text: str) -> str:
    first = text.strip().splitlines()[0] if text.strip() else ""
    return first if len(first) <= 200 else first[:197] + "..."


def code(text: Any) -> str:
    """Inline code, whatever the text holds."""
    plain = " ".join(str(text).split())
    ticks = "`" * (max((len(run) for run in re.findall("`+", plain)), default=0) + 1)
    pad = " " if len(ticks) > 1 else ""
    return f"{ticks}{pad}{plain}{pad}{ticks}"


def cell(text: Any) -> str:
    """A cell of a table: one line, its bars and brackets without a meaning."""
    return re.sub(r"([|\\`<>*])", r"\\\1", " ".join(str(text).split()))


def markdown(record: dict[str, Any]) -> str:
    """The whole record as one Markdown text."""
    parts = [
        [f"# {record['playbook']} of {record['host']}, run {record['run_id']}"],
        _summary(record),
        _failure(record),
        _checklist(record),
        _plan(record),
        _phases(record),
        _findings(record),
        _probes(record),
        _kept(record),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _summary(record: dict[str, Any]) -> list[str]:
    before, after = record["before"], record["after"]
    state = {True: "serves", False: "does not serve", None: "was not asked"}[after["serving"]]
    rows = [
        ("outcome", f"**{record['outcome']}**; the service {state}"),
        ("downtime", f"**{_downtime(record)}**"),
        ("release", _change(code(before["release"] or "none"), code(after["release"] or "none"))),
        ("version", _change(code(before["version"] or "none"), code(after["version"] or "none"))),
        ("commit", _change(code(before["commit"] or "not known"), code(after["commit"] or "not known"))),
        ("environment", f"{_scan(before)} -> {_scan(after)}"),
        ("reason", cell(record["reason"]) or "none was given: `-e reason=...` keeps it here"),
        ("run by", cell(record["operator"]) or "not known"),
        ("from, to", f"{record['started']}, {record['finished']}"),
    ]
    if record["requests_left"]:
        rows.insert(2, ("requests cut off", str(record["requests_left"])))
    if record["controller_problem"]:
        rows.append(("only on the host", cell(record["controller_problem"])))
    return ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]


def _block(text: str) -> list[str]:
    fence = "`" * max(3, max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    return [f"{fence}text", text, fence]


def _failure(record: dict[str, Any]) -> list[str]:
    return ["## Why it failed", "", *_block(record["failure"].strip())] if record["failure"] else []


def _checklist(record: dict[str, Any]) -> list[str]:
    rows = [
        f"| {_ANSWERS[item['ok']]} | {cell(item['question'])} | {cell(item['how'])} | {cell(item['assumption'])} |"
        for item in record["checklist"]
    ]
    return ["## Checklist", "", "| | | how it was checked | instead of assuming that |", "|---|---|---|---|", *rows]


def _plan(record: dict[str, Any]) -> list[str]:
    if not record["plan"]:
        return ["## Plan", "", "None was made."]
    lines = [f"- {cell(line)}" for line in plan_lines({**record["plan"], "ways": []})]
    ways: list[dict[str, Any]] = record["plan"].get("ways") or []
    if ways:
        lines += ["", "| way out | steps | downtime | leaves | |", "|---|---|---|---|---|"]
    for way in ways:
        name = f"**{way['name']}**, taken" if way["taken"] else way["name"]
        possible = "" if way["possible"] else "not possible: "
        columns = ("; ".join(way["steps"]), way["downtime"], "; ".join(way["leaves"]), possible + way["why"])
        lines.append(f"| {name} | {' | '.join(map(cell, columns))} |")
    changes = record["before"]["package_changes"]
    if changes:
        lines += ["", f"### {record['before']['package_changes_count']} packages change", ""]
        lines += [f"- {code(change)}" for change in changes]
        lines += _more(changes, record["before"]["package_changes_count"])
    return ["## Plan", "", *lines]


def _phases(record: dict[str, Any]) -> list[str]:
    expected: dict[str, Any] = (record["plan"].get("expected") or {}).get("phases") or {}
    rows = []
    for phase in record["phases"]:
        about = f"{expected[phase['name']]:.1f} s" if phase["name"] in expected else ""
        rows.append(f"| {cell(phase['name'])} | {phase['seconds']:.1f} s | {about} |")
    return ["## Phases", "", "| phase | took | expected |", "|---|---:|---:|", *rows]


def _more(shown: list[Any], count: int) -> list[str]:
    return [f"- ... and {count - len(shown)} more"] if count > len(shown) else []


def _findings(record: dict[str, Any]) -> list[str]:
    before = record["before"]
    lines = []
    for finding in before["findings"]:
        detail = f", {cell(finding['detail'])}" if finding.get("detail") else ""
        lines.append(f"- {code(finding['path'])}: {finding['status']}{detail}")
    lines += _more(before["findings"], before["findings_count"])
    return [f"## Found before: {before['findings_count']}", "", *(lines or ["Nothing."])]


def _probes(record: dict[str, Any]) -> list[str]:
    before = record["before"]
    if not before["probes"]:
        return []
    lines = []
    # What stands around a dump tells nothing by itself, and there is much of it.
    others = Counter(probe["path"] for probe in before["probes"] if probe["kind"] == "other")
    for probe in before["probes"]:
        if probe["kind"] != "other":
            told = f"writes {code(probe['artifact_glob'])}" if probe.get("artifact_glob") else code(probe["code"][:80])
            lines.append(f"- {code(probe['path'])} line {probe['line']}: {probe['kind']}, {told}")
    lines += [f"- {code(path)}: {count} other added statements" for path, count in sorted(others.items())]
    return ["## Debug code", "", *lines, *_more(before["probes"], before["probes_count"])]


def _kept(record: dict[str, Any]) -> list[str]:
    after = record["after"]
    lines = [f"What was replaced or removed is in {code(record['quarantine'])}."]
    if after["artifacts"]:
        lines += ["", f"{after['artifacts_count']} debug artifacts, {human_bytes(after['artifacts_bytes'])}:", ""]
        lines += [f"- {code(artifact['path'])}, {artifact['size']} bytes" for artifact in after["artifacts"]]
        lines += _more(after["artifacts"], after["artifacts_count"])
    return ["## Kept", "", *lines]
