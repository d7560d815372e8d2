"""Results as a table: the same rows as CSV, Arrow, Parquet and a data frame, and a clear word without the extra."""

from __future__ import annotations

import csv
import importlib
import io
import json
import re
from importlib import util
from typing import Any

import pytest

from tacit.errors import UsageError
from tacit.extras import install_command
from tacit.operations.tables import COLUMNS, arrow_table, csv_bytes, data_frame, parquet_bytes, result_rows
from tests.unit.test_result_view import DOCUMENT

EARLIER: dict[str, Any] = {
    **DOCUMENT,
    "name": "=HYPERLINK(1)",
    "question": 'How, many?\n"Really"',
    "released_at": DOCUMENT["released_at"] - 5,
    "buckets": [
        {"label": "-5", "count": 3, "estimate": 1.5, "stderr": 0.25, "share": 0.5, "population_low": -2.0},
        {"label": "@SUM(A1)", "count": 0, "estimate": -0.5, "stderr": 0.25},
    ],
    "privacy": {**DOCUMENT["privacy"], "epsilon": 0.9},
}
UNBOUNDED = {**DOCUMENT, "privacy": {**DOCUMENT["privacy"], "epsilon": "unbounded"}}
RESULTS = [UNBOUNDED, EARLIER]


def test_every_answer_is_a_row_in_the_order_of_release() -> None:
    rows = result_rows(RESULTS)
    assert [row["label"] for row in rows] == ["-5", "@SUM(A1)", "no", "<b>yes"]
    assert all(list(row) == list(COLUMNS) for row in rows)
    first, last = rows[0], rows[-1]
    assert (first["epsilon"], last["epsilon"], first["share_stderr"]) == (0.9, None, None)
    assert first["interval_end"] - first["interval_start"] == DOCUMENT["interval"]["duration"]
    assert json.loads(last["by_adversary"]) == DOCUMENT["privacy"]["by_adversary"]


def test_csv_is_read_back_and_holds_no_formula() -> None:
    text = csv_bytes(RESULTS).decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["label"] for row in rows] == ["-5", "'@SUM(A1)", "no", "<b>yes"]
    assert rows[0]["name"] == "'=HYPERLINK(1)"
    assert rows[0]["question"] == EARLIER["question"]
    assert (float(rows[1]["estimate"]), rows[1]["share"], rows[2]["epsilon"]) == (-0.5, "", "")
    assert csv_bytes([]).decode() == ",".join(COLUMNS) + "\r\n"


def test_parquet_and_data_frames_hold_the_same_with_types() -> None:
    rows = result_rows(RESULTS)
    table = importlib.import_module("pyarrow.parquet").read_table(io.BytesIO(parquet_bytes(RESULTS)))
    assert table.column_names == list(COLUMNS)
    assert table.column("label").to_pylist() == [row["label"] for row in rows]
    assert [one.timestamp() for one in table.column("released_at").to_pylist()] == [row["released_at"] for row in rows]
    assert table.cast(arrow_table(RESULTS).schema).equals(arrow_table(RESULTS))
    frame = data_frame(RESULTS)
    assert isinstance(frame, importlib.import_module("pandas").DataFrame)
    assert frame["estimate"].tolist() == [row["estimate"] for row in rows]
    assert frame["epsilon"].isna().tolist() == [False, False, True, True]
    assert len(data_frame([])) == 0


def test_without_the_extra_it_is_named_and_csv_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(util, "find_spec", lambda _name: None)
    for made in (arrow_table, parquet_bytes, data_frame):
        with pytest.raises(UsageError, match=re.escape(install_command("operator"))):
            made(RESULTS)
    assert csv_bytes(RESULTS)
