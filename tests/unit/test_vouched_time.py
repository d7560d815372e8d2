"""The time that others vouch for, beside a clock that may be wrong (P37)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from infra.lab.kit.clock import SimClock
from tacit.adapters.system import ShiftedClock, SystemClock
from tacit.ports import HttpResponse, SteadyClock
from tacit.service.base.vouched import BOUND_SECONDS, UNVOUCHED, EarlierClock, LaterClock, VouchedTime, Voucher
from tacit.time_format import date_field

NOW = 1_800_000_000.0
DAY = 86_400.0
JUMPS = (-30 * 365 * DAY, -31 * DAY, 70 * DAY, 30 * 365 * DAY)


def vouched() -> tuple[VouchedTime, SimClock]:
    clock = SimClock(NOW)
    return VouchedTime(clock), clock


def test_while_nobody_vouches_nothing_is_past_and_nothing_is_in_doubt() -> None:
    time, _ = vouched()
    assert time.past() == UNVOUCHED
    assert not time.is_past(0.0)
    assert not time.is_over(0.0)
    assert time.doubt() == ""


def test_what_is_past_is_past_by_both_clocks() -> None:
    time, clock = vouched()
    time.hear("the log", NOW - 60)
    assert time.past() == NOW - 60
    time.hear("the log", NOW + 60)
    assert time.past() == NOW
    clock.jump(1000)
    assert time.past() == NOW + 1000, "what was said goes on by the time that has passed"


@pytest.mark.parametrize("jump", JUMPS)
def test_a_step_of_the_clock_shows_at_once_and_ends_with_its_correction(jump: float) -> None:
    time, clock = vouched()
    time.hear("the log", NOW)
    clock.set_back(-jump)
    assert time.doubt().startswith("this machine's clock says")
    assert "the log says 2027-01-15 08:00:00 UTC" in time.doubt()
    assert time.past() == UNVOUCHED
    clock.set_back(jump)
    assert time.doubt() == ""
    assert time.past() == NOW


def test_clocks_may_differ_by_the_bound() -> None:
    time, _ = vouched()
    for ahead, doubts in ((BOUND_SECONDS, False), (-BOUND_SECONDS, False), (BOUND_SECONDS + 1, True)):
        time.hear("the log", NOW + ahead)
        assert bool(time.doubt()) is doubts


def test_of_several_witnesses_a_minority_changes_nothing() -> None:
    time, _ = vouched()
    for who, ahead in (("a", 0.0), ("b", 70 * DAY), ("c", 1.0)):
        time.hear(who, NOW + ahead)
    assert time.doubt() == ""
    assert time.past() == NOW
    time.hear("a", NOW + 70 * DAY)
    assert time.doubt() != ""


def test_one_of_two_witnesses_with_a_wrong_clock_stops_nothing_and_makes_nothing_over_early() -> None:
    for wrong in (-70 * DAY, 70 * DAY):
        time, _ = vouched()
        time.hear("a", NOW)
        time.hear("b", NOW + wrong)
        assert time.doubt() == ""
        assert time.past() == min(NOW, NOW + wrong)
        time.hear("a", NOW + wrong)
        assert time.doubt() != ""


def test_a_leaf_says_only_that_it_is_not_earlier_and_that_a_newer_one_is_due() -> None:
    time, clock = vouched()
    time.hear_least("the newest leaf", NOW - DAY, NOW + DAY)
    assert time.past() == NOW - DAY
    for jump in JUMPS:
        clock.set_back(-jump)
        assert "the newest leaf is of" in (time.doubt() if jump < 0 else time.late())
        assert (time.late() if jump < 0 else time.doubt()) == "", "what does not come says nothing about this clock"
        assert time.past() == UNVOUCHED
        clock.set_back(jump)
    time.hear("the log", NOW)
    assert time.past() == NOW, "whoever says the time is believed before a leaf"


def test_a_wait_ends_by_the_earlier_of_two_clocks_and_by_one_where_nobody_says_anything() -> None:
    time, clock = vouched()
    earlier = EarlierClock(clock, time)
    assert earlier.now() == NOW
    time.hear("the log", NOW)
    clock.set_back(-70 * DAY)
    assert earlier.now() == NOW
    clock.set_back(100 * DAY)
    assert earlier.now() == NOW - 30 * DAY


def test_a_wait_that_begins_by_the_later_and_ends_by_the_earlier_of_two_clocks_is_never_short() -> None:
    for wrong in (-7 * DAY, 7 * DAY):
        time, clock = vouched()
        time.hear("the log", NOW + wrong)
        ends = LaterClock(clock, time).now() + DAY
        time.hear("the log", NOW)
        assert EarlierClock(clock, time).now() <= ends - DAY


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({"date": date_field(int(NOW))}, NOW + 1),
        ({"date": date_field(int(NOW)), "age": "3600"}, NOW + 3601),
        ({"date": "yesterday"}, None),
        ({"date": date_field(int(NOW)), "age": "-1"}, None),
        ({"date": date_field(int(NOW)), "age": "99999999"}, None),
        ({"date": date_field(int(NOW)), "age": "604800"}, NOW + 604_801),
        ({"date": date_field(int(NOW)), "age": "604801"}, None),
        ({"date": date_field(int(NOW)), "cache-control": "public, max-age=31536000, Immutable"}, None),
        ({"date": date_field(int(NOW)), "cache-control": "no-store"}, NOW + 1),
        ({"date": "x" * 1000}, None),
        ({}, None),
    ],
)
async def test_an_answer_vouches_by_its_date_and_by_how_long_a_cache_has_had_it(
    headers: dict[str, str], says: float | None
) -> None:
    class Peer:
        async def request(
            self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
        ) -> HttpResponse:
            return answer

    answer, (time, _) = HttpResponse(200, headers, b""), vouched()
    assert await Voucher(Peer(), time, "the log").request("GET", "http://log.example") is answer
    assert time.said() == says


def test_the_clocks_of_this_machine_tell_how_much_time_has_passed() -> None:
    for clock in (SystemClock(), ShiftedClock(SystemClock(), 1.0)):
        assert isinstance(clock, SteadyClock)
        assert clock.steady() <= clock.steady()
    shifted = ShiftedClock(SimClock(NOW), rate=2.0)
    before = shifted.steady()
    shifted.jump(10.0)
    assert shifted.steady() == before + 10.0
