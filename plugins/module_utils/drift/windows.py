# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Maintenance windows: when a host may be remediated, in the local time of some place. Time is always an argument.

A window is written in wall-clock time, so it keeps to what people there read off their clocks, across changes of summer
time. An hour that a change leaves out is not there to be used: a window that lies in it does not open that night. Of an
hour that comes twice the first one counts, for the beginning and for the end.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from typing import Any, Optional

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CLOCK = re.compile(r"([01][0-9]|2[0-4]):([0-5][0-9])")
_DAY_MINUTES = 24 * 60
# A window opens once a week at least, and one of those openings may fall into an hour that is left out.
_LOOK_AHEAD_DAYS = 16


class WindowError(ValueError):
    """Windows that cannot be used. The text names every mistake and what to do."""


@dataclass(frozen=True)
class Window:
    """On ``days`` (0 is Monday) from ``begin`` to ``end``, in minutes since midnight. ``end`` may be a day later."""

    days: frozenset[int]
    begin: int
    end: int
    zone: tzinfo

    def openings(self, now: float, days: int = _LOOK_AHEAD_DAYS) -> Iterator[tuple[float, float]]:
        """When it opens and closes, in order, from the day before ``now`` on."""
        today = datetime.fromtimestamp(now, self.zone).date()
        for offset in range(-1, days):
            day = today + timedelta(days=offset)
            if day.weekday() in self.days:
                span = _instant(day, self.begin, self.zone), _instant(day, self.end, self.zone)
                if span[0] < span[1]:
                    yield span


def parse_windows(windows: Iterable[Mapping[str, Any]]) -> list[Window]:
    """Read windows as an inventory writes them: dicts with ``from``, ``to`` and perhaps ``days`` and ``timezone``.

    :raises WindowError: with every mistake in all of them.
    """
    parsed: list[Window] = []
    problems: list[str] = []
    for number, window in enumerate(windows, start=1):
        try:
            parsed.append(_parse(window))
        except WindowError as error:
            problems.append(f"window {number}: {error}")
    if problems:
        raise WindowError("; ".join(problems))
    return parsed


def is_open(windows: Iterable[Window], now: float) -> bool:
    """Whether one of them is open at ``now``. Without any window it is always the time."""
    every = list(windows)
    return not every or any(begin <= now < end for one in every for begin, end in one.openings(now, 2))


def next_open(windows: Iterable[Window], now: float) -> Optional[float]:
    """The first moment from ``now`` on at which one is open; None when there is none within two weeks."""
    every = list(windows)
    if not every:
        return now
    starts = [max(begin, now) for one in every for begin, end in one.openings(now) if end > now]
    return min(starts, default=None)


def _parse(window: Mapping[str, Any]) -> Window:
    unknown = sorted(set(window) - {"days", "from", "to", "timezone"})
    if unknown:
        raise WindowError(f"{', '.join(unknown)} is not known: it may have days, from, to and timezone")
    begin, end = (_minutes(name, window.get(name)) for name in ("from", "to"))
    if begin == _DAY_MINUTES:
        raise WindowError("from is 24:00: write 00:00 of the next day")
    if begin == end:
        raise WindowError(f"from and to are both {window['from']}: for the whole day write 00:00 to 24:00")
    return Window(
        days=_weekdays(window.get("days")),
        begin=begin,
        end=end if end > begin else end + _DAY_MINUTES,
        zone=_zone(window.get("timezone") or "UTC"),
    )


def _weekdays(value: Any) -> frozenset[int]:
    names = list(DAYS) if value is None else value
    if not isinstance(names, list) or not names:
        raise WindowError(f"days is {value!r}: give a list of {', '.join(DAYS)}, or leave it out for all of them")
    wrong = [name for name in names if str(name).lower() not in DAYS]
    if wrong:
        raise WindowError(f"days has {wrong[0]!r}: give {', '.join(DAYS)}")
    return frozenset(DAYS.index(str(name).lower()) for name in names)


def _minutes(name: str, value: Any) -> int:
    found = _CLOCK.fullmatch(str(value))
    minutes = int(found[1]) * 60 + int(found[2]) if found else _DAY_MINUTES + 1
    if minutes > _DAY_MINUTES:
        # YAML 1.1 reads 22:00 without quotes as a number to the base of 60.
        hint = ", in quotes, or YAML reads it as a number" if str(value).isdigit() else ""
        raise WindowError(f"{name} is {value!r}: write a time of the day such as '02:00'{hint}")
    return minutes


def _zone(name: Any) -> tzinfo:
    if name == "UTC":
        return timezone.utc
    try:
        return zoneinfo.ZoneInfo(str(name))
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise WindowError(
            f"timezone {name!r} is not known here: give a name such as Europe/Berlin, install the host's tzdata, "
            "or use UTC"
        ) from error


def _instant(day: date, minutes: int, zone: tzinfo) -> float:
    """When the clocks there first show that time, or where they never do, the moment at which they leap over it."""
    wall = datetime.combine(day, time()) + timedelta(minutes=minutes)
    late = wall.replace(tzinfo=zone).timestamp()
    if datetime.fromtimestamp(late, zone).replace(tzinfo=None) == wall:
        return late
    # The clocks leap between these two: of a time in the gap, fold 1 takes the offset after it, which comes earlier.
    early = wall.replace(tzinfo=zone, fold=1).timestamp()
    while late - early > 1:
        middle = (early + late) // 2
        if datetime.fromtimestamp(middle, zone).replace(tzinfo=None) < wall:
            early = middle
        else:
            late = middle
    return late
