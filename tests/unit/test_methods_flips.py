"""Noise shares at the device: bounds, encoders, unbiased estimates, and errors that cover what they say.

Seeds are fixed; over their choice a statistical test here fails with probability at most 1e-5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.lab.kit.entropy import SeededEntropy
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.statistics import StatisticName
from tacit.methods.estimators.flips import FlipsEstimator
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.flips import Flips
from tacit.methods.randomisers.registry import device_randomiser_of
from tacit.recipe.encoder import MISSING, NumberEncoder, VectorEncoder, shrunk
from tacit.recipe.encoder_specs import Number, Vector
from tests.kit.statistics import NORMAL_95, normality, z_scores

ALPHA = 1e-5
RUNS = 400


@given(
    st.integers(1, 50), st.integers(1, 300), st.integers(1, 1000), st.integers(1, 5), st.data(), st.binary(max_size=8)
)
def test_no_output_leaves_the_range_that_is_proved(
    scale: int, flips: int, maximum: int, cells: int, data: st.DataObject, seed: bytes
) -> None:
    shares = Flips("vector-sum", scale, flips, maximum, cells)
    answer = tuple(data.draw(st.lists(st.integers(0, maximum), min_size=cells, max_size=cells)))
    sent = device_randomiser_of(shares).randomise(answer, SeededEntropy(seed))
    assert isinstance(sent, list)
    for value, number in zip(answer, sent, strict=True):
        assert scale * value <= number <= scale * value + flips
    assert max(sent) <= shares.largest


def test_a_category_becomes_one_noisy_cell_and_others_of_noise_alone() -> None:
    shares = Flips("histogram", 100, 8, 1, 4)
    sent = device_randomiser_of(shares).randomise(2, SeededEntropy(1))
    assert isinstance(sent, list)
    assert [number >= 100 for number in sent] == [False, False, True, False]
    assert isinstance(device_randomiser_of(Flips("count", 5, 8, 1, 1)).randomise(1, SeededEntropy(1)), int)


@pytest.mark.parametrize(
    ("statistic", "scale", "flips", "maximum", "cells", "named"),
    [
        ("sum", 0, 8, 10, 1, "scale"),
        ("sum", 1, 0, 10, 1, "flips"),
        ("sum", 1, 70_000, 10, 1, "flips"),
        ("sum", 1, 8, 0, 1, "maximum"),
        ("sum", 1 << 20, 8, 1 << 20, 1, "at most"),
        ("mean", 1, 8, 10, 2, "one cell"),
        ("histogram", 1, 8, 2, 4, "maximum must be 1"),
        ("vector-sum", 1, 8, 2, 0, "cells"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(
    statistic: StatisticName, scale: int, flips: int, maximum: int, cells: int, named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        Flips(statistic, scale, flips, maximum, cells)


@pytest.mark.parametrize(("statistic", "answer"), [("sum", 11), ("sum", -1), ("histogram", 4), ("vector-sum", (1,))])
def test_answers_out_of_range_are_refused_and_never_sent(
    statistic: StatisticName, answer: int | tuple[int, ...]
) -> None:
    cells = 1 if statistic == "sum" else 4
    shares = Flips(statistic, 2, 8, 1 if statistic == "histogram" else 10, cells)
    with pytest.raises(ValueError, match="from 0 to"):
        device_randomiser_of(shares).randomise(answer, SeededEntropy(0))


def test_sums_that_no_reports_can_have_are_refused() -> None:
    shares = Flips("sum", 2, 8, 10, 1)
    assert estimator_of(shares).estimate([28 * 5], 5, SampleDesign(0.5)).values[0] > 0
    for counts, n, q in (([28 * 5 + 1], 5, 0.5), ([-1], 5, 0.5), ([1, 2], 5, 0.5), ([1], 0, 0.5), ([1], 5, 0.0)):
        with pytest.raises(ValueError, match="must"):
            estimator_of(shares).estimate(counts, n, SampleDesign(q))


def runs_of(shares: Flips, values: Sequence[int], q: float, seed: int) -> tuple[list[list[float]], list[list[float]]]:
    """z-scores of many runs by the exact standard deviation and by the reported one. ``values`` are encoded."""
    rng = np.random.default_rng(seed)
    encoded = np.asarray(values)
    real = shares.low + shares.unit * encoded
    truth = [float(real.mean() if shares.statistic == "mean" else real.sum())]
    known = estimator_of(shares).expected_stderrs(truth, encoded.size, SampleDesign(q), [float((real * real).sum())])
    exact, reported = [], []
    for _ in range(RUNS):
        joined = encoded[rng.random(encoded.size) < q]
        total = shares.scale * int(joined.sum()) + int(rng.binomial(joined.size * shares.flips, 0.5))
        found = estimator_of(shares).estimate([total], joined.size, SampleDesign(q))
        exact.append(z_scores(found.values, truth, known))
        reported.append(z_scores(found.values, truth, found.stderrs))
    return exact, reported


CASES: list[tuple[Flips, float, bool]] = [
    (Flips("count", 5, 18, 1, 1), 0.5, True),
    (Flips("sum", 1, 120, 20, 1, low=-10), 1.0, True),
    (Flips("sum", 1, 120, 20, 1, low=-100, unit=10), 0.4, False),
    (Flips("mean", 1, 120, 20, 1, low=40, unit=5), 0.5, False),
    (Flips("mean", 3, 900, 20, 1), 1.0, True),
]


@pytest.mark.false_alarm(3 * ALPHA, "four corrected tests, and the coverage beyond 4.3 deviations")
@pytest.mark.parametrize(("shares", "q", "tight"), CASES, ids=[f"{case[0].statistic} at {case[1]}" for case in CASES])
def test_estimates_are_unbiased_and_their_errors_cover_the_truth(shares: Flips, q: float, tight: bool) -> None:
    rng = np.random.default_rng(9)
    values = rng.integers(0, shares.maximum + 1, 600).tolist()
    exact, reported = runs_of(shares, values, q, 11)
    assert normality(exact, coverage_slack=0.01).smallest() > ALPHA, normality(exact)
    covered = sum(abs(run[0]) <= NORMAL_95 for run in reported) / RUNS
    assert covered > 0.95 - 4.3 * math.sqrt(0.95 * 0.05 / RUNS)
    if tight:
        assert covered < 0.95 + 4.3 * math.sqrt(0.95 * 0.05 / RUNS)


def test_a_forgotten_mean_of_the_flips_is_caught() -> None:
    shares = Flips("sum", 1, 120, 20, 1)
    lying = Flips("sum", 1, 118, 20, 1)
    values = [3] * 600
    exact, _ = runs_of(shares, values, 0.5, 3)
    assert normality(exact).smallest() > ALPHA
    rng = np.random.default_rng(3)
    truth, known = [1800.0], estimator_of(shares).expected_stderrs([1800.0], 600, SampleDesign(0.5), [5400.0])
    wrong = []
    for _ in range(RUNS):
        n = int(rng.binomial(600, 0.5))
        found = estimator_of(lying).estimate([3 * n + int(rng.binomial(120 * n, 0.5))], n, SampleDesign(0.5))
        wrong.append(z_scores(found.values, truth, known))
    assert normality(wrong).smallest() < ALPHA


def test_the_reported_error_of_a_sum_is_the_largest_that_its_mean_allows() -> None:
    sums = FlipsEstimator(Flips("sum", 1, 4, 20, 1, low=-10))
    half = SampleDesign(0.5)
    extreme = sums.expected_stderrs([0.0], 100, half, [100 * 100.0])
    assert sums.expected_stderrs([0.0], 100, half) == pytest.approx(extreme)
    assert sums.expected_stderrs([0.0], 100, half, [0.0])[0] == pytest.approx(sums.sum_errors(50, half).noise)


@given(st.lists(st.integers(-200, 200), min_size=1, max_size=12), st.integers(1, 300))
def test_a_shrunk_vector_is_never_longer_than_its_bound_nor_much_shorter(entries: list[int], norm: int) -> None:
    found = shrunk(entries, norm)
    squares = sum(entry * entry for entry in entries)
    assert sum(entry * entry for entry in found) <= norm * norm
    if squares <= norm * norm:
        assert found == entries
        return
    for before, after in zip(entries, found, strict=True):
        assert abs(after) <= abs(before)
        assert after * before >= 0
        assert abs(abs(after) - abs(before) * norm / math.sqrt(squares)) < 1 + 1e-9


@given(st.lists(st.integers(-500, 500), min_size=3, max_size=3), st.integers(1, 100))
def test_every_vector_has_an_encoding_in_range(entries: list[int], norm: int) -> None:
    spec = Vector(kind="vector", length=3, low=-40, high=60, norm=norm)
    found = VectorEncoder(spec).encode(",".join(map(str, entries)))
    assert found == VectorEncoder(spec).encode(entries)
    assert found is not MISSING
    assert all(0 <= entry <= spec.maximum for entry in found)
    assert sum((entry + spec.least) ** 2 for entry in found) <= norm * norm


def test_rows_that_are_no_vector_are_missing() -> None:
    encoder = VectorEncoder(Vector(kind="vector", length=2, low=-4, high=4, norm=4))
    assert encoder.encode("1.6, -9") == (5, 1), "2 and -4 are longer than 4: 1.79 and -3.58, towards 0"
    for value in ("1", "1,2,3", "a,b", None, 7, [1, None], [True, 1], ["nan", 1], [[1], 2]):
        assert encoder.encode(value) is MISSING  # type: ignore[arg-type]
    assert encoder.encode([float("inf"), -(10**400)]) == (6, 2), "4 and -4, shrunk to 2 and -2"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("-50", 0),
        ("-51", 0),
        ("9999", 20),
        ("0", 10),
        ("2.4", 10),
        (2.6, 11),
        (True, None),
        (float("inf"), 20),
        ("1e999", 20),
        ("-1e999", 0),
        (float("nan"), None),
        ("x", None),
    ],
)
def test_numbers_are_clipped_and_rounded_to_units(value: object, expected: int | None) -> None:
    encoder = NumberEncoder(Number(kind="number", low=-50, high=50, unit=5), ("sum",))
    assert encoder.labels == ("sum",)
    assert encoder.encode(value) == expected  # type: ignore[arg-type]
