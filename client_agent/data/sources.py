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
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from pydantic import Field

from client_agent.data.csv_rows import MalformedCsvError, Row, table_of
from tacit.errors import UsageError
from tacit.service.base.config_files import ConfigPath, Frozen

Value = str | int | float | bool | list[str | int | float | bool]
MAX_FILE_BYTES = 64 * 1024 * 1024
READ_SECONDS = 10.0
"""Most seconds that a source may take."""


class DataSource(Protocol):
    """Where an agent reads its device's own values."""

    def value(self, metric: str, round_input: str | None = None) -> Value | None:
        """The current value of ``metric``, or ``None`` if there is none. Raises ``UsageError``.

        ``round_input`` is what a round of a series asks about (``question.round_input``); a source that cannot use it
        ignores it.
        """
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
        reading = _attempt(ask)
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


def _attempt(ask: Callable[[], Value | None]) -> Reading:
    try:
        return Reading(ask())
    except UsageError as error:
        return Reading(None, str(error))
    except Exception as error:  # whatever a source does, the device takes part all the same (P27)
        return Reading(None, f"the data source failed: {type(error).__name__}")


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


class JsonLinesSourceConfig(Frozen):
    """A file with one JSON object per line."""

    kind: Literal["jsonl"]
    """Selects a file with one JSON object a line."""
    path: ConfigPath
    """The path of the file (at most 64 MiB)."""
    row: int | None = Field(default=None, ge=0)
    """Index, from 0, of the line that belongs to this device; absent: the last line."""


class SqliteSourceConfig(Frozen):
    """Reads values from a SQLite database."""

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
        """The cell of the metric's column in the chosen row; an empty cell means no value."""
        path, column = self._config.path, self._config.columns.get(metric, metric)
        _check_size(path)
        try:
            with path.open(newline="", encoding="utf-8-sig") as file:
                table = table_of(file, column)
                if column not in table.header:
                    return None
                chosen = _pick(table.rows, self._config.row)
        except (OSError, UnicodeDecodeError, MalformedCsvError) as error:
            raise UsageError(f"{path}: cannot read the data source ({error})") from error
        if chosen is None:
            return None
        line, cells = chosen
        if len(cells) != len(table.header):
            raise UsageError(f"{path}: line {line}: {len(cells)} cells where the header has {len(table.header)}")
        cell = cells[table.header.index(column)]
        return cell if cell.strip() else None


class JsonLinesSource:
    """Reads one line of a JSON-lines file."""

    def __init__(self, config: JsonLinesSourceConfig) -> None:
        self._config = config

    def value(self, metric: str, round_input: str | None = None) -> Value | None:
        """The member ``metric`` of the chosen line's object."""
        _check_size(self._config.path)
        try:
            lines = [line for line in self._config.path.read_text("utf-8").splitlines() if line.strip()]
            row = self._config.row
            if not lines or (row is not None and row >= len(lines)):
                return None
            parsed = json.loads(lines[-1 if row is None else row])
        except (OSError, UnicodeDecodeError, ValueError) as error:
            raise UsageError(f"{self._config.path}: cannot read the data source ({error})") from error
        if not isinstance(parsed, dict):
            raise UsageError(f"{self._config.path}: each line must be a JSON object")
        return _scalar(parsed.get(metric), self._config.path)


class SqliteSource:
    """Runs one SELECT on a SQLite file that another program writes; opened read-only."""

    def __init__(self, config: SqliteSourceConfig) -> None:
        self._config = config

    def value(self, metric: str, round_input: str | None = None) -> Value | None:
        """First column of the first row of the metric's query."""
        query = self._config.queries.get(metric)
        if query is None:
            return None
        try:
            connection = sqlite3.connect(f"{self._config.path.absolute().as_uri()}?mode=ro", uri=True)
            try:
                row = connection.execute(query, {"round_input": round_input}).fetchone()
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise UsageError(f"{self._config.path}: cannot read the data source ({error})") from error
        return None if row is None else _scalar(row[0], self._config.path)


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


def open_source(config: CsvSourceConfig | JsonLinesSourceConfig | SqliteSourceConfig | None) -> DataSource:
    """The source that the configuration names. Raises ``UsageError`` if it names none."""
    if config is None:
        raise UsageError("source: name where the device's data is, or be the source yourself (docs/embedding.md)")
    if isinstance(config, CsvSourceConfig):
        return CsvSource(config)
    if isinstance(config, JsonLinesSourceConfig):
        return JsonLinesSource(config)
    return SqliteSource(config)


def _pick(rows: Iterator[Row], wanted: int | None) -> Row | None:
    last: Row | None = None
    for number, row in enumerate(rows):
        if wanted is not None and number == wanted:
            return row
        last = row
    return last if wanted is None else None


def _scalar(value: object, path: Path) -> Value | None:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, list) and all(isinstance(entry, str | int | float | bool) for entry in value):
        return value
    raise UsageError(f"{path}: the metric's value must be text, a number, a truth value or a list of such")


def _check_size(path: Path) -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise UsageError(f"{path}: cannot read the data source ({error.strerror})") from error
    if size > MAX_FILE_BYTES:
        raise UsageError(f"{path}: larger than {MAX_FILE_BYTES // 2**20} MiB; point the agent at a smaller file")
