"""Where a device's own datum comes from.

A source answers one question: what is the value of this metric on this device, now? ``None`` means that the
device has no such datum. File sources read the newest row, or the row that the configuration names, each time they are
asked.

Whether there is a value, and whether the source can be read at all, may say as much about a person as the value. So the
device's behaviour does not depend on it (P27): ``read`` always answers, within ``READ_SECONDS``, and what cannot be
read is no value. It is asked once, when the device decides, and never again: a device that waited for a value would
take part later, or less often, than others.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import sqlite3
import threading
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal, Protocol, TypeVar

from pydantic import Field

from client_agent.data.csv_rows import MalformedCsvError, Row, UnclearColumnError, not_among, place_of, table_of
from tacit.adapters.disk.files import open_file
from tacit.counting_words import plural
from tacit.errors import UsageError
from tacit.service.base.config_files import ConfigPath, Frozen

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Value = str | int | float | bool | list[str | int | float | bool]
Ask = Callable[[], Value | None]
"""What reads a datum when it is called."""
MAX_FILE_BYTES = 64 * 1024 * 1024
READ_SECONDS = 10.0
"""Most seconds that a source may take."""
NOT_UTF8 = "cannot read the data source (not UTF-8 text; save the file as UTF-8)"
T = TypeVar("T")


class DataSource(Protocol):
    """Where an agent reads its device's own values."""

    def value(self, metric: str, round_input: str | None = None) -> Value | None:
        """The current value of ``metric``, or ``None`` if there is none. Raises ``UsageError``.

        ``round_input`` is what a round of a series asks about (``question.round_input``); a source that cannot use it
        ignores it.
        """
        ...


class Learner(Protocol):
    """What an application trains. It is called as a data source is: in threads of its own, once for each round about
    which the device decides, several at a time, and given up when the time for data is over."""

    def train(
        self, metric: str, parameters: NDArray[np.float32], steps: int, batch_size: int | None, learning_rate: float
    ) -> NDArray[np.floating] | None:
        """``parameters``, ``(entries,)``, after ``steps`` steps on this device's examples of ``metric``, ``batch_size``
        of them in each (None: all), or None if it has no example or no such model. The array that is given may be
        changed."""
        ...


@dataclass(frozen=True)
class Reading:
    """A source's answer: its ``value``, ``None`` if it had none, and what was wrong, for the device's owner."""

    value: Value | None
    trouble: str = ""


async def read(ask: Callable[[], Value | None], seconds: float = READ_SECONDS) -> Reading:
    """The result of ``ask``, which runs in a thread of its own. No value if it raises anything, or has not returned
    within ``seconds`` (then it is left running)."""
    if seconds <= 0:
        return Reading(None, "no time was left to ask the data source")
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[Reading] = loop.create_future()

    def told(reading: Reading) -> None:
        if not answered.done():
            answered.set_result(reading)

    def work() -> None:
        reading = attempt(ask)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for the answer any more
            loop.call_soon_threadsafe(told, reading)

    try:
        threading.Thread(target=work, name="data source", daemon=True).start()
    except RuntimeError:
        return Reading(None, "no thread could be started to ask the data source")
    try:
        return await asyncio.wait_for(answered, seconds)
    except TimeoutError:
        return Reading(None, f"the data source did not answer within {seconds:.3g} seconds")


def attempt(ask: Callable[[], Value | None]) -> Reading:
    """The result of ``ask``; no value if it raises anything."""
    try:
        return Reading(ask())
    except UsageError as error:
        return Reading(None, str(error))
    except Exception as error:  # whatever a source does, the device takes part all the same (P27)
        return Reading(None, f"the data source failed: {type(error).__name__}")


NoValue = Annotated[tuple[Annotated[str, Field(max_length=200)], ...], Field(max_length=32)]


class CsvSourceConfig(Frozen):
    """A CSV file with a header; its cells are separated by commas, semicolons, tabs or bars. An empty cell means no
    value."""

    kind: Literal["csv"]
    """Selects a CSV file as the source."""
    path: ConfigPath
    """The path of the file (at most 64 MiB)."""
    row: int | None = Field(default=None, ge=0)
    """Index, from 0, of the data row that belongs to this device; absent: the last row."""
    columns: dict[str, str] = Field(default_factory=dict)
    """metric -> column, for metrics whose column has another name."""
    no_value: NoValue = ()
    """Texts in cells that mean that there is no value, as ``NA`` or ``-``. An empty cell always does."""


