# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.modules import drift_state
from ansible_collections.pristine.vllm.tests.unit.plugins.release_support import Ran, run_module

NOW = 1_796_007_600.0
ENV = "/opt/vllm/current"
# As wheel_record_info returns it, and a template hands it on.
CODE = {
    "kind": "code",
    "path": "vllm/a.py",
    "file": "/opt/vllm/current/lib/python3.12/site-packages/vllm/a.py",
    "distribution": "vllm",
    "status": "modified",
    "detail": "size",
    "expected_sha256": "0" * 64,
    "actual_sha256": "1" * 64,
    "verified_against": "pinned_wheel",
}
SUMMARY = {
    "distributions": 149,
    "files": 35695,
    "bytes_hashed": 3130000000,
    "seconds": 1.73,
    "from_cache": 12,
    "truncated": 0,
    "modified": 1,
}


def run(capfd: pytest.CaptureFixture[str], folder: pathlib.Path, check: bool = False, **more: Any) -> Ran:
    options: dict[str, Any] = {
        "path": str(folder / "drift/state.json"),
        "environment": ENV,
        "findings": [CODE],
        "kinds": ["code"],
        "scan": SUMMARY,
        "textfile": str(folder / "pristine_vllm.prom"),
        "now": NOW,
        **more,
    }
    return run_module(capfd, drift_state.main, check=check, diff=True, **options)


def without_change(ran: Ran) -> dict[str, Any]:
    return {key: value for key, value in ran.items() if key not in ("changed", "diff", "invocation")}


