"""The demo's input: what it accepts, what it proposes, and the one line that it says about a bad file."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from scipy.stats import binom

from infra.lab.commands.demo import _say_cells, say_proposed
from infra.lab.commands.demo_shuffled import shown_of_shuffled
from infra.lab.demo.dataset import RANDHIE, load_csv, load_randhie
from infra.lab.demo.proposed import LEAST_ANSWERS, MOST_ANSWERS, Shown, merged
from infra.lab.demo.run import rate_of
from infra.views.terminal import notes
from tacit.errors import UsageError
from tacit.recipe.writing.sampling_plan import SamplingPlan
from tests.conftest import ROOT

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


def test_the_built_in_data_is_the_column_that_its_source_holds() -> None:
    """Digests and counts are those of column ``mdvis`` in statsmodels 0.15.0, ``datasets/randhie/randhie.csv``."""
    digest = hashlib.sha256(RANDHIE.read_bytes()).hexdigest()
    visits = Counter(map(int, load_randhie(None).values))
    assert digest == "7bd7d34c4ea95d6f9a25dd32d686ae7b261f74d61bcbd422626def5179fd7ded"
    assert [visits[number] for number in range(5)] == [6308, 3817, 2797, 1884, 1345]
    assert (min(visits), max(visits), sum(number * people for number, people in visits.items())) == (0, 77, 57_752)
    note = RANDHIE.with_suffix(".md").read_text(encoding="utf-8")
    assert digest in note
    assert "public domain" in note


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


def test_fractions_get_edges_between_which_they_spread(csv_file: Make) -> None:
    def edges(cells: list[str]) -> tuple[int | str, ...] | None:
        return load_csv(csv_file(column(cells)), "value", edges=None, categories=None, devices=None).question.edges

    assert edges([str(n / 300) for n in range(300)]) == (0, *(f"0.{tenth}" for tenth in range(1, 10)))
    assert edges(["0.29", "0.31"] * 150) == tuple(f"0.{n}".rstrip("0") for n in range(290, 312, 2))
    assert edges(["0.3"] * ROWS) == (0, 1)
    assert edges(["1e-12", "2e-12"] * ROWS) == (0, "0.000000002")


def test_values_below_the_first_edge_are_taken_as_devices_take_them_and_told(
    csv_file: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    path = csv_file(column(["0.3", "0.25"] * ROWS))
    assert load_csv(path, "value", edges=["0.25", "0.3"], categories=None, devices=None).below == 0
    data = load_csv(path, "value", edges=["0.3", "0.4"], categories=None, devices=None)
    assert (data.below, len(data.values)) == (ROWS, 2 * ROWS)
    _say_cells(data, notes())
    assert "200 numbers lie below the first edge 0.3, and count in the first bucket" in capsys.readouterr().err


def test_numbers_between_whole_ones_are_told_where_a_bucket_has_the_name_of_one(
    csv_file: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    path = csv_file(column(["9.5", "3", "0.25"] * ROWS))
    asked: list[tuple[list[int | str], int]] = [([0, 1, 9, 10], 2 * ROWS), ([0, 3, 9, 12], 0), ([0, "0.5", 9, 10], 0)]
    for edges, between in asked:
        data = load_csv(path, "value", edges=edges, categories=None, devices=None)
        assert data.between == between
        _say_cells(data, notes())
        assert ("400 numbers lie between whole ones" in capsys.readouterr().err) == bool(between)


@pytest.mark.parametrize("text", ["NA", "n/a", "-", "NaN", "NULL", "None", "--", "\u2013", "#N/A", "."])
def test_what_usually_stands_for_no_value_is_none_among_numbers_and_offered_among_texts(
    csv_file: Make, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    for edges in (None, [1, 2]):
        path = csv_file(column(["1", "2", text] * ROWS))
        data = load_csv(path, "value", edges=edges, categories=None, devices=None)
        assert (data.question.edges, data.missing, set(data.values)) == ((1, 2), ROWS, {"1", "2", ""})
        _say_cells(data, notes())
        assert capsys.readouterr().err == f"{text} in the file stands for no value\n"
    path = csv_file(column(["red", "blue", text] * ROWS))
    data = load_csv(path, "value", edges=None, categories=None, devices=None)
    assert (set(data.question.categories or ()), data.missing) == ({"red", "blue", text}, 0)
    _say_cells(data, notes())
    assert f"--no-value {shlex.quote(text)}" in capsys.readouterr().err
    data = load_csv(path, "value", edges=None, categories=None, devices=None, no_value=[text])
    assert (data.question.categories, data.missing) == (("blue", "red"), ROWS)


def test_another_text_among_numbers_is_a_mistake_for_which_no_value_is_offered(csv_file: Make) -> None:
    path = csv_file(column(["1", "2", "unknown"] * ROWS))
    with pytest.raises(UsageError, match=r"'unknown' is not a number; leave the cell empty .* --no-value unknown"):
        load_csv(path, "value", edges=[1, 2], categories=None, devices=None)
    assert load_csv(path, "value", edges=[1, 2], categories=None, devices=None, no_value=["unknown"]).missing == ROWS


def test_a_pipe_is_a_file_like_others(tmp_path: Path) -> None:
    text = "\ufeff" + column([str(n % 4) for n in range(30_000)])
    program = (
        "import sys; from pathlib import Path; from infra.lab.demo.dataset import load_csv; "
        "print(len(load_csv(Path(sys.argv[1]), 'value', edges=[0, 1, 2, 3], categories=None, devices=None).values))"
    )
    (tmp_path / "input.csv").write_text(text, encoding="utf-8")
    script = (
        'cat input.csv | "$0" -c "$1" /dev/stdin; "$0" -c "$1" /dev/stdin < input.csv; "$0" -c "$1" <(cat input.csv)'
    )
    done = subprocess.run(
        ["/bin/bash", "-c", script, sys.executable, program], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout.split(), done.stderr) == (["30000"] * 3, "")


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
        (column(["1"] * ROWS) + "7\n", ["line 202", "1 cell where the header has 2"]),
        (column(["1"] * ROWS + ["many"]), ["line 202", "column value", "not a number"]),
        (column(["NA"] * ROWS), ["column value", "every cell is empty"]),
        (column(["1"] * ROWS + ["2024-01-31"]), ["line 202", "'2024-01-31' is a date", "days since"]),
        (column(["1"] * ROWS + ['"1,5"']), ["line 202", "'1,5' is not a number", "1234.5"]),
        (column(["1"] * ROWS + [".5"]), ["line 202", "'.5' is not a number"]),
        (column([f'"1,{n}"' for n in range(ROWS)]), ["line 2", "200 distinct values", "1234.5"]),
        (column([f"2024-01-01 {n}" for n in range(ROWS)]), ["line 2", "200 distinct values", "is a date"]),
        (column([""] * ROWS), ["column value", "every cell is empty"]),
        (
            column(["1e300", "2e300"] * ROWS),
            ["column value", "no recipe may ask this", "9007199254740991", "--buckets"],
        ),
        (column(["a", "b" * 201] * ROWS), ["column value", "no recipe may ask this", "200 characters", "--categories"]),
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


def test_texts_in_brackets_are_proposed_as_they_are(csv_file: Make, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = load_csv(csv_file(column(["[/b]", "[red]"] * ROWS)), "value", edges=None, categories=None, devices=None)
    say_proposed(dataset, notes())
    assert "--categories [/b],[red]" in capsys.readouterr().err


def test_bytes_that_are_not_utf8_are_named_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "latin.csv"
    path.write_bytes(b"id,value\n1,1\n2,caf\xe9\n")
    with pytest.raises(UsageError, match="line 3: not UTF-8"):
        load_csv(path, "value", edges=None, categories=None, devices=None)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.csv: cannot be read"):
        load_csv(tmp_path / "absent.csv", "value", edges=None, categories=None, devices=None)


def test_texts_outside_the_given_categories_are_refused(csv_file: Make) -> None:
    with pytest.raises(UsageError, match=r"none of the categories; add it to --categories, or say --no-value b if"):
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


def test_more_rows_than_the_demo_simulates_are_refused_with_what_does(
    csv_file: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infra.lab.demo.dataset.MAX_DEVICES", 300)
    path = csv_file(column(["0", "1"] * 160))
    for devices in (None, 301):
        with pytest.raises(UsageError, match=r"take the first ones with --devices 300, .*tacit fleet run --population"):
            load_csv(path, "value", edges=[0, 1], categories=None, devices=devices)
    assert len(load_csv(path, "value", edges=[0, 1], categories=None, devices=300).values) == 300


def test_what_is_behind_the_asked_for_rows_is_not_read(csv_file: Make) -> None:
    path = csv_file(column(["0", "1"] * 100) + "one,cell,too many\n")
    assert len(load_csv(path, "value", edges=[0, 1], categories=None, devices=200).values) == 200
    with pytest.raises(UsageError, match="line 202"):
        load_csv(path, "value", edges=[0, 1], categories=None, devices=None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("value," + ",".join(f"c{number}" for number in range(1000)) + "\n", "1,001 columns are more than 1,000"),
        ("id,value\n1," + "9" * (1 << 20) + "\n", "line 2, .*longer than 1,048,576 characters"),
        ("value" * (1 << 18), "line 1, .*longer than 1,048,576 characters"),
    ],
)
def test_lines_and_columns_without_end_are_refused(csv_file: Make, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        load_csv(csv_file(text), "value", edges=[0, 1], categories=None, devices=None)


def test_the_line_of_what_is_not_utf_8_is_told_wherever_it_is(tmp_path: Path) -> None:
    path = tmp_path / "input.csv"
    path.write_bytes(b"id,value\n" + b"1,\xc3\xa4\n" * 40_000 + b"1,\xff\n")
    with pytest.raises(UsageError, match="line 40002: not UTF-8 text"):
        load_csv(path, "value", edges=None, categories=None, devices=None)


@pytest.mark.parametrize("devices", [200, 201, 300, 624, 625, 1000, 20_190, 100_000])
def test_coins_leave_the_batch_of_a_demo_below_its_minimum_in_one_run_of_a_million_at_most(devices: int) -> None:
    rate = rate_of(devices)
    minimum = SamplingPlan(devices, rate).batch_size()
    assert binom.cdf(minimum - 1, devices, float(rate)) < 1e-6
    assert rate * devices < 5_001


@pytest.mark.parametrize("devices", [200, 300, 400, 1000, 20_000])
@pytest.mark.parametrize("shown", [Shown(rate_of), shown_of_shuffled(None), shown_of_shuffled("unbiased")])
def test_every_proposed_bucket_holds_what_can_be_seen_of_it(devices: int, shown: Shown) -> None:
    """The first rows of the built-in data, an even spread, and one with nearly all values in one place."""
    answers = shown.most(devices)
    assert devices / answers >= shown.least(devices, answers) or answers == LEAST_ANSWERS
    assert answers == MOST_ANSWERS or devices / (answers + 1) < shown.least(devices, answers + 1)
    randhie = [float(one) for one in load_randhie(devices).values]
    for values in (randhie, [float(n % 16) for n in range(devices)], [0.0] * (devices - 3) + [1.0, 7.0, 15.0]):
        edges = shown.buckets(tuple(range(16)), values, devices)
        held = Counter(bisect_right(edges, value) for value in values)
        assert len(edges) == LEAST_ANSWERS or min(held.values()) >= shown.least(devices, answers)


def test_300_rows_get_as_many_buckets_as_they_can_show_and_more_are_said_to_be_too_many(csv_file: Make) -> None:
    path = csv_file(column([str(n % 40) for n in range(300)]))

    def proposed(shown: Shown | None) -> tuple[int | str, ...]:
        question = load_csv(path, "value", edges=None, categories=None, devices=None, shown=shown).question
        assert question.proposed
        assert question.edges is not None
        return question.edges

    main = Shown(rate_of)
    assert len(proposed(None)) == MOST_ANSWERS
    assert proposed(main) == (0, 9, 18, 29)
    assert main.words(300, 4) == ""
    assert main.words(300, 16).startswith("300 devices show about 4 answers, and this question has 16: on average 19")
    fractions = csv_file(column([str(n / 300) for n in range(300)]))
    asked = load_csv(fractions, "value", edges=None, categories=None, devices=None, shown=main).question
    assert asked.edges == (0, "0.3", "0.6")


def test_the_built_in_question_of_the_shuffled_demo_shows_its_answers() -> None:
    """Of 16 buckets, 400 devices behind a shuffler show two: the others are released as 0."""
    shown = shown_of_shuffled("zsum")
    data = load_randhie(400, shown)
    assert data.question.edges == (0, 1, 2, 4)
    assert shown.words(400, 4) == ""
    assert "400 devices show about 5 answers, and this question has 16" in shown.words(400, 16)


def test_edges_between_which_nobody_is_are_left_out_and_two_stay() -> None:
    assert merged((0, 1, 2, 3), [0.0] * 5 + [3.0] * 5, 5) == (0, 3)
    assert merged((0, 1, 2, 3), [0.0] * 5 + [1.0, 2.0, 3.0], 5) == (0, 1)
    assert merged((0, 1, 2, 3), [0.0] * 4 + [1.0] * 4 + [2.0] * 4 + [3.0] * 4, 8) == (0, 2)
    assert merged((5, 6), [5.0] * 9, 5) == (5, 6)
    assert merged(("0.5", 1, "1.5"), [0.5, 0.75, 1.0, 1.25, 1.5, 9.0], 2) == ("0.5", 1, "1.5")
