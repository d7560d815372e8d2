"""Pauses after failures grow to a limit, differ between those who draw them, and never overflow."""

from __future__ import annotations

import pytest

from infra.lab.kit.entropy import SeededEntropy
from tacit.backoff import Backoff, uniform


@pytest.mark.parametrize(("earlier", "middle"), [(0, 4), (1, 8), (3, 32), (5, 100), (10**9, 100)])
def test_pauses_double_up_to_the_limit_and_spread_around_it(earlier: int, middle: float) -> None:
    backoff, entropy = Backoff(4, 100), SeededEntropy(1)
    drawn = [backoff.pause(earlier, entropy) for _ in range(200)]
    assert 0.5 * middle <= min(drawn) < 0.6 * middle
    assert 1.4 * middle < max(drawn) <= 1.5 * middle
    assert max(drawn) < backoff.most == 150


def test_a_first_pause_above_the_limit_is_held_to_it() -> None:
    assert Backoff(100, 4).pause(0, SeededEntropy(2)) < 6


def test_two_that_fail_at_the_same_moment_come_back_at_different_ones() -> None:
    drawn = {Backoff(1, 60).pause(0, SeededEntropy(seed)) for seed in range(100)}
    assert len(drawn) == 100


@pytest.mark.parametrize(("first", "longest"), [(0, 1), (1, 0), (-1, 1), (float("nan"), 1)])
def test_a_backoff_without_pauses_is_refused(first: float, longest: float) -> None:
    with pytest.raises(ValueError, match="above zero"):
        Backoff(first, longest)


def test_uniform_times_fill_their_range() -> None:
    drawn = [uniform(SeededEntropy(seed), 10, 20) for seed in range(500)]
    assert all(10 <= value < 20 for value in drawn)
    assert abs(sum(drawn) / len(drawn) - 15) < 0.5


@pytest.mark.parametrize("draw", [2**64 - 1, 2**64 - 2**11, 2**64 - 2**40])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (10.0, 20.0), (1.7e9, 1.7e9 + 0.1), (-3.0, -1.0)])
def test_the_largest_draws_are_below_the_end_of_the_range_whatever_is_rounded(
    low: float, high: float, draw: int
) -> None:
    assert low <= uniform(lambda length: draw.to_bytes(length, "big"), low, high) < high


def test_the_ends_of_a_range() -> None:
    assert uniform(bytes, 10, 20) == 10
    assert uniform(lambda length: b"\xff" * length, 10, 10) == 10
    assert Backoff(1, 60).pause(10, lambda length: b"\xff" * length) < Backoff(1, 60).most
