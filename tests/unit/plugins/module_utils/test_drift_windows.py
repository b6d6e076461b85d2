# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Maintenance windows: days, midnight, and the nights on which the clocks change."""

from __future__ import annotations

import zoneinfo
from datetime import datetime, timezone
from typing import Any

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.drift.windows import (
    DAYS,
    WindowError,
    is_open,
    next_open,
    parse_windows,
)
from hypothesis import given
from hypothesis import strategies as st

BERLIN = "Europe/Berlin"


def at(text: str) -> float:
    """A time in UTC."""
    return datetime.strptime(text, "%Y-%m-%d %H:%M").replace(tzinfo=timezone.utc).timestamp()


def window(begin: str, end: str, **more: Any) -> list[Any]:
    return parse_windows([{"from": begin, "to": end, **more}])


def spans(windows: list[Any], now: str) -> list[tuple[str, str]]:
    """The next three openings, as text in UTC."""
    moment = at(now)
    found = [span for span in windows[0].openings(moment) if span[1] > moment][:3]
    return [
        (f"{datetime.fromtimestamp(a, timezone.utc):%d %H:%M}", f"{datetime.fromtimestamp(b, timezone.utc):%d %H:%M}")
        for a, b in found
    ]


def test_without_windows_it_is_always_the_time() -> None:
    assert is_open([], 0)
    assert next_open([], 17.0) == 17.0


@pytest.mark.parametrize(
    ("now", "open_now", "opens"),
    [
        ("2026-11-30 01:59", False, "2026-11-30 02:00"),
        ("2026-11-30 02:00", True, "2026-11-30 02:00"),
        ("2026-11-30 04:59", True, "2026-11-30 04:59"),
        ("2026-11-30 05:00", False, "2026-12-01 02:00"),
    ],
)
def test_the_beginning_belongs_to_it_and_the_end_does_not(now: str, open_now: bool, opens: str) -> None:
    windows = window("02:00", "05:00")
    assert is_open(windows, at(now)) == open_now
    assert next_open(windows, at(now)) == at(opens)


def test_over_midnight_the_day_is_the_one_on_which_it_opens() -> None:
    """2026-11-27 is a Friday."""
    windows = window("22:00", "04:00", days=["fri"])
    assert is_open(windows, at("2026-11-27 23:00"))
    assert is_open(windows, at("2026-11-28 03:59"))
    assert not is_open(windows, at("2026-11-27 03:00"))
    assert not is_open(windows, at("2026-11-28 22:30"))
    assert next_open(windows, at("2026-11-28 04:00")) == at("2026-12-04 22:00")


def test_the_whole_day() -> None:
    windows = window("00:00", "24:00", days=["SUN"])
    assert spans(windows, "2026-11-27 12:00")[0] == ("29 00:00", "30 00:00")


def test_the_earliest_of_several_counts() -> None:
    windows = parse_windows([{"from": "06:00", "to": "07:00"}, {"from": "03:00", "to": "04:00"}])
    assert next_open(windows, at("2026-11-30 00:00")) == at("2026-11-30 03:00")
    assert next_open(windows, at("2026-11-30 04:00")) == at("2026-11-30 06:00")


def test_local_time_is_followed_through_the_year() -> None:
    windows = window("02:00", "05:00", timezone=BERLIN)
    assert spans(windows, "2026-01-10 12:00")[0] == ("11 01:00", "11 04:00")
    assert spans(windows, "2026-07-10 12:00")[0] == ("11 00:00", "11 03:00")


@pytest.mark.parametrize(
    ("begin", "end", "wanted"),
    [
        # On 2026-03-29 the clocks there leap from 02:00 to 03:00, which is 01:00 in UTC.
        ("01:00", "05:00", ("29 00:00", "29 03:00")),
        ("02:00", "05:00", ("29 01:00", "29 03:00")),
        ("02:30", "05:00", ("29 01:00", "29 03:00")),
        ("22:00", "02:30", ("28 21:00", "29 01:00")),
        # That hour is not there: the night is left out.
        ("02:00", "03:00", ("30 00:00", "30 01:00")),
        ("02:15", "02:45", ("30 00:15", "30 00:45")),
    ],
)
def test_the_hour_that_is_left_out(begin: str, end: str, wanted: tuple[str, str]) -> None:
    assert spans(window(begin, end, timezone=BERLIN), "2026-03-28 12:00")[0] == wanted