def test_check_run_check_run(capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    would = run(capfd, tmp_path, check=True)
    assert list(tmp_path.iterdir()) == []
    did = run(capfd, tmp_path)
    assert would == did
    assert did["changed"]
    metrics = tmp_path / "pristine_vllm.prom"
    assert did["diff"]["before"] == ""
    assert did["diff"]["after"] == metrics.read_text()
    assert metrics.stat().st_mode & 0o777 == 0o644
    assert (
        f'pristine_vllm_drifted_files{{environment="{ENV}",distribution="vllm",status="modified"}} 1'
        in metrics.read_text()
    )
    again = [run(capfd, tmp_path, check=check) for check in (True, False)]
    assert [ran["changed"] for ran in again] == [False, False]
    assert [without_change(ran) for ran in again] == [without_change(did)] * 2
    assert again[0]["diff"]["before"] == again[0]["diff"]["after"]


def test_news_are_news_once(capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    (finding,) = run(capfd, tmp_path)["findings"]
    assert (finding["new"], finding["first_seen"], finding["counts"]) == (True, NOW, True)
    assert finding["expected_sha256"] == "0" * 64
    (finding,) = run(capfd, tmp_path, now=NOW + 60)["findings"]
    assert (finding["new"], finding["first_seen"]) == (False, NOW)
    # A scan that returned a part says nothing about the rest.
    other = {**CODE, "path": "vllm/b.py"}
    cut = run(capfd, tmp_path, now=NOW + 90, findings=[other], scan={**SUMMARY, "truncated": "7"})
    assert [one["path"] for one in cut["findings"]] == ["vllm/a.py", "vllm/b.py"]
    ran = run(capfd, tmp_path, now=NOW + 120, findings=[])
    assert (ran["findings"], ran["decision"]["verdict"]) == ([], "pristine")
    assert [one["path"] for one in ran["gone"]] == ["vllm/a.py", "vllm/b.py"]


def metrics(folder: pathlib.Path) -> dict[str, str]:
    lines = (folder / "pristine_vllm.prom").read_text().replace(f'environment="{ENV}"', "").replace("{,", "{")
    pairs = (line.rsplit(" ", 1) for line in lines.splitlines() if not line.startswith("#"))
    return {name.removeprefix("pristine_vllm_").replace("{}", ""): value for name, value in pairs}


def test_more_findings_than_are_listed(capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    """The worst host of all is told of, by what the scan counted."""
    many = {**SUMMARY, "modified": 1200, "unexpected": 800, "declared": 3, "truncated": 2000}
    listed = [{**CODE, "path": f"vllm/{number}.py"} for number in range(3)]
    run(capfd, tmp_path, findings=listed, scan=many)
    told = metrics(tmp_path)
    assert (told["pristine"], told['findings{kind="code"}']) == ("0", "2000")
    assert {name: value for name, value in told.items() if name.startswith("drifted_files")} == {
        'drifted_files{distribution="vllm",status="modified"}': "3",
        'drifted_files{distribution="(not listed)",status="modified"}': "1197",
        'drifted_files{distribution="(not listed)",status="unexpected"}': "800",
    }
    assert 'finding_first_seen_timestamp_seconds{kind="code"}' in told, "or the alert could not say for how long"
    # Others are listed now, and those before may be among the rest: nothing counts twice.
    others = [{**CODE, "path": f"torch/{number}.py", "distribution": "torch"} for number in range(2)]
    ran = run(capfd, tmp_path, now=NOW + 60, findings=others, scan=many)
    assert (len(ran["findings"]), metrics(tmp_path)['findings{kind="code"}']) == (5, "2000")
    # Then it is mended, but for more than could be listed of what does not count.
    harmless = [{**CODE, "path": f"x/{number}.py", "status": "unverifiable"} for number in range(3)]
    mended = {**SUMMARY, "modified": 0, "unverifiable": 1500, "truncated": 1497}
    tried = {"action": "restore", "succeeded": True}
    ran = run(
        capfd, tmp_path, now=NOW + 120, findings=harmless, scan=mended, remediation=tried, policy={"code": "restore"}
    )
    assert ran["decision"]["verdict"] == "remediated"
    told = metrics(tmp_path)
    assert (told["pristine"], told['findings{kind="code"}']) == ("1", "0")
    # What does not count may be among what was left out.
    ran = run(capfd, tmp_path, now=NOW + 180, findings=harmless[:2], scan={**mended, "truncated": 1498})
    assert len(ran["findings"]) == 3


def test_the_decision(capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    hold = tmp_path / "hold"
    policy: dict[str, Any] = {"policy": {"code": "restore"}, "hold_file": str(hold)}
    window = {"from": "02:00", "to": "05:00"}
    assert run(capfd, tmp_path)["decision"]["verdict"] == "reported"
    assert run(capfd, tmp_path, **policy)["decision"]["action"] == "restore"
    assert run(capfd, tmp_path, **policy, windows=[window])["decision"]["verdict"] == "due"
    closed = run(capfd, tmp_path, **policy, windows=[{**window, "days": ["sun"]}])["decision"]
    assert (closed["verdict"], closed["next_possible_utc"]) == ("reported", "2026-12-06 02:00 UTC")
    hold.write_text("benchmark\n")
    held = run(capfd, tmp_path, **policy)
    assert (held["decision"]["verdict"], held["hold"]) == ("held", "benchmark")


def test_a_remediation(capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    tried = {"action": "restore", "succeeded": True, "downtime_seconds": 541.5, "run_id": "20261130T030000Z"}
    ran = run(capfd, tmp_path, findings=[], remediation=tried, policy={"code": "restore"})
    assert ran["decision"]["verdict"] == "remediated"
    assert ran["last_remediation"] == {**tried, "time": NOW, "begun": False}
    ran = run(capfd, tmp_path, now=NOW + 60, policy={"code": "restore"})
    assert "1 of 1 remediations in 24 hours are used up" in ran["decision"]["reason"]
    assert ran["decision"]["next_possible"] == NOW + 86400
    # A run that failed before it could scan again.
    failed = run(
        capfd, tmp_path, now=NOW + 120, findings=[], kinds=[], scan=None, remediation={**tried, "succeeded": False}
    )
    assert failed["decision"]["verdict"] == "remediation_failed"
    assert [one["path"] for one in failed["findings"]] == ["vllm/a.py"]


def test_a_remediation_that_begins(capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    begins = {"action": "restore", "succeeded": False, "begun": True, "run_id": "20261130T030000Z"}
    policy = {"code": "restore"}
    assert run(capfd, tmp_path, policy=policy, run_id=begins["run_id"])["decision"]["verdict"] == "due"
    ran = run(capfd, tmp_path, findings=[], kinds=[], scan=None, remediation=begins)
    assert ran["last_remediation"] == {**begins, "time": NOW, "downtime_seconds": 0.0}
    assert [one["path"] for one in ran["findings"]] == ["vllm/a.py"]
    # Whether it is asked by its own run or by the next one.
    for run_id in (begins["run_id"], "20261130T040000Z"):
        ran = run(capfd, tmp_path, now=NOW + 60, policy=policy, run_id=run_id, max_per_day=9)
        assert ran["decision"]["verdict"] == "reported"
        assert ran["last_remediation"]["begun"] == (run_id == begins["run_id"])


def test_a_history_begins_before_the_first_scan(capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    run(capfd, tmp_path, findings=[], kinds=[], scan=None)
    text = (tmp_path / "pristine_vllm.prom").read_text()
    assert f'pristine_vllm_scan_last_success_timestamp_seconds{{environment="{ENV}"}} 0\n' in text
    assert "pristine_vllm_pristine" not in text
    # Whoever schedules again begins nothing anew, and who schedules otherwise is heard.
    assert run(capfd, tmp_path, findings=[], kinds=[], scan=None, interval=86400)["changed"]
    assert not run(capfd, tmp_path, findings=[], kinds=[], scan=None, now=NOW + 60)["changed"]


def test_a_scan_that_failed(capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    ran = run(
        capfd, tmp_path, errors=["/opt/vllm/current is not there"], findings=[], kinds=[], policy={"code": "restore"}
    )
    assert (ran["decision"]["verdict"], ran["decision"]["action"]) == ("scan_failed", "report")
    assert f'pristine_vllm_scan_success{{environment="{ENV}"}} 0\n' in (tmp_path / "pristine_vllm.prom").read_text()


def test_a_damaged_history_is_told(capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    (tmp_path / "drift").mkdir()
    (tmp_path / "drift/state.json").write_text("{")
    ran = run(capfd, tmp_path)
    assert "begins anew" in json.dumps(ran["warnings"])
    assert (tmp_path / "drift/state.json.damaged").read_text() == "{"
    assert not run(capfd, tmp_path)["changed"]
    assert (tmp_path / "drift/state.json.damaged").read_text() == "{"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"policy": {"code": "fix"}}, "policy of code is 'fix'"),
        ({"windows": [{"from": "1320", "to": "04:00"}]}, "in quotes"),
        ({"textfile": "/tmp/x.txt"}, "does not end in .prom"),
        ({"findings": [{"kind": "code"}]}, "no path or no status"),
        ({"interval": -1}, "interval is -1"),
        ({"remediation": {"action": "restore", "succeeded": False, "begun": True}}, "give its run_id"),
        ({"scan": {"seconds": "long"}}, "scan has seconds 'long'"),
        ({"textfile": "/nonexistent/x.prom"}, "--collector.textfile.directory"),
    ],
)
def test_refusals(
    capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path, options: dict[str, Any], says: str
) -> None:
    ran = run(capfd, tmp_path, **options)
    assert ran["failed"]
    assert says in ran["msg"]


def test_by_default_the_time_is_the_hosts(capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    ran = run(capfd, tmp_path, now=None)
    written = (tmp_path / "drift/state.json").stat().st_mtime
    assert abs(ran["findings"][0]["first_seen"] - written) < 60
