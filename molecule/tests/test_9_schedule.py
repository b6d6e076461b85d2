# Copyright: Pristine vLLM maintainers (@pristine-vllm)
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that scans itself: its timer, what a tick does and shows, a real Prometheus, and nothing after removal."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.pristine.vllm.molecule.shared.hosts import CHECKOUT
from ansible_collections.pristine.vllm.molecule.tests.schedule_support import (
    CODE,
    FLEET,
    UNIT,
    allow_in_container,
    place,
    poll,
    pulling,
    said,
    show,
)
from testinfra.host import Host

PULL = "/opt/vllm/pull"
METRICS = "/var/lib/prometheus/node-exporter"
RULES = CHECKOUT / "roles/drift_watch/files/pristine-vllm-alerts.yml"
# Where a schedule could leave something. The history, and what a remediation kept and told, is meant to stay.
PLACES = "/etc /opt/vllm /root /usr /var/lib /home /srv"
PROMETHEUS = """\
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [/etc/prometheus/pristine-vllm-alerts.yml]
scrape_configs:
  - job_name: node
    static_configs:
      - targets: ["localhost:9100"]
"""


def firing(host: Host) -> set[str]:
    """The alerts that Prometheus has fired and that are not over."""
    answer = json.loads(host.check_output("curl -fsS http://127.0.0.1:9090/api/v1/alerts"))
    return {alert["labels"]["alertname"] for alert in answer["data"]["alerts"] if alert["state"] == "firing"}


def fires(host: Host, alert: str) -> None:
    poll(f"{alert} fires", lambda: alert in firing(host))


def ends(host: Host, alert: str) -> None:
    poll(f"{alert} ends", lambda: alert not in firing(host))


def files(host: Host) -> set[str]:
    found = host.check_output(
        f"find {PLACES} -xdev -not -path '*/__pycache__*' -not -path '/var/lib/prometheus/metrics2*'"
    )
    stays = tuple(f"/opt/vllm/{folder}" for folder in ("drift", "quarantine", "records", "switchover"))
    return {name for name in found.splitlines() if not name.startswith(stays)}


def tick(host: Host, unit: str = UNIT) -> int:
    """One scan, as the timer begins it; its exit status."""
    host.run(f"systemctl start {unit}.service")
    return int(show(host, f"{unit}.service", "ExecMainStatus")[0])


@pytest.fixture(scope="module")
def settings(tarball: Path) -> dict[str, Any]:
    return {
        **pulling(tarball),
        "drift_watch_textfile_directory": METRICS,
        # Not due while this runs; what is missed is told after three times these seconds.
        "drift_watch_schedule_calendar": "*-02-29",
        "drift_watch_schedule_interval": 5,
        # Templates are resolved, braces of others are not templates.
        "run_record_reason": "{% raw %}{{ messages }}{% endraw %}",
    }


@pytest.fixture(scope="module")
def before(host: Host) -> set[str]:
    """Prometheus set up, as its operator does it, and the files of the host without a schedule.

    The shipped rules, but that drift is told after a second rather than an hour, and a failed scan at once.
    """
    rules = RULES.read_text().replace("> 3600\n", "> 1\n").replace("for: 15m", "for: 0s")
    assert rules.count("> 1\n") == 1
    place(host, "/etc/prometheus/pristine-vllm-alerts.yml", rules)
    place(host, "/etc/prometheus/prometheus.yml", PROMETHEUS)
    host.check_output("promtool check config /etc/prometheus/prometheus.yml")
    host.check_output("systemctl restart prometheus prometheus-node-exporter")
    allow_in_container(host)
    # systemd makes it for a host's first persistent timer. Debian has some, the container none.
    host.check_output("mkdir -p /var/lib/systemd/timers")
    poll("Prometheus answers", lambda: host.run("curl -fsS http://127.0.0.1:9090/-/ready").rc == 0)
    return files(host)


@pytest.fixture(scope="module")
def scheduled(before: set[str], inventory: Path, playbook: Any, settings: dict[str, Any]) -> Any:
    run = playbook("pristine.vllm.schedule", **settings)
    assert run.code == 0
    return run


def test_a_check_run_changes_nothing(before: set[str], playbook: Any, settings: dict[str, Any], host: Host) -> None:
    run = playbook("pristine.vllm.schedule", "--check", **settings)
    assert run.code == 0
    assert run.changed > 0
    assert files(host) == before


