"""No sum in the kernels' field arithmetic can overflow: the largest value of every limb, followed to a fixed point.

A model of the formulas in field25519.h, x25519.h and rsa.c by hand, not a reading of the compiled code.
"""

from __future__ import annotations

LIMBS = 5
PRODUCT_OPERAND = 2**52 - 1
WORD = 2**64 - 1

Bounds = tuple[int, ...]
"""The largest value that each limb can have."""


def high(a: int, b: int) -> int:
    assert max(a, b) <= PRODUCT_OPERAND
    return a * b >> 52


def low(a: int, b: int) -> int:
    """Any value below 2^52, unless the whole product is smaller."""
    assert max(a, b) <= PRODUCT_OPERAND
    return min(a * b, PRODUCT_OPERAND)


def checked(values: list[int]) -> Bounds:
    assert max(values) <= WORD
    return tuple(values)


def carried(a: Bounds) -> Bounds:
    assert max(a) < 2**63
    tops = [limb >> 51 for limb in a]
    rest = [min(limb, 2**51 - 1) for limb in a]
    return checked([rest[0] + 19 * tops[4], *(rest[i] + tops[i - 1] for i in range(1, LIMBS))])


def plus(a: Bounds, b: Bounds) -> Bounds:
    return checked([x + y for x, y in zip(a, b, strict=True)])


def minus(a: Bounds, b: Bounds, scale: int) -> Bounds:
    bias = [(2**51 - 19) << scale, *[(2**51 - 1) << scale] * 4]
    assert all(y <= z for y, z in zip(b, bias, strict=True)), "a difference can be negative"
    return checked([x + z for x, z in zip(a, bias, strict=True)])


def product(a: Bounds, b: Bounds) -> Bounds:
    columns = [0] * (2 * LIMBS)
    for i in range(LIMBS):
        for j in range(LIMBS):
            columns[i + j] += low(a[i], b[j])
            columns[i + j + 1] += 2 * high(a[i], b[j])
    folded = checked([19 * column for column in columns[LIMBS:]])
    return checked([columns[k] + folded[k] for k in range(LIMBS)])


def plus_curve_times(a: Bounds, b: Bounds) -> Bounds:
    highs = [2 * high(limb, 121665) for limb in b]
    carried_in = [low(highs[4], 19), *highs[:4]]
    return checked([a[i] + carried_in[i] + low(b[i], 121665) for i in range(LIMBS)])


def larger(a: Bounds, b: Bounds) -> Bounds:
    return tuple(map(max, a, b))


def step(x: Bounds, state: tuple[Bounds, ...]) -> tuple[Bounds, ...]:
    """Bound the values of one step of the ladder."""
    sum2, difference2, sum3, difference3 = state
    chosen_sum, chosen_difference = larger(sum2, sum3), larger(difference2, difference3)
    da, cb = product(difference3, sum2), product(sum3, difference2)
    aa, bb = carried(product(chosen_sum, chosen_sum)), carried(product(chosen_difference, chosen_difference))
    plus_root, minus_root = carried(plus(da, cb)), carried(minus(da, cb, 10))
    e = carried(minus(aa, bb, 1))
    x3, z3 = product(plus_root, plus_root), product(x, carried(product(minus_root, minus_root)))
    x2, z2 = product(aa, bb), product(e, carried(plus_curve_times(aa, e)))
    return carried(plus(x2, z2)), carried(minus(x2, z2, 10)), carried(plus(x3, z3)), carried(minus(x3, z3, 10))


def test_no_operand_and_no_sum_of_the_ladder_overflows() -> None:
    x: Bounds = (2**51 - 1,) * LIMBS
    one: Bounds = (1, 0, 0, 0, 0)
    state: tuple[Bounds, ...] = (one, one, carried(plus(x, one)), carried(minus(x, one, 1)))
    for _ in range(10):
        grown = tuple(map(larger, state, step(x, state)))
        if grown == state:
            break
        state = grown
    else:
        raise AssertionError("the bounds do not settle")
    reduced = max(map(max, state))
    assert reduced < 2**51 + 2**17
    assert max(product((reduced,) * LIMBS, (reduced,) * LIMBS)) < 2**60
    sum2, difference2, *_ = state
    ends = carried(plus(sum2, difference2)), carried(minus(sum2, difference2, 1))
    assert max(map(max, ends)) < 2**51 + 2**17


def test_no_column_of_an_rsa_product_overflows() -> None:
    limbs, largest = 40, PRODUCT_OPERAND
    terms = 2 * limbs  # a column has at most 40 low and 40 high halves
    product_column = terms * largest
    reduced_column = product_column + terms * largest
    carry = reduced_column >> 51
    assert 2 * product_column <= WORD
    assert reduced_column + carry <= WORD


def test_a_montgomery_product_of_numbers_below_2n_is_below_2n() -> None:
    r = 2**2080
    for n in (2**2047 + 1, 2**2048 - 1):
        assert (2 * n - 1) ** 2 + (r - 1) * n < 2 * n * r
        assert (2 * n - 1) * 2**2048 + (r - 1) * n < 2 * n * r  # with a signature that was not reduced
