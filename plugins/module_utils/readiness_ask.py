# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What readiness is asked for, and what comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Optional

from ansible_collections.pristine.vllm.plugins.module_utils.journal_lines import FATAL_PATTERNS
from ansible_collections.pristine.vllm.plugins.module_utils.main_process import Serves


@dataclass(frozen=True)
class Ask:
    """What ready means. Times in seconds; ``timeout`` 0 tries each rung once.

    The main process must run from ``environment``, where one is given. ``patient`` counts the time-out from the start
    of the unit, and tries each rung once even when that is over.
    """

    unit: str
    url: str
    model: str
    timeout: float = 1200.0
    interval: float = 1.0
    request_timeout: float = 10.0
    completion_timeout: float = 120.0
    prompt: str = "The capital of France is"
    max_tokens: int = 8
    api_key: Optional[str] = None
    since: Optional[str] = None
    fatal_patterns: Sequence[str] = FATAL_PATTERNS
    environment: Optional[str] = None
    patient: bool = False
    proc: str = "/proc"


@dataclass(frozen=True)
class Step:
    """A rung that was passed: how long it took in seconds, and what there is to say about it."""

    name: str
    seconds: float
    note: Optional[str] = None


@dataclass
class Readiness:
    """How far it came: ``step`` is the last rung passed (None: not even the first), ``reason`` why not further."""

    ready: bool = False
    reason: Optional[str] = None
    step: Optional[str] = None
    steps: list[Step] = field(default_factory=list)
    main_pid: Optional[int] = None
    n_restarts: Optional[int] = None
    completion: Optional[str] = None
    enabled: Optional[bool] = None
    serves: Optional[Serves] = None
    journal: list[str] = field(default_factory=list)
    seconds: float = 0.0
