"""What the devices of a fleet know: one datum per device, drawn from a stated distribution or taken from a list.

The data are made up, so an ordinary generator draws them. It does not draw coins or randomised answers
(``infra.lab.devices.decisions``).

A datum is a row of an array: a category, a number, or a vector of numbers. A device's answer is its datum as the
recipe's own encoder rounds and clips it. If a device has no datum, its row holds ``nothing`` for the array's type.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tacit.errors import UsageError
from tacit.methods.base.method import Answer
from tacit.methods.base.statistics import STATISTICS
from tacit.recipe.encoder import MISSING, Encoder, encoder_of
from tacit.recipe.encoder_specs import Domain, Number, Vector
from tacit.recipe.model import Question

Data: TypeAlias = NDArray[Any]
"""An array with one row per device."""
MAX_CATEGORIES = 1 << 20
DEFAULT_EXPONENT = 1.0
_LARGEST = (1 << 64) - 1


class Population(Protocol):
    """Where a simulated fleet's data come from."""

    @property
    def label(self) -> str:
        """A short text that says where the data come from."""
        ...

    @property
    def width(self) -> int:
        """How many numbers one device's datum has."""
        ...

    def of(self, first: int, count: int, generator: np.random.Generator) -> Data:
        """The data of devices ``first`` to ``first + count - 1``, one row each."""
        ...

    def answers(self, data: Data) -> list[Answer | None]:
        """What devices with these data answer, encoded; ``MISSING`` for those without a datum."""
        ...

    def numbers(self, data: Data) -> Data | None:
        """The numbers of devices with these data before rounding and clipping, one row per device; None if the data are
        not numbers."""
        ...


def nothing(kind: np.dtype[Any]) -> float | int:
    """Return what marks a device without a datum in an array: NaN, or the largest integer of the type."""
    return math.nan if kind.kind == "f" else int(np.iinfo(kind).max)


@dataclass(frozen=True)
class WithMissing:
    """Another population in which each device has no datum with probability ``share``."""

    among: Population
    share: float
    answer: Answer | None = MISSING
    """The answer of devices without a datum: a category for them if the question states one."""

    @property
    def label(self) -> str:
        """The other population's label, and the share without a value."""
        return f"{self.among.label}, {self.share:g} without a value"

    @property
    def width(self) -> int:
        """Numbers in a datum of the other population."""
        return self.among.width

    def of(self, first: int, count: int, generator: np.random.Generator) -> Data:
        """The other population's data, with ``nothing`` in the rows of devices that have none."""
        data = self.among.of(first, count, generator)
        data[generator.random(count) < self.share] = nothing(data.dtype)
        return data

    def answers(self, data: Data) -> list[Answer | None]:
        """The other population's answers, and ``answer`` for devices without a datum."""
        return [self.answer if answer is MISSING else answer for answer in self.among.answers(data)]

    def numbers(self, data: Data) -> Data | None:
        return self.among.numbers(data)


@dataclass(frozen=True)
class DrawnCategories:
    """One category per device, drawn with the given probabilities."""

    label: str
    probabilities: tuple[float, ...]
    width: int = 1

    def of(self, _first: int, count: int, generator: np.random.Generator) -> Data:
        """A category from 0 to the last per device, as uint16, or uint32 where there are more."""
        edges = np.cumsum(np.asarray(self.probabilities))
        drawn = np.searchsorted(edges / edges[-1], generator.random(count), side="right")
        kind = np.uint16 if len(edges) < np.iinfo(np.uint16).max else np.uint32
        return np.minimum(drawn, len(edges) - 1).astype(kind)

    def answers(self, data: Data) -> list[Answer | None]:
        """The categories themselves: they are encoded already."""
        return _plain(data)

    def numbers(self, _data: Data) -> None:
        """None, because categories are not numbers."""


