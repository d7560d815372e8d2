"""Question encoders: a device's value to a category number, and the categories' labels.

Everything here is public and fixed by the recipe before any device looks at its data.
"""

from __future__ import annotations

import bisect
import itertools
import re
from decimal import Decimal
from typing import Protocol

from tacit.errors import TacitError
from tacit.recipe.model import Buckets, Categories, Question

Value = str | int | float | bool | Decimal | None
"""What a data source hands over: a column's text, or a number or truth value."""

_DECIMAL = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{0,30})?([eE][+-]?[0-9]{1,3})?")
_TRUE = frozenset({"1", "true", "yes"})
_FALSE = frozenset({"0", "false", "no"})


class EncodeError(TacitError, ValueError):
    """The question's encoder has no category for a value. The message never holds the value."""


class Encoder(Protocol):
    """From a value to one of ``len(labels)`` categories (one label: to a bit)."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Label of each entry of the result."""
        ...

    def encode(self, value: Value) -> int:
        """Category in [0, len(labels)); for a boolean question 0 or 1. Raises EncodeError."""
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


def encoder_of(question: Question) -> Encoder:
    """The encoder that the question names."""
    spec = question.encoder
    if isinstance(spec, Buckets):
        return BucketEncoder(spec.edges)
    return CategoryEncoder(spec.categories) if isinstance(spec, Categories) else BooleanEncoder()


def _span(low: int, high: int) -> str:
    if low == high:
        return str(low)
    return f"{low}-{high}" if low >= 0 else f"{low}..{high}"


def _number(value: Value) -> Decimal:
    if value is None or isinstance(value, bool):
        raise EncodeError("the value is not a number")
    if isinstance(value, str):
        value = value.strip()
        if not _DECIMAL.fullmatch(value):
            raise EncodeError("the value is not a number")
    number = Decimal(value)
    if not number.is_finite():
        raise EncodeError("the value is not a finite number")
    return number
