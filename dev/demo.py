# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replays the incident on real parts and shows it: a dirty host that serves, its reinstall, and the proof.

The host is a container with systemd, the service a real vLLM with a tiny DeepSeek-V3, the index an nginx. Exits with 1
when anything that it shows is not as it must be.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "demo"
RECORDS = BUILD / "records"
SUSPECT = "vllm/model_executor/models/deepseek_v2.py"
OTHERS = ("gguf_loader.py", "weight_utils.py", "config.py")
#: The phases before which, and during which, the service must answer.
UNDISTURBED = ("preflight", "evidence", "stage")


@dataclass
class Host:
    """The host of the demo, as its inventory describes it."""

    name: str
    url: str
    model: str
    root: str
    scan: str
    """Arguments of ``wheel_record_info``."""


@dataclass
class Sampler:
    """Asks ``/health`` once a second until told to stop, and counts."""

    url: str
    samples: int = 0
    failures: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
                    answer.read()
            except (urllib.error.URLError, OSError) as error:
                self.failures.append(f"{time.strftime('%H:%M:%S')} {error}")
            self.samples += 1
            self._stop.wait(max(0.0, 1.0 - (time.monotonic() - began)))


@dataclass
class Checks:
    """What must be so, and what was not."""

    broken: list[str] = field(default_factory=list)

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.broken.append(what)


