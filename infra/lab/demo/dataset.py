"""The demo's input: one row is one device.

The built-in data is ``randhie.csv`` beside this module, from the RAND Health Insurance Experiment (20,190 person-years,
column ``mdvis``: outpatient visits; ``randhie.md`` says where it comes from). Own data is a CSV file with a header.
Whatever is wrong with a file is one ``UsageError`` that names file, line and column and says what to do.
"""

from __future__ import annotations

import itertools
import math
import re
import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

from infra.lab.demo.proposed import Shown
from infra.lab.devices.columns import read_column, says_nothing
from tacit.counting_words import plural
from tacit.errors import DecodeError, UsageError
from tacit.recipe import model
from tacit.recipe.encoder import BucketEncoder, holds_one
from tacit.recipe.quantity import PLACES, exact, quantity
from tacit.recipe.writing.survey import CATEGORY
from tacit.tlog.canonical import validate

T = TypeVar("T")

MIN_DEVICES = 200
MAX_DEVICES = 100_000
MAX_CATEGORIES = 64
MAX_BUCKETS = 16
FEW_BUCKETS = 6
NUMERIC_SHARE = 0.9
"""From this share of numeric cells on, a column counts as numeric and a text cell in it as a mistake."""

_NUMBERS = BucketEncoder((0, 1))
"""Knows which text devices read as a number."""
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}( .*)?")
_GROUPED = re.compile(r"[+-]?\d[\d.,'_\s]*")

RANDHIE = Path(__file__).with_name("randhie.csv")
RANDHIE_LABEL = "RAND Health Insurance Experiment (public domain)"


@dataclass(frozen=True)
class Question:
    """What the demo asks: the column, and either bucket edges or categories."""

    text: str
    metric: str
    edges: tuple[int | str, ...] | None = None
    categories: tuple[str, ...] | None = None
    numbers: int | None = None
    """Ask for a whole number from 1 to this one, instead of a bucket or a category."""
    proposed: bool = False
    missing: str = CATEGORY
    """What becomes of devices without a value, as in a survey."""

    @property
    def asked(self) -> model.Question:
        """As a recipe asks it. Raises ``DecodeError`` where no recipe may: labels too long, edges too large."""
        buckets: dict[str, object] = {"kind": "buckets", "edges": self.edges}
        categories: dict[str, object] = {"kind": "categories", "categories": self.categories}
        encoder = buckets if self.categories is None else categories
        if self.numbers is not None:
            encoder = {"kind": "number", "low": 1, "high": self.numbers}
        body = {"text": self.text, "metric": self.metric, "encoder": encoder, "statistic": "histogram"}
        return validate(model.Question, body, "question")


@dataclass(frozen=True)
class Dataset:
    """``values[i]`` is the datum of device ``i`` as text, exactly as the file has it; an empty one is none."""

    source: str
    question: Question
    values: tuple[str, ...]
    silent: tuple[str, ...] = ()
    """The different texts in the file that usually stand for no value: of numbers they do, of texts they are asked
    for."""
    below: int = 0
    """How many numbers lie below the first edge; devices count them in the first bucket."""
    between: int = 0
    """How many numbers lie between whole ones in a bucket that has the name of one whole number."""

    @property
    def missing(self) -> int:
        """How many devices have no value."""
        return sum(not value.strip() for value in self.values)


@dataclass(frozen=True)
class _Column:
    path: Path
    name: str
    cells: list[tuple[int, str]]
    """(line of the file where the row begins, cell text)"""

    @property
    def filled(self) -> list[tuple[int, str]]:
        """The cells that are not blank."""
        return [cell for cell in self.cells if cell[1].strip()]

    @property
    def said(self) -> list[tuple[int, str]]:
        """Those with more than what usually stands for no value."""
        return [cell for cell in self.filled if not says_nothing(cell[1])]

    def wrong(self, line: int, what: str, mend: str) -> UsageError:
        return UsageError(f"{self.path}: line {line}, column {self.name}: {what}; {mend}")


