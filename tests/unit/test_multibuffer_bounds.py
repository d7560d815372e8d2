"""No sum in the kernels' field arithmetic can overflow: the largest value of every limb, followed to a fixed point.

A model of the formulas in field51.h, field25.h, x25519.h, number52.h and number28.h by hand, not a reading of the
compiled code.
"""

from __future__ import annotations

import pytest

WORD = 2**64 - 1

Bounds = tuple[int, ...]
"""The largest value that each limb can have."""


def checked(values: list[int]) -> Bounds:
    assert max(values) <= WORD
    return tuple(values)


def plus(a: Bounds, b: Bounds) -> Bounds:
    return checked([x + y for x, y in zip(a, b, strict=True)])


class Field51:
    """field51.h: products of 52 bits, as a low and a high half."""

    masks = (2**51 - 1,) * 5
    wide = 10
    reduced = (2**51 + 2**17,) * 5
    largest_wide = (2**60,) * 5
    operand = 2**52 - 1

    def high(self, a: int, b: int) -> int:
        assert max(a, b) <= self.operand
        return a * b >> 52

    def low(self, a: int, b: int) -> int:
        """Any value below 2^52, unless the whole product is smaller."""
        assert max(a, b) <= self.operand
        return min(a * b, self.operand)

    def carried(self, a: Bounds) -> Bounds:
        assert max(a) < 2**63
        tops = [limb >> 51 for limb in a]
        rest = [min(limb, 2**51 - 1) for limb in a]
        return checked([rest[0] + 19 * tops[4], *(rest[i] + tops[i - 1] for i in range(1, 5))])

    def product(self, a: Bounds, b: Bounds) -> Bounds:
        columns = [0] * 10
        for i in range(5):
            for j in range(5):
                columns[i + j] += self.low(a[i], b[j])
                columns[i + j + 1] += 2 * self.high(a[i], b[j])
        folded = checked([19 * column for column in columns[5:]])
        return checked([columns[k] + folded[k] for k in range(5)])

    def plus_curve_times(self, a: Bounds, b: Bounds) -> Bounds:
        highs = [2 * self.high(limb, 121665) for limb in b]
        carried_in = [self.low(highs[4], 19), *highs[:4]]
        return checked([a[i] + carried_in[i] + self.low(b[i], 121665) for i in range(5)])


class Field25:
    """field25.h: products of 32 bits, and two chains of carries."""

    masks = (2**26 - 1, 2**25 - 1) * 5
    wide = 34
    reduced = (2**26 + 2**15, 2**25 + 2**15) * 5
    largest_wide = (2**60, 2**59) * 5

    def multiplied(self, a: int, b: int) -> int:
        assert max(a, b) < 2**32
        return a * b

    def carried(self, a: Bounds) -> Bounds:
        assert max(a) < 2**63
        limbs = list(a)
        for i in (0, 5, 1, 6, 2, 7, 3, 8, 4, 9, 0, 5, 1):
            carry = limbs[i] >> (25 if i & 1 else 26)
            limbs[i] = min(limbs[i], self.masks[i])
            limbs[(i + 1) % 10] += carry * (19 if i == 9 else 1)
            checked(limbs)
        return checked(limbs)

    def product(self, a: Bounds, b: Bounds) -> Bounds:
        columns = [0] * 10
        for i in range(10):
            for j in range(10):
                left = 2 * a[i] if i & j & 1 else a[i]
                right = self.multiplied(b[j], 19) if i + j >= 10 else b[j]
                columns[(i + j) % 10] += self.multiplied(left, right)
        return checked(columns)

    def plus_curve_times(self, a: Bounds, b: Bounds) -> Bounds:
        return checked([x + self.multiplied(y, 121665) for x, y in zip(a, b, strict=True)])


Field = Field51 | Field25


def minus(field: Field, a: Bounds, b: Bounds, scale: int) -> Bounds:
    bias = [(mask - (0 if i else 18)) << scale for i, mask in enumerate(field.masks)]
    assert all(y <= z for y, z in zip(b, bias, strict=True)), "a difference can be negative"
    return checked([x + z for x, z in zip(a, bias, strict=True)])


