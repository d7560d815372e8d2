"""Tables of states: what they allow, how they are drawn, and that what is derived keeps to its table."""

from __future__ import annotations

import enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.tools.documents.writing import MACHINES, states_page
from tacit.errors import Fatal
from tacit.recipe.logged import RECIPE_STATES, recipe_state
from tacit.states import Move, States


class Light(enum.StrEnum):
    OFF = "off"
    ON = "on"
    BURNT_OUT = "burnt-out"


MOVES = [
    Move(None, Light.OFF, "bought"),
    Move(Light.OFF, Light.ON, "switched"),
    Move(Light.ON, Light.OFF, "switched"),
    Move(Light.ON, Light.BURNT_OUT, "with time"),
    Move(Light.OFF, None, "given away"),
]
LIGHT = States("a light", Light, MOVES)


def test_a_move_that_the_table_does_not_hold_raises() -> None:
    LIGHT.check(None, Light.OFF)
    LIGHT.check(Light.OFF, None)
    for before, after in ((None, Light.ON), (Light.ON, None), (Light.ON, Light.ON), (Light.BURNT_OUT, Light.OFF)):
        with pytest.raises(Fatal, match="a light cannot go from"):
            LIGHT.check(before, after)


def test_it_says_where_a_state_is_reached_from_and_which_last() -> None:
    assert LIGHT.names_before(Light.ON) == ["off"]
    assert LIGHT.before(None) == {Light.OFF}
    with pytest.raises(Fatal, match="cannot go to"):
        States("a light", Light, [Move(None, state, "so") for state in Light]).before(Light.ON)
    assert LIGHT.is_final(Light.BURNT_OUT)
    assert LIGHT.lasting == {Light.OFF, Light.ON}


def test_a_table_is_whole_and_says_nothing_twice() -> None:
    with pytest.raises(Fatal, match="lacks a state"):
        States("a light", Light, MOVES[:-2])
    with pytest.raises(Fatal, match="twice"):
        States("a light", Light, [*MOVES, Move(Light.ON, Light.OFF, "again")])


def test_the_diagram_has_a_line_for_every_move() -> None:
    assert LIGHT.diagram() == (
        "stateDiagram-v2\n"
        '    state "burnt-out" as burnt_out\n'
        "    [*] --> off: bought\n"
        "    off --> on: switched\n"
        "    on --> off: switched\n"
        "    on --> burnt_out: with time\n"
        "    off --> [*]: given away"
    )


@pytest.mark.parametrize("name", MACHINES)
def test_every_state_is_reached_and_every_move_says_when(name: str) -> None:
    _, table = MACHINES[name]
    reached = {None}
    while more := {move.after for move in table.moves if move.before in reached} - reached:
        reached |= more
    assert reached.issuperset(table.states)
    for move in table.moves:
        assert move.when
        assert not set(move.when) & set(":;\n")


def test_the_page_draws_every_table() -> None:
    page = states_page()
    for name, (about, states) in MACHINES.items():
        assert f"## {name}: {about}\n" in page
        assert states.diagram() in page


@given(st.lists(st.sampled_from(["leader", "helper", "time"]), max_size=12), st.integers(1, 4))
def test_a_recipe_in_the_log_keeps_to_its_table_whatever_comes(events: list[str], ends_at: int) -> None:
    opted_in: set[str] = set()
    now, state = 0.0, None
    for event in ["published", *events]:
        if event == "time":
            now += 1.0
        elif event != "published":
            opted_in.add(event)
        after = recipe_state(("leader", "helper"), opted_in, ends_at, now)
        assert after is state or RECIPE_STATES.allows(state, after)
        state = after
