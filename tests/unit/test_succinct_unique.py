"""The unique heavy hitter, against the paper's theorems at sizes where they hold."""

from __future__ import annotations

import itertools
import math
from array import array
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from infra.lab.kit.entropy import SeededEntropy
from tacit.methods.base.draws import ONE, keep_threshold
from tacit.methods.succinct_histogram.signs import SignSums
from tacit.methods.succinct_histogram.unique import UniqueHitter
from tests.unit.device_path import classes
from tests.unit.test_methods_draws import e_to_the

ALPHA = 1e-6
"""False alarms per statistical test."""


def test_a_device_with_any_item_or_none_keeps_epsilon0_at_every_coordinate() -> None:
    """Shows theorem 3.1 with exact probabilities."""
    hitter = UniqueHitter(Decimal("0.7"), 2)
    for coordinate in range(hitter.code.length):
        laws = []
        for item in (*range(4), None):
            found = {1: Fraction(0), -1: Fraction(0)}
            for drawn, share in classes((keep_threshold(hitter.randomizer.epsilon0, 1), ONE // 2), 1):
                found[hitter.randomise(item, coordinate, lambda _size, drawn=drawn: drawn)] += share
            laws.append(found)
        for left, right in itertools.permutations(laws, 2):
            assert max(left[sign] / right[sign] for sign in left) <= e_to_the(Decimal("0.7"))


@pytest.mark.false_alarm(6 * ALPHA, "two binomial tests at the theorem's own rates, for three sizes")
@pytest.mark.parametrize(("bits", "reports", "item"), [(8, 1000, 0xA5), (16, 2000, 0xBEEF), (64, 20_000, 2**63 + 5)])
def test_an_item_of_a_sufficient_share_is_found_and_its_share_estimated_as_theorem_3_3_says(
    bits: int, reports: int, item: int
) -> None:
    hitter, beta, runs = UniqueHitter(Decimal(4), bits), 0.1, 12
    share = hitter.sufficient_share(reports, beta)
    holders, lost, far = round(share * reports), 0, 0
    for run in range(runs):
        entropy, sums = SeededEntropy(b"unique %d" % run), SignSums(hitter.code.length)
        for device in range(reports):
            sums.add(hitter.report(item if device < holders else None, entropy))
        lost += hitter.find(sums) != item
        far += abs(hitter.share(item, sums) - holders / reports) > hitter.randomizer.deviation(reports, beta)
    assert binom.sf(lost - 1, runs, beta) > ALPHA
    assert binom.sf(far - 1, runs, beta) > ALPHA


def simulated_failures(hitter: UniqueHitter, item: int, holders: int, reports: int, runs: int) -> int:
    """In how many populations the item is not found, their sums being drawn by their law."""
    generator, length = np.random.default_rng(33), hitter.code.length
    kept, failures = float(hitter.randomizer.kept()), 0
    signs = np.array([hitter.sign(item, at) for at in range(length)])
    for _ in range(runs):
        own = generator.multinomial(holders, np.full(length, 1 / length))
        others = generator.multinomial(reports - holders, np.full(length, 1 / length))
        sums = SignSums(length)
        right, heads = 2 * generator.binomial(own, kept) - own, 2 * generator.binomial(others, 0.5) - others
        sums.sums = array("i", map(int, signs * right + heads))
        failures += hitter.find(sums) != item
    return failures


@pytest.mark.false_alarm(9 * ALPHA, "a binomial test at the bound's own rate, for nine cases")
@pytest.mark.parametrize("epsilon0", ["0.5", "2", "8"])
@pytest.mark.parametrize(("bits", "item"), [(8, 7), (24, 0xABCDEF), (40, 2**39 + 12345)])
def test_the_bound_on_failures_is_one_and_a_fifth_of_a_sufficient_share_is_not_enough(
    epsilon0: str, bits: int, item: int
) -> None:
    hitter, beta, runs = UniqueHitter(Decimal(epsilon0), bits), 0.3, 200
    reports = math.ceil(2000 * hitter.randomizer.scale**2)
    holders = round(hitter.sufficient_share(reports, beta) * reports)
    assert hitter.failure_bound(holders, reports) <= beta < hitter.failure_bound(holders - 1, reports)
    assert binom.sf(simulated_failures(hitter, item, holders, reports, runs) - 1, runs, beta) > ALPHA
    assert simulated_failures(hitter, item, holders // 5, reports, runs) > runs / 2


def test_a_sufficient_share_falls_with_the_root_of_the_reports_and_is_infinite_where_there_is_none() -> None:
    hitter = UniqueHitter(Decimal(1), 32)
    shares = [hitter.sufficient_share(reports, 0.05) for reports in (10**4, 10**6, 10**8)]
    assert shares[0] / shares[1] == pytest.approx(10, rel=0.05)
    assert shares[1] / shares[2] == pytest.approx(10, rel=0.05)
    assert hitter.sufficient_share(10, 0.05) == math.inf
    assert hitter.failure_bound(10, 10) == 1


def test_a_sufficient_share_is_a_sixth_of_what_the_papers_proof_needs() -> None:
    hitter, reports, beta = UniqueHitter(Decimal(2), 16), 10**5, 0.05
    noise = hitter.randomizer.scale * math.sqrt(hitter.code.length / reports)
    assert hitter.sufficient_share(reports, beta) < 15 * noise / 6


def test_what_lies_outside_the_domain_is_refused() -> None:
    with pytest.raises(ValueError, match="1 to 64 bits"):
        UniqueHitter(Decimal(1), 65)
    hitter, entropy = UniqueHitter(Decimal(1), 8), SeededEntropy(1)
    with pytest.raises(ValueError, match="8 bits"):
        hitter.randomise(256, 0, entropy)
    with pytest.raises(ValueError, match="index"):
        hitter.randomise(0, hitter.code.length, entropy)
