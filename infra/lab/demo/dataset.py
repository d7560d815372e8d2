"""The demo's input: one row is one device.

The built-in data is the RAND Health Insurance Experiment as statsmodels ships it (20,190 person-years, column
``mdvis``: outpatient visits). Own data is a CSV file with a header. Whatever is wrong with a file is one
``UsageError`` that names file, line and column and says what to do.
"""

from __future__ import annotations

import io
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from client_agent.csv_rows import SEPARATORS, MalformedCsvError, table_of
from tacit.errors import UsageError
from tacit.recipe.encoder import BucketEncoder

T = TypeVar("T")

MIN_DEVICES = 200
MAX_CATEGORIES = 64
MAX_BUCKETS = 16
NUMERIC_SHARE = 0.9
"""From this share of numeric cells on, a column counts as numeric and a text cell in it as a mistake."""

_NUMBERS = BucketEncoder((0, 1))
"""Knows which text devices read as a number."""
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}( .*)?")
_GROUPED = re.compile(r"[+-]?\d[\d.,'_\s]*")

RANDHIE_LABEL = "RAND Health Insurance Experiment (statsmodels.datasets.randhie)"


@dataclass(frozen=True)
class Question:
    """What the demo asks: the column, and either bucket edges or categories."""

    text: str
    metric: str
    edges: tuple[int, ...] | None = None
    categories: tuple[str, ...] | None = None
    proposed: bool = False


@dataclass(frozen=True)
class Dataset:
    """``values[i]`` is the datum of device ``i`` as text, exactly as the file has it; an empty one is none."""

    source: str
    question: Question
    values: tuple[str, ...]

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
        """The cells with a value in them."""
        return [cell for cell in self.cells if cell[1].strip()]

    def wrong(self, line: int, what: str, mend: str) -> UsageError:
        return UsageError(f"{self.path}: line {line}, column {self.name}: {what}; {mend}")


def load_randhie(devices: int | None) -> Dataset:
    """The built-in data, the first ``devices`` rows of it. Raises ``UsageError`` where statsmodels is absent."""
    try:
        from statsmodels.datasets import randhie
    except ImportError as error:
        raise UsageError("the demo's data set needs the extra 'demo': pip install 'tacit[demo]'") from error
    visits = [str(int(value)) for value in randhie.load_pandas().data["mdvis"]]
    question = Question("How many outpatient doctor visits?", "mdvis", edges=tuple(range(MAX_BUCKETS)))
    return Dataset(RANDHIE_LABEL, question, tuple(_take(visits, devices, "the built-in data set")))


def load_csv(
    path: Path,
    column: str,
    *,
    edges: Sequence[int] | None,
    categories: Sequence[str] | None,
    devices: int | None,
) -> Dataset:
    """Read ``column`` of ``path`` and settle the question. Raises ``UsageError`` with the first thing wrong."""
    cells = list(read_column(path, column))
    if len(cells) < MIN_DEVICES and devices is None:
        raise UsageError(
            f"{path}: {len(cells)} rows below the header, column {column}; "
            f"the demo needs at least {MIN_DEVICES} rows (one row is one device)"
        )
    taken = _Column(path, column, _take(cells, devices, str(path)))
    if not taken.filled:
        raise UsageError(f"{path}: column {column}: every cell is empty; pick another column")
    if edges is not None:
        question = Question(f"How is {column} distributed?", column, edges=tuple(edges))
    elif categories is not None:
        question = Question(f"How is {column} distributed?", column, categories=tuple(categories))
    else:
        question = _propose(taken)
    _check_cells(taken, question)
    return Dataset(str(path), question, tuple(text for _, text in taken.cells))


def _take(items: list[T], devices: int | None, source: str) -> list[T]:
    if devices is None:
        return items
    if devices < MIN_DEVICES:
        raise UsageError(f"{devices} devices are too few to hide in; ask for at least {MIN_DEVICES}")
    if devices > len(items):
        raise UsageError(f"{source}: has {len(items)} rows, --devices asks for {devices}; ask for fewer")
    return items[:devices]


def read_column(path: Path, column: str) -> Iterator[tuple[int, str]]:
    """Yield (line where the row begins, cell) for each data row. Raises ``UsageError`` for what is not a clean
    table."""
    text = _read_text(path)
    try:
        header, separator, rows = table_of(io.StringIO(text, newline=""), column)
        if not header:
            raise UsageError(f"{path}: line 1: the file is empty; it needs a header and a row per device")
        if header.count(column) != 1:
            found = "more than once" if column in header else f"not among: {', '.join(header)[:120]}"
            raise UsageError(f"{path}: line 1: column {column} is {found}; name one with --column")
        at = header.index(column)
        for line, cells in rows:
            if len(cells) != len(header):
                raise UsageError(
                    f"{path}: line {line}: {len(cells)} cells where the header has {len(header)} (with "
                    f"{SEPARATORS[separator]} between), column {column} cannot be told; make every row as long as "
                    "the header"
                )
            yield line, cells[at]
    except MalformedCsvError as error:
        raise UsageError(f"{path}: line {error.line}, column {column}: {error.why}; mend the quoting") from error


def _read_text(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); check --input") from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}: line {line}: not UTF-8 text; save the file as UTF-8") from error


def _number(text: str) -> float | None:
    """The finite number that devices read in ``text``."""
    value = math.nan if _NUMBERS.encode(text) is None else float(text)
    return value if math.isfinite(value) else None


def _no_number(text: str) -> tuple[str, str]:
    """What ``text`` is instead of a number, and what to do."""
    shown, bare = repr(text[:20]), text.strip()
    if _DATE.fullmatch(bare):
        return (
            f"{shown} is a date, not a number",
            "ask for a number made of it (a year, days since)",
        )
    if _GROUPED.fullmatch(bare):
        return f"{shown} is not a number as devices read it", "write it like 1234.5, with nothing between the thousands"
    return f"{shown} is not a number", "leave the cell empty where there is no value, or use --categories for text"


def _propose(column: _Column) -> Question:
    """Integer edges for a numeric column, the distinct values for any other."""
    numbers = [value for _, text in column.filled if (value := _number(text)) is not None]
    text = f"How is {column.name} distributed?"
    if len(numbers) >= NUMERIC_SHARE * len(column.filled):
        return Question(text, column.name, edges=_propose_edges(numbers), proposed=True)
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


def _propose_edges(numbers: Sequence[float]) -> tuple[int, ...]:
    """At most 16 lower edges: every integer where there are few, quantiles where there are many."""
    low, high = math.floor(min(numbers)), math.floor(max(numbers))
    ordered = sorted(numbers)
    tail = math.floor(ordered[int(0.98 * (len(ordered) - 1))])
    if tail - low < MAX_BUCKETS:
        last = max(low + 1, min(high, low + MAX_BUCKETS - 1))
        return tuple(range(low, last + 1))
    quantiles = {math.floor(ordered[(len(ordered) - 1) * i // MAX_BUCKETS]) for i in range(MAX_BUCKETS)}
    return tuple(sorted(quantiles | {low}))


def _check_cells(column: _Column, question: Question) -> None:
    for line, text in column.filled:
        if question.edges is not None:
            value = _number(text)
            if value is None:
                raise column.wrong(line, *_no_number(text))
            if value < question.edges[0]:
                raise column.wrong(
                    line, f"{text[:20]} lies below the first edge {question.edges[0]}", "lower the first edge"
                )
        elif question.categories is not None and text not in question.categories:
            raise column.wrong(line, f"{text[:20]!r} is none of the categories", "add it to --categories")
