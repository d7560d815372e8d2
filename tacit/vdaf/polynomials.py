"""Polynomials in the Lagrange basis over roots of unity (draft-irtf-cfrg-vdaf, section 6.1).

A polynomial of degree below n (a power of two) is the list of its values at w^0 ... w^(n-1), w = nth_root(n).
``WireDomain`` does what a proof needs of them: values on a finer grid (prover) and at one random point
(verifiers).

The point evaluations never follow the draft's quadratic loop. All basis polynomials at the point come from
one walk down the tree of x^n - 1 = (x^(n/2) - 1)(x^(n/2) + 1): about 3n products, no inversion; each wire is
then an inner product with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from operator import add, sub

from tacit.vdaf.field import Field, inverse_of


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least ``n`` (``n`` >= 1)."""
    return 1 << (n - 1).bit_length()


@cache
def roots_of_unity(field: type[Field], size: int, *, inverse: bool = False) -> tuple[int, ...]:
    """w^0, w^1, ... w^(size-1) for w = nth_root(size), or its inverse."""
    modulus = field.MODULUS
    step = field.nth_root(size)
    if inverse:
        step = field.inv(step)
    power = 1
    return (1, *[power := power * step % modulus for _ in range(size - 1)])


def missing_value_rows(field: type[Field], known: int, size: int) -> list[list[int]]:
    """How the values at w^known ... w^(size-1) follow from those at w^0 ... w^(known-1).

    Row m holds the weights of the known values in value ``known + m`` of the one polynomial of degree below
    ``known`` through them. Weight of point x_i in point x_m: -(x_i / x_m) times the Lagrange basis polynomial
    of x_m *among the missing points*, taken at x_i; with one missing point that is -(x_i / x_m).
    """
    modulus = field.MODULUS
    roots = roots_of_unity(field, size)
    rows = []
    for m in range(known, size):
        others = [roots[j] for j in range(known, size) if j != m]
        scale = roots[m]
        for other in others:
            scale = scale * (roots[m] - other) % modulus
        # over all roots, the product of x_i - x_j is size / x_i: by that, the products over known points cancel
        scale = -field.inv(scale)
        row = []
        for point in roots[:known]:
            weight = scale * point % modulus
            for other in others:
                weight = weight * (point - other) % modulus
            row.append(weight)
        rows.append(row)
    return rows


