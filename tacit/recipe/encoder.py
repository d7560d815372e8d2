"""Question encoders: they map a device's value to a category, a number or a vector, and define the labels of the
result.

Everything here is public and fixed by the recipe before any device looks at its data.

Encoders are total (P27): they give an answer, or ``MISSING``, for everything that a data source may return, and never
raise; they work on a plain copy of bounded size, whatever class an application's value has. A number outside the range
of a question is clipped to it; buckets or categories may state a category for values outside (``other``), and one for
devices without a value (``missing``), which is then an answer like any other. ``MISSING`` is for the rest: no value, a
value that does not have the question's form, or text that is none of the categories. ``Randomiser.missing`` then
decides what the device sends; whether it takes part does not depend on the value.
"""

from __future__ import annotations

import abc
import bisect
import itertools
import math
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Final, Generic, Protocol, TypeVar, overload

from tacit.methods.base.candidate_labels import unused_label
from tacit.methods.base.method import Answer
from tacit.methods.base.statistics import STATISTICS, StatisticName
from tacit.recipe.candidates import Candidates, candidates_of, label_of
from tacit.recipe.encoder_specs import (
    Attributes,
    Boolean,
    Buckets,
    Categories,
    Domain,
    Number,
    Occurrences,
    Prefixes,
    Strings,
    Update,
    Vector,
)
from tacit.recipe.model import Question, Recipe
from tacit.recipe.quantity import as_decimal, exact, in_words
from tacit.recipe.values import Steps, Value, number_of, plain, text_of

_A = TypeVar("_A")

MISSING: Final = None
"""The encoded answer of a device without one."""

OUTSIDE: Final = 0
"""The item of all texts that a domain does not hold, where they are counted: its first symbol is the end, so that no
text has it. A device with such a text sends a report about this item like any other (P27)."""

ENCODERS_KEPT = 32
"""How many encoders of each kind a process remembers: a device asks for that of a recipe several times."""
_TRUE = frozenset({"1", "true", "yes"})
_FALSE = frozenset({"0", "false", "no"})


class Encoder(Protocol):
    """Maps a value to one of ``len(labels)`` categories, to a bit or number (one label), or to as many numbers as
    labels."""

    @property
    def labels(self) -> Sequence[str]:
        """A label for each entry of the result, in its order; none where items are their own."""
        ...

    def encode(self, value: Value) -> Answer | None:
        """Category in [0, len(labels)); for a boolean question 0 or 1; numbers from 0; or ``MISSING``. Never raises,
        whatever ``value`` is."""
        ...


class _Total(abc.ABC, Generic[_A]):
    """Works on a plain copy only, and treats a value that still fails as no value (P27)."""

    def encode(self, value: Value) -> _A | None:
        """The answer of a device with this value."""
        try:
            return self._answer(plain(value))
        except Exception:  # the value may be of any class of an application
            return self._answer(None)

    @abc.abstractmethod
    def _answer(self, value: Value) -> _A | None:
        """The answer for a plain value; must not raise for None."""


class BucketEncoder(_Total[int]):
    """Numbers to buckets with the given lower edges, the last one open. A number below the first edge falls into
    ``other`` where that is stated, else into the first bucket."""

    def __init__(self, edges: tuple[int | str, ...], other: str | None = None, missing: str | None = None) -> None:
        self._edges = [as_decimal(exact(edge)) for edge in edges]
        self.labels, self._other, self._missing = _add_stated((*_spans(edges), f"{edges[-1]}+"), other, missing)

    def _answer(self, value: Value) -> int | None:
        """Bucket of a number, plus and minus infinity included."""
        number = number_of(value)
        if number is None:
            return self._missing
        if number >= self._edges[0]:
            return bisect.bisect_right(self._edges, number) - 1
        return 0 if self._other is None else self._other


