# Copyright: Pristine vLLM maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is done about findings, when, and what keeps it from being done."""

from __future__ import annotations

from typing import Any, Optional

import pytest
from ansible_collections.pristine.vllm.plugins.module_utils.drift.findings import KINDS, Finding, from_dict, in_order
from ansible_collections.pristine.vllm.plugins.module_utils.drift.policy import (
    DAY,
    POLICIES,
    Remediation,
    Rules,
    after_remediation,
    check_rules,
    decide,
    utc,
)
from ansible_collections.pristine.vllm.plugins.module_utils.drift.windows import is_open, parse_windows
from hypothesis import given
from hypothesis import strategies as st

# 2026-11-30 03:00 UTC, a Monday.
NOW = 1_796_007_600.0
HOUR = 3600.0
CODE = Finding("code", "vllm/a.py", "modified", "vllm")
JUNK = Finding("artifacts", "/tmp/a.pt", "unexpected")
NIGHT = parse_windows([{"from": "02:00", "to": "05:00"}])
RESTORE = Rules({"code": "restore"})


def failed(hours_ago: float) -> Remediation:
    return Remediation(NOW - hours_ago * HOUR, "restore", False)


def done(hours_ago: float) -> Remediation:
    return Remediation(NOW - hours_ago * HOUR, "restore", True)


def test_nothing_found() -> None:
    decision = decide([Finding("code", "x.py", "declared"), Finding("unit", "u", "unverifiable")], RESTORE, NOW)
    assert (decision.verdict, decision.action, decision.next_possible) == ("pristine", "none", None)


def test_by_default_it_is_reported() -> None:
    decision = decide([CODE, JUNK], Rules(), NOW)
    assert (decision.verdict, decision.action, decision.wanted) == ("reported", "report", "report")
    assert decision.kinds == ("code", "artifacts")
    assert decision.reason == "the policy for code, artifacts is to report"


def test_the_strongest_policy_of_what_was_found_counts() -> None:
    policy = {"code": "reinstall", "artifacts": "restore", "process": "report"}
    assert decide([JUNK], Rules(policy), NOW).action == "restore"
    assert decide([JUNK, CODE], Rules(policy), NOW).action == "reinstall"
    # What is only to be reported is not what the remediation is about.
    decision = decide([JUNK, Finding("process", "u", "changed")], Rules(policy), NOW)
    assert (decision.verdict, decision.action, decision.kinds) == ("due", "restore", ("artifacts",))


def test_a_harmless_finding_asks_for_nothing() -> None:
    assert decide([JUNK, Finding("code", "x", "declared")], Rules({"code": "reinstall"}), NOW).action == "report"


def test_outside_of_the_window() -> None:
    rules = Rules({"code": "restore"}, NIGHT)
    assert decide([CODE], rules, NOW).verdict == "due"
    decision = decide([CODE], rules, NOW + 2 * HOUR)
    assert (decision.verdict, decision.action, decision.wanted) == ("reported", "report", "restore")
    assert decision.next_possible == NOW + 23 * HOUR
    assert decision.reason.endswith("but no maintenance window is open; possible from 2026-12-01 02:00 UTC on")


def test_a_hold_comes_before_everything_but_a_policy_that_only_reports() -> None:
    decision = decide(
        [CODE], Rules({"code": "restore"}, NIGHT), NOW + 2 * HOUR, [failed(1)], hold="benchmark until Friday"
    )
    assert (decision.verdict, decision.action, decision.next_possible) == ("held", "report", None)
    assert decision.reason == "restore for code is due, but the host is held: benchmark until Friday"
    assert decide([CODE], RESTORE, NOW, hold="").verdict == "held"
    assert decide([CODE], Rules(), NOW, hold="x").verdict == "reported"
    assert decide([], RESTORE, NOW, hold="x").verdict == "pristine"


def test_half_a_look_changes_nothing() -> None:
    decision = decide([CODE], RESTORE, NOW, errors=["/tmp cannot be read"])
    assert (decision.verdict, decision.action) == ("scan_failed", "report")
    assert decision.reason == "the scan is not whole: /tmp cannot be read"
    assert decide([], RESTORE, NOW, errors=["x"]).verdict == "scan_failed"


def test_the_limit_is_of_any_24_hours() -> None:
    rules = Rules({"code": "restore"}, max_per_day=2)
    assert decide([CODE], rules, NOW, [done(5)]).verdict == "due"
    decision = decide([CODE], rules, NOW, [done(5), done(23), done(30)])
    assert decision.verdict == "reported"
    assert decision.next_possible == NOW + HOUR
    assert "2 of 2 remediations in 24 hours are used up" in decision.reason
    assert decide([CODE], rules, NOW, [done(5), done(24)]).verdict == "due"
    # More than the limit, which was lowered since: the last two decide.
    assert decide([CODE], rules, NOW, [done(1), done(2), done(3)]).next_possible == NOW + 22 * HOUR


def test_a_limit_of_none() -> None:
    decision = decide([CODE], Rules({"code": "restore"}, max_per_day=0), NOW)
    assert (decision.verdict, decision.next_possible) == ("reported", None)
    assert "max_per_day is 0" in decision.reason


