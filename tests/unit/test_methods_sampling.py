"""Importance sampling and dummies: what a dummy is, and what estimators make of a batch that holds some.

Two kinds of evidence. Exact: the expectation and the variance of an estimate are sums over devices, and those of one
device follow from the law of what it sends, bit by bit. Simulated: thousands of devices, hundreds or thousands of runs;
each test compares about ten figures with what is expected within five of their own standard errors, so that over the
choice of seeds it fails with probability below 1e-5. The seeds are fixed.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare

from infra.lab.kit.entropy import SeededEntropy
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.method import LocalMethod, Method
from tacit.methods.estimators.flips import FlipsEstimator
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.flips import Flips
from tacit.methods.krr import Krr
from tacit.methods.randomisers.registry import device_randomiser_of
from tacit.methods.rappor import Rappor
from tacit.methods.rr import Rr
from tests.kit.methods import randomizer_from

ALPHA = 1e-6
UNIFORM = SampleDesign(0.4)
DUMMIES = SampleDesign(0.4, dummy_probability=0.3)
BOTH = SampleDesign(0.6, default=0, default_rate=0.1, dummy_probability=0.2)
LAST = SampleDesign(0.6, default=1, default_rate=0.1, dummy_probability=0.2)
PLAIN = SampleDesign(0.6, default=0, default_rate=0.1)
DESIGNS = {"uniform": UNIFORM, "dummies": DUMMIES, "importance": PLAIN, "both": BOTH, "other default": LAST}
FIVE = 5.0


# What a dummy is


@pytest.mark.false_alarm(ALPHA, "chi-square")
@pytest.mark.parametrize(
    ("name", "categories", "law"),
    [("krr", 5, [0.2] * 5), ("rr", 2, [0.5, 0.5])],
)
def test_a_dummy_of_a_one_hot_randomizer_is_uniform(name: str, categories: int, law: Sequence[float]) -> None:
    randomizer = randomizer_from(name, 3, categories)
    entropy = SeededEntropy(1)
    drawn = Counter(device_randomiser_of(randomizer).dummy(entropy) for _ in range(10_000))
    assert chisquare([drawn[cell] for cell in range(categories)], [10_000 * one for one in law]).pvalue > ALPHA


@pytest.mark.false_alarm(ALPHA, "chi-square")
def test_a_dummy_of_rappor_is_a_flipped_vector_of_zeros_that_fits_the_bound() -> None:
    rappor = randomizer_from("rappor", 1, 4, 2)
    entropy = SeededEntropy(2)
    drawn = Counter(tuple(device_randomiser_of(rappor).dummy(entropy)) for _ in range(10_000))  # type: ignore[arg-type]
    law = {bits: chance for bits, chance in laws(rappor)[None] if chance}
    assert set(drawn) == set(law), "the bound cuts off 11 % of the vectors, and none of them is ever sent"
    assert chisquare([drawn[bits] for bits in law], [10_000 * chance for chance in law.values()]).pvalue > ALPHA


@pytest.mark.parametrize(
    ("shares", "neutral", "value"),
    [
        (Flips("histogram", 3, 8, 1, 4), 0, 0),
        (Flips("count", 3, 8, 1, 1), 0, 0),
        (Flips("sum", 3, 8, 20, 1, low=-10), 10, 0),
        (Flips("sum", 3, 8, 20, 1, low=40), 0, 40),
        (Flips("sum", 3, 8, 20, 1, low=-50), 0, -50),
        (Flips("mean", 3, 8, 2, 1, low=-5, unit=10), 0, -5),
        (Flips("vector-sum", 3, 8, 9, 3, low=-4), 4, 0),
    ],
)
def test_a_dummy_of_noise_shares_is_the_value_zero_or_the_low_end(shares: Flips, neutral: int, value: int) -> None:
    assert shares.neutral == neutral
    assert shares.low + shares.unit * neutral == value
    entropy = SeededEntropy(3)
    for _ in range(50):
        sent = device_randomiser_of(shares).dummy(entropy)
        assert isinstance(sent, list) is (shares.statistic in {"histogram", "vector-sum"})
        numbers = sent if isinstance(sent, list) else [sent]
        assert len(numbers) == shares.cells
        assert all(0 <= number - shares.scale * neutral <= shares.flips for number in numbers)


def test_a_dummy_draws_no_less_and_no_more_than_an_answer() -> None:
    drawn: list[int] = []

    def counting(length: int, /) -> bytes:
        drawn.append(length)
        return bytes(length)

    for shares in (Flips("histogram", 3, 8, 1, 4), Flips("sum", 3, 80, 20, 1, low=-10)):
        device_randomiser_of(shares).randomise(1, counting)
        of_answer, drawn[:] = list(drawn), []
        device_randomiser_of(shares).dummy(counting)
        assert drawn == of_answer
        drawn.clear()


# Exact expectation and variance


Law = list[tuple[tuple[int, ...], float]]


def laws(randomizer: LocalMethod) -> dict[int | None, Law]:
    """Per answer, and for a dummy (None), the probability of every vector of bits that may be sent."""
    hit, noise = (float(one) for one in randomizer.output_probabilities())
    found: dict[int | None, Law] = {}
    if isinstance(randomizer, Rappor):
        k = randomizer.categories
        for answer in (*range(k), None):
            fits = [
                (bits, math.prod(hit if bit == (cell == answer) else noise for cell, bit in enumerate(bits)))
                for bits in itertools.product((0, 1), repeat=k)
                if sum(bits) <= randomizer.max_weight
            ]
            total = math.fsum(chance for _, chance in fits) if answer is None else 1.0
            found[answer] = [(bits, chance / total) for bits, chance in fits]
        return found
    k = randomizer.categories if isinstance(randomizer, Krr) else 2
    units = [tuple(int(cell == one) for cell in range(k)) for one in range(k)]
    for answer in range(k):
        found[answer] = [(units[one], hit if one == answer else noise) for one in range(k)]
    found[None] = [(unit, 1 / k) for unit in units]
    return found


def estimate_of(randomizer: Method, bits: Sequence[int], reports: int, design: SampleDesign) -> NDArray[np.float64]:
    """Estimates from summed bits, ``rr`` given both of its bits."""
    counts = bits[1:] if isinstance(randomizer, Rr) else bits
    return np.array(estimator_of(randomizer).estimate(list(counts), reports, design).values)


def moments(randomizer: LocalMethod, design: SampleDesign, answer: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Mean and variance of what one device with ``answer`` adds to the estimates."""
    law, rate = laws(randomizer), design.rate_of(answer)
    outcomes = [(bits, rate * chance) for bits, chance in law[answer]]
    silent = 1 - math.fsum(chance for _, chance in outcomes)
    outcomes += [(bits, silent * design.dummy_probability * chance) for bits, chance in law[None]]
    rows = [(estimate_of(randomizer, bits, 1, design), chance) for bits, chance in outcomes]
    mean = sum(chance * row for row, chance in rows)
    return np.asarray(mean), np.asarray(sum(chance * row * row for row, chance in rows) - mean * mean)


