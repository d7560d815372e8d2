"""Question encoders: a device's value to a category, a number or a vector, and the labels of the result.

Everything here is public and fixed by the recipe before any device looks at its data.
"""

from __future__ import annotations

import bisect
import itertools
import math
import re
from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Protocol

from tacit.errors import TacitError
from tacit.randomizers.types import Answer
from tacit.recipe.model import Attributes, Buckets, Categories, Number, Question, Vector

Scalar = str | int | float | bool | Decimal | None
Value = Scalar | Sequence[Scalar]
"""What a data source hands over: a column's text, a number or truth value, or a row of numbers."""

_DECIMAL = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{0,30})?([eE][+-]?[0-9]{1,3})?")
_TRUE = frozenset({"1", "true", "yes"})
_FALSE = frozenset({"0", "false", "no"})


class EncodeError(TacitError, ValueError):
    """The question's encoder has no category for a value. The message never holds the value."""


class Encoder(Protocol):
    """From a value to one of ``len(labels)`` categories, to a bit or number (one label), or to as many numbers."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Label of each entry of the result."""
        ...

    def encode(self, value: Value) -> Answer:
        """Category in [0, len(labels)); for a boolean question 0 or 1; numbers from 0. Raises EncodeError."""
        ...


class BucketEncoder:
    """Numbers to buckets with the given lower edges, the last one open."""

    def __init__(self, edges: tuple[int, ...]) -> None:
        self._edges = edges
        self.labels = (
            *(_span(low, after - 1) for low, after in itertools.pairwise(edges)),
            f"{edges[-1]}+",
        )

    def encode(self, value: Value) -> int:
        """Bucket of a finite number at or above the first edge."""
        number = _number(value)
        if number < self._edges[0]:
            raise EncodeError("the value lies below the first edge")
        return bisect.bisect_right(self._edges, number) - 1


class CategoryEncoder:
    """Exact text to its position."""

    def __init__(self, categories: tuple[str, ...]) -> None:
        self.labels = categories
        self._positions = {label: position for position, label in enumerate(categories)}

    def encode(self, value: Value) -> int:
        """Position of the value's text among the categories."""
        position = self._positions.get(value if isinstance(value, str) else str(value))
        if position is None:
            raise EncodeError("the value is none of the categories")
        return position


class BooleanEncoder:
    """Truth values: booleans, 0 and 1, and the words true, false, yes, no."""

    labels = ("yes",)

    def encode(self, value: Value) -> int:
        """1 for true, 0 for false."""
        word = str(value).strip().lower()
        if word in _TRUE:
            return 1
        if word in _FALSE:
            return 0
        raise EncodeError("the value is neither true nor false")


class NumberEncoder:
    """Numbers to units above the low end of the range, clipped to it."""

    def __init__(self, spec: Number, label: str) -> None:
        self._spec = spec
        self.labels = (label,)

    def encode(self, value: Value) -> int:
        """Units above ``low``, rounded to the nearest (half to even)."""
        spec = self._spec
        inside = min(max(_number(value), Decimal(spec.low)), Decimal(spec.high))
        return _rounded((inside - spec.low) / (spec.unit or 1))


class VectorEncoder:
    """Rows of numbers to integers above the low end, after both clips. Text holds them with commas between."""

    def __init__(self, spec: Vector) -> None:
        self._spec = spec
        self.labels = tuple(str(position) for position in range(spec.length))

    def encode(self, value: Value) -> tuple[int, ...]:
        """Every entry rounded to the nearest integer and clipped, the whole shrunk towards 0 until its length is at
        most ``norm``: the last rounding is towards 0 too, so that the bound holds exactly."""
        spec = self._spec
        row = value.split(",") if isinstance(value, str) else value
        if not isinstance(row, Sequence) or len(row) != spec.length:
            raise EncodeError(f"the value is not a row of {spec.length} numbers")
        entries = [_rounded(min(max(_number(entry), Decimal(spec.low)), Decimal(spec.high))) for entry in row]
        return tuple(entry - spec.low for entry in shrunk(entries, spec.norm))


def shrunk(entries: Sequence[int], norm: int) -> list[int]:
    """``entries``, or where their Euclidean length exceeds ``norm`` the multiple of that length, rounded towards 0."""
    squares = sum(entry * entry for entry in entries)
    if squares <= norm * norm:
        return list(entries)
    sizes = (math.isqrt(entry * entry * norm * norm // squares) for entry in entries)
    return [-size if entry < 0 else size for entry, size in zip(entries, sizes, strict=True)]


def category_of(encoder: Encoder, value: Value) -> int:
    """The position among the labels, where the encoder gives categories. Raises EncodeError."""
    answer = encoder.encode(value)
    if not isinstance(answer, int) or len(encoder.labels) < 2 <= answer:
        raise EncodeError("the question asks for numbers, not for categories")
    return answer


def encoder_of(question: Question) -> Encoder:
    """The encoder that the question names."""
    spec = question.encoder
    if isinstance(spec, Buckets):
        return BucketEncoder(spec.edges)
    if isinstance(spec, Number):
        return NumberEncoder(spec, question.statistic)
    if isinstance(spec, Vector):
        return VectorEncoder(spec)
    if isinstance(spec, Attributes):
        return CategoryEncoder(spec.labels)
    return CategoryEncoder(spec.categories) if isinstance(spec, Categories) else BooleanEncoder()


def _span(low: int, high: int) -> str:
    if low == high:
        return str(low)
    return f"{low}-{high}" if low >= 0 else f"{low}..{high}"


def _rounded(number: Decimal) -> int:
    return int(number.to_integral_value(rounding=ROUND_HALF_EVEN))


def _number(value: Value) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        raise EncodeError("the value is not a number")
    if isinstance(value, str):
        value = value.strip()
        if not _DECIMAL.fullmatch(value):
            raise EncodeError("the value is not a number")
    number = Decimal(value)
    if not number.is_finite():
        raise EncodeError("the value is not a finite number")
    return number
