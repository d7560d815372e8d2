"""The one-bit transformation of any randomizer: private for all that it is given, and lawful in what it accepts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.methods.base.draws import MIN_EPSILON0
from tacit.methods.succinct_histogram.one_bit import OneBit
from tacit.methods.succinct_histogram.signs import BasicRandomizer
from tests.unit.test_methods_draws import e_to_the

TINY = Fraction(1, 2**60)


@dataclass(frozen=True)
class Table:
    """A randomizer with a table of probabilities: one row for each item, the first for none."""

    laws: Sequence[Sequence[Fraction]]
    epsilon0: Decimal
    bound: Fraction | None = None

    @property
    def likelihood_bound(self) -> Fraction:
        """What is stated, or what is always enough."""
        return e_to_the(self.epsilon0) if self.bound is None else self.bound

    def expand(self, public: bytes, /) -> int:
        """An output; tests go through all of them."""
        return public[0]

    def likelihood(self, output: int, item: int | None, /) -> Fraction:
        """The ratio of two entries of the law: item to no item."""
        return Fraction(1) if item is None else self.laws[item + 1][output] / self.laws[0][output]


def largest_ratio(laws: Sequence[Sequence[Fraction]]) -> Fraction:
    """The largest ratio of the probabilities of one output."""
    columns = zip(*laws, strict=True)
    return max(Fraction(one / other) for column in columns for one, other in itertools.permutations(column, 2))


def epsilon_of(laws: Sequence[Sequence[Fraction]]) -> Decimal:
    """A decimal that is barely a local epsilon of these laws."""
    ratio = largest_ratio(laws)
    exact = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()
    return max((exact + Decimal("1e-20")).quantize(Decimal("1e-20")), MIN_EPSILON0)


@st.composite
def tables(draw: st.DrawFn) -> list[list[Fraction]]:
    """Laws of two to four items, and of none, over two to five outputs."""
    outputs = draw(st.integers(2, 5))
    most = draw(st.sampled_from([2, 10, 10**6]))
    rows = draw(st.lists(st.lists(st.integers(1, most), min_size=outputs, max_size=outputs), min_size=3, max_size=5))
    return [[Fraction(weight, sum(row)) for weight in row] for row in rows]


def bits_of(one: OneBit[int, int], laws: Sequence[Sequence[Fraction]], output: int) -> list[Fraction]:
    """The probability of accepting an output, for every item and none."""
    return [one.probability(bytes([output]), item) for item in (None, *range(len(laws) - 1))]


@given(tables(), st.booleans())
def test_the_bit_keeps_epsilon0_exactly_whatever_the_randomizer(laws: list[list[Fraction]], is_stated: bool) -> None:
    """Theorem 4.1, corrected: for every public output, and for items and none."""
    epsilon0 = epsilon_of(laws)
    bound = max(law[at] / laws[0][at] for law in laws for at in range(len(law))) if is_stated else None
    one: OneBit[int, int] = OneBit(Table(laws, epsilon0, bound))
    for output in range(len(laws[0])):
        accepting = bits_of(one, laws, output)
        for left, right in itertools.permutations(accepting, 2):
            assert left / right <= e_to_the(epsilon0)
            assert (1 - left) / (1 - right) <= e_to_the(epsilon0)


@given(tables())
def test_what_is_accepted_has_the_law_of_the_randomizer_and_is_one_part_of_all(laws: list[list[Fraction]]) -> None:
    """The key statement behind Theorem 4.2: the server sees the reports of a random part of the devices."""
    one: OneBit[int, int] = OneBit(Table(laws, epsilon_of(laws)))
    for item, law in enumerate(laws[1:]):
        joint = [laws[0][at] * one.probability(bytes([at]), item) for at in range(len(law))]
        accepted = sum(joint)
        assert abs(float(accepted) / one.accepted - 1) < 1e-12
        assert all(abs(both / accepted - chance) < TINY for both, chance in zip(joint, law, strict=True))


@pytest.mark.parametrize("epsilon0", ["0.1", "0.5", "0.692"])
def test_with_the_papers_one_half_a_rejection_can_tell_more_than_epsilon0(epsilon0: str) -> None:
    """Three items and an output with probabilities .05, .05 e^epsilon and .05: the first is that of no item."""
    epsilon = Decimal(epsilon0)
    low = Fraction(1, 20)
    high = low * Fraction(epsilon.exp()) * (1 - TINY)
    laws = [[low, 1 - low], [high, 1 - high], [low, 1 - low]]
    rejecting = [1 - law[0] / (2 * laws[0][0]) for law in laws]
    told = math.log(float(max(rejecting) / min(rejecting)))
    assert told == pytest.approx({"0.1": 0.1111, "0.5": 1.046, "0.692": 6.078}[epsilon0], rel=1e-3)
    rejected = [1 - accepting for accepting in bits_of(OneBit(Table(laws, epsilon)), laws, 0)]
    assert max(rejected) / min(rejected) <= e_to_the(epsilon)
    assert math.log(max(rejected) / min(rejected)) == pytest.approx(float(epsilon), abs=1e-9)


@pytest.mark.parametrize("epsilon0", ["0.000001", "0.5", "4", "40"])
def test_epsilon0_is_used_up_and_the_constant_is_the_papers_for_the_basic_randomizer(epsilon0: str) -> None:
    epsilon = Decimal(epsilon0)
    kept = BasicRandomizer(epsilon, 1).kept()
    laws = [[Fraction(1, 2), Fraction(1, 2)], [kept, 1 - kept], [1 - kept, kept]]
    unknown: OneBit[int, int] = OneBit(Table(laws, epsilon))
    known: OneBit[int, int] = OneBit(Table(laws, epsilon, 2 * kept))
    assert unknown.accepted == pytest.approx(1 / (math.exp(float(epsilon)) + 1))
    assert known.accepted == pytest.approx(0.5)
    none, with_item, opposite = bits_of(known, laws, 0)
    assert float(none) == pytest.approx(0.5)
    assert with_item / opposite <= e_to_the(epsilon)
    assert math.log(with_item / opposite) == pytest.approx(float(epsilon), rel=1e-6)


def test_a_device_draws_once_and_accepts_below_its_probability() -> None:
    laws = [[Fraction(1, 2), Fraction(1, 2)], [Fraction(2, 3), Fraction(1, 3)]]
    one: OneBit[int, int] = OneBit(Table(laws, epsilon_of(laws)))
    threshold = int(one.probability(b"\0", 0) * 2**128)
    sizes: list[int] = []

    def entropy(value: int) -> bool:
        def draw(size: int, /) -> bytes:
            sizes.append(size)
            return value.to_bytes(size, "big")

        return one.accept(b"\0", 0, draw)

    assert [entropy(value) for value in (0, threshold - 1, threshold, 2**128 - 1)] == [True, True, False, False]
    assert sizes == [16] * 4


def test_a_randomizer_that_says_too_little_of_itself_is_refused() -> None:
    laws = [[Fraction(1, 2), Fraction(1, 2)], [Fraction(2, 3), Fraction(1, 3)]]
    one: OneBit[int, int] = OneBit(Table(laws, epsilon_of(laws), Fraction(5, 4)))
    with pytest.raises(ValueError, match="likelier"):
        one.probability(b"\0", 0)
    with pytest.raises(ValueError, match="epsilon0"):
        OneBit(Table(laws, Decimal(41)))