@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS)
@pytest.mark.parametrize(
    "randomizer",
    [
        randomizer_from("krr", 1, 4),
        randomizer_from("rr", 0.7, 2),
        randomizer_from("rappor", 1, 4, 2),
        randomizer_from("rappor", 0.5, 4, 1),
        randomizer_from("rappor", 2, 2, 2),
        randomizer_from("rappor", 2, 3, 2),
    ],
    ids=["krr", "rr", "rappor", "rappor with one", "rappor of two", "rappor of three"],
)
def test_every_device_counts_once_for_its_answer_and_the_errors_are_the_sum_of_the_devices(
    randomizer: LocalMethod, design: SampleDesign
) -> None:
    answers = randomizer.cells if randomizer.cells > 1 else 2
    truth = [50, 3, 20, 7][:answers]
    cells = [1] if isinstance(randomizer, Rr) else list(range(answers))
    variance = np.zeros(len(cells))
    for answer, devices in enumerate(truth):
        mean, of_one = moments(randomizer, design, answer)
        assert mean == pytest.approx([float(cell == answer) for cell in cells], abs=1e-9)
        variance += devices * of_one
    found = estimator_of(randomizer).expected_stderrs([truth[cell] for cell in cells], sum(truth), design)
    assert found == pytest.approx(np.sqrt(variance), rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    st.floats(0.05, 1),
    st.floats(0.01, 1),
    st.floats(0, 0.9),
    st.integers(0, 3),
    st.lists(st.integers(0, 1000), min_size=4, max_size=4),
    st.floats(0.1, 6),
)
def test_the_estimate_of_a_histogram_solves_its_equations(
    rate: float, share: float, dummy: float, default: int, counts: list[int], epsilon0: float
) -> None:
    krr = randomizer_from("krr", epsilon0, 4)
    design = SampleDesign(rate, default, rate * share, dummy)
    counts[0] += 1
    hit, noise = (float(one) for one in krr.output_probabilities())
    rates = [design.rate_of(answer) for answer in range(4)]
    matrix = [[rates[v] * (hit if u == v else noise) + (1 - rates[v]) * dummy / 4 for v in range(4)] for u in range(4)]
    solved = np.linalg.solve(np.array(matrix), np.array(counts, dtype=float))
    values = estimator_of(krr).estimate(counts, sum(counts), design).values
    assert values == pytest.approx(solved, rel=1e-6, abs=1e-6 * sum(counts) / design.rate_of(default))


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(["krr", "rr", "rappor"]),
    st.floats(0.01, 1),
    st.floats(0.2, 8),
    st.lists(st.integers(0, 10**6), min_size=6, max_size=6),
)
def test_a_uniform_sample_without_dummies_is_estimated_as_it_was(
    name: str, rate: float, epsilon0: float, counts: list[int]
) -> None:
    """``(c - m n) / (q (h - n))`` and its error, with the cells' probabilities and the rate of what is sent."""
    randomizer = randomizer_from(name, epsilon0, 2 if name == "rr" else 6, 3 if name == "rappor" else None)
    hit, noise = (float(one) for one in randomizer.output_probabilities())
    reports = max(1, sum(counts))
    counts[0] += reports - sum(counts)
    if name == "rappor":
        law = laws(randomizer)
        sent = math.fsum(chance for _, chance in law[0])
        hit = math.fsum(chance for bits, chance in law[0] if bits[0]) / sent
        noise = math.fsum(chance for bits, chance in law[0] if bits[1]) / sent
        q = rate * sent
    else:
        q, counts = rate, counts[:1] if name == "rr" else counts
    found = estimator_of(randomizer).estimate(counts, reports, SampleDesign(rate))
    for count, value, stderr in zip(counts, found.values, found.stderrs, strict=True):
        assert value == pytest.approx((count - reports * noise) / (q * (hit - noise)), rel=1e-9, abs=1e-9 * reports)
        holders = min(max(value, 0.0), reports / q)
        held = hit * (1 - hit) / (q * (hit - noise) ** 2) + (1 - q) / q
        other = noise * (1 - noise) / (q * (hit - noise) ** 2)
        variance = holders * held + (reports / q - holders) * other
        assert stderr**2 == pytest.approx(variance, rel=1e-6, abs=1e-9 * reports / q)


