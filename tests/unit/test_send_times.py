"""P28: given the times of the reports, every set of as many devices is equally likely to have sent them.

The sampling factor of claim (a) is the chance that a device is in the sample, *given what an aggregator sees*, and that
is how many reports came and when. Somebody may know when each device was on, and so when it decided. Time is cut into
quarters of the interval (and its tail), and everything is exact.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pytest

from client_agent.deciding import first_start, last_start
from client_agent.journal import State
from infra.lab.kit.recipes import NOW
from tests.claims import compute_claim
from tests.kit.methods import randomizer_from
from tests.unit.device_path import SILENCE, Law, Path, Sent, convolved, divergence
from tests.unit.test_participation import given_value, recipe_of

RATE = Fraction(1, 2)
QUARTERS = 4
TAIL = QUARTERS
"""The place behind the quarters: after the last planned start."""
Rule = Callable[[int], Law]
"""When a device sends that decided at the beginning of a quarter (0: before any report), or that it does not."""


def at_once_when_late(decided: int) -> Law:
    """Spread over what is left of the interval; behind its last start, at once."""
    left = range(decided, QUARTERS) if decided < TAIL else [TAIL]
    return {SILENCE: 1 - RATE, **dict.fromkeys(left, RATE / len(left))}


def nothing_where_past(decided: int) -> Law:
    """A time of the whole interval; nothing where it is past already."""
    left = range(decided, QUARTERS)
    return {SILENCE: 1 - RATE * Fraction(len(left), QUARTERS), **dict.fromkeys(left, RATE / QUARTERS)}


def counted(law: Law) -> Law:
    """How many reports one device sends in each place."""
    nobody = (0,) * (TAIL + 1)
    return {
        nobody if place is SILENCE else tuple(int(place == one) for one in range(TAIL + 1)): p
        for place, p in law.items()
    }


def plus(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(left + right for left, right in zip(one, other, strict=True))


def chances(laws: Sequence[Law]) -> dict[tuple[int, ...], Fraction]:
    """For all counts by time that can be seen: the chance that the first device is one of the senders."""
    nobody = (0,) * (TAIL + 1)
    others = convolved([counted(law) for law in laws[1:]], plus, nobody)
    sent = {place: p for place, p in counted(laws[0]).items() if place != nobody}
    whole = convolved([counted(laws[0]), others], plus, nobody)
    mine = convolved([others, sent], plus, nobody)
    return {seen: mine.get(seen, Fraction(0)) / p for seen, p in whole.items()}


def test_a_device_that_sent_at_once_when_it_was_late_was_told_by_its_time() -> None:
    """99 devices decide in time and one behind the last start: a report then is its own for sure. No sample hides it,
    and claim (a) is that of the batch without sampling."""
    seen = chances([at_once_when_late(decided) for decided in (TAIL, *[0] * 9)])
    told = {counts: chance for counts, chance in seen.items() if counts[TAIL]}
    assert told
    assert set(told.values()) == {Fraction(1)}


def shown_by_a_late_report(epsilon0: float, n: int, rate: float, delta: float) -> float:
    """A lower bound on epsilon against one aggregator, had a device that decided late sent at once, in batches of ``n``
    answers by randomised response: with probability ``rate`` there is a report behind the last start, which is then
    its own for sure, and the sum of the batch, in which all others hold a 0, is compared for both answers."""
    flip = 1 / (math.exp(epsilon0) + 1)
    others = [math.comb(n - 1, k) * flip**k * (1 - flip) ** (n - 1 - k) for k in range(n)]
    no, yes = (
        [(1 - p) * stays + p * comes for stays, comes in zip([*others, 0.0], [0.0, *others], strict=True)]
        for p in (flip, 1 - flip)
    )

    def told(epsilon: float) -> float:
        one, other = (
            math.fsum(max(0.0, p - math.exp(epsilon) * q) for p, q in zip(first, second, strict=True))
            for first, second in ((no, yes), (yes, no))
        )
        return rate * max(one, other)

    low, high = 0.0, epsilon0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if told(middle) > delta else (low, middle)
    return low


@pytest.mark.parametrize(
    ("epsilon0", "n", "rate", "stated", "shown"),
    [(1.0, 400, 0.25, 0.08, 0.19), (3.0, 1_000, 0.05, 0.06, 0.54)],
)
def test_sending_at_once_when_late_told_several_times_what_the_claim_states(
    epsilon0: float, n: int, rate: float, stated: float, shown: float
) -> None:
    claim = compute_claim(randomizer_from("rr", epsilon0, 2), n=n, sampling_rate=rate, delta=1e-6)
    late = shown_by_a_late_report(epsilon0, n, rate, 1e-6)
    assert claim["aggregator"] < stated
    assert late > shown
    assert late <= claim["aggregator_with_relay"], "claim (b), which counts on no sample, held all the same"


def test_leaving_out_what_is_past_hides_late_devices_and_tells_early_ones() -> None:
    """A device that decides late is then hidden by all before it; but one that decided alone, before most others were
    on, sends what comes first. So no device decides once others may send."""
    late = chances([nothing_where_past(decided) for decided in (3, *[0] * 9)])
    assert max(chance / Fraction(sum(counts), 10) for counts, chance in late.items() if sum(counts)) <= 1
    early = chances([nothing_where_past(decided) for decided in (0, *[2] * 9)])
    assert max(chance for counts, chance in early.items() if counts[0]) == 1


async def times_of(decided_at: float, monkeypatch: pytest.MonkeyPatch) -> Law:
    """The law of the quarter in which the device code sends, if it decides then."""
    recipe = recipe_of("rr", "uniform")
    start, last = first_start(recipe), last_start(recipe)

    def quarter(sent: Sent) -> Any:
        if sent.measurement is SILENCE:
            return SILENCE
        return math.floor(QUARTERS * (sent.send_at - start) / (last - start) + 1e-9)

    return await Path(recipe, monkeypatch, decided_at).law(given_value(True), quarter, times=QUARTERS)


async def test_given_the_times_of_all_reports_each_device_is_among_the_senders_with_chance_m_of_n(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the devices' own code: whenever a device decides, its time has one law, and so the chance is what P17b takes
    it for, whatever the times are and whoever knows when each device decided."""
    start = first_start(recipe_of("rr", "uniform"))
    laws = [await times_of(start - before, monkeypatch) for before in (0, 1, 1_000, 0.25)]
    expected: Law = {SILENCE: RATE, **dict.fromkeys(range(QUARTERS), RATE / QUARTERS)}
    assert laws[0] == expected
    assert all(law == laws[0] for law in laws)
    for counts, chance in chances(laws).items():
        assert chance == Fraction(sum(counts), len(laws))


