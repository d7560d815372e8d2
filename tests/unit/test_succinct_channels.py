"""The paper's succinct histogram, with whole and with one-bit reports: its privacy exactly, its theorems where they
hold."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from scipy.stats import chisquare

from infra.lab.kit.entropy import SeededEntropy
from tacit.methods.base.draws import ONE, keep_threshold
from tacit.methods.succinct_histogram.channels import Components, Frequent, SuccinctHistogram
from tacit.methods.succinct_histogram.one_bit import OneBit
from tacit.methods.succinct_histogram.signs import SignReport, SignSums
from tests.unit.device_path import Law, classes
from tests.unit.test_methods_draws import e_to_the

ALPHA = 1e-6
"""False alarms per statistical test."""
SEED = b"a public seed of bytes"


class ChannelSums:
    """What a server keeps: the sums of some channels, and the oracle's."""

    def __init__(self, histogram: SuccinctHistogram, channels: Iterable[int]) -> None:
        self.histogram = histogram
        chosen = {*channels, histogram.oracle_channel}
        self.sums = {channel: SignSums(histogram.randomizer_of(channel).length) for channel in sorted(chosen)}

    def add(self, report: Components) -> None:
        """Count one report, which has a component in every channel."""
        for channel, sums in self.sums.items():
            sums.add(report[channel])

    def frequent(self) -> list[Frequent]:
        """The items that a channel gives and that the oracle puts above its error bound, the most frequent first."""
        oracle = self.sums[self.histogram.oracle_channel]
        threshold = self.histogram.oracle.error_bound(oracle.reports)
        found = {self.histogram.unique.find(sums) for sums in self.sums.values() if sums is not oracle}
        shares = (Frequent(item, self.histogram.oracle.estimate(item, oracle)) for item in found if item is not None)
        return sorted((one for one in shares if one.share >= threshold), key=lambda one: (-one.share, one.item))


def histogram(**changes: Any) -> SuccinctHistogram:
    """A histogram of items of eight bits, of which some members are changed."""
    members = {"epsilon0": Decimal(14), "bits": 8, "reports": 2000, "beta": 0.1, "seed": SEED, **changes}
    return SuccinctHistogram(**members)


def test_repetitions_channels_and_parts_of_epsilon_are_those_of_algorithm_5() -> None:
    one = histogram(beta=0.05, reports=10_000)
    assert one.repetitions == math.ceil(math.log(60)) == 5
    assert 10_000**1.5 <= 2**one.channel_bits < 2 * 10_000**1.5
    assert (one.parts, histogram(beta=0.05, exact_budget=True).parts) == (11, 6)
    assert one.oracle_channel == 5 * 2**one.channel_bits
    part = one.unique.randomizer.epsilon0
    assert part == one.oracle.epsilon0
    assert 0 <= 14 - 11 * part < Decimal("1e-20")


def test_an_item_has_one_channel_in_each_repetition() -> None:
    one = histogram()
    for item in (0, 1, 255):
        channels = one.channels_of(item)
        assert [channel >> one.channel_bits for channel in channels] == list(range(one.repetitions))
    assert one.channels_of(7) != histogram(seed=bytes(16)).channels_of(7)


@pytest.mark.false_alarm(ALPHA, "chi-square")
def test_the_channels_of_two_items_are_pairwise_independent_over_seeds() -> None:
    pairs = Counter[tuple[int, int]]()
    for seed in range(4000):
        one = histogram(reports=2, seed=b"seed %020d" % seed)
        assert one.channel_bits == 2
        (first, *_), (other, *_) = one.channels_of(3), one.channels_of(200)
        pairs[first, other] += 1
    assert chisquare([pairs[first, other] for first in range(4) for other in range(4)]).pvalue > ALPHA


class Scripted:
    """Coordinates that are told, and signs that go through both outcomes of their draw."""

    def __init__(self, coordinates: list[int], signs: tuple[bytes, ...]) -> None:
        self.draws: Iterator[bytes] = iter(
            [draw for at, sign in zip(coordinates, signs, strict=True) for draw in (at.to_bytes(16, "big"), sign)]
        )

    def __call__(self, _size: int, /) -> bytes:
        return next(self.draws)


