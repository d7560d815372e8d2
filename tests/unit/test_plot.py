"""Curves in a terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from infra.lab.demo.results.learn_view import Curve, Plot

BRAILLE = range(0x2801, 0x2900)
VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)


def dots(plot: Plot) -> list[list[bool]]:
    """Which cells of each row, without the axes, have a dot."""
    rows = [line.split("┤", 1)[1] for line in plot.text().plain.split("\n") if "┤" in line]
    return [[ord(char) in BRAILLE for char in row] for row in rows]


@given(VALUES, st.integers(1, 60), st.integers(1, 20))
def test_a_curve_has_dots_in_every_column_and_reaches_its_largest_and_smallest_value(
    values: list[float], width: int, height: int
) -> None:
    found = dots(Plot([Curve(values, "green")], width, height))
    assert all(any(column) for column in zip(*found, strict=True))
    assert len(found) == max(2, height)
    assert {len(row) for row in found} == {max(8, width)}
    if max(values) > min(values) and len(values) <= 2 * max(8, width):
        first, last = sorted((values[0], values[-1]), reverse=True)
        if (first, last) == (max(values), min(values)):
            assert any(found[0])
            assert any(found[-1])


def test_a_falling_curve_falls_from_left_to_right_and_gives_its_ends_as_numbers() -> None:
    plot = Plot([Curve([4.0, 3.0, 2.0, 1.0], "green")], 20, 5)
    rows = dots(plot)
    tops = [next(at for at, row in enumerate(rows) if row[column]) for column in range(20)]
    assert tops == sorted(tops)
    assert (tops[0], tops[-1]) == (0, 4)
    lines = plot.text().plain.split("\n")
    assert lines[0].startswith("4.00 ┤")
    assert lines[4].startswith("1.00 ┤")
    assert lines[6].split() == ["1", "4"]


def test_the_later_of_two_curves_gives_a_shared_cell_its_colour() -> None:
    plot = Plot([Curve([1.0, 2.0], "blue"), Curve([1.0, 2.0], "green")], 10, 4)
    assert {str(span.style) for span in plot.text().spans} - {"dim", ""} == {"green"}