def larger(a: Bounds, b: Bounds) -> Bounds:
    return tuple(map(max, a, b))


def within(a: Bounds, limits: Bounds) -> bool:
    return all(x < limit for x, limit in zip(a, limits, strict=True))


def step(field: Field, x: Bounds, state: tuple[Bounds, ...]) -> tuple[Bounds, ...]:
    """Bound the values of one step of the ladder."""
    carried, product, wide = field.carried, field.product, field.wide
    sum2, difference2, sum3, difference3 = state
    chosen_sum, chosen_difference = larger(sum2, sum3), larger(difference2, difference3)
    da, cb = product(difference3, sum2), product(sum3, difference2)
    aa, bb = carried(product(chosen_sum, chosen_sum)), carried(product(chosen_difference, chosen_difference))
    plus_root, minus_root = carried(plus(da, cb)), carried(minus(field, da, cb, wide))
    e = carried(minus(field, aa, bb, 1))
    x3, z3 = product(plus_root, plus_root), product(x, carried(product(minus_root, minus_root)))
    x2, z2 = product(aa, bb), product(e, carried(field.plus_curve_times(aa, e)))
    return (
        carried(plus(x2, z2)),
        carried(minus(field, x2, z2, wide)),
        carried(plus(x3, z3)),
        carried(minus(field, x3, z3, wide)),
    )


@pytest.mark.parametrize("field", [Field51(), Field25()], ids=["ifma", "avx2"])
def test_no_operand_and_no_sum_of_the_ladder_overflows(field: Field) -> None:
    x: Bounds = field.masks
    one: Bounds = (1, *[0] * (len(x) - 1))
    state: tuple[Bounds, ...] = (one, one, field.carried(plus(x, one)), field.carried(minus(field, x, one, 1)))
    for _ in range(20):
        grown = tuple(map(larger, state, step(field, x, state)))
        if grown == state:
            break
        state = grown
    else:
        raise AssertionError("the bounds do not settle")
    assert all(within(bounds, field.reduced) for bounds in state)
    assert within(field.product(field.reduced, field.reduced), field.largest_wide)
    sum2, difference2, *_ = state
    ends = field.carried(plus(sum2, difference2)), field.carried(minus(field, sum2, difference2, 1))
    assert all(within(bounds, field.reduced) for bounds in ends)


def test_no_column_of_an_rsa_product_of_52_bit_limbs_overflows() -> None:
    limbs, largest = 40, 2**52 - 1
    terms = 2 * limbs  # a column has at most 40 low and 40 high halves
    product_column = terms * largest
    reduced_column = product_column + terms * largest
    carry = reduced_column >> 51
    assert 2 * product_column <= WORD
    assert reduced_column + carry <= WORD


def test_no_column_of_an_rsa_product_of_28_bit_limbs_overflows() -> None:
    limbs, largest = 76, 2**28 - 1
    product_column = limbs * largest**2  # in a square, half as many terms have a factor twice as large
    reduced_column = product_column + limbs * largest**2
    carry = WORD >> 28
    assert 2 * largest < 2**32
    assert reduced_column + carry <= WORD


def test_a_montgomery_product_of_numbers_below_2n_is_below_2n() -> None:
    r = 2**2080
    for n in (2**2047 + 1, 2**2048 - 1):
        assert (2 * n - 1) ** 2 + (r - 1) * n < 2 * n * r
        assert (2 * n - 1) * 2**2048 + (r - 1) * n < 2 * n * r  # with a signature that was not reduced


def test_a_product_modulo_a_multiple_of_n_stays_below_2_to_the_2077_and_the_last_one_below_2n() -> None:
    r, last = 2**2128, 2**112
    for n in (2**2047 + 1, 2**2048 - 1):
        multiple = n * (2**28 - 1)
        assert (2**2077 - 1) ** 2 + (r - 1) * multiple < 2**2077 * r
        begun = (2**2077 * 2**2048 + (r // last - 1) * multiple) // (r // last) + 1
        assert begun + (last - 1) * n < 2 * n * last
