"""The basic randomizer and the frequency oracle by random projection, against the paper's theorems."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from infra.lab.kit.entropy import SeededEntropy
from tacit.methods.base.draws import ONE, keep_threshold
from tacit.methods.succinct_histogram.projection import FrequencyOracle
from tacit.methods.succinct_histogram.signs import BasicRandomizer, SignReport, SignSums, sign_at
from tests.kit.statistics import mean_and_error
from tests.unit.device_path import classes
from tests.unit.test_methods_draws import e_to_the

ALPHA = 1e-6
"""False alarms per statistical test."""
EPSILONS = ["0.000001", "0.1", "1", "4", "40"]
SEED = b"a public seed of bytes"


def law(randomizer: BasicRandomizer, sign: int) -> dict[int, Fraction]:
    """The law of the sign that is reported, over every outcome of the draw."""
    found = {1: Fraction(0), -1: Fraction(0)}
    for drawn, share in classes((keep_threshold(randomizer.epsilon0, 1), ONE // 2), 1):
        found[randomizer.randomise(sign, lambda _size, drawn=drawn: drawn)] += share
    return found


@pytest.mark.parametrize("epsilon0", EPSILONS)
def test_no_sign_tells_more_than_epsilon0_whatever_the_coordinate_and_without_an_item_it_is_uniform(
    epsilon0: str,
) -> None:
    """Shows part 1 of theorem 2.1."""
    randomizer = BasicRandomizer(Decimal(epsilon0), 8)
    laws = [law(randomizer, sign) for sign in (1, -1, 0)]
    assert laws[2] == {1: Fraction(1, 2), -1: Fraction(1, 2)}
    for one, other in itertools.permutations(laws, 2):
        assert max(one[sign] / other[sign] for sign in one) <= e_to_the(Decimal(epsilon0))
    assert float(laws[0][1]) == pytest.approx(1 / (1 + math.exp(-float(epsilon0))), rel=1e-12)


@pytest.mark.parametrize("vector", [0b0000, 0b0110, 0b1111, None])
def test_the_mean_of_the_report_is_the_vector(vector: int | None) -> None:
    """Theorem 2.1, part 2: times the square root of m, exactly."""
    randomizer = BasicRandomizer(Decimal(1), 4)
    scale = 1 / (2 * randomizer.kept() - 1)
    for coordinate in range(4):
        sign = 0 if vector is None else sign_at(vector, coordinate)
        reported = law(randomizer, sign)
        chance = Fraction(1, randomizer.length)
        assert chance * scale * randomizer.length * (reported[1] - reported[-1]) == sign
    assert randomizer.scale == pytest.approx((math.e + 1) / (math.e - 1))


@pytest.mark.parametrize("sign", [1, -1, 0])
def test_a_sign_costs_one_draw_of_sixteen_bytes_with_an_item_and_without(sign: int) -> None:
    sizes: list[int] = []

    def entropy(size: int, /) -> bytes:
        sizes.append(size)
        return bytes(size)

    BasicRandomizer(Decimal(1), 4).randomise(sign, entropy)
    assert sizes == [16]


REPORTS = st.lists(st.builds(SignReport, st.integers(0, 69), st.sampled_from([1, -1])))


@given(REPORTS, st.integers(0, 2**70 - 1))
def test_sums_give_the_product_with_any_vector_and_the_nearest_vector_of_signs(
    reports: list[SignReport], vector: int
) -> None:
    sums = SignSums(70)
    for report in reports:
        sums.add(report)
    expected = [sum(sign for at, sign in reports if at == coordinate) for coordinate in range(70)]
    assert list(sums.sums) == expected
    assert sums.product(vector) == sum(value * sign_at(vector, at) for at, value in enumerate(expected))
    assert [sign_at(sums.rounded(), at) for at in range(70)] == [-1 if value < 0 else 1 for value in expected]


def test_a_product_counts_what_was_added_after_an_earlier_one() -> None:
    sums = SignSums(4)
    sums.add(SignReport(2, 1))
    assert (sums.product(0), sums.product(0b100)) == (1, -1)
    sums.add(SignReport(1, -1))
    assert (sums.product(0), sums.product(0b100)) == (0, -2)


@pytest.mark.false_alarm(ALPHA, "a binomial test at the bound's own rate")
def test_the_mean_of_products_deviates_no_more_often_than_claim_2_6_says() -> None:
    randomizer, reports, runs, beta = BasicRandomizer(Decimal(1), 16), 400, 2000, 0.2
    kept = np.random.default_rng(26).binomial(reports, float(randomizer.kept()), runs)
    means = randomizer.scale * (2 * kept - reports) / reports
    outside = int(np.sum(np.abs(means - 1) > randomizer.deviation(reports, beta)))
    assert binom.sf(outside - 1, runs, beta) > ALPHA


def oracle(**changes: Any) -> FrequencyOracle:
    """An oracle of 256 items, of which some members are changed."""
    members = {"epsilon0": Decimal(2), "items": 256, "reports": 1000, "beta": 0.1, "seed": SEED, **changes}
    return FrequencyOracle(**members)


@pytest.mark.parametrize(("epsilon0", "items", "reports", "beta"), [("1", 256, 1000, 0.05), ("4", 2**32, 100, 0.2)])
def test_the_matrix_has_the_rows_that_algorithm_2_says(epsilon0: str, items: int, reports: int, beta: float) -> None:
    gamma = math.sqrt(math.log(2 * items / beta) / (float(epsilon0) ** 2 * reports))
    rows = math.ceil(math.log(items + 1) * math.log(2 / beta) / gamma**2)
    assert FrequencyOracle(Decimal(epsilon0), items, reports, beta, SEED).rows == rows


@given(st.integers(0, 255), st.integers(0, 10**6))
def test_a_device_computes_one_sign_of_the_column_that_the_server_uses(item: int, row: int) -> None:
    one = oracle()
    row %= one.rows
    assert sign_at(one.column(item), row) == one.sign(item, row)
    assert one.column(item).bit_length() <= one.rows


def test_columns_of_other_items_and_seeds_agree_in_half_of_their_signs() -> None:
    one, other = oracle(), oracle(seed=bytes(16))
    columns = [*map(one.column, range(8)), *map(other.column, range(8))]
    for left, right in itertools.combinations(columns, 2):
        assert abs((left ^ right).bit_count() / one.rows - 0.5) < 6 / (2 * math.sqrt(one.rows))


def test_the_oracle_keeps_epsilon0_for_all_items_and_none_in_every_row() -> None:
    """Theorem 2.4, exactly: the row is public and the same for all."""
    one = oracle(epsilon0=Decimal("0.5"), items=5, reports=4)
    for row in range(one.rows):
        laws = []
        for item in (*range(5), None):
            found = {1: Fraction(0), -1: Fraction(0)}
            for drawn, share in classes((keep_threshold(one.epsilon0, 1), ONE // 2), 1):
                found[one.randomise(item, row, lambda _size, drawn=drawn: drawn)] += share
            laws.append(found)
        for left, right in itertools.permutations(laws, 2):
            assert max(left[sign] / right[sign] for sign in left) <= e_to_the(one.epsilon0)


def estimates(run: int, population: list[int | None], **changes: Any) -> tuple[FrequencyOracle, list[float]]:
    """All estimates of one run, with a matrix and reports of its own."""
    one, entropy = oracle(seed=b"matrix %010d" % run, **changes), SeededEntropy(b"reports %d" % run)
    sums = SignSums(one.rows)
    for item in population:
        sums.add(one.report(item, entropy))
    return one, [one.estimate(item, sums) for item in range(one.items)]


@pytest.mark.false_alarm(
    3 * ALPHA, "a binomial test at the theorem's own rate, two means beyond six estimated deviations"
)
def test_no_item_errs_more_than_theorem_2_5_says_and_estimates_are_unbiased() -> None:
    population: list[int | None] = [0] * 400 + [1] * 200 + [None] * 100 + list(range(2, 202)) + list(range(2, 102))
    truth = [population.count(item) / len(population) for item in range(256)]
    runs, beyond, first, absent = 40, 0, [], []
    for run in range(runs):
        one, found = estimates(run, population)
        worst = max(abs(estimate - share) for estimate, share in zip(found, truth, strict=True))
        bound = one.error_bound(len(population))
        beyond += worst > bound
        assert worst > bound / 5
        first.append(found[0])
        absent.append(found[255])
    assert binom.sf(beyond - 1, runs, 0.1) > ALPHA
    for measured, expected in ((first, 0.4), (absent, 0.0)):
        mean, error = mean_and_error(measured)
        assert abs(mean - expected) < 6 * error


@pytest.mark.parametrize(
    "changes",
    [
        {"items": 1},
        {"items": 2**64 + 1},
        {"reports": 0},
        {"beta": 0.0},
        {"beta": 1.0},
        {"seed": bytes(15)},
        {"seed": bytes(65)},
        {"epsilon0": Decimal(41)},
        {"epsilon0": Decimal(0)},
        {"reports": 2**32},
    ],
)
def test_an_oracle_out_of_range_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        oracle(**changes)


def test_what_no_device_of_the_protocol_has_or_sends_is_refused() -> None:
    one, entropy = oracle(), SeededEntropy(1)
    for item, row in ((256, 0), (-1, 0), (0, -1), (0, one.rows)):
        with pytest.raises(ValueError, match="must be from 0"):
            one.randomise(item, row, entropy)
    with pytest.raises(ValueError, match="1, -1 or 0"):
        one.randomizer.randomise(2, entropy)
    with pytest.raises(ValueError, match="2\\^32"):
        BasicRandomizer(Decimal(1), 0)
    sums = SignSums(one.rows)
    for report in (SignReport(-1, 1), SignReport(one.rows, 1), SignReport(0, 0), SignReport(0, 2)):
        with pytest.raises(ValueError, match="coordinate"):
            sums.add(report)
    with pytest.raises(ValueError, match="no reports"):
        one.estimate(0, sums)
