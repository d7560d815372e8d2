"""Claims with a visible, data-dependent number of messages, against the exact law of what aggregators see."""

from __future__ import annotations

import dataclasses
import itertools
import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from tacit.dp import poisson
from tacit.dp.binomial_shift import delta_binomial_shift, epsilon_binomial_shift
from tacit.dp.hidden_claim import (
    Sample,
    count_cost,
    dummies_cost,
)
from tacit.dp.hidden_count import Crowd, SendingRates, dummies_epsilon, least_devices, least_mean, smallest_intensity
from tacit.dp.reports import NoiseStep, Reports
from tacit.dp.sampling import amplify, amplify_visible
from tacit.methods.rr import Rr
from tests.claims import compute_hidden_claim

Law = NDArray[np.float64]
OTHERS = 400
BATCH = 100
DELTA = 1e-3
FLIPS = 2


class Rejecting(Rr):
    """Randomised response of which one in twenty is not sent."""

    @property
    def reject_probability(self) -> float:
        return 0.05


RR = Rr(Decimal(1))
SHARES = NoiseStep(scale=1, flips=FLIPS)


def shifted(epsilon: float, trials: int, p: float) -> float:
    counts = np.arange(trials + 2)
    without = stats.binom.pmf(counts, trials, p)
    more = np.concatenate(([0.0], without[:-1]))
    return stick(without, more, epsilon)


def stick(first: Law, second: Law, epsilon: float) -> float:
    """The larger of both hockey sticks."""
    growth = math.exp(epsilon)
    return max(float(np.maximum(one - growth * other, 0).sum()) for one, other in ((first, second), (second, first)))


@settings(max_examples=80, deadline=None)
@given(st.floats(0, 4), st.integers(1, 3000), st.floats(0.001, 0.999))
def test_the_binomial_shift_is_the_larger_sum_of_both_directions(epsilon: float, trials: int, p: float) -> None:
    found, summed = delta_binomial_shift(epsilon, trials, p), shifted(epsilon, trials, p)
    assert found == pytest.approx(summed, rel=1e-7, abs=1e-13)


@pytest.mark.parametrize("epsilon", [5.0, 20.0, 37.5, 59.0])
def test_where_everybody_or_nobody_sends_one_message_more_is_certain_at_any_epsilon(epsilon: float) -> None:
    assert delta_binomial_shift(epsilon, 99, 0.9) >= 0.9**99
    assert delta_binomial_shift(epsilon, 99, 0.1) >= 0.9**99
    assert math.isinf(epsilon_binomial_shift(99, 0.9, 1e-5))
    assert math.isinf(epsilon_binomial_shift(99, 0.1, 1e-5))


def test_rare_dummies_are_as_good_as_poisson_ones() -> None:
    for intensity in (34.1, 90.1, 280.1):
        many = epsilon_binomial_shift(10**7, intensity / 10**7, 1e-6)
        assert many == pytest.approx(poisson.epsilon_shift(intensity, 1e-6), rel=1e-4)
        assert epsilon_binomial_shift(10**8, intensity / 10**7, 1e-6) < many


@settings(max_examples=40, deadline=None)
@given(st.integers(20, 5000), st.floats(0.01, 0.99), st.floats(-9, -3))
def test_more_devices_never_tell_more(trials: int, p: float, exponent: float) -> None:
    delta = 10.0**exponent
    few, many = (epsilon_binomial_shift(count, p, delta) for count in (trials, trials + trials // 10 + 1))
    assert many <= few * (1 + 1e-6)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 5000), st.floats(0.01, 0.99), st.floats(-9, -2))
def test_a_batch_of_fewer_devices_than_it_shows_is_as_rare_as_stated(batch: int, sends: float, exponent: float) -> None:
    delta = 10.0**exponent
    devices, mean = least_devices(batch, sends, delta), least_mean(batch, delta)
    assert devices == batch or stats.binom.sf(batch - 1, devices, sends) <= delta
    assert stats.poisson.sf(batch - 1, mean) <= delta
    assert batch <= devices <= batch / sends
    assert 0 < mean < batch


# The exact law of (number of messages, their sum) of many devices, by Fourier transform.


