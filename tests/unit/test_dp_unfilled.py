"""What the number of messages tells of one device where no batch fills, against sums over every composition."""

from __future__ import annotations

import dataclasses
import math
import random

import numpy as np
import pytest
from scipy import stats

from tacit.dp.hidden_claim import Sample
from tacit.dp.reports import Reports
from tacit.dp.two_rates import two_rates
from tacit.dp.unfilled import MOST_DEVICES, SPANS, unfilled_epsilon
from tests.claims import compute_hidden_claim
from tests.unit.test_dp_hidden_count import BATCH, DELTA, RR, SHARES, Law, answers, stick, views

Q, Q0 = 0.5, 0.05


def mixed(high: int, s: float, low: int, s0: float) -> Law:
    """The law of Bin(high, s) + Bin(low, s0), by convolution."""
    parts = (stats.binom.pmf(np.arange(count + 1), count, p) for count, p in ((high, s), (low, s0)))
    return np.convolve(*parts)


def counted(others: Law, sends: float) -> Law:
    """The law of the number of messages with one device more."""
    return np.convolve(others, [1 - sends, sends])


def largest(epsilon: float, devices: int, s: float, s0: float) -> float:
    """The largest delta over what all but one device hold."""
    laws = (mixed(high, s, devices - 1 - high, s0) for high in range(devices))
    return max(stick(counted(law, s), counted(law, s0), epsilon) for law in laws)


def test_a_batch_that_never_fills_told_150_times_what_was_claimed() -> None:
    sample = Sample(4_000_000, Q, Q0)
    alone = {devices: unfilled_epsilon(Q, Q0, devices, 1e-6) for devices in (1, 100, 1000)}
    assert alone[1] == pytest.approx(math.log(10), rel=1e-5)
    assert alone[100] == pytest.approx(0.726, abs=1e-3)
    assert alone[1000] == pytest.approx(0.2625, abs=1e-3)
    for devices, told in alone.items():
        claim = compute_hidden_claim(RR, sample, n=sample.batch, delta=1e-6)
        known = dataclasses.replace(sample, attested=devices)
        counting = compute_hidden_claim(RR, known, n=sample.batch, delta=1e-6)
        assert told <= counting["aggregator"] <= claim["aggregator"] == pytest.approx(alone[1], rel=1e-5)
        assert counting["aggregator"] < told * 1.06
        assert counting["aggregator"] <= counting["both_aggregators"]


@pytest.mark.parametrize("devices", [1, 2, 3, 7, 20, 65])
@pytest.mark.parametrize(("s", "s0"), [(0.5, 0.05), (0.9, 0.2), (0.3, 0.29), (0.99, 0.5), (0.02, 0.001)])
@pytest.mark.parametrize("delta", [1e-2, 1e-6])
def test_it_is_the_largest_over_every_composition_of_few_devices(
    devices: int, s: float, s0: float, delta: float
) -> None:
    found = unfilled_epsilon(s, s0, devices, delta)
    assert largest(found, devices, s, s0) <= delta
    if found > 1e-6:
        assert largest(found * (1 - 1e-6), devices, s, s0) > delta, "and no more than that"


@pytest.mark.parametrize(("devices", "s", "s0"), [(300, 0.5, 0.05), (300, 0.6, 0.4), (500, 0.9, 0.7)])
def test_of_more_devices_it_is_at_most_a_64th_above_it(devices: int, s: float, s0: float) -> None:
    found = unfilled_epsilon(s, s0, devices, 1e-6)
    assert largest(found, devices, s, s0) <= 1e-6
    assert largest(found * (1 - 1 / SPANS), devices, s, s0) > 1e-6


def test_a_device_at_a_rate_in_between_hides_no_less() -> None:
    draw = random.Random(16)
    found = unfilled_epsilon(Q, Q0, 30, 1e-4)
    for _ in range(200):
        law = np.ones(1)
        for _ in range(29):
            law = counted(law, draw.uniform(Q0, Q))
        assert stick(counted(law, Q), counted(law, Q0), found) <= 1e-4


def test_more_devices_never_tell_more() -> None:
    for s, s0 in ((0.5, 0.05), (0.8, 0.75), (0.99, 0.01)):
        told = [unfilled_epsilon(s, s0, devices, 1e-6) for devices in (1, 2, 5, 20, 100, 1000, 20_000)]
        assert sorted(told, reverse=True) == told
    assert unfilled_epsilon(0.5, 0.499, MOST_DEVICES + 1, 1e-6) == unfilled_epsilon(0.5, 0.499, MOST_DEVICES, 1e-6)


@pytest.mark.parametrize(
    ("high", "s", "low", "s0"), [(3, 0.5, 4, 0.05), (900, 0.5, 100, 0.05), (30, 0.9, 1000, 0.01), (4000, 0.5, 1, 0.2)]
)
def test_the_law_of_coins_of_two_rates_is_their_convolution(high: int, s: float, low: int, s0: float) -> None:
    law, whole = np.array(two_rates(high, s, low, s0)), mixed(high, s, low, s0)
    first = int(np.argmax(whole)) - int(np.argmax(law))
    assert law == pytest.approx(whole[first : first + len(law)], rel=1e-9)
    assert 1 - law.sum() == pytest.approx(0, abs=1e-12)


CROWDS = ((0, 0), (0, 9), (9, 0), (60, 3), (90, 30), (150, 250), (1800, 0))


@pytest.mark.parametrize("others", CROWDS)
@pytest.mark.parametrize("reports", [RR, SHARES], ids=["rr", "flips"])
@pytest.mark.parametrize("intensity", [0.0, 20.0])
def test_no_answer_tells_more_than_is_claimed_whether_a_batch_fills_or_not(
    reports: Reports, others: tuple[int, int], intensity: float
) -> None:
    sample = Sample(BATCH, 0.6, 0.05, intensity, 400 if intensity else None, attested=sum(others) + 1)
    claim = compute_hidden_claim(reports, sample, n=BATCH, delta=DELTA)
    one, other = views(reports, sample, others, answers(reports, sample))
    assert stick(one, other, claim["aggregator"]) <= DELTA


def test_dummies_hide_a_device_at_every_number_of_devices_only_if_so_many_send_them() -> None:
    few = Sample(1000, 0.3, 0.05, 400.0, 2000)
    known = dataclasses.replace(few, attested=2000)
    one, all_ = (compute_hidden_claim(RR, sample, n=1000, delta=1e-6)["aggregator"] for sample in (few, known))
    rates = few.sending_rates(RR)
    assert one == pytest.approx(math.log(rates.sends / rates.least_sends), rel=1e-5)
    assert all_ < 0.5


def test_where_the_rate_is_one_for_everybody_the_number_tells_nothing_and_claims_are_as_they_were() -> None:
    assert unfilled_epsilon(0.4, 0.4, 1, 1e-6) == 0
    claim = compute_hidden_claim(RR, Sample(1000, 0.3, None, 100.0, 5000), n=1000, delta=1e-6)
    assert claim["aggregator"] == 0.05367433052403732
    assert math.isinf(unfilled_epsilon(1.0, 0.5, 10, 1e-6))


def test_numbers_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="least_sends"):
        unfilled_epsilon(0.1, 0.2, 10, 1e-6)
    with pytest.raises(ValueError, match="devices"):
        unfilled_epsilon(0.2, 0.1, 0, 1e-6)
    with pytest.raises(ValueError, match="attested"):
        Sample(100, 0.5, 0.1, attested=0)
