"""A device's own data, and the coin."""

from __future__ import annotations

import sqlite3
from decimal import Decimal
from pathlib import Path

import pytest

from client_agent.coin import coin
from client_agent.data.sources import (
    CallableSource,
    CsvSourceConfig,
    JsonLinesSourceConfig,
    SqliteSourceConfig,
    open_source,
)
from infra.lab.kit.entropy import SeededEntropy
from tacit.errors import UsageError


def test_csv_gives_the_last_row_or_the_one_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("day,visits\n1,3\n2,5\n")
    assert open_source(CsvSourceConfig(kind="csv", path=path)).value("visits") == "5"
    assert open_source(CsvSourceConfig(kind="csv", path=path, row=0)).value("visits") == "3"
    assert open_source(CsvSourceConfig(kind="csv", path=path, row=2)).value("visits") is None
    assert open_source(CsvSourceConfig(kind="csv", path=path)).value("weight") is None
    mapped = CsvSourceConfig(kind="csv", path=path, columns={"doctor": "visits"})
    assert open_source(mapped).value("doctor") == "5"


def test_csv_cells_may_be_empty_and_separated_otherwise_and_faults_name_their_line(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text('\ufeff"visits";note\n3;"two\nlines"\n ;x\n5\n', encoding="utf-8")
    assert open_source(CsvSourceConfig(kind="csv", path=path, row=0)).value("visits") == "3"
    assert open_source(CsvSourceConfig(kind="csv", path=path, row=1)).value("visits") is None
    with pytest.raises(UsageError, match="line 5: 1 cells where the header has 2"):
        open_source(CsvSourceConfig(kind="csv", path=path)).value("visits")
    path.write_text('visits,note\n3,"two\nlines"\n5,"open\n\n')
    with pytest.raises(UsageError, match="line 4: not valid CSV"):
        open_source(CsvSourceConfig(kind="csv", path=path)).value("visits")


def test_json_lines_give_a_member_of_the_last_object(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text('{"visits": 1}\n{"visits": 4, "tags": {}, "row": [1, "2", 3.5]}\n')
    source = open_source(JsonLinesSourceConfig(kind="jsonl", path=path))
    assert source.value("visits") == 4
    assert source.value("absent") is None
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
    assert open_source(config).value("other") is None
    with pytest.raises(UsageError, match="readonly"):
        open_source(config).value("bad")


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
