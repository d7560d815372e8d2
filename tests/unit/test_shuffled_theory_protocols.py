"""The protocols zsum and hist as the paper states them, and that simulation cell by cell has the same law."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chi2_contingency, chisquare

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.shuffled.protocols import THE_MESSAGE, Hist, Zsum, run, shuffle
from infra.lab.shuffled.simulation import Lost, uniform_counts, words
from tacit.dp.shuffled_counts import delta_hist, delta_zsum, paper_lambda
from tacit.methods.base.draws import ONE

CHANCE = 1e-6
"""With which one chi-square test fails although the laws are equal."""


def merged(table: list[list[int]], least: int) -> list[list[int]]:
    """Neighbouring columns of a table of counts added up until each row's sum over a column is at least ``least``."""
    columns: list[list[int]] = []
    pending = [0] * len(table)
    for column in zip(*table, strict=True):
        pending = [a + b for a, b in zip(pending, column, strict=True)]
        if sum(pending) >= least:
            columns.append(pending)
            pending = [0] * len(table)
    columns[-1] = [a + b for a, b in zip(columns[-1], pending, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]


def test_a_user_sends_its_bit_and_a_noise_message_of_probability_p_as_drawn() -> None:
    cell = Zsum(10, 2.5)
    assert cell.p == 0.75
    assert Fraction(cell._withheld, ONE) == Fraction(1, 4)
    lowest, highest = bytes, (lambda length: b"\xff" * length)
    assert [cell.randomise(value, lowest) for value in (0, 1)] == [(), (THE_MESSAGE,)]
    assert [cell.randomise(value, highest) for value in (0, 1)] == [(THE_MESSAGE,), (THE_MESSAGE,) * 2]


@given(st.floats(1e-6, 0.5), st.integers(1, 10**9))
def test_the_noise_as_drawn_is_never_less_than_stated_while_it_grows_with_lambda(share: float, users: int) -> None:
    cell = Zsum(users, share * users)
    exact = Fraction(share * users) / users
    assert 0 <= Fraction(cell._withheld, ONE) - exact < Fraction(1, 2**127)


def test_a_user_of_hist_sends_its_category_and_noise_in_every_one() -> None:
    histogram = Hist(Zsum(10, 2.5), 4)
    assert histogram.randomise(2, bytes) == (2,)
    assert histogram.randomise(2, lambda length: b"\xff" * length) == (0, 1, 2, 2, 3)


def test_totals_up_to_n_are_reported_as_nothing_and_others_less_the_expected_noise() -> None:
    cell = Zsum(10, 2.5)
    shares = [cell.analyse({THE_MESSAGE: total}) for total in (0, 10, 11, 20)]
    assert shares == pytest.approx([0, 0, 0.35, 1.25])
    assert cell.analyse({}) == 0
    assert Hist(cell, 3).analyse({0: 10, 2: 11}) == pytest.approx((0, 0, 0.35))


@pytest.mark.parametrize("total", [-1, 21])
def test_totals_that_n_users_cannot_send_and_other_messages_are_refused(total: int) -> None:
    cell = Zsum(10, 2.5)
    with pytest.raises(ValueError, match="from 0 to 20 messages"):
        cell.analyse({THE_MESSAGE: total})
    with pytest.raises(ValueError, match="every message must be 1"):
        cell.analyse({2: 1})
    with pytest.raises(ValueError, match="from 0 to 2"):
        Hist(cell, 3).analyse({3: 1})


def test_values_outside_the_domain_and_noise_that_n_users_cannot_make_are_refused() -> None:
    entropy = SeededEntropy(1)
    for noise in (0.0, 10.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="noise"):
            Zsum(10, noise)
    with pytest.raises(ValueError, match="0 or 1"):
        Zsum(10, 1).randomise(2, entropy)
    with pytest.raises(ValueError, match="from 0 to 2"):
        Hist(Zsum(10, 1), 3).randomise(3, entropy)
    with pytest.raises(ValueError, match="10 values"):
        run(Zsum(10, 1), [1] * 9, entropy)


def test_the_papers_lambda_is_taken_from_where_theorem_3_1_holds_on_and_the_exact_one_everywhere() -> None:
    assert Zsum.published(1, 1e-6, 1451).noise == pytest.approx(paper_lambda(1, 1e-6))
    with pytest.raises(ValueError, match="needs 1451 users"):
        Zsum.published(1, 1e-6, 1450)
    with pytest.raises(ValueError, match="up to 1 for each cell"):
        Zsum.published(1.5, 1e-6, 10**6)
    assert Hist.published(1, 1e-6, 10**5, 5).cell.noise == pytest.approx(paper_lambda(0.5, 5e-7))
    assert delta_zsum(1, 300, Zsum.exact(1, 1e-6, 300).noise) <= 1e-6
    assert delta_hist(1, 300, Hist.exact(1, 1e-6, 300, 5).cell.noise) <= 1e-6


@given(st.lists(st.lists(st.integers(0, 4), max_size=5), max_size=6), st.randoms(use_true_random=False))
def test_the_shuffler_shows_nothing_of_whose_message_is_whose(vectors: list[list[int]], random: object) -> None:
    everything = [message for vector in vectors for message in vector]
    random.shuffle(everything)  # type: ignore[attr-defined]
    assert shuffle(vectors) == shuffle([everything]) == Counter(everything)


def test_nobody_of_a_category_means_that_nothing_is_ever_reported_of_it() -> None:
    histogram = Hist(Zsum(12, 5), 3)
    for noise in itertools.product((0, 12), (0, 3, 12), (1, 12)):
        assert histogram.analyse(dict(enumerate(noise))) == (0, 0, 0)


@pytest.mark.false_alarm(2 * CHANCE, "two chi-square tests")
@pytest.mark.parametrize(("users", "noise"), [(40, 6.5), (150, 62.1)])
def test_a_cell_simulated_as_one_has_the_binomial_law_and_that_of_users_who_each_run_the_protocol(
    users: int, noise: float
) -> None:
    runs, ones = 3000, users // 3
    cell, entropy = Zsum(users, noise), SeededEntropy(users)
    values = [1] * ones + [0] * (users - ones)
    each = [len(list(shuffle(cell.randomise(value, entropy) for value in values).elements())) for _ in range(runs)]
    whole = [Lost(cell).totals([ones], entropy)[0] for _ in range(runs)]
    span = range(min(each + whole), max(each + whole) + 1)
    table = merged([[sample.count(total) for total in span] for sample in (each, whole)], 60)
    assert chi2_contingency(table).pvalue > CHANCE
    drawn = Lost(cell).draw(200_000, entropy)
    found = [drawn.count(lost) for lost in range(users + 1)]
    expected = binom.pmf(range(users + 1), users, noise / users) * len(drawn)
    some = [at for at in range(users + 1) if expected[at] > 20]
    rest = len(drawn) - sum(found[at] for at in some), len(drawn) - sum(expected[at] for at in some)
    goodness = chisquare([*(found[at] for at in some), rest[0]], [*(expected[at] for at in some), rest[1]])
    assert goodness.pvalue > CHANCE


@pytest.mark.false_alarm(3 * CHANCE, "three chi-square tests")
def test_a_histogram_simulated_in_its_cells_has_the_law_of_users_who_each_run_the_protocol() -> None:
    histogram, entropy, runs = Hist(Zsum(12, 3.5), 3), SeededEntropy(3), 4000
    counts = [7, 0, 5]
    values = [at for at, count in enumerate(counts) for _ in range(count)]
    lost = Lost(histogram.cell)
    each = [run(histogram, values, entropy) for _ in range(runs)]
    whole = [tuple(lost.shares(counts, entropy)) for _ in range(runs)]
    assert all(shares[1] == 0 for shares in each + whole)
    for samples in (
        ([shares[0] for shares in each], [shares[0] for shares in whole]),
        ([shares[2] for shares in each], [shares[2] for shares in whole]),
        ([shares[0] + 2 * shares[2] for shares in each], [shares[0] + 2 * shares[2] for shares in whole]),
    ):
        kinds = sorted({round(share, 9) for sample in samples for share in sample})
        rounded = [Counter(round(share, 9) for share in sample) for sample in samples]
        table = merged([[found[kind] for kind in kinds] for found in rounded], 60)
        assert chi2_contingency(table).pvalue > CHANCE


@pytest.mark.false_alarm(2 * CHANCE, "two chi-square tests")
def test_counts_of_equally_likely_values_are_drawn_uniformly() -> None:
    entropy = SeededEntropy(5)
    for values in (6, 100):
        counts = uniform_counts(60_000, values, entropy)
        assert sum(counts) == 60_000
        assert chisquare(counts).pvalue > CHANCE
    assert uniform_counts(7, 1, entropy) == [7]
    assert uniform_counts(0, 3, entropy) == [0, 0, 0]
    with pytest.raises(ValueError, match="from 1 to 128"):
        uniform_counts(7, 129, entropy)


def test_words_are_the_bytes_of_the_source_in_order() -> None:
    assert list(words(2, lambda length: bytes(range(length)))) == [
        int.from_bytes(bytes(range(8)), "little"),
        int.from_bytes(bytes(range(8, 16)), "little"),
    ]