# Simulated batches


def senders(
    truth: Sequence[int], design: SampleDesign, runs: int, rng: np.random.Generator
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Per run and answer how many devices take part; per run how many dummies are sent."""
    devices = np.array(truth)
    rates = [design.rate_of(answer) for answer in range(len(truth))]
    real = rng.binomial(devices, rates, (runs, len(truth)))
    return real, rng.binomial((devices - real).sum(axis=1), design.dummy_probability)


def one_hot_runs(
    randomizer: LocalMethod, truth: Sequence[int], design: SampleDesign, runs: int
) -> Iterator[tuple[list[int], int]]:
    """Counts and reports of krr and of rr."""
    rng = np.random.default_rng(5)
    real, dummies = senders(truth, design, runs, rng)
    hit, noise = (float(one) for one in randomizer.output_probabilities())
    k = len(truth)
    counts = rng.multinomial(dummies, [1 / k] * k)
    for answer in range(k):
        law = np.where(np.arange(k) == answer, hit, noise)
        counts = counts + rng.multinomial(real[:, answer], law / law.sum())
    for row in counts.tolist():
        yield (row[1:] if isinstance(randomizer, Rr) else row), sum(row)


def rappor_runs(
    rappor: Rappor, truth: Sequence[int], design: SampleDesign, runs: int
) -> Iterator[tuple[list[int], int]]:
    """Counts and reports of RAPPOR, from single bits. A device whose output lies beyond the bound may send a dummy."""
    rng = np.random.default_rng(6)
    flip = float(rappor.output_probabilities()[1])
    answers = np.repeat(np.eye(len(truth), dtype=bool), truth, axis=0)
    rates = np.repeat([design.rate_of(answer) for answer in range(len(truth))], truth)
    for _ in range(runs):
        bits = answers ^ (rng.random(answers.shape) < flip)
        takes = (rng.random(len(answers)) < rates) & (bits.sum(axis=1) <= rappor.max_weight)
        dummies = int(rng.binomial(np.count_nonzero(~takes), design.dummy_probability))
        fill = rng.random((4 * dummies + 40, len(truth))) < flip
        fitting = fill[fill.sum(axis=1) <= rappor.max_weight][:dummies]
        assert len(fitting) == dummies
        yield (bits[takes].sum(axis=0) + fitting.sum(axis=0)).tolist(), int(takes.sum()) + dummies


def flips_runs(
    shares: Flips, values: Sequence[int], design: SampleDesign, runs: int
) -> Iterator[tuple[list[int], int]]:
    """Sums and reports of one-cell noise shares and of histograms; ``values`` are encoded."""
    rng = np.random.default_rng(7)
    answers = np.array(values)
    rates = np.array([design.rate_of(one) for one in values])
    one_hot = shares.statistic == "histogram"
    rows = np.eye(shares.cells, dtype=np.int64)[answers] if one_hot else answers[:, None]
    for _ in range(runs):
        takes = rng.random(len(answers)) < rates
        dummies = int(rng.binomial(np.count_nonzero(~takes), design.dummy_probability))
        reports = int(takes.sum()) + dummies
        noise = rng.binomial(reports * shares.flips, 0.5, shares.cells)
        total = shares.scale * (rows[takes].sum(axis=0) + dummies * shares.neutral) + noise
        yield total.tolist(), reports


def check_runs(
    randomizer: Method,
    runs: Iterator[tuple[list[int], int]],
    truth: Sequence[float],
    expected: Sequence[float],
    design: SampleDesign,
    *,
    tight: bool = True,
) -> None:
    """Means within five standard errors of the truth, spreads within five of theirs of what is expected; where errors
    are not upper bounds, the reported variances are the true ones up to that too (2 % for what clipping does)."""
    found = [estimator_of(randomizer).estimate(counts, reports, design) for counts, reports in runs]
    values = np.array([one.values for one in found])
    count = len(values)
    errors = np.array(expected)
    assert np.all(np.abs(values.mean(axis=0) - truth) < FIVE * errors / math.sqrt(count))
    ratio = values.std(axis=0) / errors
    assert np.all(np.abs(ratio - 1) < FIVE * 1.1 / math.sqrt(2 * count)), ratio
    reported = np.sqrt((np.array([one.stderrs for one in found]) ** 2).mean(axis=0)) / errors
    assert np.all(reported > 1 - 0.02), reported
    if tight:
        assert np.all(reported < 1 + 0.02), reported


@pytest.mark.false_alarm(1e-5, "twelve normals beyond five")
@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS)
def test_simulated_histograms_are_unbiased_with_the_stated_spread(design: SampleDesign) -> None:
    krr = randomizer_from("krr", 1.5, 6)
    truth = [3000, 900, 500, 400, 150, 50]
    expected = estimator_of(krr).expected_stderrs(truth, sum(truth), design)
    check_runs(krr, one_hot_runs(krr, truth, design, 3000), truth, expected, design)


@pytest.mark.false_alarm(1e-5, "two normals beyond five")
@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS)
def test_simulated_bits_are_unbiased_with_the_stated_spread(design: SampleDesign) -> None:
    rr = randomizer_from("rr", 1, 2)
    expected = estimator_of(rr).expected_stderrs([1200], 5000, design)
    check_runs(rr, one_hot_runs(rr, [3800, 1200], design, 3000), [1200], expected, design)


@pytest.mark.false_alarm(1e-5, "eight normals beyond five")
@pytest.mark.parametrize("design", [DUMMIES, BOTH, LAST], ids=["dummies", "both", "other default"])
def test_simulated_rappor_is_unbiased_with_the_stated_spread(design: SampleDesign) -> None:
    rappor = randomizer_from("rappor", 2, 4, 2)
    assert isinstance(rappor, Rappor)
    truth = [1100, 600, 250, 50]
    expected = estimator_of(rappor).expected_stderrs(truth, sum(truth), design)
    check_runs(rappor, rappor_runs(rappor, truth, design, 1000), truth, expected, design)


SHARES = Flips("sum", 2, 60, 20, 1, low=-8, unit=2)
ABOVE = Flips("sum", 1, 60, 20, 1, low=40, unit=5)
MEAN = Flips("mean", 1, 200, 20, 1, low=40, unit=5)
AT_ZERO = SampleDesign(0.6, default=4, default_rate=0.1, dummy_probability=0.2)


@pytest.mark.false_alarm(1e-5, "normals beyond five")
@pytest.mark.parametrize(
    ("shares", "design"),
    [
        (Flips("histogram", 4, 40, 1, 5), DUMMIES),
        (Flips("histogram", 4, 40, 1, 5), BOTH),
        (Flips("count", 4, 40, 1, 1), DUMMIES),
        (Flips("count", 4, 40, 1, 1), BOTH),
        (Flips("count", 4, 40, 1, 1), LAST),
        (SHARES, DUMMIES),
        (SHARES, AT_ZERO),
        (ABOVE, DUMMIES),
        (MEAN, DUMMIES),
        (Flips("mean", 1, 200, 20, 1, low=-8, unit=1), DUMMIES),
    ],
    ids=lambda one: one.statistic if isinstance(one, Flips) else "",
)
def test_simulated_noise_shares_are_unbiased_with_the_stated_spread(shares: Flips, design: SampleDesign) -> None:
    rng = np.random.default_rng(8)
    categories = shares.cells if shares.statistic == "histogram" else shares.maximum + 1
    values = rng.choice(categories, 3000, p=rng.dirichlet(np.full(categories, 2.0)))
    if design.default is not None:
        values[:1800] = design.default
    real = float(shares.low) + float(shares.unit) * values
    truth, squares, tight = [float(real.sum())], [float((real * real).sum())], False
    if shares.statistic == "mean":
        truth = [float(real.mean())]
    elif shares.maximum == 1:
        tight = True
        truth = squares = np.bincount(values, minlength=categories)[-shares.cells :].astype(float).tolist()
    holders = float(np.count_nonzero(values == design.default))
    expected = FlipsEstimator(shares).expected_stderrs(truth, len(values), design, squares, holders)
    check_runs(shares, flips_runs(shares, values.tolist(), design, 1500), truth, expected, design, tight=tight)


def test_forgotten_dummies_or_rates_would_be_noticed() -> None:
    krr = randomizer_from("krr", 1.5, 6)
    truth = [3000, 900, 500, 400, 150, 50]
    for wrong in (DUMMIES, PLAIN, SampleDesign(0.6, 0, 0.12, 0.2), SampleDesign(0.6, 0, 0.1, 0.15)):
        expected = estimator_of(krr).expected_stderrs(truth, sum(truth), BOTH)
        with pytest.raises(AssertionError):
            check_runs(krr, one_hot_runs(krr, truth, BOTH, 1000), truth, expected, wrong)


# Refusals


@pytest.mark.parametrize(
    ("randomizer", "default", "named"),
    [
        (randomizer_from("krr", 1, 3), 3, "from 0 to 2"),
        (randomizer_from("rappor", 1, 3, 3), 3, "from 0 to 2"),
        (randomizer_from("rr", 1, 2), 2, "from 0 to 1"),
        (Flips("histogram", 4, 40, 1, 3), 3, "from 0 to 2"),
        (Flips("count", 4, 40, 1, 1), 2, "from 0 to 1"),
        (Flips("mean", 4, 40, 9, 1), 0, "for a mean"),
        (Flips("vector-sum", 4, 40, 9, 3), 0, "for a vector-sum"),
        (Flips("sum", 4, 40, 9, 1, low=-2), 0, "stand for 0, not for -2"),
        (Flips("sum", 4, 40, 9, 1), 10, "from 0 to 9"),
    ],
)
def test_a_default_that_an_estimate_cannot_bear_is_refused(randomizer: Method, default: int, named: str) -> None:
    counts = [1] * randomizer.cells
    with pytest.raises(ValueError, match=named):
        estimator_of(randomizer).estimate(counts, len(counts), SampleDesign(0.5, default, 0.1))
    if isinstance(randomizer, Flips):
        with pytest.raises(ValueError, match=named):
            estimator_of(randomizer).expected_stderrs([1.0] * randomizer.cells, 10, SampleDesign(0.5, default, 0.1))


@pytest.mark.parametrize("bad", [(0.0,), (1.5,), (0.5, 0, 0.0), (0.5, 0), (0.5, None, 0.1), (0.5, None, None, 1.0)])
def test_a_design_with_impossible_probabilities_is_refused(bad: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match=r"must be|belong together"):
        SampleDesign(*bad)
