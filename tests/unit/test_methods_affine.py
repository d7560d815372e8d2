"""Affine local hashing: the exact law of a report, and estimates over many."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from decimal import Decimal
from fractions import Fraction
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.lab.kit.entropy import SeededEntropy
from tacit.methods.base.affine import (
    PUBLIC_SIZE,
    AffineHashing,
    hash_of,
    level_of,
    levels_of,
    rows_of,
    seed_of,
    share_of_last,
    words,
)
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.statistics import HEAVY_HITTERS, Shape
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.planners.registry import planner_of
from tacit.methods.randomisers.affine import AffineRandomiser
from tests.unit.device_path import Enumerated, classes, log_ratio

PUBLICS = [SeededEntropy(seed)(PUBLIC_SIZE) for seed in range(12)]
ITEMS = (0, 1, 2**19 + 5, 2**20 - 1)


class AfterPublic(Enumerated):
    """Every outcome of the draws that follow the public bytes."""

    def __init__(self, method: AffineHashing) -> None:
        super().__init__()
        threshold = int(AffineRandomiser(method).thresholds()["keep_threshold"], 16)
        self._classes = classes((threshold,), max(1, method.values - 1) * method.values)

    def _choices(self, size: int) -> Any:
        assert size == 16
        return self._classes


def law(method: AffineHashing, item: int | None, public: bytes) -> dict[int, Fraction]:
    """The exact law of the value, given the public bytes."""
    entropy = AfterPublic(method)
    found: dict[int, Fraction] = defaultdict(Fraction)
    for _ in entropy.runs():
        taken = BytesIO(public)

        def draw(size: int, taken: BytesIO = taken) -> bytes:
            return taken.read(size) or entropy(size)

        randomiser = AffineRandomiser(method)
        report = randomiser.missing(draw) if item is None else randomiser.randomise(item, draw)
        assert isinstance(report, list)
        assert report[0].to_bytes(PUBLIC_SIZE, "big") == public
        found[report[1]] += entropy.weight
    return dict(found)


@pytest.mark.parametrize("hash_bits", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("epsilon", ["0.5", "2"])
def test_a_report_keeps_the_local_epsilon_whatever_its_public_bytes(hash_bits: int, epsilon: str) -> None:
    method = AffineHashing(Decimal(epsilon), hash_bits, 20)
    keep, other = method.output_probabilities()
    seen = 0.0
    for public in PUBLICS:
        laws = [law(method, item, public) for item in (*ITEMS, None)]
        assert list(map(float, laws[-1].values())) == pytest.approx([1 / method.values] * method.values, rel=1e-12)
        for one in laws[:-1]:
            wanted = sorted([float(keep), *[float(other)] * (method.values - 1)])
            assert sorted(map(float, one.values())) == pytest.approx(wanted, rel=1e-12)
        seen = max(seen, *(log_ratio(one, two) for one, two in itertools.permutations(laws, 2)))
    assert seen <= float(epsilon) * (1 + 1e-12)
    assert seen > 0.99 * float(epsilon)


def test_public_bytes_are_drawn_first_and_tell_nothing_of_the_item() -> None:
    method = AffineHashing(Decimal(1), 2, 20)
    drawn = []
    for item in (*ITEMS, None):
        stream = BytesIO(SeededEntropy(7)(200))
        randomiser = AffineRandomiser(method)
        report = randomiser.missing(stream.read) if item is None else randomiser.randomise(item, stream.read)
        assert isinstance(report, list)
        drawn.append((report[0], stream.tell()))
    assert len(set(drawn)) == 1


def test_hashes_of_two_items_agree_as_often_as_chance() -> None:
    """Chi-square with 15 degrees of freedom over pairs of hashes; false alarm 1e-4 at 44.3."""
    for one, other in ((0, 1), (5, 2**63), (2**64 - 1, 2**64 - 2)):
        pairs = Counter((hash_of(seed, one, 2), hash_of(seed, other, 2)) for seed in range(10**6, 10**6 + 16_000))
        counts = [pairs[one, other] for one in range(4) for other in range(4)]
        assert sum((count - 1000) ** 2 / 1000 for count in counts) < 44.3


def test_words_are_those_of_splitmix64() -> None:
    """The first outputs for the seed 1234567, as published with the generator."""
    assert words(1234567, 3) == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@given(st.integers(0, 2**64 - 1), st.integers(1, 8), st.integers(65, 512))
def test_the_rows_of_long_items_begin_with_those_of_short_ones_and_go_on_by_words(seed: int, k: int, bits: int) -> None:
    rows, offset = rows_of(seed, bits, k)
    short, same = rows_of(seed, 64, k)
    assert (offset, [row & 2**64 - 1 for row in rows]) == (same, short)
    drawn = words(seed, 2 * (k + 1))
    assert [row >> 64 & 2**64 - 1 for row in rows] == drawn[k + 1 : 2 * k + 1]
    assert max(row.bit_length() for row in rows) <= 64 * math.ceil(bits / 64)


@given(st.integers(1, 512))
def test_levels_rise_in_steps_of_at_most_sixteen_bits_to_the_whole_item(bits: int) -> None:
    levels = (0, *levels_of(bits))
    assert levels[-1] == bits
    assert all(1 <= after - before <= 16 for before, after in itertools.pairwise(levels))
    assert len(levels) - 1 == math.ceil(bits / 16)


def test_the_last_level_is_drawn_half_as_often_again_as_each_other() -> None:
    """Chi-square with 3 degrees of freedom; false alarm 1e-4 at 21.1."""
    drawn = Counter(level_of(int.from_bytes(SeededEntropy(seed)(8), "big"), 4) for seed in range(4500))
    wanted = (1000, 1000, 1000, 1500)
    assert sum((drawn[level] - many) ** 2 / many for level, many in enumerate(wanted)) < 21.1
    assert share_of_last(4) == 1500 / 4500
    assert (share_of_last(1), level_of(2**64 - 1, 1), level_of(2**64 - 1, 2)) == (1, 0, 1)


@pytest.mark.parametrize(("epsilon", "rate"), [(1, 1.0), (3, 0.5)])
def test_estimates_are_unbiased_and_err_as_they_say(epsilon: int, rate: float) -> None:
    """Mean of 200 estimates within 4.5 standard errors (false alarm 7e-6), their spread within a quarter of what is
    said (chi-square with 199 degrees of freedom, false alarm below 1e-5)."""
    shape = Shape(HEAVY_HITTERS, 0, item_bits=12)
    method, design = planner_of(AffineHashing).tuned(shape, Decimal(epsilon), 1, 1e-6), SampleDesign(rate)
    entropy, holders, others = SeededEntropy(f"{epsilon} {rate}".encode()), 60, 140
    found = []
    for _ in range(200):
        reports = [
            AffineRandomiser(method).randomise(item, entropy)
            for item in [9] * holders + [10] * others
            if entropy(1)[0] < rate * 256
        ]
        seeds = [seed_of(public.to_bytes(PUBLIC_SIZE, "big")) for public, _ in reports]
        hashes = [hash_of(seed, 9, method.hash_bits) for seed in seeds]
        supports = sum(hashed == value for hashed, (_, value) in zip(hashes, reports, strict=True))
        found.append(estimator_of(method).estimate([supports], len(reports), design).values[0])
    (stderr,) = estimator_of(method).expected_stderrs([holders], holders + others, design)
    mean = sum(found) / len(found)
    assert abs(mean - holders) < 4.5 * stderr / math.sqrt(len(found))
    spread = math.sqrt(sum((one - mean) ** 2 for one in found) / (len(found) - 1))
    assert 0.75 < spread / stderr < 1.25
    assert estimator_of(method).missing_adds(design) == (0.0,)


def test_members_make_the_same_method_again_and_others_are_refused() -> None:
    shape = Shape(HEAVY_HITTERS, 0, item_bits=30)
    for epsilon, values in (("0.5", 2), ("1", 4), ("2", 8), ("4", 64), ("8", 256)):
        made = planner_of(AffineHashing).tuned(shape, Decimal(epsilon), 1, 1e-6)
        assert made.members() == {"epsilon0": epsilon, "categories": values}
        members = {**made.members(), "epsilon0": Decimal(epsilon)}
        assert AffineHashing.of(shape, members) == made
    for wrong in ({"categories": 3}, {"categories": 1}, {"categories": 512}, {"epsilon0": Decimal(0)}):
        with pytest.raises(ValueError, match=r"categories|epsilon0"):
            AffineHashing.of(shape, {"epsilon0": Decimal(1), "categories": 4, **wrong})
    with pytest.raises(ValueError, match="20 bits"):
        AffineRandomiser(AffineHashing(Decimal(1), 2, 20)).randomise(2**20, SeededEntropy(1))
    assert AffineHashing(Decimal(1), 2).proof is None
