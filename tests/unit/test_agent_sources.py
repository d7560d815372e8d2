"""A device's own data, and the coin."""

from __future__ import annotations

import asyncio
import codecs
import csv
import json
import os
import sqlite3
import tempfile
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_agent.coin import coin
from client_agent.data.sources import (
    CallableSource,
    CsvSourceConfig,
    JsonLinesSourceConfig,
    Reading,
    SqliteSourceConfig,
    open_source,
    read,
)
from infra.lab.kit.entropy import SeededEntropy
from tacit.errors import UsageError
from tacit.service.base.config_files import Frozen, parse_config


def test_csv_gives_the_last_row_or_the_one_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("day,visits\n1,3\n2,5\n")
    assert open_source(CsvSourceConfig(kind="csv", path=path)).value("visits") == "5"
    assert open_source(CsvSourceConfig(kind="csv", path=path, row=0)).value("visits") == "3"
    mapped = CsvSourceConfig(kind="csv", path=path, columns={"doctor": "visits"})
    assert open_source(mapped).value("doctor") == "5"


def test_csv_cells_may_be_empty_and_separated_otherwise_and_faults_name_their_line(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text('\ufeff"visits";note\n3;"two\nlines"\n ;x\n5\n', encoding="utf-8")
    assert open_source(CsvSourceConfig(kind="csv", path=path, row=0)).value("visits") == "3"
    assert open_source(CsvSourceConfig(kind="csv", path=path, row=1)).value("visits") is None
    with pytest.raises(UsageError, match="line 5: 1 cell where the header has 2"):
        open_source(CsvSourceConfig(kind="csv", path=path)).value("visits")
    path.write_text('visits,note\n3,"two\nlines"\n5,"open\n\n')
    with pytest.raises(UsageError, match="line 4: not valid CSV"):
        open_source(CsvSourceConfig(kind="csv", path=path)).value("visits")


def test_json_lines_give_a_member_of_the_last_object(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text('{"visits": 1}\n{"visits": 4, "tags": {}, "row": [1, "2", 3.5]}\n')
    source = open_source(JsonLinesSourceConfig(kind="jsonl", path=path))
    assert source.value("visits") == 4
    assert source.value("row") == [1, "2", 3.5]
    with pytest.raises(UsageError, match="text, a number, a truth value or a list of such"):
        source.value("tags")


def test_sqlite_answers_with_the_metrics_own_query_and_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "d.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE visits (n INTEGER)")
        connection.execute("INSERT INTO visits VALUES (9)")
    connection.close()
    config = SqliteSourceConfig(
        kind="sqlite", path=path, queries={"visits": "SELECT n FROM visits", "bad": "DELETE FROM visits"}
    )
    assert open_source(config).value("visits") == 9
    assert open_source(config).metrics() == ["visits", "bad"]
    with pytest.raises(UsageError, match="a query for 'Visits' is not there, but 'visits' is"):
        open_source(config).value("Visits")
    with pytest.raises(UsageError, match="readonly"):
        open_source(config).value("bad")


CSV_TROUBLES = [
    (b"id, m\n1, 7\n", "column 'm' is not there, but ' m' is"),
    (b"id,m \n1,7\n", "column 'm' is not there, but 'm ' is"),
    (b'id, "m"\n1, "7"\n', "column 'm' is not there, but ' \"m\"' is"),
    (b"id,M\n1,7\n", "column 'm' is not there, but 'M' is"),
    (b"sep=;\nid;m\n1;7\n", "column 'm' is not there"),
    (b"m,m\n1,7\n", "column 'm' is there more than once"),
    (b"id,m\n1,7\n,\n", "line 3: a row of empty cells"),
    (b"id,m\n1,7\n   \n", "line 3: 1 cell where the header has 2"),
    (b"id,m\n1,7,\n", "line 2: 3 cells where the header has 2"),
    (b"id,m\n", "no row below the header"),
    (b"", "no text in it; it needs a header"),
    (b"id,m\n1,7\0\n", "line 2: a NUL character"),
    (b"id,m\n1\r2,3\n", "line 2: not valid CSV"),
    ("id,m\n1,7\n".encode("utf-16"), "not UTF-8 text"),
    ("name,m\nJos\xe9,7\n".encode("latin-1"), "not UTF-8 text"),
]


@pytest.mark.parametrize(("data", "why"), CSV_TROUBLES, ids=[why for _, why in CSV_TROUBLES])
def test_a_csv_file_that_leaves_the_cell_unclear_gives_no_value_and_says_why(
    tmp_path: Path, data: bytes, why: str
) -> None:
    path = tmp_path / "d.csv"
    path.write_bytes(data)
    reading = asyncio.run(read(partial(open_source(CsvSourceConfig(kind="csv", path=path)).value, "m")))
    assert reading.value is None
    assert why in reading.trouble


@pytest.mark.parametrize(
    ("data", "row", "value"),
    [
        (b"\xef\xbb\xbfm;x\r\n7;1\r\n", None, "7"),
        (b"id,m\r1,7\r", None, "7"),
        (b"id,m\r\r\n1,7\r\r\n", None, "7"),
        (b'a,m\n"x\r\ny",7\n', None, "7"),
        (b"x,x,m\n1,2,3\n", None, "3"),
        (b'm\n7\n""\n', None, None),
        (b"id,m\n1,\n", None, None),
        (b"id,m\n1,NA\n", None, None),
        (b"id,m\n1,7", None, "7"),
        ("t,m\na\u2028b,1\nx\x85\x0c\x1c,2\ny,3\n".encode(), 1, "2"),
    ],
)
def test_lawful_csv_files_are_read_and_a_row_ends_where_csv_says(
    tmp_path: Path, data: bytes, row: int | None, value: str | None
) -> None:
    path = tmp_path / "d.csv"
    path.write_bytes(data)
    config = CsvSourceConfig(kind="csv", path=path, row=row, no_value=("NA",))
    assert asyncio.run(read(partial(open_source(config).value, "m"))) == Reading(value)


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\r"])
def test_a_row_of_json_lines_never_gives_its_neighbours_value(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "d.jsonl"
    texts = [f"a{separator}[1]{separator}b" if row == 0 else "" for row in range(5)]
    lines = [json.dumps({"t": text, "m": row}, ensure_ascii=False) + "\n" for row, text in enumerate(texts)]
    path.write_bytes(codecs.BOM_UTF8 + "".join(lines).encode() + b" \r\n")
    expected = range(5) if separator in "\u2028\u2029\u0085" else range(1, 5)  # JSON has no bare control characters
    for row in expected:
        assert open_source(JsonLinesSourceConfig(kind="jsonl", path=path, row=row)).value("m") == row
    assert open_source(JsonLinesSourceConfig(kind="jsonl", path=path)).value("m") == 4


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), min_size=1, max_size=6))
def test_every_row_that_python_wrote_is_read_back_by_its_number(texts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "d"
        path.write_text("".join(json.dumps({"m": t}, ensure_ascii=False) + "\n" for t in texts), "utf-8", newline="")
        for row, text in enumerate(texts):
            assert open_source(JsonLinesSourceConfig(kind="jsonl", path=path, row=row)).value("m") == text
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([["m"], *([text] for text in texts)])
        for row, text in enumerate(texts):
            source = open_source(CsvSourceConfig(kind="csv", path=path, row=row))
            if "\0" in "".join(texts):
                continue
            assert source.value("m") == (text if text.strip() else None)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{"n": 7}\n', "member 'm' is not there"),
        (b'{"M": 7}\n', "member 'm' is not there, but 'M' is"),
        (b'{"m": 1, "m": 2}\n', "member 'm' is there more than once"),
        (b'{"m": 7}\n{"m": 1', "cannot read the data source"),
        (b'{"m": NaN}\n', "NaN is not a number in JSON"),
        (b'{"m": ' + b"9" * 5000 + b"}\n", "cannot read the data source"),
        (b"[" * 100_000 + b"\n", "cannot read the data source"),
        (b"[7]\n", "must be a JSON object"),
        (b'{"m": {"m": 7}}\n', "text, a number, a truth value or a list of such"),
        (b"\n \r\n", "no line"),
        ('{"m": 7}\n'.encode("utf-16"), "save the file as UTF-8"),
        (b'{"m": "\xe9"}\n', "save the file as UTF-8"),
    ],
)
def test_json_lines_that_leave_the_member_unclear_give_no_value_and_say_why(
    tmp_path: Path, data: bytes, why: str
) -> None:
    path = tmp_path / "d.jsonl"
    path.write_bytes(data)
    reading = asyncio.run(read(partial(open_source(JsonLinesSourceConfig(kind="jsonl", path=path)).value, "m")))
    assert reading.value is None
    assert why in reading.trouble


