"""What an encoder reads: a plain value of bounded size, the number or the text that it stands for, and the nearest
multiple of a unit.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_05UP, Context, Decimal
from typing import Final

from tacit.recipe.encoder_specs import Range
from tacit.recipe.quantity import PLACES, as_decimal

Scalar = str | int | float | bool | Decimal | None
Value = Scalar | Sequence[Scalar]
"""A value from a data source: a column's text, a number or truth value, or a row of numbers; None: no value."""

_DECIMAL = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{0,30})?([eE][+-]?[0-9]{1,3})?")
_WIDEST = 1024
"""Bits of the largest whole number that is parsed from text."""
_BEYOND = 1 << _WIDEST
"""Stands for every whole number from here on, as its negative does for the other sign: outside every range, and not
convertible to text."""
_LONGEST = 1 << 20
"""Longest text (in characters) and longest row (in entries) that is read."""
_PLACES = 2 * PLACES
_FINEST = Decimal(1).scaleb(-_PLACES)
_CLIPPED = Context(prec=64, rounding=ROUND_05UP, Emin=MIN_EMIN, Emax=MAX_EMAX)
"""Shortens a number within a range to more digits than any end or any middle of two steps has, rounding away from 0 and
5 as the last digit, so that it stays on the same side of all of them; the time does not grow with the number's
exponent."""


class Steps:
    """The multiples of ``unit`` above ``low``, up to ``high``."""

    _SURE: Final = 0.499
    """Distance from a multiple, in steps, up to which binary arithmetic finds the nearest one."""
    _MOST_SURE: Final = 1 << 40
    """Most steps for that: errors of arithmetic stay below 2^-10 steps."""

    def __init__(self, spec: Range) -> None:
        self._low, self._high = as_decimal(spec.least), as_decimal(spec.most)
        self._least, self._step = int(spec.least * 10**_PLACES), int(spec.step * 10**_PLACES)
        self._ends, self._unit = (float(spec.least), float(spec.most)), float(spec.step)
        self._is_centred = spec.least <= 0 <= spec.most and spec.maximum <= self._MOST_SURE

    def of(self, value: Value) -> int | None:
        """``above_low`` of the number that a value stands for, or None. Binary floats far from the middle between two
        steps, where the result is the same, take a tenth of the time."""
        if isinstance(value, float) and self._is_centred and math.isfinite(value):
            low, high = self._ends
            steps = (min(max(value, low), high) - low) / self._unit
            if abs(steps - round(steps)) < self._SURE:
                return round(steps)
        number = number_of(value)
        return None if number is None else self.above_low(number)

    def above_low(self, number: Decimal) -> int:
        """How many steps above ``low`` the nearest multiple lies, after clipping; ties go to the even one."""
        inside = min(max(number, self._low), self._high).quantize(_FINEST, context=_CLIPPED)
        steps, rest = divmod(int(inside.scaleb(_PLACES, _CLIPPED)) - self._least, self._step)
        return steps + (2 * rest > self._step or (2 * rest == self._step and steps % 2))


def plain(value: object) -> Value:
    """A copy of ``value`` of a built-in class, so that no method of a subclass is called later, and of bounded size;
    None for anything that a source should not return."""
    if isinstance(value, list | tuple):
        entries: Iterator[object] = tuple.__iter__(value) if isinstance(value, tuple) else list.__iter__(value)
        row = tuple(itertools.islice(entries, _LONGEST + 1))
        return None if len(row) > _LONGEST else tuple(map(_scalar, row))
    return _scalar(value)


def _scalar(value: object) -> Scalar:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return None if str.__len__(value) > _LONGEST else str.__str__(value)
    if isinstance(value, int):
        return max(-_BEYOND, min(int.__index__(value), _BEYOND))
    if isinstance(value, float):
        return float.__float__(value)
    return Decimal(value) if isinstance(value, Decimal) else None


def number_of(value: Value) -> Decimal | None:
    """The number that a value stands for, including plus and minus infinity; None where it is not a number. A binary
    float is read as its shortest decimal representation, so that 0.3 is not below 0.3."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        return None
    if isinstance(value, str):
        value = value.strip()
        if not _DECIMAL.fullmatch(value):
            return None
    number = Decimal(float.__repr__(value) if isinstance(value, float) else value)
    return None if number.is_nan() else number


def text_of(value: Value) -> str | None:
    """A single value as text; None where it is not one, or is a whole number too large for text."""
    if isinstance(value, int) and value.bit_length() > _WIDEST:
        return None
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, bool | int | float | Decimal) else None
