"""The room of the recipe server's model files: each analyst has its share."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter

from hypothesis import given
from hypothesis import strategies as st

from recipe_server.models import Named, with_room

ROUNDS = st.lists(
    st.builds(
        Named,
        st.binary(min_size=1, max_size=1),
        st.integers(1, 50),
        st.sampled_from(["a.example", "b.example", "c.example"]),
        st.integers(0, 20),
    ),
    max_size=12,
)


@given(ROUNDS, st.integers(3, 300), st.integers(0, 20))
def test_all_files_together_fit_and_no_analyst_has_more_than_a_share(named: list[Named], most: int, now: int) -> None:
    analysts = dict.fromkeys(("a.example", "b.example"), 1)
    found = with_room(named, analysts, most, now)
    count = len({*analysts, *(one.analyst for one in named)})
    assert sum(max(lengths) for lengths in found.values()) <= most
    for _, own in groupby(sorted(named, key=attrgetter("analyst")), attrgetter("analyst")):
        mine = list(own)
        alone = with_room(mine, {f"{at}.example": 1 for at in range(count - 1)}, most, now)
        for model, lengths in alone.items():
            assert lengths <= found[model], "what others name changes nothing"
        assert sum(map(sum, alone.values())) <= most // count


def test_rounds_that_are_not_over_come_first_and_a_file_counts_once() -> None:
    over, first, again, late = (Named(bytes([at]), 10, "a", end) for at, end in ((1, 5), (2, 50), (2, 60), (3, 70)))
    assert with_room([over, first, again, late], {"a": 1}, 20, now=5) == {bytes([2]): {10}, bytes([3]): {10}}
    assert with_room([over, first, again, late], {"a": 1}, 30, now=5).keys() == {bytes([1]), bytes([2]), bytes([3])}
    assert with_room([over, first, late], {"a": 1}, 20, now=4).keys() == {bytes([1]), bytes([2])}


def test_another_analysts_model_is_counted_to_whoever_names_it() -> None:
    theirs, same, own = Named(b"x", 10, "a", 50), Named(b"x", 10, "b", 90), Named(b"y", 10, "b", 90)
    assert with_room([theirs, same, own], {"a": 1, "b": 1}, 20, now=0) == {b"x": {10}}
    assert with_room([theirs, own], {"a": 1, "b": 1}, 20, now=0) == {b"x": {10}, b"y": {10}}


def test_a_weight_moves_the_border() -> None:
    named = [Named(bytes([at]), 10, "a", 50) for at in range(4)]
    assert len(with_room(named, {"a": 3, "b": 1}, 44, now=0)) == 3
    assert len(with_room(named, {"a": 1, "b": 1}, 44, now=0)) == 2