def report_law(reports: Reports, value: int | None) -> Law:
    """The law of one message; None: a dummy."""
    if reports.local_epsilon < math.inf:
        keep = 1 / (1 + math.exp(-reports.local_epsilon))
        one = 0.5 if value is None else keep if value else 1 - keep
        return np.array([1 - one, one])
    flips = stats.binom.pmf(np.arange(FLIPS + 1), FLIPS, 0.5)
    return np.concatenate((np.zeros(value or 0), flips, np.zeros(1 - (value or 0))))


def device_law(reports: Reports, sample: Sample, value: int, *, dummy: float | None = None) -> Law:
    """One device with this answer (0 is the default): rows are no message and one message."""
    rates = sample.sending_rates(reports)
    rate = rates.rate if value else rates.least_rate
    spare = rates.dummy if dummy is None else dummy
    takes = rate * (1 - rates.reject)
    message = takes * report_law(reports, value) + (1 - takes) * spare * report_law(reports, None)
    silence = np.zeros_like(message)
    silence[0] = 1 - message.sum()
    return np.stack((silence, message))


def released(law: Law, batch: int) -> Law:
    """What is seen: of a batch below ``batch`` how many messages it has, and no more."""
    return np.concatenate((law[:batch].sum(axis=1), law[batch:].ravel()))


def views(reports: Reports, sample: Sample, others: tuple[int, int], own: list[Law]) -> list[Law]:
    """The views for each behaviour of one device beside ``others`` (with the default, without), up to a number of
    messages that is 10 standard deviations above the mean."""
    laws = [(device_law(reports, sample, value), count) for value, count in enumerate(others)]
    chances = [(law[1].sum(), count) for law, count in laws]
    spread = math.sqrt(sum(chance * (1 - chance) * count for chance, count in chances))
    mean = sum(chance * count for chance, count in chances)
    rows = min(sum(others) + 1, math.ceil(mean + 10 * spread + 40))
    shape = (rows + 1, rows * (own[0].shape[1] - 1) + 1)
    crowd = np.prod([np.fft.rfft2(law, shape) ** count for law, count in laws if count], axis=0)
    seen = [np.fft.irfft2(crowd * np.fft.rfft2(law, shape), shape) for law in own]
    return [released(np.maximum(law, 0), sample.batch) for law in seen]


def answers(reports: Reports, sample: Sample) -> list[Law]:
    return [device_law(reports, sample, value) for value in (0, 1)]


