"""Statistics of the randomizers on seeded streams.

Each test is deterministic; ``ALPHA`` is its false-alarm rate over the choice of seeds, 1e-5 unless it says
otherwise, so that a change of seed or of the draw order fails by chance about once in ten thousand edits.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import pytest
from scipy.stats import beta, binom, chisquare

from infra.lab.kit.entropy import SeededEntropy
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.method import Method
from tacit.methods.estimators.cell_model import CellModel
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.krr import Krr
from tacit.methods.randomisers.registry import device_randomiser_of
from tacit.methods.randomisers.unary import RapporRandomiser
from tacit.methods.rappor import Rappor
from tacit.ports import Entropy
from tests.kit.methods import randomizer_from
from tests.kit.statistics import Normality, mean_and_error, normality, two_sided, z_scores

ALPHA = 1e-5


class Stream:
    """One long seeded stream cut into pieces: the same bytes as drawing them one by one, much faster."""

    def __init__(self, seed: str, size: int) -> None:
        self._data = SeededEntropy(seed.encode())(size)
        self._at = 0

    def __call__(self, length: int, /) -> bytes:
        piece = self._data[self._at : self._at + length]
        assert len(piece) == length
        self._at += length
        return piece


def empirical_epsilon(
    draw: Callable[[int, Entropy], object], inputs: tuple[int, int], outcome: object, seed: str, size: int
) -> float:
    """A lower bound on the local epsilon from ``size`` draws per input, at confidence 1 - ALPHA.

    Clopper-Pearson: the outcome is at least this likely for the first input and at most that likely for the
    second (each at ALPHA/2).
    """
    entropy = Stream(seed, size * 2 * 1024)
    hits = [sum(draw(value, entropy) == outcome for _ in range(size)) for value in inputs]
    low = beta.ppf(ALPHA / 2, hits[0], size - hits[0] + 1)
    high = beta.ppf(1 - ALPHA / 2, hits[1] + 1, size - hits[1])
    return float(math.log(low / high))


@pytest.mark.false_alarm(ALPHA, "chi-square")
def test_krr_outputs_follow_their_distribution() -> None:
    krr = Krr(epsilon0=randomizer_from("krr", 1.5, 5).epsilon0, categories=5)
    size = 20_000
    entropy = Stream("krr-chi", 32 * size)
    counts = Counter(device_randomiser_of(krr).randomise(3, entropy) for _ in range(size))
    true, other = (float(p) for p in krr.output_probabilities())
    expected = [size * (true if cell == 3 else other) for cell in range(5)]
    assert chisquare([counts[cell] for cell in range(5)], expected).pvalue > ALPHA


@pytest.mark.false_alarm(ALPHA, "four binomial tails of a quarter each")
def test_rr_outputs_follow_their_distribution() -> None:
    rr = randomizer_from("rr", 0.7, 2)
    size = 20_000
    entropy = Stream("rr", 16 * 2 * size)
    for bit in (0, 1):
        ones = sum(device_randomiser_of(rr).randomise(bit, entropy) == 1 for _ in range(size))
        p = float(rr.output_probabilities()[0 if bit else 1])
        assert binom.cdf(ones, size, p) > ALPHA / 4
        assert binom.sf(ones - 1, size, p) > ALPHA / 4


@pytest.mark.false_alarm(ALPHA, "chi-square")
def test_rappor_bits_flip_independently_and_rejection_has_its_stated_rate() -> None:
    rappor = Rappor(epsilon0=randomizer_from("rr", 2.0, 2).epsilon0, categories=4, max_weight=2)
    size = 20_000
    entropy = Stream("rappor", 16 * 4 * size)
    patterns = Counter(
        None if bits is None else tuple(bits)
        for bits in (RapporRandomiser(rappor).randomise(1, entropy) for _ in range(size))
    )
    keep, flip = (float(p) for p in rappor.output_probabilities())
    expected: dict[tuple[int, ...] | None, float] = {None: size * rappor.reject_probability}
    for number in range(16):
        bits = tuple(number >> cell & 1 for cell in range(4))
        if sum(bits) <= 2:
            chance = math.prod(keep if bit == (cell == 1) else flip for cell, bit in enumerate(bits))
            expected[bits] = size * chance
    assert math.fsum(expected.values()) == pytest.approx(size)
    keys = list(expected)
    assert set(patterns) <= set(keys)
    assert chisquare([patterns[key] for key in keys], [expected[key] for key in keys]).pvalue > ALPHA


@pytest.mark.parametrize("max_weight", [1, 2, 3, 5])
def test_rejection_does_not_depend_on_the_answer(max_weight: int) -> None:
    rappor = randomizer_from("rappor", 1.0, 5, max_weight)
    keep, flip = (float(p) for p in rappor.output_probabilities())
    for category in range(5):
        total = 0.0
        for number in range(32):
            bits = [number >> cell & 1 for cell in range(5)]
            if sum(bits) > max_weight:
                total += math.prod(keep if b == (c == category) else flip for c, b in enumerate(bits))
        assert rappor.reject_probability == pytest.approx(total, abs=1e-15)


@pytest.mark.false_alarm(ALPHA, "a Clopper-Pearson bound")
@pytest.mark.parametrize("name", ["krr", "rr", "rappor"])
def test_an_audit_finds_no_more_than_epsilon0(name: str) -> None:
    epsilon0 = 1.2
    randomizer = randomizer_from(name, epsilon0, 2 if name == "rr" else 3, 3 if name == "rappor" else None)
    outcome: object = {"krr": 1, "rr": 1, "rappor": [0, 1, 0]}[name]
    inputs = {"krr": (1, 0), "rr": (1, 0), "rappor": (1, 2)}[name]
    found = empirical_epsilon(device_randomiser_of(randomizer).randomise, inputs, outcome, "audit-" + name, 6000)
    assert 0.6 * epsilon0 < found <= epsilon0


def test_the_audit_catches_a_randomizer_with_half_its_noise() -> None:
    sound = randomizer_from("krr", 1.2, 3)

    def broken(category: int, entropy: Entropy) -> object:
        noisy = device_randomiser_of(sound).randomise(category, entropy)
        return category if entropy(1)[0] & 1 else noisy

    assert empirical_epsilon(broken, (1, 0), 1, "audit-broken", 6000) > 1.2


def simulate(randomizer: Method, truth: list[int], q: float, seed: str) -> tuple[list[int], int]:
    """Counts and number of reports of one run: every device tosses its coin, then randomises."""
    entropy = Stream(seed, sum(truth) * (8 + 16 * max(2, len(truth))))
    counts, reports = [0] * randomizer.cells, 0
    for category, devices in enumerate(truth):
        for _ in range(devices):
            if int.from_bytes(entropy(8), "big") >= q * 2**64:
                continue
            output = device_randomiser_of(randomizer).randomise(category, entropy)
            if output is None:
                continue
            reports += 1
            if randomizer.NAME == "krr":
                counts[int(output)] += 1  # type: ignore[arg-type]
            elif isinstance(output, list):
                counts = [a + b for a, b in zip(counts, output, strict=True)]
            else:
                counts[0] += output
    return counts, reports


def many_runs(name: str, epsilon0: float, truth: list[int], q: float, runs: int) -> tuple[Normality, Normality]:
    """z-scores by the standard deviation at the true counts, and by the reported standard errors."""
    max_weight = 2 if name == "rappor" else None
    randomizer = randomizer_from(name, epsilon0, len(truth), max_weight)
    cells = truth[1:] if name == "rr" else truth
    true, reported, estimator = [], [], estimator_of(randomizer)
    for run in range(runs):
        counts, reports = simulate(randomizer, truth, q, f"{name}-{run}")
        estimate = estimator.estimate(counts, reports, SampleDesign(q))
        expected = estimator.expected_stderrs(cells, sum(truth), SampleDesign(q))
        true.append(z_scores(estimate.values, cells, expected))
        reported.append(z_scores(estimate.values, cells, estimate.stderrs))
    return normality(true), normality(reported, coverage_slack=0.02)


@pytest.mark.false_alarm(2 * ALPHA, "four corrected tests, one of the coverage, one normal beyond five")
@pytest.mark.parametrize(
    ("name", "epsilon0", "truth", "q"),
    [
        ("krr", 2.0, [120, 60, 20, 0], 0.5),
        ("krr", 1.0, [150, 50], 1.0),
        ("rappor", 2.0, [100, 80, 20, 0], 0.6),
        ("rr", 1.0, [140, 60], 0.4),
    ],
)
def test_estimates_are_unbiased_with_the_stated_spread(name: str, epsilon0: float, truth: list[int], q: float) -> None:
    by_truth, by_report = many_runs(name, epsilon0, truth, q, 200)
    assert by_truth.smallest() > ALPHA, by_truth
    assert by_report.coverage > ALPHA, by_report
    assert abs(by_report.mean_square - 1) < 5 * math.sqrt(2 / 200)


def test_ignoring_the_coin_in_the_error_bar_would_be_noticed() -> None:
    randomizer = randomizer_from("krr", 3.0, 3)
    truth, q, runs = [200, 80, 20], 0.3, 200
    keep, other = (float(p) for p in randomizer.output_probabilities())
    wrong = []
    for run in range(runs):
        counts, reports = simulate(randomizer, truth, q, f"coin-{run}")
        values = estimator_of(randomizer).estimate(counts, reports, SampleDesign(q)).values
        held = keep * (1 - keep) / (q * (keep - other) ** 2)
        noise = other * (1 - other) / (q * (keep - other) ** 2)
        stderrs = [math.sqrt(x * held + (300 - x) * noise) for x in truth]
        wrong.append(z_scores(values, truth, stderrs))
    assert normality(wrong).spread < ALPHA


def test_the_variance_formula_is_the_sum_over_devices() -> None:
    rate = 0.4
    model = CellModel(hit=0.7, noise=0.1, design=SampleDesign(rate))

    def term(p: float) -> float:
        mean = rate * (p - model.noise)
        square = rate * (p * (1 - model.noise) ** 2 + (1 - p) * model.noise**2)
        return square - mean**2

    exact = (30 * term(model.hit) + 70 * term(model.noise)) / (rate * (model.hit - model.noise)) ** 2
    assert model.stderrs([30], 100) == pytest.approx([math.sqrt(exact)])


def test_noiseless_counts_at_rate_one_are_returned_as_they_are() -> None:
    estimate = estimator_of(randomizer_from("krr", 40, 3)).estimate([5, 0, 7], 12, SampleDesign(1.0))
    assert estimate.values == pytest.approx((5, 0, 7), abs=1e-9)
    assert max(estimate.stderrs) < 1e-6


def test_estimates_are_not_clipped_but_their_errors_stay_real() -> None:
    estimate = estimator_of(randomizer_from("krr", 0.5, 4)).estimate([0, 0, 0, 9], 9, SampleDesign(0.5))
    assert estimate.values[0] < 0
    assert estimate.values[3] > 18
    assert sum(estimate.values) == pytest.approx(18)
    assert all(error > 0 for error in estimate.stderrs)


@pytest.mark.parametrize(
    ("counts", "n", "q", "name"),
    [
        ([1, 2], 3, 0.5, "counts"),
        ([1, 2, 1], 3, 0.5, "counts"),
        ([-1, 2, 2], 3, 0.5, "counts"),
        ([0, 0, 4], 3, 0.5, "counts"),
        ([0, 0, 0], 0, 0.5, "n"),
        ([1, 1, 1], 3, 0.0, "q"),
        ([1, 1, 1], 3, 1.1, "q"),
        ([1, 1, 1], 3, math.nan, "q"),
    ],
)
def test_an_impossible_aggregate_is_refused_by_name(counts: list[int], n: int, q: float, name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name} must"):
        estimator_of(randomizer_from("krr", 1.0, 3)).estimate(counts, n, SampleDesign(q))


def test_rappor_refuses_more_ones_than_the_weight_bound_allows() -> None:
    with pytest.raises(ValueError, match="max_weight"):
        estimator_of(randomizer_from("rappor", 1.0, 3, 1)).estimate([3, 3, 3], 3, SampleDesign(1.0))


def test_statistics_accept_normal_scores_and_reject_shifted_or_scaled_ones() -> None:
    entropy = SeededEntropy(b"normal")

    def normal() -> float:
        return math.fsum(int.from_bytes(entropy(4), "big") / 2**32 for _ in range(12)) - 6

    runs = [[normal() for _ in range(8)] for _ in range(60)]
    assert normality(runs).smallest() > ALPHA
    assert normality([[z + 0.9 for z in run] for run in runs]).bias < ALPHA
    assert normality([[1.6 * z for z in run] for run in runs]).spread < ALPHA
    assert normality([[abs(z) for z in run] for run in runs]).shape < ALPHA
    assert normality([[0.0] * 8] * 60).spread == 0.0


def test_statistics_refuse_ragged_runs() -> None:
    with pytest.raises(ValueError, match="equal length"):
        normality([[0.0], [0.0, 1.0]])
    with pytest.raises(ValueError, match="non-empty"):
        normality([])


def test_mean_and_error_of_a_single_value() -> None:
    assert mean_and_error([2.0]) == (2.0, 0.0)
    assert two_sided(0) == 1
