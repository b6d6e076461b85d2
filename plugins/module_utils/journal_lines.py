# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Picking from a journal the lines that say why a service ended."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Optional

# Lines after which a vLLM engine never serves again, though its server may go on to answer /health.
FATAL_PATTERNS = (
    r"EngineDeadError",
    r"EngineCore encountered a fatal error",
    r"EngineCore failed to start",
    r"Engine core initialization failed",
    r"Engine core proc \S+ died",
    r"Worker proc \S+ died",
    r"No valid attention backend",
    r"CUDA error:",
    r"CUDA out of memory",
    r"NCCL error",
    r"Failed to import from vllm\._C",
)
_TRACEBACK = "Traceback (most recent call last)"
# The end of a traceback: `ValueError: no such thing`, `torch.OutOfMemoryError: ...`, after vLLM's own line prefix.
_RAISED = re.compile(r"(?:^|\] |\) )(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Failure)\b(?::|$)")
# These only say that something else went wrong.
_ECHO = re.compile(r"See root cause above|Engine core initialization failed|EngineDeadError|SystemExit")
_TELLING = re.compile(
    r"\b(?:ERROR|CRITICAL|FATAL)\b|Main process exited|Failed with result|Failed to execute|oom-kill|Killed|"
    r"[Ee]rror:|status=\d+/[A-Z]|code=(?:killed|dumped)"
)
_WIDTH = 240


def relevant_lines(lines: Sequence[str], patterns: Iterable[str] = FATAL_PATTERNS, limit: int = 20) -> list[str]:
    """At most ``limit`` lines, in the journal's order, that tell most about a failure.

    That is the end of the traceback nearest to the root cause, the lines that match a pattern, those that read like an
    error; where there is none of these, the last lines.
    """
    chosen: list[int] = []
    block = _root_traceback(lines)
    fatal = [re.compile(pattern) for pattern in patterns]
    matching = [index for index, line in enumerate(lines) if any(one.search(line) for one in fatal)]
    telling = [index for index, line in enumerate(lines) if _TELLING.search(line)]
    # The traceback's last lines say most; its first one says that it is one.
    for indices in (block[:1] + block[-(limit * 2 // 3) :], matching[-limit // 4 :], telling[::-1]):
        for index in indices:
            if len(chosen) < limit and index not in chosen:
                chosen.append(index)
    if not chosen:
        chosen = list(range(max(0, len(lines) - limit // 2), len(lines)))
    return [_trim(lines[index]) for index in sorted(chosen)]


def fatal_line(lines: Sequence[str], patterns: Iterable[str]) -> Optional[str]:
    """The first line that matches one of the patterns (Python regular expressions, anywhere in the line)."""
    fatal = [re.compile(pattern) for pattern in patterns]
    return next((_trim(line) for line in lines if any(one.search(line) for one in fatal)), None)


def _root_traceback(lines: Sequence[str]) -> list[int]:
    """The indices of the last traceback that is not an echo of another; of the last one where all are."""
    blocks: list[list[int]] = []
    current: Optional[list[int]] = None
    for index, line in enumerate(lines):
        if _TRACEBACK in line:
            current = [index]
            blocks.append(current)
        elif current is not None:
            current.append(index)
            if _RAISED.search(line):
                current = None
    roots = [block for block in blocks if not _ECHO.search(lines[block[-1]])]
    return (roots or blocks or [[]])[-1]


def _trim(line: str) -> str:
    return line if len(line) <= _WIDTH else line[: _WIDTH - 3] + "..."