class CategoryEncoder(_Total[int]):
    """Exact text to its position; any other text to ``other`` where that is stated."""

    def __init__(self, categories: tuple[str, ...], other: str | None = None, missing: str | None = None) -> None:
        self._positions = {label: position for position, label in enumerate(categories)}
        self.labels, self._other, self._missing = _add_stated(categories, other, missing)

    def _answer(self, value: Value) -> int | None:
        """Position of the value's text among the categories."""
        text = text_of(value)
        position = self._missing if text is None else self._positions.get(text, self._other)
        return self._missing if position is None else position


class BooleanEncoder(_Total[int]):
    """Truth values: booleans, 0 and 1, and the words true, false, yes, no. ``missing``: the answer for everything else,
    where one is stated."""

    labels = ("yes",)

    def __init__(self, missing: int | None = None) -> None:
        self._missing = missing

    def _answer(self, value: Value) -> int | None:
        """Encode true as 1 and false as 0; ``None`` for any other value."""
        word = (text_of(value) or "").strip().lower()
        if word in _TRUE:
            return 1
        return 0 if word in _FALSE else self._missing


class NumberEncoder(_Total[int]):
    """Numbers to units above the low end of the range, clipped to it."""

    def __init__(self, spec: Number, labels: Sequence[str]) -> None:
        self._steps = Steps(spec)
        self.labels = labels

    def _answer(self, value: Value) -> int | None:
        """Units above ``low``, rounded to the nearest (half to even)."""
        number = number_of(value)
        return MISSING if number is None else self._steps.above_low(number)


class NumberLabels(Sequence[str]):
    """The numbers of a range, each made when it is asked for: there may be a million."""

    def __init__(self, spec: Number) -> None:
        self._spec = spec

    def __len__(self) -> int:
        return self._spec.maximum + 1

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[str, ...]: ...
    def __getitem__(self, at: int | slice) -> str | tuple[str, ...]:
        steps = range(len(self))[at]
        return self._label(steps) if isinstance(steps, int) else tuple(map(self._label, steps))

    def _label(self, steps: int) -> str:
        return in_words(self._spec.least + steps * self._spec.step)


