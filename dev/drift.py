# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scans an environment on this machine with the module that the roles use, and reports. Nothing is changed.

Usage: drift.py ENVIRONMENT [WHEEL OR FOLDER OF WHEELS ...]

Without wheels the installed RECORDs are the reference, and whoever edited a file could have edited them too.
Exit code: 0 pristine, 1 drift, 2 not scanned.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ansible_collections.pristine.vllm.plugins.module_utils.report import findings_lines

MODULE = "ansible_collections.pristine.vllm.plugins.modules.wheel_record_info"
SHOWN_FINDINGS = 200


def scan(environment: str, wheels: list[str]) -> dict[str, Any]:
    """What the module returns. It takes its arguments from a file when it is run by hand."""
    arguments = {"environment": environment, "wheels": wheels, "_ansible_diff": True}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"ANSIBLE_MODULE_ARGS": arguments}, file)
        file.flush()
        done = subprocess.run([sys.executable, "-m", MODULE, file.name], stdout=subprocess.PIPE, text=True, check=False)
    try:
        result: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return {
            "failed": True,
            "msg": f"the scan of {environment} gave no result: {done.stdout.strip() or 'no output'}",
        }
    return result


def diffs(result: dict[str, Any]) -> str:
    """The result's diffs as one text; Ansible's modules give one of them or a list."""
    found = result.get("diff") or []
    return "\n".join(one.get("prepared", "") for one in ([found] if isinstance(found, dict) else found))


def main() -> int:
    environment, *wheels = sys.argv[1:] or [""]
    if not environment:
        print(f"Say which environment: make drift ENV=/path\n\n{__doc__}", file=sys.stderr)
        return 2
    result = scan(str(Path(environment).absolute()), [str(Path(wheel).absolute()) for wheel in wheels])
    if result.get("failed"):
        print(result["msg"], file=sys.stderr)
        return 2
    print(diffs(result))
    print("\n".join(findings_lines(result["findings"], limit=SHOWN_FINDINGS)))
    print(json.dumps(result["summary"], indent=2))
    print(f"{environment} is {'pristine' if result['pristine'] else 'NOT pristine'}")
    return 0 if result["pristine"] else 1


if __name__ == "__main__":
    sys.exit(main())