class JsonLinesSourceConfig(Frozen):
    """A file with one JSON object per line."""

    kind: Literal["jsonl"]
    """Selects a file with one JSON object a line."""
    path: ConfigPath
    """The path of the file (at most 64 MiB)."""
    row: int | None = Field(default=None, ge=0)
    """Index, from 0, of the line that belongs to this device; absent: the last line. Blank lines do not count."""
    no_value: NoValue = ()
    """Texts that mean that there is no value, as ``NA`` or ``-``. ``null`` always does."""


class SqliteSourceConfig(Frozen):
    """Reads each value from a SQLite database, by one query."""

    kind: Literal["sqlite"]
    """Selects a SQLite database."""
    path: ConfigPath
    """The file; it is only read."""
    queries: dict[str, str]
    """metric -> SELECT whose first column of the first row is the value. In it ``:round_input`` stands for what a round
    of a series asks about, NULL elsewhere."""


class CsvSource:
    """Reads one row of a CSV file."""

    def __init__(self, config: CsvSourceConfig) -> None:
        self._config = config

    def value(self, metric: str, round_input: str | None = None) -> Value | None:
        """The cell of the metric's column in the chosen row. An empty cell is no value; a row of nothing but empty
        ones is none that anybody meant, and raises ``UsageError`` like everything that leaves the cell unclear."""
        column = self._config.columns.get(metric, metric)
        header, (line, cells) = self._row(column)
        try:
            at = place_of(column, header)
        except UnclearColumnError as error:
            raise UsageError(f"{self._config.path}: column {column!r} is {error.why}") from error
        if len(cells) != len(header):
            cells_in_words = plural(len(cells), "cell")
            raise UsageError(f"{self._config.path}: line {line}: {cells_in_words} where the header has {len(header)}")
        if len(cells) > 1 and not any(cell.strip() for cell in cells):
            raise UsageError(f"{self._config.path}: line {line}: a row of empty cells")
        cell = cells[at]
        return None if not cell.strip() or cell.strip() in self._config.no_value else cell

    def metrics(self) -> list[str]:
        """The metrics of which this file may have a value. Raises ``UsageError``."""
        other = {column: metric for metric, column in self._config.columns.items()}
        return [other.get(name, name) for name in self._row(next(iter(other), ""))[0]]

    def _row(self, column: str) -> tuple[list[str], Row]:
        path = self._config.path
        try:
            with _open_bounded(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
                table = table_of(text, column)
                what = "row below the header" if table.header else "text in it; it needs a header and a row"
                return table.header, _pick(table.rows, self._config.row, what)
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}: {NOT_UTF8}") from error
        except (OSError, MalformedCsvError, LookupError) as error:
            raise UsageError(f"{path}: cannot read the data source ({error})") from error


class JsonLinesSource:
    """Reads one line of a JSON-lines file. A line ends at a line feed: U+2028 and its like stand within texts."""

    def __init__(self, config: JsonLinesSourceConfig) -> None:
        self._config = config

    def value(self, metric: str, round_input: str | None = None) -> Value | None:
        """The member ``metric`` of the chosen line's object; null is no value, and so is a text of ``no_value``."""
        members = self._members()
        if metric not in members:
            raise UsageError(f"{self._config.path}: member {metric!r} is {not_among(metric, members)}")
        if metric in members.repeated:
            raise UsageError(f"{self._config.path}: member {metric!r} is there more than once")
        value = _scalar(members[metric], self._config.path)
        return None if isinstance(value, str) and value.strip() in self._config.no_value else value

    def metrics(self) -> list[str]:
        """The metrics of which this file may have a value. Raises ``UsageError``."""
        return list(self._members())

    def _members(self) -> _Members:
        path = self._config.path
        try:
            with _open_bounded(path) as file:
                marked = (line.removeprefix(BOM_UTF8) if at == 0 else line for at, line in enumerate(file))
                line = _pick((line for line in marked if line.strip()), self._config.row, "line")
            parsed = json.loads(_text(line), object_pairs_hook=_Members, parse_constant=_no_number)
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}: {NOT_UTF8}") from error
        except (OSError, ValueError, RecursionError, LookupError) as error:
            raise UsageError(f"{path}: cannot read the data source ({error})") from error
        if not isinstance(parsed, _Members):
            raise UsageError(f"{path}: each line must be a JSON object")
        return parsed


