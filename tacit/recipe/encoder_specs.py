"""How a device's value becomes an answer: the member ``encoder`` of a question, one kind each.

``tacit.recipe.encoder`` has the code; here are the members, their ranges, and what they refuse.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from tacit.errors import FieldError
from tacit.methods.base.candidate_labels import QUOTE, UNUSED
from tacit.methods.base.statistics import MAX_ITEM_BITS, MAX_OCCURRENCES, MAX_SYMBOLS_OF_ITEM
from tacit.models.parties import Part
from tacit.recipe.fields import wrong
from tacit.recipe.member_types import AttributeName, AttributeValue, Label, Natural, Size
from tacit.recipe.quantity import Exact, PositiveQuantity, Quantity, exact, in_words
from tacit.recipe.training import Training

MAX_LABELS = 4096
MAX_SUM = 1 << 14
"""Most entries of a released sum of vectors: a document of some 3 MB."""
MAX_CELLS = 1024
"""Most conjunctions that a census may count: an aggregate share of that many numbers still fits into an entry of the
log."""
MAX_CANDIDATES = 1022
"""Most prefixes of which a round asks: with two categories more they are as many as policies usually allow, and with
that of texts outside the domain one less."""
LEAST_STEPS = 2
"""Least number of steps of a range that is not of whole numbers."""
MAX_SYMBOLS = 255
MAX_STEPS = 1 << 20
MAX_STEP_SECONDS = 1 << 25
"""A little more than a year."""


class Buckets(Part):
    """Numeric value to bucket: ``edges`` are lower edges, strictly increasing; the last bucket is open. ``other`` names
    a category for numbers below the first edge (absent: they belong to the first bucket), ``missing`` one for devices
    without a number; they follow the buckets in this order."""

    kind: Literal["buckets"]
    edges: Annotated[tuple[Quantity, ...], Field(min_length=2, max_length=MAX_LABELS, strict=False)]
    other: Label | None = None
    missing: Label | None = None

    def model_post_init(self, context: Any, /) -> None:
        """Refuse edges that do not increase."""
        if any(low >= high for low, high in itertools.pairwise(self.lower)):
            raise wrong("edges", "must be strictly increasing")
        _check_stated((), self.other, self.missing)

    @property
    def lower(self) -> tuple[Exact, ...]:
        """The buckets' lower edges as exact numbers, rising."""
        return tuple(map(exact, self.edges))


class Categories(Part):
    """Text value to the position of its exact match in ``categories``. ``other`` names a category for any other text,
    ``missing`` one for devices without a value (and, where there is no ``other``, for any other text); they follow
    the categories in this order."""

    kind: Literal["categories"]
    categories: Annotated[tuple[Label, ...], Field(min_length=2, max_length=MAX_LABELS, strict=False)]
    other: Label | None = None
    missing: Label | None = None

    def model_post_init(self, context: Any, /) -> None:
        """Refuse repeated categories, and ``other`` or ``missing`` that repeat one."""
        if len(set(self.categories)) != len(self.categories):
            raise wrong("categories", "must be distinct")
        _check_stated(self.categories, self.other, self.missing)


class Boolean(Part):
    """Truth value. ``missing`` says that devices without one answer no, so that the count is of those that say yes."""

    kind: Literal["boolean"]
    missing: Literal["no"] | None = None