def test_a_tarball_with_another_digest_is_refused(
    before: set[str], playbook: Any, settings: dict[str, Any], host: Host
) -> None:
    run = playbook("pristine.vllm.schedule", **{**settings, "drift_watch_schedule_collection_sha256": "0" * 64})
    assert run.code != 0
    assert "has the sha256" in run.said
    assert not host.file(f"/etc/systemd/system/{UNIT}.timer").exists


def test_a_calendar_that_is_none_is_refused(before: set[str], playbook: Any, settings: dict[str, Any]) -> None:
    run = playbook("pristine.vllm.schedule", **{**settings, "drift_watch_schedule_calendar": "whenever"})
    assert run.code != 0
    assert "'whenever' does not come round on vllm01" in run.said


def test_it_is_scheduled_and_that_once(scheduled: Any, playbook: Any, settings: dict[str, Any], host: Host) -> None:
    again = playbook("pristine.vllm.schedule", **settings)
    assert (again.code, again.changed) == (0, 0)
    (timer,) = json.loads(host.check_output(f"systemctl list-timers --output=json {UNIT}.timer"))
    assert timer["activates"] == f"{UNIT}.service"
    assert timer["next"] > time.time() * 1e6
    verified = host.run(f"systemd-analyze verify /etc/systemd/system/{UNIT}.service /etc/systemd/system/{UNIT}.timer")
    assert (verified.rc, verified.stdout + verified.stderr) == (0, "")
    inventory = host.file(f"{PULL}/inventory.yml")
    assert (inventory.mode, inventory.user, host.file(PULL).mode) == (0o600, "root", 0o700)
    assert "run_record_reason: !unsafe '{{ messages }}'" in inventory.content_string


def test_a_scan_that_never_ran_is_seen(scheduled: Any, host: Host) -> None:
    fires(host, "PristineVllmScanNeverRan")
    assert "PristineVllmDrifted" not in firing(host)


def test_a_tick_finds_nothing_on_a_clean_host(scheduled: Any, host: Host) -> None:
    assert tick(host) == 0, said(host)
    (metrics,) = host.check_output(f"ls {METRICS}/pristine_vllm-*.prom").split()
    assert 'pristine_vllm_pristine{environment="/opt/vllm/current"} 1' in host.file(metrics).content_string
    assert 'pristine_vllm_scan_interval_seconds{environment="/opt/vllm/current"} 5' in host.file(metrics).content_string
    ends(host, "PristineVllmScanNeverRan")


def test_a_tick_that_is_missed_is_seen(scheduled: Any, host: Host) -> None:
    fires(host, "PristineVllmScanMissed")


def test_a_tick_finds_dirt_and_the_alert_fires(scheduled: Any, host: Host) -> None:
    host.check_output(f"cp -a {CODE} /root/clean.py && echo 'import pdb' >> {CODE}")
    try:
        assert tick(host) == 2
        assert UNIT in host.check_output("systemctl --failed --plain --no-legend")
        assert "modified vllm/model_executor/models/deepseek_v2.py" in said(host)
        fires(host, "PristineVllmDrifted")
    finally:
        host.check_output(f"mv /root/clean.py {CODE}")
    # The service began before the file came back, and a scan tells that as well: here it is about the files.
    tick(host)
    ends(host, "PristineVllmDrifted")


def test_serving_goes_first_and_inherits_nothing(scheduled: Any, host: Host) -> None:
    policy = show(host, f"{UNIT}.service", "CPUSchedulingPolicy", "Nice", "IOSchedulingClass", "Type")
    assert policy == ["5", "19", "3", "oneshot"]
    # What a unit that is told to start another hands on: from a tick's own surroundings, by its own settings.
    place(host, "/run/systemd/system/probe.service", "[Service]\nType=oneshot\nExecStart=/usr/bin/chrt -p 0\n")
    start = "systemd-run --quiet --wait -p CPUSchedulingPolicy=idle -p Nice=19 systemctl start probe.service"
    try:
        host.check_output(f"systemctl daemon-reload && {start}")
        assert "SCHED_OTHER" in host.check_output("journalctl -u probe.service --no-pager -o cat")
    finally:
        host.check_output("rm /run/systemd/system/probe.service && systemctl daemon-reload")