async def test_times_beside_the_aggregate_tell_no_more_than_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole view of an aggregator, number, times and sum of the reports of four devices, for two answers of one of
    them: its divergence is that of number and sum alone, at every epsilon. Where a late device sends at once it is not:
    at the epsilon that number and sum allow, more than a hundredth of the probability is beyond it."""
    path = Path(recipe_of("rr", "uniform"), monkeypatch)
    answers = [await path.law(given_value(value)) for value in (True, False)]
    timed = await times_of(NOW, monkeypatch)

    def views(first: Law, times: Law, *, shown: bool) -> Law:
        def seen(answer: Law, when: Law) -> Law:
            given_sent = [(place, p / (1 - when[SILENCE])) for place, p in when.items() if place is not SILENCE]
            law: Law = {((0,) * (TAIL + 1), 0): answer[SILENCE]}
            for (place, p), bit in itertools.product(given_sent, (0, 1)):
                spot = tuple(int((place if shown else 0) == one) for one in range(TAIL + 1))
                law[spot, bit] = law.get((spot, bit), Fraction(0)) + answer[bit] * p
            return law

        others = [seen(answers[1], timed)] * 3
        return convolved([seen(first, times), *others], lambda a, b: (plus(a[0], b[0]), a[1] + b[1]), ((0,) * 5, 0))

    for epsilon in (0.1, 0.3, 0.5, 0.8):
        shown, hidden = ([views(one, timed, shown=flag) for one in answers] for flag in (True, False))
        for one, other in ((0, 1), (1, 0)):
            plain = divergence(hidden[one], hidden[other], epsilon)
            assert divergence(shown[one], shown[other], epsilon) == pytest.approx(plain, abs=1e-12)
    hidden = [views(one, timed, shown=False) for one in answers]
    enough = next(e / 100 for e in range(200) if divergence(hidden[0], hidden[1], e / 100) < 0.01)
    late = [views(one, at_once_when_late(TAIL), shown=True) for one in answers]
    assert divergence(late[0], late[1], enough) > 0.02


async def test_a_device_that_meets_a_recipe_after_the_time_for_deciding_takes_no_part_and_is_charged_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe = recipe_of("krr, buckets", "everybody")
    for after in (0.001, 1, 2_600):
        path = Path(recipe, monkeypatch, first_start(recipe) + after)
        sent = await path.decide(given_value(1000), bytes)
        assert (sent.measurement, sent.state, sent.charged) == (SILENCE, State.INELIGIBLE, ("", ""))