class Range(Part):
    """Numbers from ``low`` to ``high`` in steps of ``unit`` (default 1); all three may be fractional."""

    low: Quantity
    high: Quantity
    unit: PositiveQuantity | None = None

    @property
    def least(self) -> Exact:
        """``low`` as an exact number."""
        return exact(self.low)

    @property
    def most(self) -> Exact:
        """``high`` as an exact number."""
        return exact(self.high)

    @property
    def step(self) -> Exact:
        """``unit`` as an exact number; 1 where it is absent."""
        return exact(self.unit or 1)

    @property
    def fractional(self) -> bool:
        """Whether an end or the unit is not a whole number."""
        return any(isinstance(number, str) for number in (self.low, self.high, self.unit))

    @property
    def maximum(self) -> int:
        """The largest encoded value: steps from ``low`` to ``high``."""
        return int((self.most - self.least) // self.step)

    def _check_steps(self) -> None:
        """Refuse a range that ``unit`` does not divide, and a fractional range of a single step: that asks on which
        side of a point a device is, which is a yes-or-no question and must be asked as one."""
        if (self.most - self.least) % self.step:
            raise wrong("unit", f"must divide `high` minus `low`: {_fitting(self.least, self.most, self.step)}")
        if self.fractional and self.maximum < LEAST_STEPS:
            raise ValueError(
                f"a fractional range needs at least {LEAST_STEPS} steps: lower unit {in_words(self.step)}, or ask a "
                "yes-or-no question"
            )


class Number(Range):
    """Number to the nearest multiple of ``unit`` (default 1) above ``low``, after clipping to [low, high]."""

    kind: Literal["number"]

    def model_post_init(self, context: Any, /) -> None:
        """Refuse an empty range, and one that ``unit`` does not divide."""
        if self.least >= self.most:
            raise wrong("low", "must be below `high`")
        self._check_steps()


class Vector(Range):
    """``length`` numbers, each clipped to [low, high] and rounded to a multiple of ``unit`` (default 1); then the
    device itself shrinks the vector to Euclidean length at most ``norm`` (P18)."""

    kind: Literal["vector"]
    length: Size
    norm: PositiveQuantity

    def model_post_init(self, context: Any, /) -> None:
        """Refuse a range without 0, towards which vectors are shrunk, and members that are not multiples of
        ``unit``."""
        if not self.least <= 0 <= self.most or self.least == self.most:
            raise wrong("low", "must be at most 0, `high` at least 0, and not both of them 0")
        for name, number in (("low", self.least), ("high", self.most), ("norm", exact(self.norm))):
            if number % self.step:
                raise wrong(name, f"must be a multiple of `unit`: {in_words(number)} is not a multiple of {self.unit}")
        self._check_steps()

    @property
    def radius(self) -> int:
        """``norm`` in whole steps, rounded down."""
        return int(exact(self.norm) // self.step)


class Update(Vector):
    """What a device's own examples change in the model of a round (``question.round_input``): the update of
    ``training``, divided by the round's clip and shrunk as a whole to what ``norm`` leaves beside the quantile's entry,
    then treated as a vector. ``length`` is the number of its entries, and ``low`` is ``-high``."""

    kind: Literal["update"]  # type: ignore[assignment]
    training: Training

    def model_post_init(self, context: Any, /) -> None:
        """Refuse members that do not belong to the training."""
        super().model_post_init(context)
        if self.length != self.training.length:
            raise wrong("length", f"must be {self.training.length}, the entries of the update")
        if self.least != -self.most:
            raise wrong("low", "must be -high")
        quantile = self.training.quantile
        weight = 0 if quantile is None else exact(quantile.weight)
        if weight > self.most or weight >= exact(self.norm):
            raise wrong("training", "must have a quantile.weight of at most high and below norm")


def _fitting(low: Exact, high: Exact, unit: Exact) -> str:
    """Which member to change, and to what, where ``unit`` does not divide the range."""
    steps = int((high - low) // unit)
    ends = [in_words(low + count * unit) for count in (steps, steps + 1) if count]
    given = f"unit {in_words(unit)} does not divide {in_words(high)} - {in_words(low)}"
    return f"{given}; change `high` to {' or '.join(ends)}, or `unit`"


class Attributes(Part):
    """The device's own value of each attribute, from its configuration and not from its data: the question of a census.
    The categories are all conjunctions of the listed values, and, as the last one where it is named, ``missing``:
    devices that lack one of the attributes or have another value of it."""

    kind: Literal["attributes"]
    attributes: Annotated[
        dict[AttributeName, Annotated[tuple[AttributeValue, ...], Field(min_length=2, strict=False)]],
        Field(min_length=1, max_length=4),
    ]
    missing: Label | None = None

    def model_post_init(self, context: Any, /) -> None:
        """Refuse repeated values, and more conjunctions than fit into an entry of the log."""
        if any(len(set(values)) != len(values) for values in self.attributes.values()):
            raise ValueError("the values of an attribute must be distinct")
        if math.prod(map(len, self.attributes.values())) + (self.missing is not None) > MAX_CELLS:
            raise ValueError(f"the attributes must have at most {MAX_CELLS} conjunctions, missing included")
        _check_stated(self.labels, None, self.missing)

    @property
    def cells(self) -> tuple[dict[str, str], ...]:
        """The conjunctions in the order of the result: names in order, the values of the last name vary fastest."""
        names = sorted(self.attributes)
        rows = itertools.product(*(self.attributes[name] for name in names))
        return tuple(dict(zip(names, row, strict=True)) for row in rows)

    @property
    def labels(self) -> tuple[str, ...]:
        """The conjunctions in words, in the order of ``cells``; ``missing`` is not among them."""
        return tuple(map(conjunction, self.cells))


class Occurrences(Part):
    """How often the event ``metric`` happened on the device in ``steps`` periods of ``step_seconds`` from ``start`` on
    (POSIX seconds), counted up to ``most``. Devices watch it from the first step on (local pan-privacy). For a count,
    where ``most`` is 1, the answer is whether it happened at all."""

    kind: Literal["occurrences"]
    start: Natural
    step_seconds: Annotated[int, Field(ge=1, le=MAX_STEP_SECONDS)]
    steps: Annotated[int, Field(ge=1, le=MAX_STEPS)]
    most: Annotated[int, Field(ge=1, le=MAX_OCCURRENCES)]

    @property
    def end(self) -> int:
        """POSIX second at which the last step ends."""
        return self.start + self.steps * self.step_seconds


class Domain(Part):
    """Texts of up to ``length`` symbols of ``alphabet`` (distinct characters), or without an alphabet of up to
    ``length`` bytes of UTF-8, as items of a large domain. Symbols (bytes) and the empty rest have the same number of
    bits each. ``outside`` names what devices with any other text are counted as: a longer one, or
    one with another character (absent: they count as devices without a value)."""

    length: Annotated[int, Field(ge=1, le=MAX_SYMBOLS_OF_ITEM)]
    alphabet: Annotated[str, Field(min_length=1, max_length=MAX_SYMBOLS)] | None = None
    outside: Label | None = None

    def model_post_init(self, context: Any, /) -> None:
        """Refuse repeated symbols."""
        if self.alphabet is not None and len(set(self.alphabet)) != len(self.alphabet):
            raise wrong("alphabet", "must have distinct characters")

    @property
    def symbols(self) -> int:
        """How many symbols there are; they are numbered from 1. Bytes of UTF-8: 255."""
        return 255 if self.alphabet is None else len(self.alphabet)

    @property
    def symbol_bits(self) -> int:
        """Bits of a symbol; 0 stands for the end."""
        return self.symbols.bit_length()

    @property
    def bits(self) -> int:
        """Bits of an item: those of ``length`` symbols, the empty rest included."""
        return self.length * self.symbol_bits


class Strings(Domain):
    """Text to a string of a large domain: up to ``length`` symbols of ``alphabet`` (distinct characters), or without an
    alphabet up to ``length`` bytes of UTF-8. Symbols (bytes) and the empty rest have the same number of bits each. Any
    other text is the item 0, which no text of the domain has, where ``outside`` is stated; else
    it counts as no value, as an empty text does."""

    kind: Literal["strings"]


class PrefixSearch(Domain):
    """Frequent texts, searched for by prefixes in rounds that name at most ``candidates`` of them each. Where
    ``levels``, the bits of the prefixes in each round, are left out, they follow from the domain and the candidates."""

    kind: Literal["prefixes"]
    levels: Annotated[tuple[int, ...], Field(min_length=1, max_length=MAX_ITEM_BITS, strict=False)] | None = None
    candidates: Annotated[int, Field(ge=1, le=MAX_CANDIDATES)] = 512
    other: Label | None = None
    missing: Label | None = None


class Prefixes(PrefixSearch):
    """Text to the place of its prefix among the candidates of a round (``question.round_input``): the text is an item
    as for ``strings``, and round i of a series asks for its first ``levels[i]`` bits. There are at most ``candidates``
    of them. ``other`` names the category of all texts with another prefix, ``outside`` that of texts that the domain
    does not hold, ``missing`` that of devices without a text (without ``outside``, of the domain); they follow the
    candidates' categories in this order."""

    levels: Annotated[tuple[int, ...], Field(min_length=1, max_length=MAX_ITEM_BITS, strict=False)]
    candidates: Annotated[int, Field(ge=1, le=MAX_CANDIDATES)]
    other: Label

    def model_post_init(self, context: Any, /) -> None:
        """Refuse levels that do not rise to whole items, and labels that a candidate could have."""
        super().model_post_init(context)
        rising = all(low < high for low, high in itertools.pairwise((0, *self.levels)))
        if not rising or self.levels[-1] != self.bits:
            raise wrong("levels", f"must rise from 1 or more to {self.bits}, the bits of an item")
        named = {"other": self.other, "outside": self.outside, "missing": self.missing}
        _check_stated((), *named.values())
        for name, label in named.items():
            if label is not None and label.startswith((QUOTE, UNUSED)):
                raise wrong(name, f"must not begin with {QUOTE} or {UNUSED}, as candidates' labels do")

    @property
    def cells(self) -> int:
        """How many categories there are: the candidates', and those of ``other``, ``outside`` and ``missing``."""
        return self.candidates + 1 + (self.outside is not None) + (self.missing is not None)


def _check_stated(labels: tuple[str, ...], *named: str | None) -> None:
    """Refuse a category for outside or missing values whose label is already in use."""
    stated = [label for label in named if label is not None]
    if len({*labels, *stated}) != len(labels) + len(stated):
        raise ValueError("the categories for other and missing values must have labels that no other category has")


def conjunction(criteria: Mapping[str, str]) -> str:
    """Attributes with their values in words, such as ``locale=de,os=linux``."""
    return ",".join(f"{name}={value}" for name, value in sorted(criteria.items()))


class Cells(Part):
    """This many answers, or a yes or no (1), without names: enough to compare ways to ask, but not for a recipe."""

    kind: Literal["cells"]
    cells: Size


class Watched(Part):
    """How often the event ``metric`` happens in ``steps`` periods of ``step_seconds`` from ``start`` on (POSIX
    seconds), counted up to ``most``, which a count does not need. If ``start`` is left out, the first step is the next
    one by the clock of the party that makes the recipe."""

    kind: Literal["occurrences"]
    start: Natural | None = None
    step_seconds: Annotated[int, Field(ge=1, le=MAX_STEP_SECONDS)]
    steps: Annotated[int, Field(ge=1, le=MAX_STEPS)]
    most: Annotated[int, Field(ge=1, le=MAX_OCCURRENCES)] | None = None

    def from_now(self, now: float) -> Watched:
        """The same with a start: the next multiple of ``step_seconds`` after ``now`` where none is stated."""
        following = (int(now) // self.step_seconds + 1) * self.step_seconds
        return self if self.start is not None else self.model_copy(update={"start": following})

    def asked(self) -> Occurrences:
        """The encoder for a recipe. Raises FieldError."""
        if self.start is None:
            raise FieldError("encoder.start", "is needed to make a recipe")
        return Occurrences.model_validate({**dict(self), "most": self.most or 1})


EncoderSpec = Annotated[
    Buckets | Categories | Boolean | Number | Vector | Update | Attributes | Occurrences | Strings | Prefixes,
    Field(discriminator="kind"),
]
AnyEncoder = (
    Buckets | Categories | Boolean | Number | Vector | Update | Attributes | Watched | Strings | PrefixSearch | Cells
)
"""What a survey may hold: from these, a recipe's encoder follows."""