def test_a_damaged_collection_is_not_run_and_the_schedule_mends_it(
    scheduled: Any, playbook: Any, settings: dict[str, Any], host: Host
) -> None:
    (damaged,) = host.check_output(f"ls {PULL}/runners").split()
    folder = f"{PULL}/runners/{damaged}/collections/ansible_collections/pristine/vllm"
    host.check_output(f"echo '# edited' >> {folder}/roles/drift_watch/tasks/main.yml && touch {folder}/plugins/x.py")
    assert tick(host) == 78
    assert "roles/drift_watch/tasks/main.yml was changed" in said(host)
    assert "plugins/x.py is not of it" in said(host)
    assert playbook("pristine.vllm.schedule", **settings).code == 0
    (mended,) = host.check_output(f"ls {PULL}/runners").split()
    assert mended != damaged
    assert tick(host) in (0, 2)


def test_a_remediation_gets_through_the_sandbox_and_inherits_nothing(
    scheduled: Any, playbook: Any, settings: dict[str, Any], host: Host
) -> None:
    (before,) = show(host, "vllm-kimi-k25", "MainPID")
    host.check_output(f"echo 'import pdb' >> {CODE}")
    assert playbook("pristine.vllm.schedule", drift_watch_policy={"code": "restore"}, **settings).code == 0
    assert tick(host) == 0, said(host)
    assert "import pdb" not in host.check_output(f"tail -n 1 {CODE}")
    (after,) = show(host, "vllm-kimi-k25", "MainPID")
    assert after not in (before, "0")
    assert "SCHED_OTHER" in host.check_output(f"chrt -p {after}")
    assert host.check_output(f"ps -o ni= -p {after}").strip() == "0"
    assert playbook("pristine.vllm.schedule", **settings).code == 0


def test_a_controller_schedules_its_inventory(scheduled: Any, host: Host) -> None:
    """Here the host is its own controller: it has an Ansible and an inventory already."""
    (runner,) = host.check_output(f"ls -d {PULL}/runners/*").split()
    asked = {
        "drift_watch_schedule_mode": "controller",
        "drift_watch_schedule_unit": FLEET,
        "drift_watch_schedule_calendar": "*-02-29",
        "drift_watch_schedule_interval": 5,
        # Its Ansible is one that compares itself before the next tick of the other schedule.
        "drift_watch_schedule_environment": {"PYTHONDONTWRITEBYTECODE": "1"},
    }

    def schedule(**more: str) -> str:
        environment = f"LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 ANSIBLE_CONFIG={runner}/ansible.cfg"
        command = f"{runner}/venv/bin/ansible-playbook pristine.vllm.schedule --inventory {PULL}/inventory.yml"
        done = host.run(f"{environment} {command} -e {shlex.quote(json.dumps({**asked, **more}))}")
        assert done.rc == 0, done.stdout
        return str(done.stdout)

    schedule()
    assert "changed=0" in schedule()
    units = f"/etc/systemd/system/{FLEET}.service /etc/systemd/system/{FLEET}.timer"
    verified = host.run(f"systemd-analyze verify {units}")
    assert (verified.rc, verified.stdout + verified.stderr) == (0, "")
    assert tick(host, FLEET) in (0, 2)
    assert "vllm01: pristine" in said(host, FLEET)
    schedule(drift_watch_schedule_state="absent")
    assert host.run(f"ls {units} /var/lib/systemd/timers/stamp-{FLEET}.timer").stdout == ""
    assert host.file(f"{PULL}/inventory.yml").exists


def test_removal_leaves_nothing(
    scheduled: Any, before: set[str], playbook: Any, settings: dict[str, Any], host: Host
) -> None:
    # In the middle of a scan, which ends with it.
    host.check_output(f"systemctl start --no-block {UNIT}.service")
    poll("a scan is under way", lambda: show(host, f"{UNIT}.service", "ActiveState") == ["activating"])
    host.check_output(f"systemctl kill --signal STOP {UNIT}.service")
    removed = playbook("pristine.vllm.schedule", drift_watch_schedule_state="absent", **settings)
    assert removed.code == 0
    assert files(host) == before
    assert UNIT not in host.check_output("systemctl list-units --all --plain --no-legend")
    assert UNIT not in host.check_output("systemctl --failed --plain --no-legend")
    again = playbook("pristine.vllm.schedule", drift_watch_schedule_state="absent", **settings)
    assert (again.code, again.changed) == (0, 0)
