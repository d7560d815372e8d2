"""Reed-Solomon codes over the field of 256 elements, with decoding of errors and erasures.

Theory. A message of k bytes is a polynomial of degree below k, and its codeword the values at n different points. Two
polynomials agree at fewer than k points, so codewords differ in at least ``n - k + 1`` places. Decoding is by S. Gao,
"A new algorithm for decoding Reed-Solomon codes" (2003): interpolate what was received, run Euclid's algorithm with the
polynomial that is zero at all points until the degree falls below the middle, and divide. Erased points are left out.
With s of them, any ``(n - k - s) / 2`` errors are corrected.

A polynomial is a list of coefficients, lowest first, without zeros at its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

MAX_POINTS = 255
_MODULUS = 0x11D
_Polynomial = list[int]


def _tables() -> tuple[list[int], list[int]]:
    powers, logarithms, value = [0] * 510, [0] * 256, 1
    for exponent in range(255):
        powers[exponent] = powers[exponent + 255] = value
        logarithms[value] = exponent
        value <<= 1
        value ^= _MODULUS if value & 0x100 else 0
    return powers, logarithms


_POWERS, _LOGARITHMS = _tables()


def multiply(left: int, right: int) -> int:
    """The product of two elements of the field."""
    return _POWERS[_LOGARITHMS[left] + _LOGARITHMS[right]] if left and right else 0


def inverse(value: int) -> int:
    """The element whose product with ``value``, which is not 0, is 1."""
    if not value:
        raise ZeroDivisionError("0 has no inverse")
    return _POWERS[255 - _LOGARITHMS[value]]


def value_at(polynomial: Sequence[int], point: int) -> int:
    """The polynomial's value at a point; 0 if it has no coefficients."""
    found = 0
    for coefficient in reversed(polynomial):
        found = multiply(found, point) ^ coefficient
    return found


@dataclass(frozen=True, slots=True)
class ReedSolomon:
    """``symbols``: bytes of a codeword, n, at most 255; ``message``: bytes of a message, k, 1 to n."""

    symbols: int
    message: int

    def __post_init__(self) -> None:
        if not 1 <= self.message <= self.symbols <= MAX_POINTS:
            raise ValueError(f"a message must have 1 byte or more, and a codeword as many or more, up to {MAX_POINTS}")

    @property
    def distance(self) -> int:
        """In how many bytes two codewords differ at least."""
        return self.symbols - self.message + 1

    def symbol(self, message: bytes, at: int) -> int:
        """The byte at a place, 0 to ``symbols - 1``, of the codeword of a message."""
        return value_at(message, _POWERS[at])

    def decode(self, received: Mapping[int, int]) -> bytes | None:
        """The message whose codeword differs from the received bytes, by their places, in at most half of those that
        are more than the message's; None if there is none."""
        places = list(received)
        if len(places) < self.message:
            return None
        points = [_POWERS[place] for place in places]
        zero, interpolated = _interpolate(points, [received[place] for place in places])
        quotient = _euclid(zero, interpolated, len(places) + self.message)
        if quotient is None or len(quotient) > self.message:
            return None
        return bytes(quotient) + bytes(self.message - len(quotient))


def _interpolate(points: Sequence[int], values: Sequence[int]) -> tuple[_Polynomial, _Polynomial]:
    """The polynomial that is zero at all points, and the least one that has these values there (Newton's form)."""
    zero, found = [1], list[int]()
    for point, value in zip(points, values, strict=True):
        missing = multiply(value ^ value_at(found, point), inverse(value_at(zero, point)))
        found = _sum(found, _times(zero, [missing]))
        zero = _sum([0, *zero], _times(zero, [point]))
    return zero, found


def _euclid(zero: _Polynomial, interpolated: _Polynomial, twice: int) -> _Polynomial | None:
    """Euclid's algorithm until the remainder's degree is below ``twice / 2``; the remainder divided by its factor, None
    where that leaves a rest."""
    before, remainder = zero, interpolated
    factor_before, factor = list[int](), [1]
    while 2 * (len(remainder) - 1) >= twice:
        quotient, rest = _divide(before, remainder)
        before, remainder = remainder, rest
        factor_before, factor = factor, _sum(factor_before, _times(quotient, factor))
    found, rest = _divide(remainder, factor)
    return None if rest else found


def _sum(left: _Polynomial, right: _Polynomial) -> _Polynomial:
    return _trim([one ^ other for one, other in zip_longest(left, right, fillvalue=0)])


def _times(left: _Polynomial, right: _Polynomial) -> _Polynomial:
    found = [0] * max(len(left) + len(right) - 1, 0)
    for at, one in enumerate(left):
        for shift, other in enumerate(right):
            found[at + shift] ^= multiply(one, other)
    return _trim(found)


def _divide(dividend: _Polynomial, divisor: _Polynomial) -> tuple[_Polynomial, _Polynomial]:
    """Quotient and rest; the divisor is not zero."""
    rest, leading = list(dividend), inverse(divisor[-1])
    quotient = [0] * max(len(rest) - len(divisor) + 1, 0)
    for shift in reversed(range(len(quotient))):
        quotient[shift] = multiply(rest[shift + len(divisor) - 1], leading)
        for at, coefficient in enumerate(divisor):
            rest[shift + at] ^= multiply(quotient[shift], coefficient)
    return _trim(quotient), _trim(rest)


def _trim(polynomial: _Polynomial) -> _Polynomial:
    while polynomial and not polynomial[-1]:
        polynomial.pop()
    return polynomial