CROWDS = ((0, OTHERS), (OTHERS // 2, OTHERS // 2), (1500, 50), (1800, 0))
SAMPLES = {
    "dummies": Sample(BATCH, 0.3, None, 20.0, OTHERS),
    "importance": Sample(BATCH, 0.6, 0.05),
    "importance and dummies": Sample(BATCH, 0.6, 0.05, 20.0, OTHERS),
    "rare default": Sample(BATCH, 0.5, 0.03, 15.0, OTHERS),
}


@pytest.mark.parametrize("others", CROWDS)
@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("reports", [RR, SHARES, Rejecting(Decimal(1))], ids=["rr", "flips", "reject"])
def test_no_answer_tells_more_than_is_claimed(reports: Reports, name: str, others: tuple[int, int]) -> None:
    sample = SAMPLES[name]
    claim = compute_hidden_claim(reports, sample, n=BATCH, delta=DELTA)
    one, other = views(reports, sample, others, answers(reports, sample))
    assert claim["aggregator"] < claim["aggregator_with_relay"] < 5
    assert stick(one, other, claim["aggregator"]) <= DELTA


@pytest.mark.parametrize("others", CROWDS)
@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("reports", [RR, SHARES], ids=["rr", "flips"])
def test_nobody_sees_whether_a_device_took_part(reports: Reports, name: str, others: tuple[int, int]) -> None:
    sample = SAMPLES[name]
    left, kept = sample.reports_among(BATCH, DELTA), sample.kept(DELTA)
    crowd = sample.crowd(reports, BATCH, kept)
    count = crowd.count_epsilon(lambda share: reports.aggregate_epsilon(left, share), kept)
    inner = min(kept / sample.rate, 0.01)
    total = count + reports.aggregate_epsilon(left, inner * math.exp(-count) / 2)
    silent = report_law(reports, None) * 0
    silent[0] = 1.0
    nothing = np.stack((silent, silent * 0))
    sending = [np.stack((silent * 0, report_law(reports, value))) for value in (0, 1, None)]
    without, *seen = views(reports, sample, others, [nothing, *sending])
    for view in seen:
        assert stick(view, without, total) <= inner


def test_a_claim_that_leaves_the_number_of_messages_out_is_false() -> None:
    noisy, sample = Rr(Decimal("0.05")), SAMPLES["importance"]
    uncounted = amplify(noisy.aggregate_epsilon(BATCH, DELTA), sample.rate)
    one, other = views(noisy, sample, (1800, 0), answers(noisy, sample))
    assert stick(one, other, uncounted) > 10 * DELTA
    assert count_cost(noisy, sample, n=BATCH, delta=DELTA) > uncounted
    claim = compute_hidden_claim(noisy, sample, n=BATCH, delta=DELTA)
    assert stick(one, other, claim["aggregator"]) <= DELTA


def test_coins_that_are_no_coins_hide_nothing() -> None:
    known = dataclasses.replace(SAMPLES["importance"], attested=OTHERS)
    claimed = compute_hidden_claim(RR, known, n=BATCH, delta=DELTA)["aggregator"]
    own = answers(RR, SAMPLES["importance"])
    surely = dataclasses.replace(SAMPLES["importance"], rate=0.9999)
    one, other = views(RR, surely, (0, OTHERS), own)
    assert stick(one, other, claimed) > 50 * DELTA
    everybody = Sample(BATCH, 1.0, 0.2)
    assert math.isinf(count_cost(RR, everybody, n=BATCH, delta=DELTA))


def known_takers(sample: Sample, epsilon: float, dummy: float) -> float:
    """delta of whether one device sent, where it is known who else took part: the average over how many did not."""
    free = np.arange(OTHERS)
    weights = stats.binom.pmf(free, OTHERS - 1, 1 - sample.rate)
    sticks = [delta_binomial_shift(epsilon, int(count), dummy) if dummy else 1.0 for count in free]
    return float(np.dot(weights, sticks))


def test_dummies_hide_a_device_from_somebody_who_knows_who_else_took_part_and_the_papers_rate_does_not() -> None:
    sample = Sample(BATCH, 0.4, 0.1, 150.0, OTHERS)
    epsilon = dummies_cost(RR, sample, n=BATCH, delta=DELTA)
    assert 0.3 < epsilon < 2
    assert known_takers(sample, epsilon, sample.intensity / OTHERS) <= DELTA
    assert known_takers(sample, epsilon, 1 / (epsilon * OTHERS)) > 100 * DELTA
    assert known_takers(sample, epsilon, 0.0) == pytest.approx(1)
    assert math.isinf(dummies_cost(RR, dataclasses.replace(sample, intensity=0.0), n=BATCH, delta=DELTA))


def test_the_fewest_dummies_that_suffice_are_found() -> None:
    found = smallest_intensity(0.5, 100_000, lambda dummy: 100_000, 0.5, 1e-7)
    assert found is not None
    for intensity, enough in ((found, True), (found * 0.999, False)):
        rates = SendingRates(0.5, 0.5, intensity / 100_000)
        assert (dummies_epsilon(rates, 100_000, 1e-7) <= 0.5) is enough
    assert found == pytest.approx(2 * poisson.dummy_intensity(0.5, 0.9e-7), rel=0.03)
    assert smallest_intensity(0.5, 60, lambda dummy: 60, 0.5, 1e-7) is None
    assert smallest_intensity(1.0, 10**6, lambda dummy: 10**6, 0.5, 1e-7) is None


def test_without_a_default_and_with_hardly_any_dummies_the_claim_is_that_of_the_visible_batch() -> None:
    sample = Sample(10_000, 0.3, None, 1e-9, 40_000)
    claim = compute_hidden_claim(SHARES, sample, n=10_000, delta=1e-6)
    single = SHARES.aggregate_epsilon(9_999, 0.9e-6)
    assert claim["aggregator_with_relay"] == pytest.approx(single, rel=1e-3)
    assert claim["aggregator"] == pytest.approx(amplify_visible(single, 0.3, 10_000, 0.9e-6) or 0, rel=1e-3)
    assert claim.mechanism == "flips-exact+dummies"
    assert math.isinf(claim["both_aggregators"])


def test_the_relay_learns_by_who_sends_what_the_rates_tell() -> None:
    sample = Sample(4000, 0.5, 0.1, attested=10_000)
    claim = compute_hidden_claim(RR, sample, n=4000, delta=1e-6)
    part = math.log(5)
    assert claim["aggregator_with_relay"] == pytest.approx(RR.aggregate_epsilon(4000, 1e-6) + part)
    assert claim["both_aggregators_with_relay"] == pytest.approx(1 + part)
    assert claim["aggregator"] < claim["both_aggregators"] < 1
    assert claim.mechanism == "rr-exact+importance"
    dummies = compute_hidden_claim(RR, Sample(4000, 0.5, 0.1, 2000.0, 10_000, 10_000), n=4000, delta=1e-6)
    assert dummies.mechanism == "rr-exact+importance+dummies"
    assert dummies["both_aggregators_with_relay"] == pytest.approx(1 + math.log(0.6 / 0.28))
    quiet = Sample(4000, 0.99, 0.5)
    assert compute_hidden_claim(RR, quiet, n=4000, delta=1e-6)["both_aggregators_with_relay"] == pytest.approx(
        1 + math.log(50)
    )


@settings(max_examples=25, deadline=None)
@given(st.floats(0.05, 0.9), st.floats(0.05, 1), st.integers(200, 20_000))
def test_claims_fall_with_the_batch_and_rise_with_the_rates(rate: float, ratio: float, batch: int) -> None:
    def epsilon(batch: int, rate: float, least: float) -> float:
        return compute_hidden_claim(SHARES, Sample(batch, rate, least), n=batch, delta=1e-6)["aggregator"]

    least = rate * ratio
    found = epsilon(batch, rate, least)
    assert epsilon(batch * 2, rate, least) <= found * 1.01
    assert epsilon(batch, min(0.95, rate * 1.1), least) >= found * 0.99
    half = compute_hidden_claim(SHARES, Sample(batch, rate, least), n=batch // 2, delta=1e-6)
    assert half["aggregator"] >= found * 0.99
    assert half.n == batch // 2


def test_more_dummies_hide_better() -> None:
    costs = [
        dummies_epsilon(SendingRates(0.5, 0.1, intensity / 10_000), 10_000, 1e-6)
        for intensity in (100, 300, 1000, 3000)
    ]
    assert all(more < fewer for fewer, more in itertools.pairwise(costs))
    assert math.isinf(dummies_epsilon(SendingRates(0.5, 0.1, 0.001), 10_000, 1e-6)), "exp(-5) is a batch without any"


def test_both_ways_of_hiding_count_and_too_small_a_crowd_hides_nothing() -> None:
    rates = SendingRates(0.5, 0.1, 0.1)
    crowd = Crowd(rates, 2000, 1000)
    assert crowd.shift_epsilon(1e-6) < dummies_epsilon(rates, 2000, 1e-6)
    assert Crowd(rates, 10**6, 1000).shift_epsilon(1e-6) < crowd.shift_epsilon(1e-6)
    assert math.isinf(Crowd(SendingRates(0.5, 0.1), 10_000, 10).count_epsilon(lambda delta: 0.1, 1e-6))
    assert math.isinf(Crowd(rates, 10_000, 1000).epsilon(lambda delta: math.inf, 1e-6))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch": 0, "rate": 0.5}, "batch"),
        ({"batch": 100, "rate": 0.5, "intensity": -1.0}, "intensity"),
        ({"batch": 100, "rate": 0.5, "intensity": 10.0}, "population"),
        ({"batch": 100, "rate": 0.5, "intensity": 10.0, "population": 10}, "population"),
    ],
)
def test_samples_that_cannot_be_are_refused(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sample(**arguments)  # type: ignore[arg-type]


def test_claims_that_cannot_be_computed_say_why() -> None:
    with pytest.raises(ValueError, match="least_rate must not be above rate"):
        compute_hidden_claim(RR, Sample(100, 0.1, 0.5), n=100, delta=1e-6)
    with pytest.raises(ValueError, match="no report is left"):
        compute_hidden_claim(RR, Sample(100, 0.5, None, 90.0, 1000), n=100, delta=1e-6)
    with pytest.raises(ValueError, match="give no epsilon"):
        compute_hidden_claim(SHARES, Sample(1, 0.5, 0.1), n=1, delta=1e-6)