def test_cool_down_is_only_of_the_last_one() -> None:
    rules = Rules({"code": "restore"}, max_per_day=9, cool_down=6 * HOUR)
    decision = decide([CODE], rules, NOW, [failed(2)])
    assert (decision.verdict, decision.next_possible) == ("reported", NOW + 4 * HOUR)
    assert decide([CODE], rules, NOW, [failed(6)]).verdict == "due"
    # An operator's own reinstall after the failure: that is over.
    assert decide([CODE], rules, NOW, [done(1), failed(2)]).verdict == "due"


def test_obstacles_add_up() -> None:
    rules = Rules({"code": "restore"}, NIGHT, max_per_day=1, cool_down=3 * HOUR)
    decision = decide([CODE], rules, NOW + 4 * HOUR, [Remediation(NOW + 3 * HOUR, "restore", False)])
    # The limit ends at 06:00 of the next day, after its window.
    assert decision.next_possible == NOW + 47 * HOUR
    assert decision.reason == (
        "restore for code is due, but the last one failed and the host cools down, 1 of 1 remediations in 24 hours are "
        "used up, no maintenance window is open; possible from 2026-12-02 02:00 UTC on"
    )


@pytest.mark.parametrize(
    ("succeeded", "left", "policy", "verdict"),
    [
        (True, [], {"code": "restore"}, "remediated"),
        (True, [JUNK], {"code": "restore"}, "remediated"),
        (True, [CODE], {"code": "restore"}, "remediation_failed"),
        (False, [CODE], {"code": "restore"}, "remediation_failed"),
        (False, [], {"code": "restore"}, "remediation_failed"),
    ],
)
def test_after_a_remediation(succeeded: bool, left: list[Finding], policy: dict[str, str], verdict: str) -> None:
    tried = Remediation(NOW, "restore", succeeded)
    assert after_remediation(decide(left, Rules(policy), NOW, [tried]), tried).verdict == verdict


def test_after_a_remediation_that_could_not_be_looked_at() -> None:
    tried = Remediation(NOW, "restore", True)
    assert after_remediation(decide([], RESTORE, NOW, [tried], errors=["x"]), tried).verdict == "scan_failed"


def test_mistakes_in_the_rules() -> None:
    with pytest.raises(ValueError, match=r"policy names 'codes'.*policy of unit is 'fix'.*cool_down is -1") as caught:
        check_rules(Rules({"codes": "restore", "unit": "fix"}, cool_down=-1))
    assert "report, restore, reinstall" in str(caught.value)
    check_rules(Rules(dict.fromkeys(KINDS, "restore")))


def test_a_time_in_a_message_is_never_too_early() -> None:
    assert utc(NOW) == "2026-11-30 03:00 UTC"
    assert utc(NOW + 0.5) == "2026-11-30 03:01 UTC"


@pytest.mark.parametrize(
    "bad", [{}, {"kind": "codes", "path": "x", "status": "y"}, {"kind": "code", "path": "", "status": "y"}]
)
def test_what_is_no_finding(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="finding"):
        from_dict(bad)


def test_a_finding_as_modules_tell_it() -> None:
    assert from_dict({**CODE.to_dict(), "file": "/x", "verified_against": "pinned_wheel"}) == CODE
    assert in_order([JUNK, Finding("code", "z", "declared"), CODE]) == [CODE, JUNK, Finding("code", "z", "declared")]


FINDINGS = st.lists(st.builds(Finding, st.sampled_from(KINDS), st.just("x"), st.sampled_from(["modified", "declared"])))
PAST = st.lists(st.builds(Remediation, st.floats(NOW - 3 * DAY, NOW), st.just("restore"), st.booleans()), max_size=5)
RULES = st.builds(
    Rules,
    st.dictionaries(st.sampled_from(KINDS), st.sampled_from(POLICIES)),
    st.sampled_from(
        [[], NIGHT, parse_windows([{"from": "23:00", "to": "01:00", "days": ["sat"], "timezone": "Europe/Berlin"}])]
    ),
    st.integers(0, 3),
    st.floats(0, 2 * DAY),
)


@given(FINDINGS, RULES, st.floats(NOW, NOW + 7 * DAY), PAST, st.one_of(st.none(), st.text(max_size=3)))
def test_what_always_holds(
    findings: list[Finding], rules: Rules, now: float, past: list[Remediation], hold: Optional[str]
) -> None:
    decision = decide(findings, rules, now, past, hold)
    assert (decision.verdict == "pristine") == (not any(one.counts for one in findings))
    assert (decision.verdict == "due") == (decision.action in ("restore", "reinstall"))
    if decision.verdict == "due":
        assert hold is None
        assert is_open(rules.windows, now)
        assert sum(one.time > now - DAY for one in past) < rules.max_per_day
        assert all(rules.policy[kind] != "report" for kind in decision.kinds)
    elif decision.next_possible is not None:
        # The time that is promised is kept, and it is still to come.
        assert decision.next_possible > now
        assert decide(findings, rules, decision.next_possible, past, hold).verdict == "due"
