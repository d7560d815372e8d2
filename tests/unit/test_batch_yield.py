"""What a server tells of a batch that fills: when, how coarsely, with how much noise; and what follows for B."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import RecipeKit
from tacit.aggregator.batch_yield import LOOKS, STEPS, BatchYield, Look, read_batch_yield
from tacit.aggregator.yield_looks import look_at, looks_due, tenths
from tacit.errors import DecodeError
from tacit.methods.base.draws import discrete_laplace
from tacit.operations.yields import forecast, yield_of
from tacit.recipe.asking import asked_until, last_start, sent_share
from tacit.recipe.model import Recipe

KIT = RecipeKit()
RECIPE = KIT.recipe()
B, EXPECTED = RECIPE.batch.min_batch_size, RECIPE.batch.expected_contributions
START, END = RECIPE.interval.start, RECIPE.interval.end


def test_the_noise_has_the_law_that_it_claims() -> None:
    entropy, draws, scale = SeededEntropy(b"noise"), 4000, 3.5
    found = Counter(discrete_laplace(35, 10, entropy) for _ in range(draws))
    alpha = math.exp(-1 / scale)
    for value in range(-6, 7):
        chance = (1 - alpha) / (1 + alpha) * alpha ** abs(value)
        assert abs(found[value] - draws * chance) < 4.5 * math.sqrt(draws * chance), value
    widest = [discrete_laplace(1 << 64, 1, entropy) / (1 << 64) for _ in range(400)]
    assert 0.5 < math.fsum(map(abs, widest)) / len(widest) < 1.5, "at its largest scale, whose mean size is the scale"
    with pytest.raises(ValueError, match="bound"):
        discrete_laplace((1 << 64) + 1, 1, entropy)
    assert {discrete_laplace(1, 1 << 40, entropy) for _ in range(100)} == {0}
    assert max(abs(discrete_laplace(10**7, STEPS, entropy)) for _ in range(20)) > 10**4


def test_a_count_is_looked_at_in_equal_parts_of_the_time_in_which_devices_send() -> None:
    moments = [look_at(0, 1000, number) for number in range(1, LOOKS + 1)]
    assert moments == [400, 550, 700, 850, 1000]
    assert [looks_due(0, 1000, now) for now in (0, 399.9, 400, 849, 850, 1000, 10**6)] == [0, 0, 1, 3, 4, 5, 5]
    assert asked_until(RECIPE.interval) < look_at(START, END, 1)


def test_one_report_more_changes_the_odds_of_what_is_told_by_no_more_than_is_said() -> None:
    """Exactly, by the noise's law: the ratio of the probability of each answer at neighbouring counts."""
    size, alpha = 20, math.exp(-STEPS / 20)

    def at_least(noise: int) -> float:
        return alpha**noise / (1 + alpha) if noise > 0 else 1 - alpha ** (1 - noise) / (1 + alpha)

    def chances(count: int) -> list[float]:
        above = [at_least(math.ceil(step * size / STEPS) - count) for step in range(1, STEPS + 1)]
        return [high - low for high, low in zip([1.0, *above], [*above, 0.0], strict=True)]

    told = BatchYield("task", size, (), None)
    for count in range(size + 3):
        for one, other in zip(chances(count), chances(count + 1), strict=True):
            assert abs(math.log(one / other)) <= float(told.epsilon) / LOOKS + 1e-9
    draws = Counter(tenths(9, size, SeededEntropy(b"%d" % number)) for number in range(2000))
    for step, chance in enumerate(chances(9)):
        assert abs(draws[step] - 2000 * chance) < 4.5 * math.sqrt(2000 * chance) + 1


@pytest.mark.parametrize(
    "change",
    [
        {"looks": [{"number": 1, "at": 5, "tenths": 11}]},
        {"looks": [{"number": 6, "at": 5, "tenths": 1}]},
        {"looks": [{"number": 1, "at": 5, "tenths": True}]},
        {"looks": [{"number": 2, "at": 5, "tenths": 1}, {"number": 1, "at": 6, "tenths": 1}]},
        {"looks": 3},
        {"min_batch_size": 0},
        {"next_at": "soon"},
        {"task_id": 7},
    ],
)
def test_what_another_organisation_tells_is_read_strictly(change: dict[str, Any]) -> None:
    told = BatchYield("task", B, (Look(1, 400, 3), Look(3, 700, 10)), 850)
    assert read_batch_yield(json.dumps(told.document()).encode()) == told
    for body in (json.dumps({**told.document(), **change}), "[]", "{", "null"):
        with pytest.raises(DecodeError):
            read_batch_yield(body.encode())


def looked(devices: int, recipe: Recipe, until: int, entropy: SeededEntropy) -> tuple[Look, ...]:
    """The looks at a count to which each of ``devices`` adds at its own time."""
    interval = recipe.interval
    found = []
    times = sorted(int.from_bytes(entropy(4), "big") / 2**32 for _ in range(devices))
    for number in range(1, until + 1):
        at = look_at(interval.start, interval.end, number)
        share = sent_share(interval, at)
        count = sum(one <= share for one in times)
        found.append(Look(number, at, tenths(count, recipe.batch.min_batch_size, entropy)))
    return tuple(found)


def test_a_forecast_holds_as_often_as_it_says_and_narrows() -> None:
    widths: dict[int, list[int]] = {1: [], LOOKS: []}
    held = tried = 0
    for number in range(60):
        entropy = SeededEntropy(b"devices %d" % number)
        devices = int.from_bytes(entropy(4), "big") % (2 * EXPECTED)
        for until, seen in widths.items():
            found = forecast(RECIPE, looked(devices, RECIPE, until, entropy))
            tried += 1
            held += found.least <= devices <= found.most
            seen.append(found.most - found.least)
    assert held >= 0.88 * tried
    assert sum(widths[LOOKS]) < 0.8 * sum(widths[1])


def test_a_yield_says_what_is_told_and_no_more() -> None:
    nothing = yield_of(RECIPE, None, START)
    assert (nothing.contributions, nothing.exact, nothing.most, nothing.due) == (0, False, None, 0.0)
    assert nothing.forecast is None, "before the first look there is nothing to forecast from"

    many = BatchYield("task", B, tuple(Look(n, look_at(START, END, n), min(10, 4 * n)) for n in (1, 2, 3)), END)
    filled = yield_of(RECIPE, many, look_at(START, END, 3))
    assert (filled.contributions, filled.reached, filled.most) == (B, True, None)
    assert filled.epsilon == LOOKS * STEPS / B
    assert filled.forecast is not None
    assert filled.forecast.chance > 0.95
    assert filled.forecast.earliest is not None
    assert filled.forecast.at is not None
    assert START < filled.forecast.earliest < filled.forecast.at <= last_start(RECIPE.interval)

    few = replace(many, looks=tuple(replace(one, tenths=1) for one in many.looks))
    short = yield_of(RECIPE, few, look_at(START, END, 3))
    assert short.forecast is not None
    assert short.forecast.chance < 0.05
    assert (short.forecast.at, short.forecast.latest) == (None, None)
    assert short.least == 0
    assert short.most is not None
    assert short.contributions < short.most

    released = yield_of(RECIPE, many, END + 5, released=317)
    assert (released.contributions, released.exact, released.least, released.looks) == (317, True, 317, ())
    assert released.forecast is None
    assert json.loads(json.dumps(released.document()))["reached"] is True
