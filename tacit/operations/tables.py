"""Released results as a table with one row for each answer of each batch, for spreadsheets, pandas and Parquet readers.

CSV needs only the standard library. Arrow, Parquet and data frames need the extra ``operator``, which is imported when
one of them is requested.
"""

from __future__ import annotations

import csv
import importlib
import io
import json
from collections.abc import Iterable, Mapping
from typing import Any

from tacit.extras import require_extra
from tacit.methods.result import rows
from tacit.operations.results import in_order

TEXT, WHOLE, NUMBER, TIME = "text", "whole", "number", "time"
COLUMNS = {
    "recipe_hash": TEXT,
    "name": TEXT,
    "question": TEXT,
    "statistic": TEXT,
    "batch": WHOLE,
    "batch_id": TEXT,
    "interval_start": TIME,
    "interval_end": TIME,
    "released_at": TIME,
    "report_count": WHOLE,
    "label": TEXT,
    "count": WHOLE,
    "estimate": NUMBER,
    "stderr": NUMBER,
    "stderr_typical": NUMBER,
    "share": NUMBER,
    "share_stderr": NUMBER,
    "population_low": NUMBER,
    "population_high": NUMBER,
    "epsilon": NUMBER,
    "delta": NUMBER,
    "mechanism": TEXT,
    "by_adversary": TEXT,
}
"""Every column and its type. Times are POSIX seconds (UTC). ``epsilon`` is the claim that is charged, empty if it is
unbounded; ``by_adversary`` holds the claims against all adversaries as a JSON object. A value that the result does not
contain is empty. ``label`` of a ranked answer has escapes for characters that are not printable."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
EXTRA = "operator"
"""The extra that provides Arrow, Parquet and data frames."""


def result_rows(results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of result documents, in the order of their release, with all of ``COLUMNS``."""
    return [_row(document, row) for document in in_order(results) for row in rows(document)]


def _row(document: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    interval, privacy = document["interval"], document["privacy"]
    epsilon = privacy.get("epsilon")
    found = {
        **document,
        **row,
        "interval_start": interval["start"],
        "interval_end": interval["start"] + interval["duration"],
        "epsilon": None if isinstance(epsilon, str) else epsilon,
        "delta": privacy["delta"],
        "mechanism": privacy["mechanism"],
        "by_adversary": json.dumps(privacy["by_adversary"], sort_keys=True),
    }
    return {name: found.get(name) for name in COLUMNS}


def csv_bytes(results: Iterable[Mapping[str, Any]]) -> bytes:
    """The rows as CSV (RFC 4180) in UTF-8, with the names of ``COLUMNS`` as header. Text that a spreadsheet would treat
    as a formula gets a leading apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    writer.writerows([_cell(row[name]) for name in COLUMNS] for row in result_rows(results))
    return out.getvalue().encode()


def _cell(value: object) -> object:
    if isinstance(value, str) and value.startswith(_FORMULA) and not _is_number(value):
        return f"'{value}"
    return "" if value is None else value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def arrow_table(results: Iterable[Mapping[str, Any]]) -> Any:
    """The rows as a ``pyarrow.Table``; times are timestamps in UTC. Raises ``UsageError`` without the extra."""
    require_extra("an Arrow table", EXTRA, "pyarrow")
    arrow = importlib.import_module("pyarrow")
    kinds = {
        TEXT: arrow.string(),
        WHOLE: arrow.int64(),
        NUMBER: arrow.float64(),
        TIME: arrow.timestamp("s", tz="UTC"),
    }
    schema = arrow.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])
    return arrow.Table.from_pylist(result_rows(results), schema=schema)


def parquet_bytes(results: Iterable[Mapping[str, Any]]) -> bytes:
    """The rows as a Parquet file. Raises ``UsageError`` without the extra."""
    table = arrow_table(results)
    out = io.BytesIO()
    importlib.import_module("pyarrow.parquet").write_table(table, out)
    return out.getvalue()


def data_frame(results: Iterable[Mapping[str, Any]]) -> Any:
    """The rows as a ``pandas.DataFrame``. Raises ``UsageError`` without the extra."""
    require_extra("a data frame", EXTRA, "pandas", "pyarrow")
    return arrow_table(results).to_pandas()