def law(one: SuccinctHistogram, item: int | None, channels: list[int], coordinates: list[int]) -> Law:
    """The law of these components given their coordinates, which no item decides."""
    found: Law = {}
    choices = classes((keep_threshold(one.oracle.epsilon0, 1), ONE // 2), 1)
    for chosen in itertools.product(choices, repeat=len(channels)):
        entropy = Scripted(coordinates, tuple(drawn for drawn, _ in chosen))
        report = tuple(one.randomise(item, channels, entropy).values())
        found[report] = found.get(report, Fraction(0)) + math.prod((share for _, share in chosen), start=Fraction(1))
    return found


def largest(laws: list[Law]) -> Fraction:
    """The largest ratio of two laws."""
    return max(one[report] / other[report] for one, other in itertools.permutations(laws, 2) for report in one)


def looked_at(one: SuccinctHistogram, *items: int) -> list[int]:
    """The channels that any of these items has, and the oracle's: all others tell nothing."""
    return sorted({channel for item in items for channel in one.channels_of(item)} | {one.oracle_channel})


@pytest.mark.parametrize("reports", [1, 2])
@pytest.mark.parametrize("is_exact", [False, True])
def test_the_report_keeps_epsilon0_exactly_for_all_pairs_of_items_and_for_none(reports: int, is_exact: bool) -> None:
    """Theorem 3.4. With one report all items share their channels; with two, these do not."""
    one = histogram(epsilon0=Decimal("1.5"), reports=reports, beta=0.99, exact_budget=is_exact)
    channels, source, worst = looked_at(one, 3, 200), random.Random(34), Fraction(0)
    assert (len(channels) == 3) is (reports == 1)
    for _ in range(12):
        coordinates = [source.randrange(one.randomizer_of(channel).length) for channel in channels]
        laws = [law(one, item, channels, coordinates) for item in (3, 200, None)]
        assert all(sum(found.values()) == 1 for found in laws)
        worst = max(worst, largest(laws))
    assert worst <= e_to_the(Decimal("1.5"))
    used = 1.5 if is_exact else 1.5 * (one.repetitions + 1) / one.parts
    assert math.log(worst) == pytest.approx(used, rel=1e-9)


@pytest.mark.parametrize("reports", [1, 2])
def test_the_likelihood_of_a_report_is_the_ratio_of_its_probabilities(reports: int) -> None:
    one = histogram(epsilon0=Decimal(1), reports=reports, beta=0.99)
    channels = looked_at(one, 3, 200)
    coordinates = [5 % one.randomizer_of(channel).length for channel in channels]
    without = law(one, None, channels, coordinates)
    for item in (3, 200):
        for report, probability in law(one, item, channels, coordinates).items():
            likelihood = one.likelihood(dict(zip(channels, report, strict=True)), item)
            assert likelihood == probability / without[report] <= one.likelihood_bound
    assert one.likelihood(dict.fromkeys(channels, SignReport(0, 1)), None) == 1


@pytest.mark.false_alarm(2 * ALPHA, "chi-square, for public and for drawn components")
@pytest.mark.parametrize("is_public", [False, True])
def test_in_a_channel_that_is_not_its_items_a_report_is_uniform(is_public: bool) -> None:
    one, entropy, seen = histogram(), SeededEntropy(37), Counter[SignReport]()
    channel = one.channels_of(3)[0] ^ 1
    for _ in range(8000):
        report = one.expand(entropy(16)) if is_public else one.randomise(3, [channel], entropy)
        seen[report[channel]] += 1
    outputs = list(itertools.starmap(SignReport, itertools.product(range(20), (1, -1))))
    assert set(seen) <= set(outputs)
    assert chisquare([seen[output] for output in outputs]).pvalue > ALPHA


def population(seed: int, size: int) -> list[int | None]:
    """Two frequent items, many rare ones, and devices without any."""
    source = random.Random(seed)
    rare: list[int | None] = [source.randrange(256) for _ in range(size * 5 // 100)]
    return [7] * (size * 47 // 100) + [200] * (size * 46 // 100) + rare + [None] * (size * 2 // 100)


@pytest.mark.false_alarm(0.03, "the theorem's own rate of a hundredth, for three populations")
def test_every_item_of_a_sufficient_share_is_found_and_no_item_errs_more_as_theorem_3_5_says() -> None:
    for run in range(3):
        one = histogram(epsilon0=Decimal(20), reports=3000, beta=0.01, seed=b"channels %010d" % run)
        items, entropy = population(run, 3000), SeededEntropy(b"whole %d" % run)
        truth = {item: items.count(item) / len(items) for item in range(256)}
        assert truth[7] > truth[200] > one.sufficient_share()
        rare = {channel for item in items[2800:2850] if item is not None for channel in one.channels_of(item)}
        sums = ChannelSums(one, [*one.channels_of(7), *one.channels_of(200), *sorted(rare)[:8]])
        for item in items:
            sums.add(one.randomise(item, sums.sums, entropy))
        found = dict(sums.frequent())
        assert {7, 200} <= found.keys()
        assert all(abs(share - truth[item]) <= one.oracle.error_bound(len(items)) for item, share in found.items())
        assert max(abs(found.get(item, 0) - share) for item, share in truth.items()) < one.sufficient_share()


def test_the_bit_keeps_epsilon0_exactly_for_all_items_and_public_strings() -> None:
    """Shows theorem 4.3 for each item and public string."""
    for epsilon0, is_exact in (("0.5", False), ("0.5", True), ("6", True)):
        one = histogram(epsilon0=Decimal(epsilon0), reports=16, beta=0.9, exact_budget=is_exact)
        bit, bound = OneBit(one), e_to_the(Decimal(epsilon0))
        for number in range(40):
            public = b"public string %02d" % number
            accepting = [bit.probability(public, item) for item in (None, *range(256))]
            assert max(accepting) / min(accepting) <= bound
            assert (1 - min(accepting)) / (1 - max(accepting)) <= bound


@pytest.mark.slow
@pytest.mark.false_alarm(0.05 + ALPHA, "the theorem's own rate, and a number of devices beyond five deviations")
def test_one_bit_reports_find_what_whole_reports_of_those_who_accept_would_find() -> None:
    """Theorem 4.4, at a size where the accepted reports are as many as the histogram expects."""
    one = histogram(epsilon0=Decimal(8), reports=2500, beta=0.05, exact_budget=True)
    bit, entropy = OneBit(one), SeededEntropy(b"bits")
    items = population(44, round(1.1 * one.reports / bit.accepted))
    assert items.count(200) / len(items) > one.sufficient_share()
    sums = ChannelSums(one, [*one.channels_of(7), *one.channels_of(200), *one.channels_of(3)])
    for item in items:
        public = entropy(16)
        if bit.accept(public, item, entropy):
            sums.add(one.expand(public))
    accepted = sums.sums[one.oracle_channel].reports
    assert abs(accepted - len(items) * bit.accepted) < 5 * math.sqrt(len(items) * bit.accepted)
    assert {item for item, _ in sums.frequent()} == {7, 200}


def test_a_whole_report_has_a_component_in_every_channel() -> None:
    one = histogram(reports=2, beta=0.9)
    every = range(one.oracle_channel + 1)
    report = one.randomise(3, every, SeededEntropy(5))
    assert list(report) == list(every)
    sums = ChannelSums(one, every)
    sums.add(report)
    assert all(found.reports == 1 for found in sums.sums.values())


@pytest.mark.parametrize("beta", [0.001, 0.1, 0.9])
def test_no_share_is_sufficient_where_reports_are_so_few_that_items_can_collide(beta: float) -> None:
    """Whatever epsilon and the items' length."""
    for reports in (1, 10, 55):
        assert histogram(epsilon0=Decimal(40), reports=reports, beta=beta).sufficient_share() == math.inf


@pytest.mark.parametrize(
    "changes",
    [
        {"bits": 0},
        {"bits": 65},
        {"reports": 0},
        {"reports": 2**40 + 1},
        {"beta": 0.0},
        {"beta": 1.0},
        {"seed": bytes(8)},
        {"epsilon0": Decimal(41)},
        {"epsilon0": Decimal("0.000001")},
    ],
)
def test_a_histogram_out_of_range_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        histogram(**changes)


def test_items_and_channels_that_there_are_not_are_refused() -> None:
    one = histogram()
    for item in (-1, 256):
        with pytest.raises(ValueError, match="8 bits"):
            one.channels_of(item)
    for channel in (-1, one.oracle_channel + 1):
        with pytest.raises(ValueError, match="channel"):
            one.expand(bytes(16))[channel]
