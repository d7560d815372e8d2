"""Where a device's own datum comes from.

A source answers one question: what is the value of this metric on this device, now? ``None`` means that the
device has no such datum; the agent then stays silent. File sources read the newest row, or the row that the
configuration names, each time they are asked.
"""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, Protocol

from pydantic import Field

from tacit.errors import UsageError
from tacit.service.config import ConfigPath, Frozen

Value = str | int | float | bool | list[str | int | float | bool]
MAX_FILE_BYTES = 64 * 1024 * 1024


class DataSource(Protocol):
    """The device's own data."""

    def value(self, metric: str, round_input: str | None = None) -> Value | None:
        """The current value of ``metric``, or ``None`` where there is none. Raises ``UsageError``.

        ``round_input`` is what a round of a series asks about (``question.round_input``); a source that cannot use it
        ignores it. Whether there is a value must not depend on the datum that it is made from.
        """
        ...


class CsvSourceConfig(Frozen):
    """A CSV file with a header; ``row`` counts data rows from 0, the default is the last one."""

    kind: Literal["csv"]
    path: ConfigPath
    row: int | None = Field(default=None, ge=0)
    columns: dict[str, str] = Field(default_factory=dict)
    """metric -> column, where the names differ."""


class JsonLinesSourceConfig(Frozen):
    """A file with one JSON object a line; the last line counts, or the one that ``row`` names."""

    kind: Literal["jsonl"]
    path: ConfigPath
    row: int | None = Field(default=None, ge=0)


class SqliteSourceConfig(Frozen):
    """A SQLite file; ``queries`` maps a metric to a SELECT whose first column of the first row is the value. In it
    ``:round_input`` stands for what a round of a series asks about, NULL elsewhere."""

    kind: Literal["sqlite"]
    path: ConfigPath
    queries: dict[str, str]


class CsvSource:
    """Reads one row of a CSV file."""

    def __init__(self, config: CsvSourceConfig) -> None:
        self._config = config

    def value(self, metric: str, round_input: str | None = None) -> Value | None:
        """The cell of the metric's column in the chosen row."""
        column = self._config.columns.get(metric, metric)
        _check_size(self._config.path)
        try:
            with self._config.path.open(newline="", encoding="utf-8-sig") as file:
                rows = csv.DictReader(file, strict=True)
                if rows.fieldnames is None or column not in rows.fieldnames:
                    return None
                chosen = _pick(rows, self._config.row)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise UsageError(f"{self._config.path}: cannot read the data source ({error})") from error
        return None if chosen is None else chosen.get(column)


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
    """Asks Python functions, for programs that embed the agent: ``function`` by the metric alone, ``of_round`` by
    metric and round input where a round of a series has one (default: ``function``, without the input)."""

    def __init__(
        self,
        function: Callable[[str], Value | None],
        of_round: Callable[[str, str], Value | None] | None = None,
    ) -> None:
        self._function = function
        self._of_round = of_round

    def value(self, metric: str, round_input: str | None = None) -> Value | None:
        """Whatever the function says."""
        if round_input is None or self._of_round is None:
            return self._function(metric)
        return self._of_round(metric, round_input)


def open_source(config: CsvSourceConfig | JsonLinesSourceConfig | SqliteSourceConfig) -> DataSource:
    """The source that the configuration names."""
    if isinstance(config, CsvSourceConfig):
        return CsvSource(config)
    if isinstance(config, JsonLinesSourceConfig):
        return JsonLinesSource(config)
    return SqliteSource(config)


def _pick(rows: csv.DictReader[str], wanted: int | None) -> Mapping[str, str] | None:
    last: Mapping[str, str] | None = None
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
