"""Reads CSV files as people write them: finds the separator, and reports a mistake with the line where its row
begins."""

from __future__ import annotations

import csv
from collections.abc import Iterator
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
        file.seek(0)
        try:
            headers[separator] = next(_rows(file, separator), Row(1, [])).cells
        except MalformedCsvError as fault:
            faults.append(fault)
    if not headers:
        raise faults[0]
    fitting = [one for one, header in headers.items() if column in header]
    separator = fitting[0] if fitting else max(headers, key=lambda one: len(headers[one]))
    file.seek(0)
    rows = _rows(file, separator)
    next(rows, None)
    return Table(headers[separator], separator, rows)


def _rows(file: TextIO, separator: str) -> Iterator[Row]:
    reader = csv.reader(_lines(file), delimiter=separator, strict=True)
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


def _lines(file: TextIO) -> Iterator[str]:
    number = 1
    while line := file.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE:
            raise MalformedCsvError(number, f"the line is longer than {MAX_LINE:,} characters")
        yield line
        number += 1
