# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metrics as Prometheus takes them, and alert rules that go off when they should, by Prometheus' own tool."""

from __future__ import annotations

import pathlib
import re
import subprocess

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.drift.findings import KINDS, Finding
from ansible_collections.pristine.vllm.plugins.module_utils.drift.history import Look, note, see
from ansible_collections.pristine.vllm.plugins.module_utils.drift.metrics import render_metrics
from ansible_collections.pristine.vllm.plugins.module_utils.drift.policy import Remediation
from ansible_collections.pristine.vllm.plugins.module_utils.drift.state import Scan, State

ROOT = pathlib.Path(__file__).resolve().parents[3]
RULES = ROOT / "roles/drift_watch/files/pristine-vllm-alerts.yml"
NOW = 1_796_007_600.0
ENV = '/srv/a "quoted" \\ path\n'


@pytest.fixture(scope="session")
def promtool() -> str:
    done = subprocess.run([str(ROOT / "dev/promtool.sh")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def run(*argv: str, stdin: str = "") -> str:
    done = subprocess.run(argv, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


def full_state() -> State:
    """One with a sample of every metric."""
    findings = (
        Finding("code", "vllm/a.py", "modified", "vllm"),
        Finding("code", "vllm/b.py", "modified", "vllm"),
        Finding("code", "x.py", "unexpected"),
        Finding("code", "c.py", "declared", "vllm"),
        Finding("process", "u.service", "changed"),
    )
    state = see(
        State(ENV, NOW, interval=3600.0), Look(findings, KINDS, Scan(NOW, 1.5, 3_130_000_000, 35_695, 12)), NOW, "why"
    )
    state = note(state, Remediation(NOW - 9, "restore", True, 41.25))
    return note(state, Remediation(NOW, "reinstall", False, 0.0))


def test_rules(promtool: str) -> None:
    assert "8 rules found" in run(promtool, "check", "rules", str(RULES))
    run(promtool, "test", "rules", str(ROOT / "tests/unit/roles/pristine-vllm-alerts_test.yml"))


def test_every_alert_is_tested() -> None:
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text())
    tested = re.findall(
        r"alertname: (\w+)\n +exp_alerts:\n", (ROOT / "tests/unit/roles/pristine-vllm-alerts_test.yml").read_text()
    )
    assert set(alerts) == set(tested)


def test_rules_ask_for_metrics_that_there_are() -> None:
    """A rule on a name that nobody writes is green for ever."""
    asked = set(re.findall(r"\bpristine_vllm_\w+", RULES.read_text()))
    written = set(re.findall(r"^# TYPE (\w+)", render_metrics(full_state()), re.MULTILINE))
    assert asked - written == set()
    assert asked


@pytest.mark.parametrize("state", [full_state(), State(ENV, NOW)], ids=["full", "empty"])
def test_prometheus_takes_the_metrics(promtool: str, state: State) -> None:
    assert run(promtool, "check", "metrics", stdin=render_metrics(state)) == ""


def samples(state: State) -> dict[str, str]:
    label = 'environment="/srv/a \\"quoted\\" \\\\ path\\n"'
    lines = [line for line in render_metrics(state).splitlines() if not line.startswith("#")]
    assert all(label in line for line in lines)
    pairs = (line.replace(label, "").replace("{,", "{").replace("{}", "").rsplit(" ", 1) for line in lines)
    return {name.removeprefix("pristine_vllm_"): value for name, value in pairs}


def test_values() -> None:
    assert samples(full_state()) == {
        'drifted_files{distribution="",status="unexpected"}': "1",
        'drifted_files{distribution="vllm",status="modified"}': "2",
        **{f'findings{{kind="{kind}"}}': {"code": "3", "process": "1"}.get(kind, "0") for kind in KINDS},
        "pristine": "0",
        "restart_needed": "1",
        'finding_first_seen_timestamp_seconds{kind="code"}': "1796007600",
        'finding_first_seen_timestamp_seconds{kind="process"}': "1796007600",
        "scan_last_success_timestamp_seconds": "1796007600",
        "watch_start_timestamp_seconds": "1796007600",
        "scan_interval_seconds": "3600",
        "scan_last_attempt_timestamp_seconds": "1796007600",
        "scan_success": "1",
        "scan_duration_seconds": "1.500",
        "scan_read_bytes": "3130000000",
        "scan_files": "35695",
        "scan_cached_files": "12",
        'remediations_total{action="reinstall",outcome="failed"}': "1",
        'remediations_total{action="restore",outcome="succeeded"}': "1",
        'remediation_last_timestamp_seconds{action="reinstall"}': "1796007600",
        'remediation_last_success{action="reinstall"}': "0",
        'remediation_last_downtime_seconds{action="reinstall"}': "0",
        "hold": "1",
        "hold_since_timestamp_seconds": "1796007600",
    }


def test_what_nobody_knows_is_not_told() -> None:
    """A host that was never scanned is not pristine, and not drifted either."""
    assert samples(State(ENV, NOW)) == {
        "scan_last_success_timestamp_seconds": "0",
        "watch_start_timestamp_seconds": "1796007600",
        "hold": "0",
    }
    failed = see(State(ENV, NOW), Look([], ["code", "unit"], Scan(NOW), ["x"]), NOW, None)
    told = samples(failed)
    assert (told["scan_last_success_timestamp_seconds"], told["scan_success"]) == ("0", "0")
    assert "pristine" not in told
    assert "restart_needed" not in told


def test_a_running_service_that_needs_a_restart_is_no_drift_of_files() -> None:
    look = Look([Finding("process", "u.service", "changed")], KINDS, Scan(NOW))
    told = samples(see(State(ENV, NOW), look, NOW, None))
    assert (told["pristine"], told["restart_needed"]) == ("1", "1")


def test_names_that_are_no_text(promtool: str) -> None:
    state = see(
        State("/srv/\udcff", NOW),
        Look([Finding("code", "\udcfe", "unexpected", "\udcfd")], KINDS, Scan(NOW)),
        NOW,
        None,
    )
    text = render_metrics(state)
    assert run(promtool, "check", "metrics", stdin=text) == ""
    assert 'environment="/srv/\\\\udcff"' in text