class WireDomain:
    """The wires of one gadget and their grids.

    ``width`` wires, each given by its values at the ``size``-th roots of unity; ``step`` times as many points
    carry the gadget polynomial. Point ``step * i + s`` of the fine grid is root i of the coarse grid times
    the s-th power of the fine root: coset s. A *flat* list holds all wires, point by point: wire j at point k
    is element ``k * width + j``.
    """

    def __init__(self, field: type[Field], size: int, step: int, width: int) -> None:
        self.field = field
        self.size = size
        self.step = step
        self.width = width
        self._roots = roots_of_unity(field, size)
        scale = inverse_of(field, size)
        self._scaled_roots = [root * scale % field.MODULUS for root in self._roots]
        self._coset_shifts = roots_of_unity(field, size * step, inverse=True)[:step]
        self._coset_units = roots_of_unity(field, step, inverse=True)
        self._levels = [self._roots[: size // 2 : size >> depth] for depth in range(1, size.bit_length())]

    def weights(self, coset: int, point: int) -> list[int]:
        """Basis polynomials of the coarse grid, shifted to ``coset``, at ``point``: ``size`` elements."""
        modulus = self.field.MODULUS
        at = point * self._coset_shifts[coset] % modulus
        powers = [at]
        for _ in self._levels[1:]:
            powers.append(powers[-1] * powers[-1] % modulus)
        # a child keeps the factor of its sibling: where its own is power - root, it gets power + root
        others = [1]  # for every node of the level: the product of all factors outside its subtree
        for power, roots in zip(reversed(powers), self._levels, strict=True):
            others = [
                *[product * (power + root) % modulus for product, root in zip(others, roots, strict=True)],
                *[product * (power - root) % modulus for product, root in zip(others, roots, strict=True)],
            ]
        # basis polynomial i is w^i / size times the product of the factors of all other roots: nothing is divided
        return [product * root % modulus for product, root in zip(others, self._scaled_roots, strict=True)]

    def evaluate_fine(self, values: Sequence[int], point: int, weights: Sequence[int]) -> int:
        """The polynomial given by its values on the whole fine grid, at ``point``.

        ``weights`` are those of coset 0, which the caller has already.
        """
        field, step = self.field, self.step
        power = pow(point, self.size, field.MODULUS)
        total = 0
        for coset, unit in enumerate(self._coset_units):
            basis = weights if coset == 0 else self.weights(coset, point)
            # (point / v^coset)^size, v the fine root: v^size is the root of unity of order ``step``
            ratio = power * unit % field.MODULUS
            others = 1  # (ratio^step - 1) / (ratio - 1): the factors that vanish on all other cosets
            for _ in range(step - 1):
                others = (others * ratio + 1) % field.MODULUS
            total += field.inner_product(values[coset::step], basis) * others
        return total * inverse_of(field, step) % field.MODULUS

    def cosets(self, wires: list[int]) -> list[list[int]]:
        """The wires on cosets 1 ... step-1 of the fine grid, as flat lists (congruent, not reduced)."""
        coefficients = self._to_coefficients(wires)
        return [self._to_values(coefficients, twist) for twist in self._twists]

    def _to_coefficients(self, wires: list[int]) -> list[int]:
        """Inverse transform of all wires at once, decimation in frequency.

        Each stage pairs the two halves of the list and interleaves the results, so the geometry is constant.
        It leaves each wire's coefficients together, in bit-reversed order and scaled by ``size``.
        """
        modulus = self.field.MODULUS
        half = len(wires) // 2
        for twiddles in self._stages(inverse=True):
            low, high = wires[:half], wires[half:]
            wires = [0] * (2 * half)
            wires[0::2] = map(add, low, high)
            wires[1::2] = [(a - b) * w % modulus for a, b, w in zip(low, high, twiddles, strict=True)]
        low, high = wires[:half], wires[half:]
        wires = [0] * (2 * half)
        wires[0::2] = map(add, low, high)
        wires[1::2] = map(sub, low, high)
        return wires

    def _to_values(self, coefficients: list[int], twist: Sequence[int]) -> list[int]:
        """Forward transform on one coset: multiply by ``twist``, then the stages above, undone in turn."""
        modulus = self.field.MODULUS
        values = [a * b % modulus for a, b in zip(coefficients, twist, strict=True)]
        low, high = values[0::2], values[1::2]
        values = [*map(add, low, high), *map(sub, low, high)]
        for twiddles in reversed(self._stages(inverse=False)):
            low = values[0::2]
            high = [b * w % modulus for b, w in zip(values[1::2], twiddles, strict=True)]
            values = [*map(add, low, high), *map(sub, low, high)]
        return values

    def _stages(self, *, inverse: bool) -> list[list[int]]:
        """Twiddle factors per stage, but for the one whose factors are all 1; first stage first."""
        return self._inverse_stages if inverse else self._forward_stages

    @cached_property
    def _inverse_stages(self) -> list[list[int]]:
        return self._twiddles(roots_of_unity(self.field, self.size, inverse=True))

    @cached_property
    def _forward_stages(self) -> list[list[int]]:
        return self._twiddles(self._roots)

    def _twiddles(self, roots: Sequence[int]) -> list[list[int]]:
        stages = []
        stride = 1
        while 2 * stride < self.size:
            factors = roots[: self.size // 2 : stride]
            stages.append([w for w in factors for _ in range(self.width * stride)])
            stride *= 2
        return stages

    @cached_property
    def _twists(self) -> list[list[int]]:
        """Per coset s >= 1: v^(s k) / size for coefficient k, in the order of ``_to_coefficients``."""
        field, size = self.field, self.size
        fine = roots_of_unity(field, size * self.step)
        scale = inverse_of(field, size)
        order = _bit_reverse(size)
        return [[fine[s * k] * scale % field.MODULUS for k in order] * self.width for s in range(1, self.step)]


def _bit_reverse(size: int) -> list[int]:
    order = [0]
    while len(order) < size:
        order = [2 * k for k in order] + [2 * k + 1 for k in order]
    return order
