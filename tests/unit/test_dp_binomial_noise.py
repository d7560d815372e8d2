"""Noise in shares of coin flips: accounting against sums written out, shares against what they promise."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from infra.lab.kit.entropy import SeededEntropy
from tacit.dp.binomial_noise import NoiseShare, delta_noise, epsilon_noise, noise_share
from tacit.dp.gaussian import sigma_gaussian
from tacit.methods.base.draws import fair_flips


def summed(epsilon: float, total: int, step: int, cells: int) -> float:
    """The hockey stick over every outcome of one cell or of the pair of cells."""
    counts = np.arange(total + step + 1)
    still = stats.binom(total, 0.5).pmf(counts)
    moved = stats.binom(total, 0.5).pmf(counts - step)
    first, second = (moved, still) if cells == 1 else (np.outer(moved, still), np.outer(still, moved))
    growth = math.exp(epsilon)
    return float(max(np.maximum(first - growth * second, 0).sum(), np.maximum(second - growth * first, 0).sum()))


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 4), st.integers(1, 300), st.integers(1, 12), st.sampled_from([1, 2]))
def test_delta_is_the_sum_over_every_outcome(epsilon: float, total: int, step: int, cells: int) -> None:
    assert delta_noise(epsilon, total, step, cells) == pytest.approx(
        summed(epsilon, total, step, cells), rel=1e-7, abs=1e-15
    )


@pytest.mark.parametrize("cells", [1, 2])
@pytest.mark.parametrize(
    ("epsilon", "delta", "honest"), [(1, 1e-8, 5000), (0.5, 1e-8, 50_000), (1, 1e-6, 100), (4, 1e-6, 50)]
)
def test_a_share_gives_its_target_with_hardly_more_noise_than_a_gaussian(
    epsilon: float, delta: float, honest: int, cells: int
) -> None:
    share = noise_share(epsilon, delta, honest, cells=cells)
    assert delta_noise(epsilon, honest * share.flips, share.scale, cells) <= delta
    assert epsilon_noise(honest * share.flips, share.scale, delta, cells) <= epsilon * (1 + 1e-6)
    assert share.standard_deviation(honest) <= 1.12 * sigma_gaussian(epsilon, delta, math.sqrt(cells))


def test_more_devices_than_were_counted_on_only_hide_better() -> None:
    share = noise_share(1, 1e-8, 1000)
    assert delta_noise(1, 2000 * share.flips, share.scale) < 1e-12


def test_half_the_noise_is_noticed() -> None:
    share = noise_share(1, 1e-8, 1000)
    assert delta_noise(1, 1000 * share.flips // 4, share.scale) > 1e-6


def test_too_few_devices_for_a_bounded_share_are_refused() -> None:
    with pytest.raises(ValueError, match="more devices"):
        noise_share(0.01, 1e-10, 1)


def test_what_a_device_sends_is_bounded() -> None:
    share = NoiseShare(scale=12, flips=6)
    assert share.largest(1) == 18
    assert share.standard_deviation(5000) == pytest.approx(math.sqrt(30_000) / 24)


@pytest.mark.false_alarm(1e-6, "chi-square")
@pytest.mark.parametrize("flips", [1, 7, 8, 61])
def test_flips_follow_the_binomial_law(flips: int) -> None:
    """Chi-square over 20,000 draws; false alarm 1e-6 for each of the four."""
    entropy = SeededEntropy(b"flips")
    drawn = np.bincount([fair_flips(flips, entropy) for _ in range(20_000)], minlength=flips + 1)
    expected = 20_000 * stats.binom(flips, 0.5).pmf(np.arange(flips + 1))
    usual = expected >= 5
    observed = np.append(drawn[usual], drawn[~usual].sum())
    wanted = np.append(expected[usual], expected[~usual].sum())
    kept = wanted > 0
    statistic = float(((observed[kept] - wanted[kept]) ** 2 / wanted[kept]).sum())
    assert stats.chi2(kept.sum() - 1).sf(statistic) > 1e-6


def test_no_flips_are_no_noise_and_negative_ones_are_refused() -> None:
    assert fair_flips(0, os.urandom) == 0
    with pytest.raises(ValueError, match="flips"):
        fair_flips(-1, os.urandom)


def test_a_step_far_beyond_the_noise_has_no_epsilon_and_costs_no_work() -> None:
    assert epsilon_noise(10**9, 1 << 20, 1e-6, 2) == math.inf
    assert epsilon_noise(100, 31, 1e-6) == math.inf
    assert epsilon_noise(100, 30, 1e-6) > 20


def test_wide_ranges_get_a_share_at_scale_one_or_a_refusal() -> None:
    share = noise_share(1, 1e-6, 50, step=100)
    assert share.scale == 1
    assert epsilon_noise(50 * share.flips, 100, 1e-6) <= 1 < epsilon_noise(50 * (share.flips - 1), 100, 1e-6)
    with pytest.raises(ValueError, match="more devices"):
        noise_share(1, 1e-6, 50, step=1000)
