"""CSV files as people have them: separators are found, and a mistake is named with the line where its row begins."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import NamedTuple, TextIO

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
MAX_LINE = 1 << 20
"""Characters of the longest line: no more are in memory."""


class MalformedCsvError(Exception):
    """Not a table: ``why``, and the ``line`` (the header is line 1) where the row in question begins."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line = line
        self.why = why


class Row(NamedTuple):
    """The cells of a row, and the line of the file where it begins; a quoted cell may go over several."""

    line: int
    cells: list[str]


class Table(NamedTuple):
    """Header and rows below it; blank lines are none. The rows raise ``MalformedCsvError``."""

    header: list[str]
    separator: str
    rows: Iterator[Row]


def table_of(file: TextIO, column: str) -> Table:
    """The table in ``file``, opened with ``newline=""``: its separator is the one with which the header has ``column``,
    commas first; where none has, the one that makes most columns. A header of no cells: the file is empty. Raises
    ``MalformedCsvError``."""
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