class VectorEncoder(_Total[tuple[int, ...]]):
    """Rows of numbers to units above the low end, after both clips. Text holds the numbers separated by commas."""

    def __init__(self, spec: Vector) -> None:
        self._spec = spec
        self._steps = Steps(spec)
        self._zero = int(-spec.least // spec.step)
        self.labels = tuple(str(position) for position in range(spec.length))

    def _answer(self, value: Value) -> tuple[int, ...] | None:
        """Clip every entry and round it to the nearest multiple of ``unit``; then shrink the whole vector towards 0
        until its length is at most ``norm``: this last rounding is towards 0 too, so the bound holds exactly. A row of
        another length, or with an entry that is not a number, counts as no value."""
        spec = self._spec
        if isinstance(value, str):
            value = value.split(",") if value.count(",") == spec.length - 1 else ()
        if not isinstance(value, list | tuple) or len(value) != spec.length:
            return MISSING
        steps = [found for found in map(self._steps.of, value) if found is not None]
        if len(steps) != spec.length:
            return MISSING
        entries = [found - self._zero for found in steps]
        return tuple(entry + self._zero for entry in shrunk(entries, spec.radius))


class OccurrenceEncoder(_Total[int]):
    """How often an event happened, up to ``most`` times; for a count, whether the number is above 0."""

    def __init__(self, most: int, labels: tuple[str, ...]) -> None:
        self._most, self.labels = most, labels

    def _answer(self, value: Value) -> int | None:
        """The number truncated to a whole one and clipped. A device without a number has watched nothing: 0."""
        number = number_of(value)
        return 0 if number is None else int(min(max(number, Decimal(0)), Decimal(self._most)))


class StringEncoder(_Total[int]):
    """Texts to items of a large domain, and back. An item has no label: it is its own."""

    labels: tuple[str, ...] = ()

    def __init__(self, spec: Domain) -> None:
        self._spec = spec
        self._symbols = None if spec.alphabet is None else {one: at for at, one in enumerate(spec.alphabet, 1)}

    def _answer(self, value: Value) -> int | None:
        """The item of a text. One that the domain does not hold is ``OUTSIDE`` where the question counts such texts,
        and otherwise no value."""
        text = text_of(value)
        item = self.item(text) if text else None
        return OUTSIDE if text and item is None and self._spec.outside is not None else item

    def item(self, text: str) -> int | None:
        """The symbols of a text, the first one highest; None for a text that the domain does not hold."""
        if not text or len(text) > self._spec.length:
            return None
        if self._symbols is None:
            found: Sequence[int | None] = text.encode()
        else:
            found = [self._symbols.get(one) for one in text]
        symbols = [one for one in found if one]
        if len(symbols) != len(found) or len(symbols) > self._spec.length:
            return None
        item = 0
        for symbol in (*symbols, *[0] * (self._spec.length - len(symbols))):
            item = item << self._spec.symbol_bits | symbol
        return item

    def text(self, item: int) -> str | None:
        """The inverse of ``item``: the text of an item, None for one that no text has, as ``OUTSIDE``."""
        width, length = self._spec.symbol_bits, self._spec.length
        symbols = [item >> width * at & (1 << width) - 1 for at in reversed(range(length))]
        while symbols and not symbols[-1]:
            symbols.pop()
        alphabet = self._spec.alphabet
        if not symbols or 0 in symbols:
            return None
        try:
            return bytes(symbols).decode() if alphabet is None else "".join(alphabet[one - 1] for one in symbols)
        except (UnicodeDecodeError, IndexError):
            return None


class PrefixEncoder(_Total[int]):
    """Texts to the place of their prefix among the candidates of a round. A text of the domain with another prefix
    belongs to ``other``, any other text to ``outside`` where that is stated, and everything else is no value: the
    devices of all take part like all others (P27). Without a round's candidates, every text of the domain belongs to
    ``other``."""

    def __init__(self, spec: Prefixes, candidates: Candidates | None) -> None:
        self._items, self._all = StringEncoder(spec), spec.candidates
        self._outside = spec.candidates + 1
        self._missing = MISSING if spec.missing is None else spec.cells - 1
        self._bits = 0 if candidates is None else spec.bits - candidates.bits
        prefixes = () if candidates is None else candidates.prefixes
        self._places = {prefix: place for place, prefix in enumerate(prefixes)}
        named = () if candidates is None else (label_of(spec, one, candidates.bits) for one in prefixes)
        padding = (unused_label(place + 1) for place in range(len(prefixes), spec.candidates))
        stated = (one for one in (spec.other, spec.outside, spec.missing) if one is not None)
        self.labels = (*named, *padding, *stated)

    def _answer(self, value: Value) -> int | None:
        """The place of the text's prefix; those of ``other``, ``outside`` and ``missing`` follow all candidates'
        places."""
        item = self._items.encode(value)
        if item == OUTSIDE:
            return self._outside
        return self._missing if item is None else self._places.get(item >> self._bits, self._all)


def _occurrence_labels(spec: Occurrences, statistic: StatisticName) -> tuple[str, ...]:
    kind = STATISTICS[statistic]
    if kind.is_one_hot:
        return (*map(str, range(spec.most)), f"{spec.most}+")
    return ("mean" if kind.is_ratio else "nonzero",)


def shrunk(entries: Sequence[int], norm: int) -> list[int]:
    """Return ``entries`` unchanged, or, where their Euclidean length exceeds ``norm``, scaled to that length and
    rounded towards 0."""
    squares = sum(entry * entry for entry in entries)
    if squares <= norm * norm:
        return list(entries)
    sizes = (math.isqrt(entry * entry * norm * norm // squares) for entry in entries)
    return [-size if entry < 0 else size for entry, size in zip(entries, sizes, strict=True)]


def encoder_of(question: Question) -> Encoder:
    """The encoder that the question names. Raises refusal ``round-candidates`` for a round input without candidates."""
    spec = question.encoder
    if isinstance(spec, Buckets):
        return _buckets(spec.edges, spec.other, spec.missing)
    if isinstance(spec, Number):
        one_hot = STATISTICS[question.statistic].is_one_hot
        return NumberEncoder(spec, NumberLabels(spec) if one_hot else (question.statistic,))
    if isinstance(spec, Vector):
        return VectorEncoder(spec)
    if isinstance(spec, Occurrences):
        return OccurrenceEncoder(spec.most, _occurrence_labels(spec, question.statistic))
    if isinstance(spec, Strings | Prefixes):
        return StringEncoder(spec) if isinstance(spec, Strings) else PrefixEncoder(spec, candidates_of(question))
    if isinstance(spec, Attributes):
        return CategoryEncoder(spec.labels, None, spec.missing)
    if isinstance(spec, Categories):
        return _categories(spec.categories, spec.other, spec.missing)
    return BooleanEncoder(MISSING if spec.missing is None else 0)


def labels(recipe: Recipe) -> Sequence[str]:
    """A label for each entry of the result, in its order. Raises refusal ``round-candidates``."""
    return encoder_of(recipe.question).labels


def answer_label(question: Question, answer: int) -> str:
    """An encoded answer in words: a number, yes or no, or its label. Raises refusal ``round-candidates``."""
    encoder = question.encoder
    if isinstance(encoder, Number):
        return in_words(encoder.least + answer * encoder.step)
    if isinstance(encoder, Boolean):
        return "yes" if answer else "no"
    names = encoder_of(question).labels
    return names[answer] if answer < len(names) else f"answer {answer}"


def misread(question: Question, value: object) -> str:
    """Why a value that is there counts as none, in words that do not hold it: it has not the form that the question
    asks for. Empty if it has, and for text outside a question's texts, which is an answer that nobody offered. Never
    raises, whatever ``value`` is."""
    spec = question.encoder
    if value is None or isinstance(spec, Categories | Attributes | Strings | Prefixes | Update):
        return ""
    try:
        read = plain(value)
        if isinstance(spec, Vector):
            is_read = VectorEncoder(spec).encode(read) is not MISSING
            return (
                "" if is_read else f"the value is not a row of {spec.length} numbers like 1234.5, with commas between"
            )
        if isinstance(spec, Boolean):
            is_read = BooleanEncoder().encode(read) is not MISSING
            return "" if is_read else "the value is none of true, false, yes, no, 1 and 0"
        return "the value is not a number like 1234.5" if number_of(read) is None else ""
    except Exception:  # as in ``_Total.encode``
        return "the value is of no kind that can be read"


_buckets = lru_cache(maxsize=ENCODERS_KEPT)(BucketEncoder)
_categories = lru_cache(maxsize=ENCODERS_KEPT)(CategoryEncoder)


def _add_stated(
    labels: tuple[str, ...], other: str | None, missing: str | None
) -> tuple[tuple[str, ...], int | None, int | None]:
    """All labels, and the positions of ``other`` and ``missing`` among them."""
    stated = [label for label in (other, missing) if label is not None]
    whole = (*labels, *stated)
    return whole, None if other is None else len(labels), None if missing is None else len(whole) - 1


def _spans(edges: tuple[int | str, ...]) -> list[str]:
    """The closed buckets in words, from an edge to below the next, since numbers of a field need not be whole."""
    named = holds_one(edges)
    return [str(low) if low in named else f"{low} to <{high}" for low, high in itertools.pairwise(edges)]


def holds_one(edges: tuple[int | str, ...]) -> frozenset[int | str]:
    """The edges whose bucket is named like a year of age, by the one whole number in it; what lies between counts as
    the whole number below. None where any edge is no whole number: then the field has others."""
    if any(isinstance(edge, str) for edge in edges):
        return frozenset()
    return frozenset(low for low, high in itertools.pairwise(edges) if int(high) - int(low) == 1)
