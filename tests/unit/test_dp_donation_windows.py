"""Donation in tiny populations: every assignment of devices to rounds, every value of every bit, batch sizes seen.

Devices of one window toss a coin per round of it. Given the sizes, both bounds of a series are compared with the exact
law of what is seen; windows that overlap break them.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

import pytest

Windows = Sequence[range]
Sizes = tuple[int, ...]
FLIP = Fraction(1, 4)
"""Of each bit; a batch shows the sum of its bits."""


def sums(bits: Sequence[int]) -> dict[int, Fraction]:
    """The law of the sum of these bits, each flipped with probability ``FLIP``."""
    law = {0: Fraction(1)}
    for bit in bits:
        one = 1 - FLIP if bit else FLIP
        more: dict[int, Fraction] = defaultdict(Fraction)
        for total, chance in law.items():
            more[total] += chance * (1 - one)
            more[total + 1] += chance * one
        law = more
    return law


def assignments(windows: Windows, rate: Fraction, rounds: int) -> dict[tuple[int | None, ...], Fraction]:
    """Which round each device takes part in, or none, with its probability."""
    own = []
    for window in windows:
        chances: dict[int | None, Fraction] = {at: rate * (1 - rate) ** step for step, at in enumerate(window)}
        chances[None] = 1 - sum(chances.values(), Fraction(0))
        own.append(chances)
    return {
        chosen: math.prod((chances[at] for chances, at in zip(own, chosen, strict=True)), start=Fraction(1))
        for chosen in itertools.product(*own)
    }


Law = dict[Sizes, dict[tuple[int, ...], Fraction]]


def seen(windows: Windows, values: Sequence[int], rate: Fraction, rounds: int) -> Law:
    """By the sizes of the batches: the law of their sums, unnormalised."""
    found: Law = defaultdict(lambda: defaultdict(Fraction))
    for chosen, chance in assignments(windows, rate, rounds).items():
        held = [[value for value, at in zip(values, chosen, strict=True) if at == round_] for round_ in range(rounds)]
        laws = [sums(bits) for bits in held]
        for totals in itertools.product(*laws):
            weight = math.prod((law[total] for law, total in zip(laws, totals, strict=True)), start=chance)
            found[tuple(map(len, held))][totals] += weight
    return found


def ratio(one: dict[tuple[int, ...], Fraction], other: dict[tuple[int, ...], Fraction]) -> Fraction:
    return max(max(one[key] / other[key], other[key] / one[key]) for key in one)


def of_batch(size: int) -> Fraction:
    """e^epsilon of one batch: the worst of what the others in it hold."""
    if not size:
        return Fraction(1)
    worst = Fraction(1)
    for ones in range(size):
        others = [1] * ones + [0] * (size - 1 - ones)
        zero, one = sums([*others, 0]), sums([*others, 1])
        worst = max(worst, *(max(one[key] / zero[key], zero[key] / one[key]) for key in zero))
    return worst


def bounds(sizes: Sizes, devices: int) -> tuple[Fraction, Fraction]:
    """e^epsilon by sampling of the whole and of each slot, at the sizes that are seen."""
    steps = [of_batch(size) for size in sizes]
    whole = 1 + Fraction(sum(sizes), devices) * (max(steps) - 1)
    slots, left = Fraction(1), devices
    for size, step in zip(sizes, steps, strict=True):
        slots *= 1 + (Fraction(size, left) if left else 0) * (step - 1)
        left -= size
    return whole, slots


def worst_excess(windows: Windows, rate: Fraction, rounds: int) -> Fraction:
    """The largest ratio of the exact e^epsilon and the smaller bound, over sizes and what the others hold."""
    worst = Fraction(0)
    for values in itertools.product((0, 1), repeat=len(windows) - 1):
        one, other = (seen(windows, (own, *values), rate, rounds) for own in (0, 1))
        for sizes, law in one.items():
            given = sum(law.values()), sum(other[sizes].values())
            assert given[0] == given[1], "sizes say nothing about a value"
            worst = max(worst, ratio(law, other[sizes]) / min(bounds(sizes, len(windows))))
    return worst


@pytest.mark.parametrize(("devices", "rounds"), [(2, 2), (3, 2), (4, 2), (3, 3)])
@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(1, 5)])
def test_in_windows_that_are_the_same_for_all_both_bounds_hold_at_every_size(
    devices: int, rounds: int, rate: Fraction
) -> None:
    assert worst_excess([range(rounds)] * devices, rate, rounds) <= 1


def test_in_windows_one_after_another_each_is_bound_by_its_own_devices() -> None:
    """Two devices have rounds 0 and 1, two have rounds 2 and 3: the first one is hidden as if the others were not."""
    windows, rate = [range(2), range(2), range(2, 4), range(2, 4)], Fraction(1, 3)
    for values in itertools.product((0, 1), repeat=3):
        one, other = (seen(windows, (own, *values), rate, 4) for own in (0, 1))
        for sizes, law in one.items():
            assert ratio(law, other[sizes]) <= min(bounds(sizes[:2], 2))


def test_windows_that_overlap_break_the_bounds() -> None:
    late, early = range(1, 3), range(2)
    assert worst_excess([late, early, early], Fraction(1, 2), 3) > 1