@pytest.mark.parametrize(
    ("begin", "end", "wanted"),
    [
        # On 2026-10-25 the hour from 02:00 comes twice there: it begins at 00:00 and at 01:00 in UTC.
        ("01:00", "05:00", ("24 23:00", "25 04:00")),
        ("02:15", "02:45", ("25 00:15", "25 00:45")),
        ("01:00", "02:30", ("24 23:00", "25 00:30")),
    ],
)
def test_the_hour_that_comes_twice(begin: str, end: str, wanted: tuple[str, str]) -> None:
    assert spans(window(begin, end, timezone=BERLIN), "2026-10-24 12:00")[0] == wanted


CLOCK = st.integers(0, 1439)
# Zones with leaps of an hour, of half an hour, at midnight, on other continents, and a calendar day that was left out.
ZONES = st.sampled_from(
    ["UTC", BERLIN, "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Pacific/Apia", "Asia/Kathmandu"]
)


@given(
    begin=CLOCK,
    end=CLOCK,
    days=st.sets(st.sampled_from(DAYS), min_size=1),
    zone=ZONES,
    now=st.integers(1_200_000_000, 2_000_000_000),
)
def test_it_is_open_when_the_clocks_there_say_so(begin: int, end: int, days: set[str], zone: str, now: int) -> None:
    """The definition by the clock on the wall, for every moment at which that clock is not ambiguous."""
    if begin == end:
        return
    text = ["{:02}:{:02}".format(*divmod(minutes, 60)) for minutes in (begin, end)]
    windows = window(*text, days=sorted(days), timezone=zone)
    place = zoneinfo.ZoneInfo(zone)
    local = datetime.fromtimestamp(now, place)
    ambiguous = any(
        datetime.fromtimestamp(now + shift, place).utcoffset() != local.utcoffset() for shift in (-93600, 93600)
    )
    minutes = local.hour * 60 + local.minute
    today, yesterday = DAYS[local.weekday()] in days, DAYS[local.weekday() - 1] in days
    if begin < end:
        wanted = today and begin <= minutes < end
    else:
        wanted = (today and minutes >= begin) or (yesterday and minutes < end)
    if not ambiguous:
        assert is_open(windows, now) == wanted
    opens = next_open(windows, now)
    assert opens is not None
    assert opens >= now
    assert is_open(windows, opens)
    assert (opens == now) == is_open(windows, now)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"from": "2:00", "to": "05:00"}, "from is '2:00'"),
        ({"from": "1320", "to": "05:00"}, "in quotes"),
        ({"from": "02:00", "to": "24:01"}, "to is '24:01'"),
        ({"from": "24:00", "to": "02:00"}, "00:00 of the next day"),
        ({"from": "02:00"}, "to is None"),
        ({"from": "02:00", "to": "02:00"}, "for the whole day write 00:00 to 24:00"),
        ({"from": "02:00", "to": "03:00", "days": ["monday"]}, "days has 'monday'"),
        ({"from": "02:00", "to": "03:00", "days": []}, "days is []"),
        ({"from": "02:00", "to": "03:00", "timezone": "Mars/Olympus"}, "timezone 'Mars/Olympus' is not known here"),
        ({"from": "02:00", "to": "03:00", "timezone": "../../etc/passwd"}, "is not known here"),
        ({"from": "02:00", "to": "03:00", "day": "mon"}, "day is not known"),
    ],
)
def test_mistakes(bad: dict[str, Any], says: str) -> None:
    with pytest.raises(WindowError) as caught:
        parse_windows([{"from": "01:00", "to": "02:00"}, bad])
    assert str(caught.value).startswith("window 2: ")
    assert says in str(caught.value)


def test_every_mistake_is_told() -> None:
    with pytest.raises(WindowError, match=r"window 1: .*; window 3: "):
        parse_windows([{"from": "x", "to": "y"}, {"from": "01:00", "to": "02:00"}, {"from": "z", "to": "02:00"}])
