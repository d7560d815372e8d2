"""The lower bound on errors of local protocols, and that neither its steps nor real protocols contradict it."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.lab.measure.lower_bound import information_bound, law_error_bound, share_error_bound
from tacit.methods.succinct_histogram.projection import FrequencyOracle
from tacit.methods.succinct_histogram.signs import BasicRandomizer

SHARES = st.floats(1e-4, 1)


def information(laws: np.ndarray, share: float) -> float:
    """The nats that an output tells about a uniform row, whose law it has with probability ``share``."""
    mean = laws.mean(axis=0)
    mixed = share * laws + (1 - share) * mean
    return float((mixed * np.log(mixed / mean)).sum(axis=1).mean())


@given(st.lists(st.lists(st.integers(1, 50), min_size=3, max_size=3), min_size=2, max_size=5), SHARES)
def test_no_randomizer_tells_more_than_the_bound_says(weights: list[list[int]], share: float) -> None:
    laws = np.array([[float(Fraction(weight, sum(row))) for weight in row] for row in weights])
    epsilon = float(np.log(laws.max(axis=0) / laws.min(axis=0)).max())
    if epsilon > 1e-6:
        assert information(laws, share) <= information_bound(share, epsilon) * (1 + 1e-9) + 1e-12


@given(st.floats(0.01, 8), SHARES)
def test_the_basic_randomizer_tells_less_than_the_bound_and_at_small_epsilon_half_as_much(
    epsilon: float, share: float
) -> None:
    kept = float(BasicRandomizer(Decimal(repr(epsilon)), 1).kept())
    told = information(np.array([[kept, 1 - kept], [1 - kept, kept]]), share)
    assert told <= information_bound(share, epsilon)
    if epsilon < 0.05:
        assert told == pytest.approx(information_bound(share, epsilon) / 2, rel=0.1)


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("reports", [10**6, 10**8])
def test_for_small_epsilon_it_is_the_papers_rate_with_the_constant_of_the_derivation(bits: int, reports: int) -> None:
    items, epsilon = 2**bits, 0.1
    rate = math.sqrt(math.log(items) / reports) / epsilon
    of_many = 2 / (3 * math.sqrt(3)) * (1 - math.log(2) / math.log(items)) ** 1.5
    assert law_error_bound(epsilon, items, reports) == pytest.approx(of_many * rate, rel=0.02)


def test_it_falls_with_epsilon_and_reports_and_grows_with_the_domain() -> None:
    bounds = [share_error_bound(epsilon, 2**32, 10**5) for epsilon in (0.1, 0.5, 1, 2, 4)]
    assert bounds == sorted(bounds, reverse=True)
    assert share_error_bound(1, 2**32, 10**5) < share_error_bound(1, 2**32, 10**4)
    assert share_error_bound(1, 2**32, 10**5) > share_error_bound(1, 2**16, 10**5)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 40.0])
@pytest.mark.parametrize("items", [2, 256, 2**32, 2**64])
@pytest.mark.parametrize("reports", [1, 1000, 10**8])
def test_it_is_a_number_from_0_to_a_half_and_shares_are_easier_than_the_law(
    epsilon: float, items: int, reports: int
) -> None:
    assert 0 <= share_error_bound(epsilon, items, reports) <= law_error_bound(epsilon, items, reports) <= 0.5


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1", "2", "4"])
def test_what_the_frequency_oracle_guarantees_lies_above_it(epsilon: str) -> None:
    """The oracle's bound holds with probability 1 - beta; beyond it the error is c at most."""
    for bits, reports in ((8, 10**4), (32, 10**5), (48, 10**6)):
        beta = 0.01
        oracle = FrequencyOracle(Decimal(epsilon), 1 << bits, reports, beta, bytes(16))
        assert share_error_bound(float(epsilon), 1 << bits, reports) < oracle.error_bound(reports)


@pytest.mark.parametrize(("epsilon", "items", "reports"), [(0.0, 2, 1), (41.0, 2, 1), (1.0, 1, 1), (1.0, 2, 0)])
def test_what_is_no_protocol_is_refused(epsilon: float, items: int, reports: int) -> None:
    for bound in (law_error_bound, share_error_bound):
        with pytest.raises(ValueError, match="must be"):
            bound(epsilon, items, reports)