@dataclass(frozen=True)
class _Numbers:
    """Numbers that an encoder rounds and clips: ``width`` per device, NaN for a device without any."""

    label: str
    width: int
    encoder: Encoder = field(repr=False)

    def answers(self, data: Data) -> list[Answer | None]:
        """Each device's number or row of numbers as the recipe's encoder rounds and clips it."""
        if self.width == 1:
            return [self.encoder.encode(number) for (number,) in data.tolist()]
        return [self.encoder.encode(row) for row in data.tolist()]

    def numbers(self, data: Data) -> Data:
        """The data unchanged: they already are numbers."""
        return data


@dataclass(frozen=True)
class DrawnNumbers(_Numbers):
    """``width`` independent numbers per device: uniform from ``first`` to ``second``, or normal with mean ``first`` and
    standard deviation ``second``. The encoder rounds and clips them."""

    law: Literal["uniform", "normal"]
    first: float
    second: float

    def of(self, _first: int, count: int, generator: np.random.Generator) -> Data:
        """Shape (count, width), as float64."""
        draw = generator.uniform if self.law == "uniform" else generator.normal
        return draw(self.first, self.second, (count, self.width))


@dataclass(frozen=True)
class ListedNumbers(_Numbers):
    """One device's numbers per row; device i has row i modulo the number of rows. The encoder rounds and clips them."""

    rows: Data = field(repr=False)

    def of(self, first: int, count: int, _generator: np.random.Generator) -> Data:
        """Rows ``first`` to ``first + count - 1`` of the list, which begins again at its end; shape (count, width)."""
        return self.rows[np.arange(first, first + count) % len(self.rows)]


@dataclass(frozen=True)
class ListedAnswers:
    """One encoded answer per row; device i has row i modulo the number of rows. ``items``: where answers are longer
    than a number of an array, all that there are; rows are then their places."""

    label: str
    rows: Data = field(repr=False)
    items: tuple[int, ...] = field(default=(), repr=False)

    @property
    def width(self) -> int:
        """Numbers in an encoded answer: those of a row, or 1."""
        return self.rows.shape[1] if self.rows.ndim > 1 else 1

    def of(self, first: int, count: int, _generator: np.random.Generator) -> Data:
        """Rows ``first`` to ``first + count - 1`` of the list, which begins again at its end."""
        return self.rows[np.arange(first, first + count) % len(self.rows)]

    def answers(self, data: Data) -> list[Answer | None]:
        """The listed answers themselves: they were encoded when the file was read."""
        found = _plain(data)
        return [self.items[one] if isinstance(one, int) else one for one in found] if self.items else found

    def numbers(self, _data: Data) -> None:
        """None, because the list holds answers, not numbers."""


def drawn_population(question: Question, text: str | None) -> Population:
    """Parse ``text`` as a distribution of what ``question`` asks for: of categories (default: zipf), or of numbers
    (default: uniform over the question's range). Raises ``UsageError``."""
    if isinstance(question.encoder, Domain):
        raise UsageError("a question about texts needs --population FILE: one row is one device")
    if isinstance(question.encoder, Number | Vector) and not STATISTICS[question.statistic].is_one_hot:
        return _numbers(question, question.encoder, "uniform" if text is None else text)
    encoder = encoder_of(question)
    missing = encoder.encode(None)
    label = encoder.labels[missing] if isinstance(missing, int) and missing < len(encoder.labels) else None
    return parse_population("zipf" if text is None else text, max(2, len(encoder.labels)), label)


