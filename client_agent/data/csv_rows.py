"""Reads CSV files as people write them: finds the separator, and reports a mistake with the line where its row
begins."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TextIO

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
MAX_LINE = 1 << 20
"""Characters of the longest line: no more are held in memory."""


class MalformedCsvError(Exception):
    """The file is no table: ``why``, and the ``line`` (the header is line 1) where the faulty row begins."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line = line
        self.why = why


class UnclearColumnError(Exception):
    """A column that the header does not have, or has more than once: ``why``."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Row(NamedTuple):
    """The cells of a row, and the line of the file where the row begins; a quoted cell may span several lines."""

    line: int
    cells: list[str]


class Table(NamedTuple):
    """Header and the rows below it, without blank lines. Iterating over the rows raises ``MalformedCsvError``."""

    header: list[str]
    separator: str
    rows: Iterator[Row]


def table_of(file: TextIO, column: str) -> Table:
    """The table in ``file``, which was opened with ``newline=""``. Its separator is the first (commas first) with which
    the header has ``column``; if there is none, the one that gives most columns. An empty header means an empty file.
    Raises ``MalformedCsvError``."""
    headers: dict[str, list[str]] = {}
    faults: list[MalformedCsvError] = []
    for separator in SEPARATORS:
        try:
            headers[separator] = next(_rows(file, separator), Row(1, [])).cells
        except MalformedCsvError as fault:
            faults.append(fault)
    if not headers:
        raise faults[0]
    fitting = [one for one, header in headers.items() if column in header]
    separator = fitting[0] if fitting else max(headers, key=lambda one: len(headers[one]))
    rows = _rows(file, separator)
    next(rows, None)
    return Table(headers[separator], separator, rows)


def place_of(column: str, header: Sequence[str]) -> int:
    """Index of ``column`` in ``header``. Raises ``UnclearColumnError`` unless it stands there once: a column is never
    guessed."""
    if header.count(column) > 1:
        raise UnclearColumnError("there more than once")
    if column not in header:
        raise UnclearColumnError(not_among(column, header))
    return header.index(column)


def not_among(name: str, names: Iterable[str]) -> str:
    """In words that ``name`` is not there, and which of ``names`` differ by no more than case, blanks and quotes."""
    near = [one for one in names if _bare(one) == _bare(name)]
    return f"not there, but {' and '.join(map(repr, near[:3]))} is" if near else "not there"


def _bare(name: str) -> str:
    return name.strip("\"' \t\ufeff\xa0").casefold()


def _rows(file: TextIO, separator: str) -> Iterator[Row]:
    """The rows of the whole file, which is read from its beginning."""
    reader = csv.reader(_lines(file, by_return=_ends_lines_by_return(file)), delimiter=separator, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise MalformedCsvError(line, f"not valid CSV ({error})") from error
        if cells:
            yield Row(line, cells)


def _ends_lines_by_return(file: TextIO) -> bool:
    """Whether the lines of the file end with a carriage return alone, as its first one does. Goes to its beginning."""
    file.seek(0)
    read, last = 0, ""
    while read <= MAX_LINE and (line := file.readline(MAX_LINE + 1)) and not line.endswith("\n"):
        read, last = read + len(line), line
    is_by_return = (not line or not line.endswith("\n")) and last.endswith("\r")
    file.seek(0)
    return is_by_return


def _lines(file: TextIO, *, by_return: bool) -> Iterator[str]:
    """The lines of a file that was opened with ``newline=""``, each with its end. A carriage return within a line of
    another file ends no line: its cells would be taken for the row below."""
    number = 1
    while line := _line(file, by_return=by_return):
        if len(line) > MAX_LINE:
            raise MalformedCsvError(number, f"the line is longer than {MAX_LINE:,} characters")
        if "\0" in line:
            raise MalformedCsvError(number, "a NUL character, which no text has; save the file as UTF-8")
        yield line
        number += 1


def _line(file: TextIO, *, by_return: bool) -> str:
    line = file.readline(MAX_LINE + 1)
    while not by_return and line.endswith("\r") and len(line) <= MAX_LINE:
        more = file.readline(MAX_LINE + 1)
        if not more:
            break
        line += more
    return line
