"""What a batch's size tells about one device's attributes: checked against the exact binomial distributions."""

from __future__ import annotations

import math

import pytest

from tacit.dp.binomial import log_pmf
from tacit.dp.membership import membership_epsilon


def divergence(first: list[float], second: list[float], epsilon: float) -> float:
    """The delta of (epsilon, delta) between two distributions, one way."""
    return math.fsum(max(0.0, one - math.exp(epsilon) * other) for one, other in zip(first, second, strict=True))


def binomial(devices: int, q: float, length: int) -> list[float]:
    return [math.exp(log_pmf(m, devices, q)) if m <= devices else 0.0 for m in range(length)]


@pytest.mark.parametrize(("audience", "q"), [(50, 0.5), (1000, 0.5), (1000, 0.01), (3000, 0.9), (200, 0.2)])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_the_stated_epsilon_holds_both_ways(audience: int, q: float, delta: float) -> None:
    epsilon = membership_epsilon(audience, q, delta)
    larger, smaller = (binomial(devices, q, audience + 1) for devices in (audience, audience - 1))
    assert divergence(larger, smaller, epsilon) <= delta
    assert divergence(smaller, larger, epsilon) <= delta


def test_many_devices_and_a_rate_away_from_one_hide_who_is_asked() -> None:
    assert membership_epsilon(10_000, 0.5, 1e-6) < 0.06
    assert membership_epsilon(10_000, 0.01, 1e-6) < 0.008
    assert membership_epsilon(10_000, 0.99, 1e-6) > 0.4
    assert membership_epsilon(10_000, 1.0, 1e-6) == math.inf
    sizes = [membership_epsilon(audience, 0.5, 1e-6) for audience in (1, 2, 10, 50, 100, 1000, 10**6)]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(("audience", "q", "delta"), [(0, 0.5, 1e-6), (10, 0.0, 1e-6), (10, 1.5, 1e-6), (10, 0.5, 0.0)])
def test_parameters_out_of_range_are_named(audience: int, q: float, delta: float) -> None:
    with pytest.raises(ValueError, match=r"audience|rate|delta"):
        membership_epsilon(audience, q, delta)