class _Members(dict[str, object]):
    """A JSON object's members; those that are there more than once are ``repeated``."""

    def __init__(self, members: list[tuple[str, object]]) -> None:
        super().__init__(members)
        names = [name for name, _ in members] if len(self) < len(members) else []
        self.repeated = {name for name in names if names.count(name) > 1}


class SqliteSource:
    """Runs one SELECT on a SQLite file that another program writes; opened read-only."""

    def __init__(self, config: SqliteSourceConfig) -> None:
        self._config = config

    def value(self, metric: str, round_input: str | None = None) -> Value | None:
        """First column of the first row of the metric's query."""
        query = self._config.queries.get(metric)
        if query is None:
            raise UsageError(
                f"{self._config.path}: a query for {metric!r} is {not_among(metric, self._config.queries)}"
            )
        _open(self._config.path).close()  # SQLite itself would wait for ever at a pipe
        try:
            connection = sqlite3.connect(f"{self._config.path.absolute().as_uri()}?mode=ro", uri=True)
            try:
                row = connection.execute(query, {"round_input": round_input}).fetchone()
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise UsageError(f"{self._config.path}: cannot read the data source ({error})") from error
        return None if row is None else _scalar(row[0], self._config.path)

    def metrics(self) -> list[str]:
        """The metrics that have a query; the database is not read."""
        return list(self._config.queries)


FileSource = CsvSource | JsonLinesSource | SqliteSource


class CallableSource:
    """Asks Python functions, for programs that embed the agent: ``function`` with the metric alone, and ``of_round``
    with metric and round input if a round of a series has one (default: ``function``, without the input). They are
    called from threads, a few at a time."""

    def __init__(
        self,
        function: Callable[[str], Value | None],
        of_round: Callable[[str, str], Value | None] | None = None,
    ) -> None:
        self._function = function
        self._of_round = of_round

    def value(self, metric: str, round_input: str | None = None) -> Value | None:
        """Call the application's function and return its value."""
        if round_input is None or self._of_round is None:
            return self._function(metric)
        return self._of_round(metric, round_input)


def open_source(config: CsvSourceConfig | JsonLinesSourceConfig | SqliteSourceConfig | None) -> FileSource:
    """The source that the configuration names. Raises ``UsageError`` if it names none."""
    if config is None:
        raise UsageError("source: name where the device's data is, or be the source yourself (docs/embedding.md)")
    if isinstance(config, CsvSourceConfig):
        return CsvSource(config)
    if isinstance(config, JsonLinesSourceConfig):
        return JsonLinesSource(config)
    return SqliteSource(config)


def _pick(rows: Iterable[T], wanted: int | None, what: str) -> T:
    """The row with the index ``wanted``, or the last one. Raises ``LookupError``."""
    count = -1
    for count, row in enumerate(rows):
        if count == wanted:
            return row
    if wanted is not None:
        raise LookupError(f"{what} {wanted} is not there; the last one is {count}" if count >= 0 else f"no {what}")
    if count < 0:
        raise LookupError(f"no {what}")
    return row


def _scalar(value: object, path: Path) -> Value | None:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, list) and all(isinstance(entry, str | int | float | bool) for entry in value):
        return value
    raise UsageError(f"{path}: the metric's value must be text, a number, a truth value or a list of such")


def _text(line: bytes) -> str:
    if b"\0" in line:
        raise ValueError("a NUL character, which no text has; save the file as UTF-8")
    return line.decode("utf-8")


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not a number in JSON")


def _open(path: Path) -> BinaryIO:
    try:
        return open_file(path)
    except UsageError as error:
        raise UsageError(f"{path}: cannot read the data source ({str(error).removeprefix(f'{path}: ')})") from error


def _open_bounded(path: Path) -> BinaryIO:
    file = _open(path)
    if os.fstat(file.fileno()).st_size > MAX_FILE_BYTES:
        file.close()
        raise UsageError(f"{path}: larger than {MAX_FILE_BYTES // 2**20} MiB; point the agent at a smaller file")
    return file
