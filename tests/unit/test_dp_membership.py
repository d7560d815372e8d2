"""What the number of messages tells of one device's attributes, against sums over every composition of few devices."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tacit.dp.hidden_count import SendingRates
from tacit.dp.membership import membership_epsilon
from tests.unit.test_dp_hidden_count import Law, stick
from tests.unit.test_dp_unfilled import counted, mixed

FLOOR = 10_947


def uniform(q: float) -> SendingRates:
    return SendingRates(q, q)


def told(law: Law, s: float, epsilon: float) -> float:
    """The larger delta between the messages of some devices with and without one more that sends with s."""
    return stick(counted(law, s), counted(law, 0.0), epsilon)


@pytest.mark.parametrize(("audience", "q"), [(50, 0.5), (1000, 0.5), (1000, 0.01), (3000, 0.9), (200, 0.2)])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_with_one_rate_it_is_what_two_binomial_laws_tell_and_no_more(audience: int, q: float, delta: float) -> None:
    epsilon = membership_epsilon(audience, uniform(q), delta)
    law = stats.binom.pmf(np.arange(audience), audience - 1, q)
    if math.isinf(epsilon):
        assert told(law, q, 10.0) > delta
        return
    assert told(law, q, epsilon) <= delta
    assert told(law, q, epsilon * (1 - 1e-6)) > delta


@pytest.mark.parametrize("audience", [1, 2, 5, 20, 65])
@pytest.mark.parametrize(("q", "q0"), [(0.5, 0.05), (0.3, 0.29), (0.9, 0.3), (0.99, 0.5)])
@pytest.mark.parametrize("delta", [0.2, 1e-2])
def test_with_importance_sampling_it_is_the_worst_over_every_composition_of_the_audience_and_either_rate_of_the_device(
    audience: int, q: float, q0: float, delta: float
) -> None:
    epsilon = membership_epsilon(audience, SendingRates(q, q0), delta)
    laws = [mixed(high, q, audience - 1 - high, q0) for high in range(audience)]

    def worst(at: float) -> float:
        return max(told(law, s, at) for law in laws for s in (q, q0))

    if math.isinf(epsilon):
        assert worst(10.0) > delta
        return
    assert worst(epsilon) <= delta
    if epsilon > 1e-3:
        assert worst(epsilon * (1 - 1e-6)) > delta


@pytest.mark.parametrize(("q0", "expected"), [(0.05, 0.0789), (0.01, 0.186)])
def test_the_default_answer_of_nearly_everybody_hides_less_than_one_rate_for_all(q0: float, expected: float) -> None:
    epsilon = membership_epsilon(FLOOR, SendingRates(0.5, q0), 1e-6)
    law = stats.binom.pmf(np.arange(FLOOR), FLOOR - 1, q0)
    assert told(law, 0.5, epsilon) <= 1e-6 < told(law, 0.5, epsilon * (1 - 1e-6))
    assert epsilon == pytest.approx(expected, rel=6e-3)
    assert epsilon > 1.5 * membership_epsilon(FLOOR, uniform(0.5), 1e-6)


def test_dummies_of_the_audience_tell_of_it_too() -> None:
    rare = membership_epsilon(10_000, SendingRates(0.01, 0.01), 1e-6)
    assert membership_epsilon(10_000, SendingRates(0.01, 0.01, dummy=0.05), 1e-6) > 2 * rare


def test_many_devices_and_a_rate_away_from_one_hide_who_is_asked() -> None:
    assert membership_epsilon(10_000, uniform(0.5), 1e-6) < 0.06
    assert membership_epsilon(10_000, uniform(0.01), 1e-6) < 0.008
    assert membership_epsilon(10_000, uniform(0.99), 1e-6) > 0.4
    assert membership_epsilon(10_000, uniform(1.0), 1e-6) == math.inf
    sizes = [membership_epsilon(audience, uniform(0.5), 1e-6) for audience in (1, 2, 10, 50, 100, 1000, 10**6)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == math.inf


@pytest.mark.parametrize(("audience", "delta"), [(0, 1e-6), (10, 0.0)])
def test_parameters_out_of_range_are_named(audience: int, delta: float) -> None:
    with pytest.raises(ValueError, match=r"audience|delta"):
        membership_epsilon(audience, uniform(0.5), delta)