def play(playbook: str, *extra: str) -> Iterator[str]:
    """Run a playbook and yield its lines as they come; end the demo with the last of them when it fails."""
    log = BUILD / f"{Path(playbook).stem.rpartition('.')[2]}.log"
    process = subprocess.Popen(
        ["ansible-playbook", playbook, *extra],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with log.open("w") as out:
        for line in process.stdout or ():
            out.write(line)
            yield line.rstrip()
    if process.wait():
        tail = "".join(log.read_text().splitlines(keepends=True)[-40:])
        raise SystemExit(f"{tail}\ndemo: {playbook} failed; its whole output is in {log}")


def set_up(console: Console) -> None:
    """Make the host as the incident found it, and show the plays that do."""
    for playbook in ("molecule/shared/destroy.yml", "molecule/shared/create.yml", "molecule/incident/prepare.yml"):
        for line in play(playbook):
            if line.startswith("PLAY ["):
                told = line.removeprefix("PLAY [").rstrip("* ").removesuffix("]")
                console.print(f"[dim]{time.strftime('%H:%M:%S')} {escape(told)}[/]", highlight=False)


def ansible(host: Host, module: str, arguments: str, *flags: str) -> dict[str, Any]:
    """Return what one module answers."""
    done = subprocess.run(
        ["ansible", host.name, "-m", module, "-a", arguments, *flags],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json", "ANSIBLE_LOAD_CALLBACK_PLUGINS": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"demo: {module} failed: {done.stdout}{done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout)["plays"][0]["tasks"][0]["hosts"][host.name]
    return answer


def show_dirt(console: Console, host: Host, checks: Checks) -> dict[str, Any]:
    """Scan the dirty environment and show what is wrong with it."""
    scan = ansible(host, "pristine.vllm.wheel_record_info", host.scan, "--diff")
    console.rule("[bold]1. The dirty environment")
    summary = scan["summary"]
    drift = [finding for finding in scan["findings"] if finding["status"] != "declared"]
    console.print(
        f"{summary['files']} files of {summary['distributions']} distributions compared with their wheels in "
        f"{summary['seconds']:.1f} s: {len(drift)} are not pristine"
    )
    for finding in scan["findings"]:
        console.print(f"  [red]{finding['status']:<11}[/] {finding['path']}", highlight=False)
    console.print("what was added, read from the syntax tree:")
    for probe in scan["probes"]:
        if probe["kind"] != "other":
            told = probe.get("artifact_glob") or probe["code"]
            console.print(f"  [yellow]{probe['kind']:<11}[/] line {probe['line']}: {escape(told)}", highlight=False)
    text = next((d["prepared"] for d in scan["diff"] if SUSPECT in d["prepared"].splitlines()[0]), "")
    console.print(Syntax(text, "diff", theme="ansi_dark", background_color="default", word_wrap=True))
    modified = {f["path"] for f in scan["findings"] if f["status"] == "modified"}
    checks.expect(not scan["pristine"], "the dirty environment passes as pristine")
    checks.expect(SUSPECT in modified, f"{SUSPECT} is not found")
    for name in OTHERS:
        checks.expect(any(path.endswith(f"/{name}") for path in modified), f"{name} is not found")
    checks.expect("+" in text and "_t.save" in text, f"the diff of {SUSPECT} does not show the debug code")
    return scan


def follow(console: Console, lines: Iterator[str], sampler: Sampler) -> None:
    """Show plan and phases as the playbook comes to them; end the sampling where the service may stop."""
    task = ""
    said: list[str] = []
    for line in lines:
        if line.startswith("TASK ["):
            task, said = line.removeprefix("TASK [").split("]")[0].split(" : ")[-1], []
            if task.startswith("Report phase"):
                show_phase(console, task.removeprefix("Report "), sampler)
        elif task == "Report the plan" and line.startswith("    "):
            said.append(line)
        elif task == "Report the plan" and said:
            console.rule("[bold]2. The plan")
            for told in yaml.safe_load("\n".join(said))["msg"]:
                console.print(f"  {told}", highlight=False)
            said = []


def show_phase(console: Console, phase: str, sampler: Sampler) -> None:
    if "preflight" in phase:
        console.print("the playbook runs; the service is asked for /health once a second")
    if not any(name in phase for name in UNDISTURBED):
        sampler.stop()
    console.print(f"  [cyan]{time.strftime('%H:%M:%S')}[/] {phase}", highlight=False)


def last_record(host: Host) -> dict[str, Any]:
    path = sorted((RECORDS / host.name).glob("*.json"))[-1]
    record: dict[str, Any] = json.loads(path.read_text())
    return record


def show_phases(console: Console, record: dict[str, Any], sampler: Sampler, checks: Checks) -> None:
    console.rule("[bold]3. The phases")
    table = Table("phase", "seconds", box=None)
    for phase in record["phases"]:
        table.add_row(phase["name"], f"{phase['seconds']:.1f}")
    console.print(table)
    console.print(f"downtime: [bold]{record['downtime_seconds']:.1f} s[/], the model's load time included")
    console.print(f"/health in phases 1 to 3: {sampler.samples} samples, {len(sampler.failures)} failures")
    checks.expect(record["downtime_seconds"] > 0, "no downtime was measured")
    checks.expect(sampler.samples > 0 and not sampler.failures, f"/health failed before phase 4: {sampler.failures}")


def show_proof(console: Console, host: Host, record: dict[str, Any], checks: Checks) -> None:
    """Scan again, look for the artifacts, ask for a completion."""
    console.rule("[bold]4. The proof")
    scan = ansible(host, "pristine.vllm.wheel_record_info", host.scan)
    adapted = record["after"]["adaptations"]
    console.print(
        f"second scan: {'pristine' if scan['pristine'] else 'NOT pristine'}, {scan['summary']['files']} files, "
        f"trust: {scan['summary']['verified_against']}; model configuration: {'adapted' if adapted else 'NOT adapted'}"
    )
    left = ansible(host, "ansible.builtin.find", "paths=/tmp patterns=*.pt")["matched"]
    kept = record["after"]["artifacts"]
    held = ansible(
        host, "ansible.builtin.find", f"paths={record['quarantine']} recurse=true hidden=true patterns=*.pt"
    )["matched"]
    console.print(
        f".pt files in /tmp: {left}; kept in {record['quarantine']}: {held} ({sum(f['size'] for f in kept)} bytes)"
    )
    body = json.dumps({"model": host.model, "prompt": "The capital of France is", "max_tokens": 8, "temperature": 0})
    request = urllib.request.Request(
        f"{host.url}/v1/completions", data=body.encode(), headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        text = json.load(answer)["choices"][0]["text"]
    console.print(f"completion by the reinstalled service: {json.dumps(text)} (the tiny model's weights are random)")
    checks.expect(scan["pristine"], "the second scan is not pristine")
    checks.expect(adapted, "the model configuration is not adapted")
    checks.expect(left == 0, f"{left} .pt files are left in /tmp")
    checks.expect(held == len(kept) > 0, f"{len(kept)} .pt files were moved, {held} are in the quarantine")
    checks.expect(bool(text), "the completion is empty")


def incident_host() -> Host:
    """Read the inventory of the incident scenario, in which molecule made the host."""
    done = subprocess.run(["ansible-inventory", "--list"], cwd=ROOT, capture_output=True, text=True, check=True)
    inventory = json.loads(done.stdout)
    name = inventory["vllm_hosts"]["hosts"][0]
    facts = inventory["_meta"]["hostvars"][name]
    root = facts.get("vllm_root", "/opt/vllm")
    return Host(
        name=name,
        url=f"http://{facts['container_ip']}:{facts.get('vllm_port', 8000)}",
        model=facts["vllm_served_model_name"],
        root=root,
        scan=f"environment={root}/current wheels={root}/wheels lock={root}/lock.txt",
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", type=Path, help="write what was shown as an SVG picture")
    options = parser.parse_args()
    os.environ["ANSIBLE_INVENTORY"] = str(ROOT / "molecule/inventory/incident")
    console = Console(record=True, width=110)
    checks = Checks()
    RECORDS.mkdir(parents=True, exist_ok=True)
    set_up(console)
    host = incident_host()
    show_dirt(console, host, checks)
    sampler = Sampler(host.url)
    sampler.start()
    given = json.dumps({"run_record_controller_path": str(RECORDS), "reason": "a pristine codebase"})
    follow(console, play("pristine.vllm.reinstall", "-e", given), sampler)
    record = last_record(host)
    show_phases(console, record, sampler, checks)
    show_proof(console, host, record, checks)
    for broken in checks.broken:
        console.print(f"[bold red]NOT SO:[/] {broken}")
    console.print("[bold green]Everything holds.[/]" if not checks.broken else "[bold red]The demo failed.[/]")
    if options.picture:
        # Without the fonts that rich would have a browser fetch.
        picture = re.sub(r"@font-face\s*\{[^}]*\}\s*", "", console.export_svg(title="make demo"))
        options.picture.write_text(picture, encoding="utf-8")
    return 1 if checks.broken else 0


if __name__ == "__main__":
    sys.exit(main())
