# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""In which order and batches a playbook goes over a fleet, from the inventory variables of its hosts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Callable, Union

GROUP = "vllm_hosts"
SERIAL = "reinstall_serial"
MAX_FAIL = "reinstall_max_fail_percentage"
CANARY = "reinstall_canary"
VARIABLES = (SERIAL, MAX_FAIL, CANARY)
_UNSET = object()


@dataclass(frozen=True)
class Rollout:
    """How a play goes over its hosts, as its keywords take it; and why it must not."""

    hosts: list[str] = field(default_factory=lambda: [GROUP])
    """Host patterns: Ansible keeps their order."""
    serial: list[Union[int, str]] = field(default_factory=lambda: [1])
    max_fail_percentage: float = 0.0
    problems: list[str] = field(default_factory=list)


def decide(variables: Mapping[str, Mapping[str, Any]], members: Sequence[str]) -> Rollout:
    """The rollout over the hosts whose variables are given, of a group that has these members."""
    problems: list[str] = []

    def take(name: str, parse: Callable[[Any], Any], default: Any) -> Any:
        """What all hosts say, read; the default where none says anything."""
        try:
            value = _agreed(name, variables)
            return default if value is _UNSET else parse(value)
        except ValueError as error:
            problems.append(str(error))
            return default

    canaries = take(CANARY, lambda value: _canaries(value, members), [])
    serial = take(SERIAL, _serial, [1])
    max_fail = take(MAX_FAIL, _max_fail, 0.0)
    # --limit may leave canaries out; those that stay go one by one.
    first = [name for name in canaries if name in variables]
    return Rollout([*first, GROUP], [1] * len(first) + serial, max_fail, problems)


def _agreed(name: str, variables: Mapping[str, Mapping[str, Any]]) -> Any:
    """What the hosts say for a variable.

    :raises ValueError: they differ.
    """
    said: dict[str, list[str]] = {}
    values: dict[str, Any] = {}
    for host, own in variables.items():
        told = json.dumps(own[name], default=str) if name in own else "not set"
        said.setdefault(told, []).append(host)
        values[told] = own.get(name, _UNSET)
    if len(said) > 1:
        told = " and ".join(f"{value} on {_some(hosts)}" for value, hosts in said.items())
        raise ValueError(
            f"{name} is {told}, but holds for a whole run. "
            f"Next: set it once for all (group_vars/{GROUP}), give it with -e, or --limit the run to hosts that agree."
        )
    return next(iter(values.values()), _UNSET)


def _some(hosts: Sequence[str]) -> str:
    """A few of many."""
    return ", ".join(hosts[:3]) + (f" and {len(hosts) - 3} more" if len(hosts) > 3 else "")


def _canaries(value: Any, members: Sequence[str]) -> list[str]:
    names = [value] if isinstance(value, str) else value
    if value is None or value == "":
        return []
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{CANARY} is {value!r}. Next: give the name of a host, or a list of names.")
    strangers = [name for name in names if name not in members]
    if strangers:
        raise ValueError(
            f"{CANARY} names {', '.join(strangers)}, and {GROUP} has no such host. "
            "Next: give names as the inventory has them."
        )
    return list(dict.fromkeys(names))


def _serial(value: Any) -> list[Union[int, str]]:
    steps = list(value) if isinstance(value, (list, tuple)) else [value]
    read = [_step(step) for step in steps]
    if not read or None in read:
        raise ValueError(
            f"{SERIAL} is {value!r}. Next: give a number of hosts from 1 on, a percentage of them from 1% to 100%, "
            'or a list of such steps, as in [1, "30%", "100%"] (with -e as JSON).'
        )
    return [step for step in read if step is not None]


def _step(step: Any) -> Union[int, str, None]:
    """One step as Ansible takes it; None where it is none."""
    text = str(step).strip()
    if isinstance(step, bool) or not re.fullmatch(r"[0-9]{1,6}%?", text):
        return None
    number = int(text.rstrip("%"))
    if number < 1 or ("%" in text and number > 100):
        return None
    return text if "%" in text else number


def _max_fail(value: Any) -> float:
    text = str(value).strip()
    if isinstance(value, bool) or not re.fullmatch(r"[0-9]{1,3}(\.[0-9]+)?%?", text) or float(text.rstrip("%")) > 100:
        raise ValueError(
            f"{MAX_FAIL} is {value!r}. Next: give a percentage of a batch from 0 to 100; 0 stops at the first."
        )
    return float(text.rstrip("%"))
