# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The digests that an index does not publish: of what it serves today, fetched by pip and counted here."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence

from ansible_collections.pristine.vllm.plugins.module_utils.files import sha256_file
from ansible_collections.pristine.vllm.plugins.module_utils.lock import LockError, LockRow, parse_lock
from ansible_collections.pristine.vllm.plugins.module_utils.messages import tail
from ansible_collections.pristine.vllm.plugins.module_utils.process import run
from ansible_collections.pristine.vllm.plugins.module_utils.wheel_name import (
    canonical_version,
    normalise,
    parse_wheel_name,
)
from ansible_collections.pristine.vllm.plugins.module_utils.wheelhouse_fetch import (
    Source,
    pip_environment,
    source_options,
)

_BARE = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s=@;]+)")


def complete_rows(
    lines: Sequence[str], pip: Sequence[str], source: Source, scratch: str, deadline: float, held: int
) -> list[LockRow]:
    """uv's lines as rows of a lock; those without a digest get the one of the wheel that pip fetches.

    :raises LockError: a wheel cannot be had, or a line is no pin.
    """
    bare = [match for match in map(_BARE.fullmatch, lines) if match]
    text = [line for line in lines if not _BARE.fullmatch(line)]
    if bare:
        digests = _digests([f"{pin['name']}==={pin['version']}" for pin in bare], pip, source, scratch, deadline, held)
        for pin in bare:
            key = normalise(pin["name"]), canonical_version(pin["version"])
            if key not in digests:
                raise LockError(f"pip said that it fetched {pin[0]} and left no wheel of it. Run again.")
            text.append(f"{pin[0]} --hash=sha256:{digests[key]}")
    return parse_lock("\n".join(text), "as uv resolved it") if text else []


def _digests(
    pins: Sequence[str], pip: Sequence[str], source: Source, scratch: str, deadline: float, held: int
) -> dict[tuple[str, str], str]:
    folder = os.path.join(scratch, "unhashed")
    os.mkdir(folder)
    requirements = os.path.join(scratch, "unhashed.txt")
    # In a file that only its owner reads: an address with a password is not for the list of processes.
    with open(os.open(requirements, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
        stream.write("\n".join([*source_options(source), *pins, ""]))
    argv = [*pip, "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input"]
    argv += ["--disable-pip-version-check", "--progress-bar=off", "--dest", folder, "--requirement", requirements]
    left = max(deadline - time.monotonic(), 1.0)
    ran = run(argv, pip_environment(source, scratch), left, cwd=folder, hold=[held])
    if ran.returncode:
        raise LockError(
            f"{source.words} publish no digests of {len(pins)} packages, and pip could not fetch these to count them: "
            f"{tail(ran.stderr) or tail(ran.stdout)}\nNothing was written. Check the index and run again."
        )
    found = {}
    for filename in sorted(os.listdir(folder)):
        name = parse_wheel_name(filename)
        if name:
            found[name.name, canonical_version(name.version)] = sha256_file(os.path.join(folder, filename))
    return found
