"""Question encoders: a device's value to a category, a number or a vector, and the labels of the result.

Everything here is public and fixed by the recipe before any device looks at its data.

Encoders are total (P27): they give an answer, or ``MISSING``, for everything that a data source may hand over, and
never an error. A number outside the range of a question is clipped to it; buckets or categories may state a category
for what lies outside (``other``), and one for devices without a value (``missing``), which then is an answer like any
other. ``MISSING`` is what remains: no value, one that is not of the question's form, or text that is none of the
categories. What a device does then is ``Method.missing``; that it takes part does not depend on it.
"""

from __future__ import annotations

import bisect
import itertools
import math
import re
from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_05UP, Context, Decimal
from typing import Final, Protocol

from tacit.methods.method import Answer
from tacit.methods.statistics import STATISTICS, StatisticName
from tacit.recipe.model import Attributes, Buckets, Categories, Number, Occurrences, Question, Range, Vector
from tacit.recipe.quantity import PLACES, as_decimal, exact

Scalar = str | int | float | bool | Decimal | None
Value = Scalar | Sequence[Scalar]
"""What a data source hands over: a column's text, a number or truth value, or a row of numbers; None: nothing."""

MISSING: Final = None
"""The answer of a device that has none."""

_DECIMAL = re.compile(r"[+-]?[0-9]{1,30}(\.[0-9]{0,30})?([eE][+-]?[0-9]{1,3})?")
_TRUE = frozenset({"1", "true", "yes"})
_FALSE = frozenset({"0", "false", "no"})
_WIDEST = 1024
"""Bits of the largest whole number that is read as text."""
_PLACES = 2 * PLACES
_FINEST = Decimal(1).scaleb(-_PLACES)
_CLIPPED = Context(prec=64, rounding=ROUND_05UP, Emin=MIN_EMIN, Emax=MAX_EMAX)
"""Shortens a number that lies in a range to more digits than any end or middle of two steps has, away from 0 and 5 as
the last one, so that it stays on its side of all of them; the time that takes does not grow with its exponent."""


class Encoder(Protocol):
    """From a value to one of ``len(labels)`` categories, to a bit or number (one label), or to as many numbers."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Label of each entry of the result."""
        ...

    def encode(self, value: Value) -> Answer | None:
        """Category in [0, len(labels)); for a boolean question 0 or 1; numbers from 0; or ``MISSING``. Never an error,
        whatever ``value`` is."""
        ...


class BucketEncoder:
    """Numbers to buckets with the given lower edges, the last one open. A number below the first edge is of ``other``
    where that is stated, else of the first bucket."""

    def __init__(self, edges: tuple[int | str, ...], other: str | None = None, missing: str | None = None) -> None:
        self._edges = [as_decimal(exact(edge)) for edge in edges]
        self.labels, self._other, self._missing = _with_stated((*_spans(edges), f"{edges[-1]}+"), other, missing)

    def encode(self, value: Value) -> int | None:
        """Bucket of a number, plus and minus infinity included."""
        number = _number(value)
        if number is None:
            return self._missing
        if number >= self._edges[0]:
            return bisect.bisect_right(self._edges, number) - 1
        return 0 if self._other is None else self._other


class CategoryEncoder:
    """Exact text to its position; any other text to ``other``, where that is stated."""

    def __init__(self, categories: tuple[str, ...], other: str | None = None, missing: str | None = None) -> None:
        self._positions = {label: position for position, label in enumerate(categories)}
        self.labels, self._other, self._missing = _with_stated(categories, other, missing)

    def encode(self, value: Value) -> int | None:
        """Position of the value's text among the categories."""
        text = _text(value)
        position = self._missing if text is None else self._positions.get(text, self._other)
        return self._missing if position is None else position


class BooleanEncoder:
    """Truth values: booleans, 0 and 1, and the words true, false, yes, no."""

    labels = ("yes",)

    def encode(self, value: Value) -> int | None:
        """1 for true, 0 for false."""
        word = (_text(value) or "").strip().lower()
        if word in _TRUE:
            return 1
        return 0 if word in _FALSE else MISSING


class NumberEncoder:
    """Numbers to units above the low end of the range, clipped to it."""

    def __init__(self, spec: Number, label: str) -> None:
        self._steps = _Steps(spec)
        self.labels = (label,)

    def encode(self, value: Value) -> int | None:
        """Units above ``low``, rounded to the nearest (half to even)."""
        number = _number(value)
        return MISSING if number is None else self._steps.above_low(number)