def load_randhie(devices: int | None, shown: Shown | None = None) -> Dataset:
    """The built-in data, the first ``devices`` rows of it; with ``shown`` in as many buckets as these can show. Raises
    ``UsageError`` where there are fewer."""
    visits = _take([cell for _, cell in read_column(RANDHIE, "mdvis")], devices, "the built-in data set")
    edges: tuple[int | str, ...] = tuple(range(MAX_BUCKETS))
    if shown is not None:
        edges = shown.buckets(edges, [float(one) for one in visits], len(visits))
    return Dataset(RANDHIE_LABEL, Question("How many outpatient doctor visits?", "mdvis", edges=edges), tuple(visits))


def load_csv(
    path: Path,
    column: str,
    *,
    edges: Sequence[int | str] | None,
    categories: Sequence[str] | None,
    devices: int | None,
    no_value: Collection[str] = (),
    shown: Shown | None = None,
) -> Dataset:
    """Read ``column`` of ``path``, no more rows of it than there are to be ``devices``, and settle the question: where
    it is proposed of numbers, with ``shown`` in as many buckets as these devices can show. A cell with a text of
    ``no_value`` holds none, nor does one of numbers with what usually stands for none: to devices it is no number.
    Raises ``UsageError`` with the first thing wrong."""
    if devices is not None and devices > MAX_DEVICES:
        raise UsageError(_too_many(path, column, f"{devices:,} devices are asked for"))
    cells = list(itertools.islice(read_column(path, column), MAX_DEVICES + 1 if devices is None else devices))
    if len(cells) > MAX_DEVICES:
        raise UsageError(_too_many(path, column, f"has more than {MAX_DEVICES:,} rows"))
    if len(cells) < MIN_DEVICES and devices is None:
        raise UsageError(
            f"{path}: {plural(len(cells), 'row')} below the header, column {column}; "
            f"the demo needs at least {MIN_DEVICES} rows (one row is one device)"
        )
    rows = [(line, "" if text.strip() in no_value else text) for line, text in _take(cells, devices, str(path))]
    taken = _Column(path, column, rows)
    if not taken.said:
        raise UsageError(f"{path}: column {column}: every cell is empty; pick another column")
    if edges is not None:
        question = Question(f"How is {column} distributed?", column, edges=tuple(edges))
    elif categories is not None:
        question = Question(f"How is {column} distributed?", column, categories=tuple(categories))
    else:
        question = _propose(taken, shown)
    _check_form(taken, question)
    _check_cells(taken, question)
    is_number = question.edges is not None
    found = Counter(text.strip() for _, text in taken.filled if says_nothing(text))
    values = tuple("" if is_number and says_nothing(text) else text for _, text in taken.cells)
    below = 0
    if question.edges is not None:
        first = float(exact(question.edges[0]))
        below = sum(value < first for _, text in taken.said if (value := _number(text)) is not None)
    named = frozenset() if question.edges is None else holds_one(question.edges)
    numbers = [value for _, text in taken.said if (value := _number(text)) is not None]
    between = sum(math.floor(value) in named and not value.is_integer() for value in numbers)
    return Dataset(str(path), question, values, tuple(found), below, between)


def _check_form(column: _Column, question: Question) -> None:
    try:
        _ = question.asked
    except DecodeError as error:
        raise UsageError(
            f"{column.path}: column {column.name[:64]}: no recipe may ask this ({error}); give --buckets or "
            "--categories, or write the file in other units or with shorter names"
        ) from error


def _too_many(path: Path, column: str, what: str) -> str:
    return (
        f"{path}: {what}, and the demo simulates {MAX_DEVICES:,} at most; take the first ones with --devices "
        f"{MAX_DEVICES}, or ask all of them on a stack (tacit up) with tacit fleet run --population {path} --column "
        f"{column}"
    )


def _take(items: list[T], devices: int | None, source: str) -> list[T]:
    if devices is None:
        return items
    if devices < MIN_DEVICES:
        raise UsageError(f"{devices} devices are too few to hide in; ask for at least {MIN_DEVICES}")
    if devices > len(items):
        raise UsageError(f"{source}: has {plural(len(items), 'row')}, --devices asks for {devices}; ask for fewer")
    return items[:devices]


