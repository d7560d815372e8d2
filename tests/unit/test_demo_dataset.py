"""The demo's input: what it accepts, what it proposes, and the one line that it says about a bad file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from infra.lab.demo.dataset import load_csv, load_randhie
from tacit.errors import UsageError

ROWS = 200
Make = Callable[[str], Path]


@pytest.fixture
def csv_file(tmp_path: Path) -> Make:
    def make(text: str) -> Path:
        path = tmp_path / "input.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return make


def column(values: list[str]) -> str:
    return "id,value\n" + "".join(f"{number},{value}\n" for number, value in enumerate(values))


def test_the_built_in_data_has_one_device_a_row() -> None:
    data = load_randhie(None)
    assert len(data.values) == 20_190
    assert data.question.edges == tuple(range(16))
    assert data.values[:3] == ("0", "2", "0")
    assert load_randhie(500).values == data.values[:500]


def test_every_row_is_a_device_unless_devices_says_how_many(csv_file: Make) -> None:
    path = csv_file(column([str(n % 4) for n in range(300)]))
    assert len(load_csv(path, "value", edges=[0, 1, 2, 3], categories=None, devices=None).values) == 300
    assert len(load_csv(path, "value", edges=[0, 1, 2, 3], categories=None, devices=250).values) == 250


def test_text_columns_get_their_distinct_values_as_categories(csv_file: Make) -> None:
    question = load_csv(
        csv_file(column(["red", "blue"] * 100)), "value", edges=None, categories=None, devices=None
    ).question
    assert question.categories == ("blue", "red")
    assert question.proposed


def test_few_integers_get_one_edge_each_and_many_get_quantiles(csv_file: Make) -> None:
    few = load_csv(csv_file(column(["0", "1", "2"] * 70)), "value", edges=None, categories=None, devices=None)
    assert few.question.edges == (0, 1, 2)
    many = load_csv(csv_file(column([str(n) for n in range(1000)])), "value", edges=None, categories=None, devices=None)
    assert many.question.edges is not None
    assert many.question.edges[0] == 0
    assert 8 <= len(many.question.edges) <= 16


def test_a_constant_numeric_column_still_gets_two_buckets(csv_file: Make) -> None:
    question = load_csv(csv_file(column(["5"] * ROWS)), "value", edges=None, categories=None, devices=None).question
    assert question.edges == (5, 6)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["line 1", "empty"]),
        ("id,value\n", ["0 rows", "at least 200", "column value"]),
        (column(["1"] * 199), ["199 rows", "at least 200"]),
        ("id,other\n" + "1,2\n" * ROWS, ["line 1", "column value", "id, other", "--column"]),
        ("id,value,value\n" + "1,2,3\n" * ROWS, ["line 1", "more than once"]),
        (column(["1"] * ROWS) + "7\n", ["line 202", "1 cells where the header has 2"]),
        (column(["1"] * ROWS + ["many"]), ["line 202", "column value", "not a number"]),
        (column(["1"] * ROWS + ["nan"]), ["line 202", "column value", "not a number"]),
        (column(["1"] * ROWS + ["2024-01-31"]), ["line 202", "'2024-01-31' is a date", "days since"]),
        (column(["1"] * ROWS + ['"1,5"']), ["line 202", "'1,5' is not a number", "1234.5"]),
        (column(["1"] * ROWS + [".5"]), ["line 202", "'.5' is not a number"]),
        (column([f'"1,{n}"' for n in range(ROWS)]), ["line 2", "200 distinct values", "1234.5"]),
        (column([f"2024-01-01 {n}" for n in range(ROWS)]), ["line 2", "200 distinct values", "is a date"]),
        (column([""] * ROWS), ["column value", "every cell is empty"]),
        ("id;value\n" + "1;2\n" * ROWS + "1;2;3\n", ["line 202", "3 cells", "semicolons"]),
        ("id;note\n" + "1;2\n" * ROWS, ["line 1", "column value", "id, note"]),
        ('id,value\n"a\nb",1\n' + "1,2\n" * ROWS + '"c\nd",many\n', ["line 204", "not a number"]),
        (column(["1"] * ROWS) + '201,"1\n202,1\n', ["line 202", "not valid CSV"]),
        (column(['"1'] * ROWS), ["line", "column value", "not valid CSV"]),
    ],
)
def test_a_bad_file_is_named_with_line_column_and_remedy(csv_file: Make, text: str, parts: list[str]) -> None:
    path = csv_file(text)
    with pytest.raises(UsageError) as caught:
        load_csv(path, "value", edges=None, categories=None, devices=None)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    for part in parts:
        assert part in message


def test_bytes_that_are_not_utf8_are_named_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "latin.csv"
    path.write_bytes(b"id,value\n1,1\n2,caf\xe9\n")
    with pytest.raises(UsageError, match="line 3: not UTF-8"):
        load_csv(path, "value", edges=None, categories=None, devices=None)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.csv: cannot be read"):
        load_csv(tmp_path / "absent.csv", "value", edges=None, categories=None, devices=None)


def test_values_outside_the_given_buckets_or_categories_are_refused(csv_file: Make) -> None:
    with pytest.raises(UsageError, match=r"line 2, column value: .* below the first edge 1"):
        load_csv(csv_file(column(["0"] * ROWS)), "value", edges=[1, 2], categories=None, devices=None)
    with pytest.raises(UsageError, match=r"none of the categories; add it to --categories"):
        load_csv(csv_file(column(["a", "b"] * 100)), "value", edges=None, categories=["a", "c"], devices=None)


def test_too_many_distinct_texts_ask_for_categories(csv_file: Make) -> None:
    with pytest.raises(UsageError, match="300 distinct values are more than 64; name the categories"):
        load_csv(
            csv_file(column([f"w{n}" for n in range(300)])),
            "value",
            edges=None,
            categories=None,
            devices=None,
        )


def test_fewer_than_200_devices_are_refused_with_the_number_needed(csv_file: Make) -> None:
    with pytest.raises(UsageError, match="at least 200"):
        load_csv(csv_file(column(["1"] * 300)), "value", edges=[0, 1], categories=None, devices=199)
    with pytest.raises(UsageError, match="has 300 rows, --devices asks for 301"):
        load_csv(csv_file(column(["1"] * 300)), "value", edges=[0, 1], categories=None, devices=301)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "byte-order mark"])
def test_the_separator_is_found_and_a_byte_order_mark_is_no_text(csv_file: Make, separator: str, mark: str) -> None:
    path = csv_file(mark + column([str(n % 4) for n in range(ROWS)]).replace(",", separator))
    assert load_csv(path, "value", edges=[0, 1, 2, 3], categories=None, devices=None).values[:3] == ("0", "1", "2")
    assert len(load_csv(path, "id", edges=[0, 50], categories=None, devices=None).values) == ROWS


@pytest.mark.parametrize("cells", [["1", "2"], ["red", "blue"]], ids=["numbers", "texts"])
def test_empty_cells_are_devices_without_a_value(csv_file: Make, cells: list[str]) -> None:
    data = load_csv(csv_file(column([*cells, "", " "] * 50)), "value", edges=None, categories=None, devices=None)
    assert data.missing == 100
    assert data.question.edges == (1, 2) if cells == ["1", "2"] else data.question.categories == ("blue", "red")