class VectorEncoder:
    """Rows of numbers to units above the low end, after both clips. Text holds them with commas between."""

    def __init__(self, spec: Vector) -> None:
        self._spec = spec
        self._steps = _Steps(spec)
        self._zero = int(-spec.least // spec.step)
        self.labels = tuple(str(position) for position in range(spec.length))

    def encode(self, value: Value) -> tuple[int, ...] | None:
        """Every entry clipped and rounded to the nearest multiple of ``unit``, the whole shrunk towards 0 until its
        length is at most ``norm``: the last rounding is towards 0 too, so that the bound holds exactly. A row of
        another length, or with an entry that is no number, is no value."""
        spec = self._spec
        if isinstance(value, str):
            value = value.split(",") if value.count(",") == spec.length - 1 else ()
        if not isinstance(value, list | tuple) or len(value) != spec.length:
            return MISSING
        numbers = [number for number in map(_number, value) if number is not None]
        if len(numbers) != spec.length:
            return MISSING
        entries = [self._steps.above_low(number) - self._zero for number in numbers]
        return tuple(entry + self._zero for entry in shrunk(entries, spec.radius))


class _Steps:
    """The multiples of ``unit`` above ``low``, up to ``high``."""

    def __init__(self, spec: Range) -> None:
        self._low, self._high = as_decimal(spec.least), as_decimal(spec.most)
        self._least, self._step = int(spec.least * 10**_PLACES), int(spec.step * 10**_PLACES)

    def above_low(self, number: Decimal) -> int:
        """How many steps above ``low`` the nearest multiple is, of two the even one, after the clip."""
        inside = min(max(number, self._low), self._high).quantize(_FINEST, context=_CLIPPED)
        steps, rest = divmod(int(inside.scaleb(_PLACES, _CLIPPED)) - self._least, self._step)
        return steps + (2 * rest > self._step or (2 * rest == self._step and steps % 2))


class OccurrenceEncoder:
    """How often an event happened, at most ``most`` times: that number; of a count, whether it is above 0."""

    def __init__(self, most: int, labels: tuple[str, ...]) -> None:
        self._most, self.labels = most, labels

    def encode(self, value: Value) -> int | None:
        """The number cut to a whole one and clipped. A device without one has watched nothing: 0."""
        number = _number(value)
        return 0 if number is None else int(min(max(number, Decimal(0)), Decimal(self._most)))


def _occurrence_labels(spec: Occurrences, statistic: StatisticName) -> tuple[str, ...]:
    kind = STATISTICS[statistic]
    if kind.is_one_hot:
        return (*map(str, range(spec.most)), f"{spec.most}+")
    return ("mean" if kind.is_ratio else "nonzero",)


def shrunk(entries: Sequence[int], norm: int) -> list[int]:
    """``entries``, or where their Euclidean length exceeds ``norm`` the multiple of that length, rounded towards 0."""
    squares = sum(entry * entry for entry in entries)
    if squares <= norm * norm:
        return list(entries)
    sizes = (math.isqrt(entry * entry * norm * norm // squares) for entry in entries)
    return [-size if entry < 0 else size for entry, size in zip(entries, sizes, strict=True)]


def encoder_of(question: Question) -> Encoder:
    """The encoder that the question names."""
    spec = question.encoder
    if isinstance(spec, Buckets):
        return BucketEncoder(spec.edges, spec.other, spec.missing)
    if isinstance(spec, Number):
        return NumberEncoder(spec, question.statistic)
    if isinstance(spec, Vector):
        return VectorEncoder(spec)
    if isinstance(spec, Occurrences):
        return OccurrenceEncoder(spec.most, _occurrence_labels(spec, question.statistic))
    if isinstance(spec, Attributes):
        return CategoryEncoder(spec.labels, None, spec.missing)
    if isinstance(spec, Categories):
        return CategoryEncoder(spec.categories, spec.other, spec.missing)
    return BooleanEncoder()


def _with_stated(
    labels: tuple[str, ...], other: str | None, missing: str | None
) -> tuple[tuple[str, ...], int | None, int | None]:
    """All labels, and the positions of the two stated ones among them."""
    stated = [label for label in (other, missing) if label is not None]
    whole = (*labels, *stated)
    return whole, None if other is None else len(labels), None if missing is None else len(whole) - 1


def _spans(edges: tuple[int | str, ...]) -> list[str]:
    """The closed buckets in words: of whole edges by the whole numbers in them."""
    if any(isinstance(edge, str) for edge in edges):
        return [f"{low} to <{high}" for low, high in itertools.pairwise(edges)]
    return [_span(low, after - 1) for low, after in itertools.pairwise(map(int, edges))]


def _span(low: int, high: int) -> str:
    if low == high:
        return str(low)
    return f"{low}-{high}" if low >= 0 else f"{low}..{high}"


def _number(value: Value) -> Decimal | None:
    """The number that a value is, plus and minus infinity included; None where it is none. A binary float is the
    shortest decimal that stands for it, so that 0.3 is not below 0.3."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        return None
    if isinstance(value, str):
        value = value.strip()
        if not _DECIMAL.fullmatch(value):
            return None
    number = Decimal(float.__repr__(value) if isinstance(value, float) else value)
    return None if number.is_nan() else number


def _text(value: Value) -> str | None:
    """A single value as text; None where it is none, or a whole number that no text would be written for."""
    if isinstance(value, int) and value.bit_length() > _WIDEST:
        return None
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, bool | int | float | Decimal) else None
