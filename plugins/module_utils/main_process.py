# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a service's main process says it is: the words of its command line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class Serves:
    """Where the process serves and under which name, as its command line has it; None where it does not say."""

    host: Optional[str] = None
    port: Optional[int] = None
    model: Optional[str] = None


def command_words(pid: int, proc: str = "/proc") -> list[str]:
    """The process's command line. Empty when there is no such process, or it has not become its program yet."""
    if pid <= 0:
        return []
    try:
        with open(f"{proc}/{pid}/cmdline", "rb") as stream:
            data = stream.read()
    except OSError:
        return []
    words = [os.fsdecode(word) for word in data.rstrip(b"\0").split(b"\0")]
    # Of Type=simple systemd says that it is active before the program runs: the process is still a part of systemd.
    if not words[0] or words[0].startswith("(") or os.path.basename(words[0]) == "systemd-executor":
        return []
    return words


def home_of(words: Sequence[str]) -> str:
    """The word that tells from which environment the program runs: its interpreter, else the script; "" for neither.

    An interpreter of an environment (PEP 405: ``pyvenv.cfg`` lies above its directory), or one that has been removed
    since, decides alone: a script's path may lead through a link that has been switched since the process was started,
    while a script's first line names the environment itself.
    """
    paths = [word if os.path.isabs(word) else "" for word in [*words[:2], "", ""]]
    mark = os.path.join(os.path.dirname(paths[0]), os.pardir, "pyvenv.cfg")
    if paths[0] and (os.path.exists(mark) or not os.path.lexists(paths[0])):
        return paths[0]
    return paths[1] or paths[0]


def runs_from(words: Sequence[str], environment: str) -> bool:
    """Whether the program lies in the environment, by whatever links either is named."""
    home = home_of(words)
    if not home:
        return False
    root = os.path.realpath(environment)
    # The directory and not the file: an environment's python is itself a link out of it.
    place = os.path.realpath(os.path.dirname(home))
    return os.path.commonpath([place, root]) == root


def read_serves(words: Sequence[str]) -> Serves:
    """``--host``, ``--port`` and the first ``--served-model-name``, which vLLM takes with underscores as well."""
    port = _value(words, "--port")
    return Serves(
        host=_value(words, "--host"),
        port=int(port) if port is not None and port.isascii() and port.isdigit() else None,
        model=_value(words, "--served-model-name"),
    )


def _value(words: Sequence[str], option: str) -> Optional[str]:
    """The option's value: the last one counts, as for argparse."""
    found: Optional[str] = None
    for word, following in zip(words, [*words[1:], ""]):
        name, equals, value = word.partition("=")
        if name.startswith("--") and name.replace("_", "-") == option:
            value = value if equals else following
            found = value if equals or (value and not value.startswith("--")) else None
    return found