def _number(text: str) -> float | None:
    """The finite number that devices read in ``text``."""
    value = math.nan if _NUMBERS.encode(text) is None else float(text)
    return value if math.isfinite(value) else None


def _no_number(text: str) -> tuple[str, str]:
    """Why ``text`` is no number that devices read, and what to do about it, in words."""
    shown, bare = repr(text[:20]), text.strip()
    if _DATE.fullmatch(bare):
        return (
            f"{shown} is a date, not a number",
            "ask for a number made of it (a year, days since)",
        )
    if _GROUPED.fullmatch(bare):
        return f"{shown} is not a number as devices read it", "write it like 1234.5, with nothing between the thousands"
    return (
        f"{shown} is not a number",
        f"leave the cell empty where there is no value, say --no-value {shlex.quote(bare[:20])} if this means none, or "
        "use --categories for text",
    )


def _propose(column: _Column, shown: Shown | None) -> Question:
    """Edges for a numeric column, the distinct values for any other."""
    numbers = [value for _, text in column.said if (value := _number(text)) is not None]
    text = f"How is {column.name} distributed?"
    if len(numbers) >= NUMERIC_SHARE * len(column.said):
        devices = len(column.cells)
        edges = _propose_edges(numbers, MAX_BUCKETS if shown is None else shown.most(devices))
        edges = edges if shown is None else shown.buckets(edges, numbers, devices)
        return Question(text, column.name, edges=edges, proposed=True)
    counts = Counter(cell for _, cell in column.filled)
    if len(counts) > MAX_CATEGORIES:
        line, first = column.filled[0]
        what, mend = _no_number(first)
        more = f"{len(counts)} distinct values are more than {MAX_CATEGORIES}"
        if _GROUPED.fullmatch(first.strip()) or _DATE.fullmatch(first.strip()):
            raise column.wrong(line, f"{more}, and {what}", mend)
        raise column.wrong(line, more, "name the categories with --categories, or pick another column")
    if len(counts) < 2:
        raise column.wrong(column.filled[0][0], "every row has the same value", "pick another column")
    return Question(text, column.name, categories=tuple(sorted(counts)), proposed=True)


def _propose_edges(numbers: Sequence[float], quantiles_most: int) -> tuple[int | str, ...]:
    """At most 16 lower edges: every integer where there are few, at most so many quantiles where there are many;
    fractional ones where numbers that are not whole would else fall into a few."""
    low, high = math.floor(min(numbers)), math.floor(max(numbers))
    ordered = sorted(numbers)
    most = ordered[int(0.98 * (len(ordered) - 1))]
    tail = math.floor(most)
    if tail - low < FEW_BUCKETS and most > ordered[0] and not all(number.is_integer() for number in numbers):
        return _fractional_edges(ordered[0], most)
    if tail - low < MAX_BUCKETS:
        last = max(low + 1, min(high, low + MAX_BUCKETS - 1))
        return tuple(range(low, last + 1))
    quantiles = {math.floor(ordered[(len(ordered) - 1) * i // quantiles_most]) for i in range(quantiles_most)}
    return tuple(sorted(quantiles | {low}))


def _fractional_edges(low: float, high: float) -> tuple[int | str, ...]:
    """At most 16 multiples of a power of ten, or of its half or fifth, from ``low`` on."""
    for size in itertools.chain.from_iterable((power, power / 2, power / 5) for power in map(_tenth, range(PLACES))):
        first, last = (math.floor(Fraction(repr(number)) / size) for number in (low, high))
        if last - first >= FEW_BUCKETS:
            break
    return tuple(quantity(at * size) for at in range(first, max(first + 1, min(last, first + MAX_BUCKETS - 1)) + 1))


def _tenth(places: int) -> Fraction:
    return Fraction(1, 10**places)


def _check_cells(column: _Column, question: Question) -> None:
    for line, text in column.filled if question.edges is None else column.said:
        if question.edges is not None:
            if _number(text) is None:
                raise column.wrong(line, *_no_number(text))
        elif question.categories is not None and text not in question.categories:
            mend = f"add it to --categories, or say --no-value {shlex.quote(text.strip()[:20])} if it means none"
            raise column.wrong(line, f"{text[:20]!r} is none of the categories", mend)