def parse_population(text: str, categories: int, missing: str | None = None) -> DrawnCategories:
    """Parse ``text`` as a distribution over ``categories`` categories; ``missing``: the label of the one for devices
    without a value, if it is one of them. Raises ``UsageError``."""
    if not 2 <= categories <= MAX_CATEGORIES:
        raise UsageError(f"a population has 2 to {MAX_CATEGORIES} categories, not {categories}")
    kind, _, rest = text.partition(":")
    if kind == "uniform" and not rest:
        return DrawnCategories(text, (1 / categories,) * categories)
    if kind == "zipf":
        exponent = _number(rest) if rest else DEFAULT_EXPONENT
        weights = [(rank + 1) ** -exponent for rank in range(categories)]
    elif kind == "weights" and rest:
        weights = [_number(part) for part in rest.split(",")]
    else:
        raise UsageError(
            "--data of categories takes uniform, zipf[:EXPONENT] or weights:W,W,... (one weight per category)"
        )
    total = math.fsum(weights)
    if len(weights) != categories or not 0 < total < math.inf:
        last = f"; the last is that of {missing!r}, devices without a value, and may be 0" if missing else ""
        raise UsageError(f"--data: {categories} weights are needed, at least one of them above 0{last}")
    return DrawnCategories(text, tuple(weight / total for weight in weights))


def listed_population(label: str, answers: Sequence[Answer | None]) -> ListedAnswers:
    """Make a population of one device per encoded answer (or ``MISSING``), repeated as needed. Raises ``UsageError`` if
    no device has an answer."""
    given = [answer for answer in answers if answer is not None]
    if not given:
        raise UsageError(f"{label}: holds no device with a value")
    items: tuple[int, ...] = ()
    if any(isinstance(answer, int) and answer >= _LARGEST for answer in given):
        items = tuple(sorted({answer for answer in given if isinstance(answer, int)}))
        places = {item: place for place, item in enumerate(items)}
        given = [places[answer] for answer in given if isinstance(answer, int)]
    known = np.asarray(given, dtype=np.uint64)
    kind = np.dtype(np.uint16 if known.max() < np.iinfo(np.uint16).max else np.uint64)
    rows = np.full((len(answers), *known.shape[1:]), nothing(kind), dtype=kind)
    rows[[answer is not None for answer in answers]] = known
    return ListedAnswers(label, rows, items)


def listed_numbers(label: str, question: Question, cells: Sequence[str]) -> ListedNumbers:
    """Make a population of one device per cell, repeated as needed: its number, or its vector with commas between.
    Raises ``UsageError`` if no device has a value."""
    encoder, spec = encoder_of(question), question.encoder
    width = spec.length if isinstance(spec, Vector) else 1
    rows = np.full((len(cells), width), math.nan)
    for row, cell in enumerate(cells):
        if encoder.encode(cell) is not MISSING:
            rows[row] = [float(part) for part in cell.split(",")]
    if np.isnan(rows).all():
        raise UsageError(f"{label}: holds no device with a value")
    return ListedNumbers(label, width, encoder, rows)


def _numbers(question: Question, spec: Number | Vector, text: str) -> DrawnNumbers:
    kind, _, rest = text.partition(":")
    width = spec.length if isinstance(spec, Vector) else 1
    encoder = encoder_of(question)
    if kind == "uniform" and not rest:
        return DrawnNumbers(text, width, encoder, "uniform", float(spec.least), float(spec.most))
    mean, comma, deviation = rest.partition(",")
    if kind != "normal" or not comma:
        raise UsageError("--data of numbers takes uniform or normal:MEAN,DEVIATION")
    return DrawnNumbers(text, width, encoder, "normal", _number(mean, -math.inf), _number(deviation))


def _plain(data: Data) -> list[Answer | None]:
    """Convert rows to integers, or tuples of them; ``MISSING`` where there is ``nothing``."""
    void = data == nothing(data.dtype)
    plain = data.tolist() if data.ndim == 1 else [tuple(row) for row in data.tolist()]
    is_void = void if data.ndim == 1 else void.all(axis=1)
    return [MISSING if none else one for none, one in zip(is_void, plain, strict=True)]


def _number(text: str, least: float = 0.0) -> float:
    try:
        number = float(text)
    except ValueError as error:
        raise UsageError(f"--data: {text[:20]!r} is not a number") from error
    if not least <= number < math.inf or math.isinf(number):
        raise UsageError("--data: numbers are finite, and only a mean may be below 0")
    return number
