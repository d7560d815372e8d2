"""Reads one column of a CSV file with a header and a row per device; any fault of the file is a ``UsageError``."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, TextIO

from client_agent.data.csv_rows import SEPARATORS, MalformedCsvError, table_of
from tacit.adapters.disk.named_files import open_seekable
from tacit.counting_words import plural
from tacit.errors import UsageError

MAX_COLUMNS = 1000
CHUNK = 1 << 16
NO_VALUE: Final = frozenset(
    ("", "na", "n/a", "n.a.", "#n/a", "nan", "null", "none", "nil", "missing", "-", "--", "\u2013", "\u2014", ".", "?")
)
"""What stands in tables where there is no value, in lower case."""


def read_column(path: Path, column: str) -> Iterator[tuple[int, str]]:
    """Yield (line where the row begins, cell) for each data row. Raises ``UsageError`` if the file is not a clean
    table."""
    with _opened(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        try:
            yield from _cells(path, text, column)
        except OSError as error:
            raise UsageError(f"{path}: cannot be read ({error.strerror}); check the file") from error
        except UnicodeDecodeError as error:
            line = _line_of_other_text(file)
            raise UsageError(f"{path}: line {line}: not UTF-8 text; save the file as UTF-8") from error


def says_nothing(cell: str) -> bool:
    """Whether a cell is empty, or what programs and people write into one where there is no value."""
    return cell.strip().casefold() in NO_VALUE


def _opened(path: Path) -> BinaryIO:
    try:
        return open_seekable(path)
    except UsageError as error:
        why = str(error).removeprefix(f"{path}: ")
        raise UsageError(f"{path}: cannot be read ({why}); name a file, /dev/stdin or <(COMMAND)") from error


def _cells(path: Path, file: TextIO, column: str) -> Iterator[tuple[int, str]]:
    try:
        header, separator, rows = table_of(file, column)
        if not header:
            raise UsageError(f"{path}: line 1: the file is empty; it needs a header and a row per device")
        if len(header) > MAX_COLUMNS:
            raise UsageError(
                f"{path}: line 1: {len(header):,} columns are more than {MAX_COLUMNS:,}; keep column {column} alone"
            )
        if header.count(column) != 1:
            found = "more than once" if column in header else f"not among: {', '.join(header)[:120]}"
            raise UsageError(f"{path}: line 1: column {column} is {found}; name one with --column")
        at = header.index(column)
        for line, cells in rows:
            if len(cells) != len(header):
                raise UsageError(
                    f"{path}: line {line}: {plural(len(cells), 'cell')} where the header has {len(header)} (with "
                    f"{SEPARATORS[separator]} between), so column {column} is unclear; make every row as long as "
                    "the header"
                )
            yield line, cells[at]
    except MalformedCsvError as error:
        raise UsageError(
            f"{path}: line {error.line}, column {column}: {error.why}; fix the line or its quoting"
        ) from error


def _line_of_other_text(file: BinaryIO) -> int:
    """Return the number of the file's first line that is not UTF-8."""
    decoder, line = codecs.getincrementaldecoder("utf-8")(), 1
    file.seek(0)
    while chunk := file.read(CHUNK):
        try:
            decoder.decode(chunk)
        except UnicodeDecodeError as error:
            return line + error.object.count(b"\n", 0, error.start)
        line += chunk.count(b"\n")
    return line
