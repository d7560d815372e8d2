"""The Gaussian mechanism against direct integration of the hockey stick."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from tacit.dp import gaussian
from tacit.dp.solve import smallest_epsilon

Density = Callable[[float], Any]


def integrated(epsilon: float, p: Density, q: Density, low: float, high: float) -> float:
    """Hockey stick of two densities by quadrature: nothing of the closed forms."""

    def gap(x: float) -> float:
        return max(float(p(x)) - math.exp(epsilon) * float(q(x)), 0.0)

    value, _ = integrate.quad(gap, low, high, limit=2000, epsabs=0, epsrel=1e-10, points=[(low + high) / 2])
    return float(value)


@pytest.mark.parametrize(("epsilon", "sigma", "sensitivity"), [(1, 5.1, 1), (0.5, 2.0, 1), (3, 0.7, 1), (0, 1.5, 2)])
def test_delta_is_the_integral_of_the_hockey_stick(epsilon: float, sigma: float, sensitivity: float) -> None:
    top, bottom = stats.norm(sensitivity, sigma).pdf, stats.norm(0, sigma).pdf
    expected = integrated(epsilon, top, bottom, -2 * sigma, sensitivity + 12 * sigma)
    assert gaussian.delta_gaussian(epsilon, sigma, sensitivity) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("epsilon", "sigma", "q"), [(0.02628, 5.1, 0.02), (0.3, 1.0, 0.1), (1.0, 0.5, 0.01)])
def test_a_subsampled_release_is_the_larger_integral_of_both_directions(epsilon: float, sigma: float, q: float) -> None:
    bottom = stats.norm(0, sigma).pdf
    moved = stats.norm(1, sigma).pdf

    def mixed(x: float) -> float:
        return float((1 - q) * bottom(x) + q * moved(x))

    low, high = -12 * sigma, 1 + 12 * sigma
    expected = max(integrated(epsilon, mixed, bottom, low, high), integrated(epsilon, bottom, mixed, low, high))
    assert gaussian.delta_subsampled(epsilon, sigma, q) == pytest.approx(expected, rel=1e-5)


def test_the_published_calibrations_come_out() -> None:
    assert gaussian.sigma_gaussian(1, 1e-8) == pytest.approx(5.10031, rel=1e-6)
    assert gaussian.sigma_gaussian(1, 1e-8, 2) == pytest.approx(10.2006, rel=1e-5)
    assert gaussian.classical_sigma(1, 1e-8) == pytest.approx(6.1064, rel=1e-4)
    assert gaussian.sigma_subsampled(1, 1e-6, 1e-4) == pytest.approx(0.3562, rel=2e-4)


def test_a_sigma_of_five_point_one_does_not_quite_give_epsilon_one() -> None:
    assert gaussian.delta_gaussian(1, 5.1) > 1e-8
    assert gaussian.epsilon_gaussian(5.1, 1e-8) == pytest.approx(1.00006, rel=1e-5)


@pytest.mark.parametrize(
    ("rounds", "epsilon"), [(50, 8.343), (60, 9.260), (70, 10.119), (80, 10.933), (90, 11.710), (100, 12.456)]
)
def test_releases_compose_as_one_with_less_noise(rounds: int, epsilon: float) -> None:
    assert gaussian.epsilon_gaussian(5.1, 1e-8, 1.0, rounds) == pytest.approx(epsilon, abs=6e-4)


@settings(max_examples=40, deadline=None)
@given(st.floats(0.05, 8), st.floats(-12, -3), st.floats(0.001, 1))
def test_calibrating_and_accounting_returns_the_target(epsilon: float, exponent: float, q: float) -> None:
    delta = 10.0**exponent
    sigma = gaussian.sigma_subsampled(epsilon, delta, q)
    assert gaussian.delta_subsampled(epsilon, sigma, q) <= delta
    assert gaussian.delta_subsampled(epsilon, sigma * (1 - 1e-6), q) > delta


@settings(max_examples=40, deadline=None)
@given(st.floats(0.01, 5), st.floats(0.3, 50), st.floats(0.001, 1), st.floats(0.001, 1))
def test_delta_falls_with_epsilon_and_noise_and_grows_with_the_rate(
    epsilon: float, sigma: float, first: float, second: float
) -> None:
    low, high = sorted((first, second))
    assert gaussian.delta_subsampled(epsilon, sigma, low) <= gaussian.delta_subsampled(epsilon, sigma, high) + 1e-15
    assert gaussian.delta_gaussian(epsilon + 0.1, sigma) <= gaussian.delta_gaussian(epsilon, sigma)
    assert gaussian.delta_gaussian(epsilon, sigma * 1.1) <= gaussian.delta_gaussian(epsilon, sigma)


def test_the_logarithm_of_the_distribution_function_goes_on_where_the_function_ends() -> None:
    for x in (-5.0, -29.0, -31.0, -100.0, 3.0):
        assert gaussian.log_cdf(x) == pytest.approx(float(stats.norm.logcdf(x)), rel=1e-9)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_sigma_that_is_none_is_refused_by_name(bad: float) -> None:
    with pytest.raises(ValueError, match="sigma"):
        gaussian.delta_gaussian(1, bad)


def test_epsilon_is_found_where_two_deltas_are_a_rounding_apart() -> None:
    target = 1e-3
    above = math.nextafter(target, 1)
    found = smallest_epsilon(lambda epsilon: above if epsilon < 0.7 else target, target, 60.0)
    assert found == pytest.approx(0.7, rel=1e-6)
