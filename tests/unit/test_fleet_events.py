"""What happens on the devices of a fleet that watch an event, what they keep of it, and what they know to have sent."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from client_agent.panprivate.recipes import watched_side
from infra.lab.devices.events import (
    DrawnEvents,
    Opened,
    drawn_events,
    kept,
    listed_events,
    totals,
)
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.reports import issuer_key
from infra.lab.kit.watched import CELLS, MOST, ONE, STEPS, TWO, WatchingKit
from tacit.errors import UsageError
from tacit.methods.flips import Flips
from tacit.panprivate.elgamal import PrivateKey
from tacit.recipe.derive import randomizer_of, task_of
from tacit.recipe.encoder_specs import Occurrences
from tacit.recipe.model import Question, Recipe

KIT = WatchingKit(3)
STREAMS = ((0,) * STEPS, (0, 1, *(0,) * (STEPS - 2)), (2, *(0,) * (STEPS - 2), 1), (1,) * STEPS)
"""Nothing, once, three times in two steps, in every step."""


def asked(recipe: Recipe) -> tuple[Question, Occurrences]:
    assert isinstance(recipe.question.encoder, Occurrences)
    return recipe.question, recipe.question.encoder


def keys_of(model: str) -> tuple[PrivateKey, ...]:
    return (KIT.state_key,) if model == ONE else (KIT.state_keys["leader"], KIT.state_keys["helper"])


@pytest.mark.parametrize(("model", "statistic"), CELLS)
def test_what_is_opened_is_the_randomised_answer_to_the_stream(model: str, statistic: str) -> None:
    """With so large an epsilon0, and noise of a known range, an answer is the truth."""
    recipe = KIT.watched_recipe(model, statistic)
    if statistic != "mean":
        body = recipe.body()
        body["randomizer"]["epsilon0"] = "40"
        recipe = Recipe.from_body(body)
    task = None if model == ONE else task_of(recipe, issuer_key().token_key.spki)
    side = watched_side(recipe)
    opened, stored, entropy = Opened(recipe, task, keys_of(model)), side.stored(recipe), SeededEntropy(5)
    method, most = randomizer_of(recipe), asked(recipe)[1].most
    for stream in STREAMS:
        numbers = opened.numbers(side.randomised(recipe, kept(stored, stream, entropy), entropy))
        times = min(sum(stream), most)
        if isinstance(method, Flips):
            (number,) = numbers
            assert 0 <= number - method.scale * times <= method.flips
        else:
            expected = [times] if statistic == "count" else [int(cell == times) for cell in range(MOST + 1)]
            assert numbers == expected, stream
    cells = side.randomised(recipe, kept(stored, STREAMS[0], entropy), entropy)
    assert Opened(recipe, task, ()).numbers(cells) == []


def test_totals_are_what_a_perfect_result_would_say() -> None:
    found = {statistic: totals(*asked(KIT.watched_recipe(ONE, statistic)), STREAMS) for _, statistic in CELLS[2:]}
    assert found["count"] == [3.0]
    assert found["histogram"] == [1.0, 1.0, 0.0, 1.0, 1.0]
    assert found["mean"] == [0.0 + 1 + 3 + MOST]


def test_drawn_and_listed_streams_are_as_said() -> None:
    question, spec = asked(KIT.watched_recipe(TWO, "count"))
    generator = np.random.default_rng(1)
    drawn = drawn_events(question, spec, "events:0.25")
    data = drawn.of(0, 4_000, generator)
    assert data.shape == (4_000, STEPS)
    assert set(np.unique(data)) == {0, 1}
    assert abs(data.mean() - 0.25) < 0.012  # five and a half standard errors, seed fixed
    assert drawn.numbers(data) is None
    assert drawn_events(question, spec, None) == DrawnEvents("events:0.02", STEPS, is_mean=False, rate=0.02)

    listed = listed_events("rows", question, spec, ["0", " 3", "7"])
    rows = listed.of(1, 5, generator)
    assert rows.sum(axis=1).tolist() == [3, 7, 0, 3, 7]
    assert listed.answers(rows[:1]) == [tuple(rows[0].tolist())]


def test_the_mean_keeps_the_numbers_that_no_limit_has_cut() -> None:
    question, spec = asked(KIT.watched_recipe(ONE, "mean"))
    listed = listed_events("rows", question, spec, [str(MOST + 5)])
    numbers = listed.numbers(listed.of(0, 1, np.random.default_rng(1)))
    assert numbers is not None
    assert numbers.tolist() == [[MOST + 5.0]]


@pytest.mark.parametrize("text", ["uniform", "events:2", "events:-1", "events:x", "events:nan"])
def test_other_data_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="events"):
        drawn_events(*asked(KIT.watched_recipe(ONE, "count")), text)


@pytest.mark.parametrize("cells", [[], [""], ["1", "-1"], ["1.5"], ["256"], ["9" * 5_000]])
def test_rows_that_say_no_number_of_events_are_refused(cells: list[str]) -> None:
    with pytest.raises(UsageError, match="rows: "):
        listed_events("rows", *asked(KIT.watched_recipe(ONE, "count")), cells)


def test_keys_travel_to_workers_and_are_not_shown() -> None:
    key = keys_of(ONE)[0]
    again = pickle.loads(pickle.dumps(key))  # noqa: S301
    assert again == key
    assert key.scalar.hex() not in repr(again)