def test_a_repeated_member_that_nobody_asks_for_and_a_text_that_stands_for_no_value_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text('{"x": 1, "x": 2, "m": "n/a", "n": null}\n')
    source = open_source(JsonLinesSourceConfig(kind="jsonl", path=path, no_value=("n/a",)))
    assert (source.value("m"), source.value("n")) == (None, None)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "sqlite"])
@pytest.mark.parametrize("thing", ["folder", "pipe", "forbidden", "absent"])
def test_what_is_no_readable_file_gives_no_value_at_once(tmp_path: Path, kind: str, thing: str) -> None:
    path = tmp_path / "d"
    if thing == "folder":
        path.mkdir()
    elif thing == "pipe":
        os.mkfifo(path)
    elif thing == "forbidden":
        path.touch(0o000)
        if os.access(path, os.R_OK):
            pytest.skip("this user may read everything")
    more = {"queries": {"m": "SELECT 1"}} if kind == "sqlite" else {}
    config = parse_config({"source": {"kind": kind, "path": str(path), **more}}, _Holder).source
    reading = asyncio.run(read(partial(open_source(config).value, "m"), 5))
    assert reading.value is None
    assert f"{path}: cannot read the data source (" in reading.trouble


def test_a_row_that_is_not_there_is_told(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("m\n1\n2\n")
    with pytest.raises(UsageError, match="row below the header 5 is not there; the last one is 1"):
        open_source(CsvSourceConfig(kind="csv", path=path, row=5)).value("m")


class _Holder(Frozen):
    source: CsvSourceConfig | JsonLinesSourceConfig | SqliteSourceConfig


@pytest.mark.parametrize("text", ["not json\n", "[1]\n"])
def test_a_broken_json_line_is_a_usage_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text(text)
    with pytest.raises(UsageError, match=str(path)):
        open_source(JsonLinesSourceConfig(kind="jsonl", path=path)).value("visits")


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the data source"):
        open_source(CsvSourceConfig(kind="csv", path=tmp_path / "no.csv")).value("visits")


def test_a_query_may_ask_with_the_round_input(tmp_path: Path) -> None:
    path = tmp_path / "d.sqlite3"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE words (word TEXT)")
        connection.execute("INSERT INTO words VALUES ('abacus')")
    connection.close()
    queries = {
        "known": "SELECT EXISTS (SELECT 1 FROM words WHERE word LIKE :round_input || '%')",
        "input": "SELECT coalesce(:round_input, 'none')",
        "word": "SELECT word FROM words",
    }
    source = open_source(SqliteSourceConfig(kind="sqlite", path=path, queries=queries))
    assert [source.value("known", prefix) for prefix in ("aba", "b", "' OR '")] == [1, 0, 0]
    assert (source.value("input"), source.value("input", "x")) == ("none", "x")
    assert source.value("word", "anything") == "abacus"


def test_file_sources_ignore_the_round_input(tmp_path: Path) -> None:
    path, lines = tmp_path / "d.csv", tmp_path / "d.jsonl"
    path.write_text("visits\n3\n")
    lines.write_text('{"visits": 4}\n')
    assert open_source(CsvSourceConfig(kind="csv", path=path)).value("visits", "x") == "3"
    assert open_source(JsonLinesSourceConfig(kind="jsonl", path=lines)).value("visits", "x") == 4


def test_a_function_can_be_the_source() -> None:
    assert CallableSource(len).value("four") == 4
    assert CallableSource(len).value("four", "an input") == 4
    source = CallableSource(len, lambda metric, round_input: f"{metric} {round_input}")
    assert (source.value("four"), source.value("four", "an input")) == (4, "four an input")


@pytest.mark.false_alarm(3e-8, "three exact binomial tails")
def test_the_coin_lands_as_often_as_the_rate_says() -> None:
    """Six standard deviations; the binomial of the smallest rate is skewed and beyond them with probability 1.6e-8."""
    entropy = SeededEntropy(1)
    for text in ("0.02", "0.5", "0.9"):
        rate, tosses = Decimal(text), 4000
        heads = sum(coin(rate, entropy) for _ in range(tosses))
        assert abs(heads - tosses * float(rate)) < 6 * (tosses * float(rate) * (1 - float(rate))) ** 0.5
    assert all(coin(Decimal(1), entropy) for _ in range(100))
    assert not any(coin(Decimal(0), entropy) for _ in range(100))
