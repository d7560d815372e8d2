"""The accountant against published numbers and against oracles that sum or integrate everything."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from scipy.stats import binom

from tacit.dp.amplification import delta_fmt21, delta_fmt22, epsilon_fmt21, epsilon_fmt22
from tacit.dp.binomial import binomial_window, log_pmf
from tacit.dp.rr_exact import (
    delta_one_cell,
    delta_two_cells,
    epsilon_one_cell,
    epsilon_two_cells,
    rappor_flip,
    rr_flip,
)

TABLE = [
    (10**3, 1, 0.1886, 0.2306, 0.1628),
    (10**3, 2, 0.4971, 0.6840, 0.4158),
    (10**3, 4, 2.8497, 3.9999, 2.6180),
    (10**3, 6, 6.0, 6.0, 6.0),
    (10**4, 1, 0.0565, 0.0689, 0.0470),
    (10**4, 2, 0.1460, 0.1966, 0.1127),
    (10**4, 4, 0.5145, 0.7546, 0.4044),
    (10**4, 6, 2.0424, 5.9976, 1.9142),
    (10**5, 1, 0.0169, 0.0206, 0.0139),
    (10**5, 2, 0.0437, 0.0588, 0.0328),
    (10**5, 4, 0.1507, 0.2149, 0.1097),
    (10**5, 6, 0.4474, 0.6570, 0.3440),
    (10**6, 1, 0.0050, 0.0061, 0.0041),
    (10**6, 2, 0.0130, 0.0176, 0.0097),
    (10**6, 4, 0.0451, 0.0642, 0.0320),
    (10**6, 6, 0.1318, 0.1895, 0.0948),
]


def close(value: float, target: float) -> bool:
    """Within half a per cent of a target printed to four decimals."""
    return abs(value - target) <= 0.005 * target + 0.00005


def clones_oracle(epsilon: float, epsilon0: float, n: int, r: float) -> float:
    """The clones bound summed over every pair (clones, clones that look like 1), nothing cut."""
    p = math.exp(epsilon0) / (math.exp(epsilon0) + 1)
    total = 0.0
    for c in range(n):
        a = np.arange(c + 2)
        up, stay = binom.pmf(a - 1, c, 0.5), binom.pmf(a, c, 0.5)
        excess = p * up + (1 - p) * stay - math.exp(epsilon) * ((1 - p) * up + p * stay)
        total += float(binom.pmf(c, n - 1, r) * np.maximum(excess, 0).sum())
    return total


def count_distribution(n: int, ones: int, own: int, f: float) -> np.ndarray:
    """The count of ones among n flipped bits, by convolution."""
    others = n - 1
    low = binom.pmf(np.arange(others - ones + 1), others - ones, f)
    high = binom.pmf(np.arange(ones + 1), ones, 1 - f)
    bit = np.array([1 - f, f]) if own == 0 else np.array([f, 1 - f])
    return np.convolve(np.convolve(low, high), bit)


def one_cell_oracle(epsilon: float, f: float, n: int) -> float:
    """Worst over every number of other ones and both directions."""
    worst = 0.0
    for ones in range(n):
        p, q = (count_distribution(n, ones, own, f) for own in (1, 0))
        for first, second in ((p, q), (q, p)):
            worst = max(worst, float(np.maximum(first - math.exp(epsilon) * second, 0).sum()))
    return worst


def two_cell_oracle(epsilon: float, f: float, n: int, first: int, second: int) -> float:
    """Both changed cells as one two-dimensional distribution."""
    p = np.outer(count_distribution(n, first, 1, f), count_distribution(n, second, 0, f))
    q = np.outer(count_distribution(n, first, 0, f), count_distribution(n, second, 1, f))
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def test_example_four_of_the_paper_by_both_bounds() -> None:
    assert close(epsilon_fmt22(4, 10**4, 1e-10), 0.6053)
    assert close(epsilon_fmt21(4, 10**4, 1e-10), 0.8939)


@pytest.mark.parametrize(("n", "epsilon0", "fmt22", "fmt21", "exact"), TABLE)
def test_the_table_of_epsilons_at_delta_1e_8(n: int, epsilon0: int, fmt22: float, fmt21: float, exact: float) -> None:
    assert close(epsilon_fmt22(epsilon0, n, 1e-8), fmt22)
    assert close(epsilon_fmt21(epsilon0, n, 1e-8), fmt21)
    assert close(epsilon_one_cell(rr_flip(epsilon0), n, 1e-8), exact)


@pytest.mark.parametrize("epsilon0", [0.1, 1.0, 2.5, 5.0])
@pytest.mark.parametrize("n", [1, 2, 3, 17, 120])
def test_clones_bound_equals_the_full_double_sum(epsilon0: float, n: int) -> None:
    for fraction in (0.0, 0.05, 0.3, 0.7, 0.99):
        epsilon = fraction * epsilon0
        for bound, r in (
            (delta_fmt22, 2 / (math.exp(epsilon0) + 1)),
            (delta_fmt21, math.exp(-epsilon0)),
        ):
            exact = clones_oracle(epsilon, epsilon0, n, r)
            value = bound(epsilon, epsilon0, n)
            assert exact * (1 - 1e-9) <= value <= exact * (1 + 1e-8) + 1e-16


def test_clones_bound_is_an_upper_bound_whatever_tail_is_cut() -> None:
    exact = delta_fmt22(0.5, 3.0, 5000)
    for tail in (1e-3, 1e-6, 1e-10):
        assert exact <= delta_fmt22(0.5, 3.0, 5000, tail=tail) <= exact + 2 * tail + 1e-12


@pytest.mark.parametrize("n", [1, 2, 500, 10**6])
def test_epsilon_keeps_delta_and_never_exceeds_the_local_epsilon(n: int) -> None:
    for epsilon0 in (0.001, 0.5, 3.1, 9.0, 40.0):
        for delta in (1e-12, 1e-6, 0.3):
            epsilon = epsilon_fmt22(epsilon0, n, delta)
            assert 0 <= epsilon <= epsilon0
            assert epsilon == epsilon0 or delta_fmt22(epsilon, epsilon0, n) <= delta
            tighter = epsilon * (1 - 1e-5)
            assert epsilon == 0 or delta_fmt22(tighter, epsilon0, n) > delta * (1 - 1e-3)


def test_more_reports_and_less_local_epsilon_never_cost_more() -> None:
    by_n = [epsilon_fmt22(3.0, n, 1e-8) for n in (10, 30, 100, 1000, 20_000)]
    assert by_n == sorted(by_n, reverse=True)
    by_epsilon0 = [epsilon_fmt22(e, 1000, 1e-8) for e in (0.2, 1.0, 2.0, 3.0, 5.0)]
    assert by_epsilon0 == sorted(by_epsilon0)


@pytest.mark.parametrize("n", [2, 3, 9, 30, 75])
@pytest.mark.parametrize("epsilon0", [0.5, 2.0, 4.0])
def test_one_cell_covers_every_choice_of_the_others(n: int, epsilon0: float) -> None:
    f = rr_flip(epsilon0)
    for fraction in (0.02, 0.2, 0.5, 0.9):
        exact = one_cell_oracle(fraction * epsilon0, f, n)
        value = delta_one_cell(fraction * epsilon0, f, n)
        assert exact * (1 - 1e-9) <= value <= exact * 1.02 + 1e-16


@pytest.mark.parametrize("n", [2, 5, 12])
@pytest.mark.parametrize("epsilon0", [1.0, 3.0, 6.0])
def test_two_cells_cover_every_choice_of_the_others(n: int, epsilon0: float) -> None:
    f = rappor_flip(epsilon0)
    for fraction in (0.05, 0.3, 0.8):
        epsilon = fraction * epsilon0
        pairs = [(a, b) for a in range(n) for b in range(n - a)]
        exact = max(two_cell_oracle(epsilon, f, n, a, b) for a, b in pairs)
        value = delta_two_cells(epsilon, f, n)
        assert exact * (1 - 1e-9) <= value <= exact * 1.03 + 1e-16


def test_rappor_by_deletion_and_by_replacement() -> None:
    f = 1 / (math.exp(4) + 1)
    assert close(epsilon_one_cell(f, 10**4, 1e-10), 0.4857)
    assert close(epsilon_two_cells(f, 10**4, 1e-10, others_hold_neither=True), 0.6114)
    gentler = 1 / (math.exp(2) + 1)
    assert close(epsilon_two_cells(gentler, 10**4, 1e-10, others_hold_neither=True), 0.1844)


def test_rappor_costs_more_when_all_others_hold_the_category_that_is_left() -> None:
    f, n, delta = 1 / (math.exp(4) + 1), 400, 1e-6
    quoted = epsilon_two_cells(f, n, delta, others_hold_neither=True)
    worst = epsilon_two_cells(f, n, delta)
    assert worst > 1.02 * quoted
    assert two_cell_oracle(quoted, f, n, n - 1, 0) > delta
    assert two_cell_oracle(worst, f, n, n - 1, 0) <= delta


def test_exact_aggregates_survive_extreme_flip_probabilities() -> None:
    for f in (1e-17, 1e-6, 0.499999):
        for n in (1, 2, 50, 10**5):
            assert 0 <= epsilon_one_cell(f, n, 1e-9) <= math.log((1 - f) / f)
            assert 0 <= epsilon_two_cells(f, n, 1e-9) <= 2 * math.log((1 - f) / f)


@pytest.mark.parametrize(("n", "p"), [(1, 0.3), (7, 0.999), (200, 0.01), (10**6, 0.4), (10**6, 1e-5)])
def test_binomial_probabilities_agree_with_scipy_and_windows_cut_what_they_say(n: int, p: float) -> None:
    low, values = binomial_window(n, p, 1e-15)
    assert math.fsum(values) == pytest.approx(1, abs=5e-12)
    expected = binom.pmf(np.arange(low, low + len(values)), n, p)
    assert np.allclose(values, expected, rtol=1e-8, atol=1e-30)
    for k in {0, n // 3, n}:
        assert log_pmf(k, n, p) == pytest.approx(float(binom.logpmf(k, n, p)), rel=1e-9, abs=1e-9)


BAD_FLOATS = [math.nan, math.inf, -math.inf]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        *((partial(epsilon_fmt22, bad, 10, 1e-6), "epsilon0") for bad in [*BAD_FLOATS, 0.0, -1.0, 41.0]),
        *((partial(epsilon_fmt22, 1.0, bad, 1e-6), "n") for bad in [0, -5, 10**10]),
        *((partial(epsilon_fmt22, 1.0, 10, bad), "delta") for bad in [*BAD_FLOATS, 0.0, 1.0, -0.1, 1e-16]),
        *((partial(delta_fmt22, bad, 1.0, 10), "epsilon") for bad in [*BAD_FLOATS, -0.1]),
        *((partial(delta_one_cell, 0.1, bad, 10), "f") for bad in [*BAD_FLOATS, 0.0, 0.5, 1.0]),
        *((partial(epsilon_two_cells, 0.1, 10, bad), "delta") for bad in [*BAD_FLOATS, 0.0, 1.0]),
    ],
)
def test_a_parameter_out_of_range_is_refused_by_name(call: partial[float], name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name} must"):
        call()


def test_a_number_of_reports_that_is_no_integer_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^n must be an integer"):
        epsilon_fmt22(1.0, 10.5, 1e-6)
