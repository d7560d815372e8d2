"""When and with which tokens a training run is asked, and why it is not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from infra.lab.kit.learning import LEARNING, model_of
from infra.lab.kit.recipes import NOW, RecipeKit
from tacit.errors import Abort, UsageError
from tacit.learning.plan import Plan
from tacit.logview.live import LiveLog, LiveSeries
from tacit.media_types import PROBLEM_JSON
from tacit.operations.calls import call, get_bytes, put_bytes
from tacit.operations.learning.placing import EPOCHS_AHEAD, Epochs, placed_run, refusals_of, rounds_per_epoch
from tacit.operations.pace import Pace
from tacit.operations.publishing import require_model_place, send_model
from tacit.ports import HttpResponse
from tacit.recipe.asking import asked_until
from tacit.recipe.series import Series
from tests.unit.test_learning_resumed import TINY

KIT = RecipeKit()
PLAN = Plan.model_validate(TINY)
EPOCHS = Epochs(2 * PLAN.period, 4)
PACE = Pace(60.0)
BEGIN = NOW // EPOCHS.seconds * EPOCHS.seconds


EMPTY = LiveLog()
OPEN = KIT.policy.model_copy(
    update={
        "allow_unbounded_local": True,
        **{f"max_epsilon_{one}": "9" for one in ("aggregator", "aggregator_with_relay", "half_batch")},
    }
)


def placed(live: LiveLog = EMPTY, start: int | None = None, now: float = BEGIN, **changes: Any) -> Series:
    plan = Plan.model_validate({**TINY, **changes})
    return placed_run(plan, KIT.parties(), live, EPOCHS, now, PACE, start)


def holding(*series: Series) -> LiveLog:
    leaves = (LiveSeries(index, KIT.series_leaf(one), one) for index, one in enumerate(series))
    return LiveLog(series=tuple(leaves))


def test_a_run_begins_with_the_next_epoch_and_its_rounds_share_the_slots_of_each() -> None:
    series = placed()
    assert series.interval.start == BEGIN + EPOCHS.seconds
    assert (series.slots.per_epoch, series.slots.slot) == (2, 0)
    for index in range(PLAN.rounds):
        interval, token = PLAN.interval(series.interval.start, index), series.token(index)
        assert token.epoch * EPOCHS.seconds <= interval.start
        assert interval.end <= (token.epoch + 1) * EPOCHS.seconds
    assert refusals_of(PLAN, series, OPEN, BEGIN) == []


def test_a_second_run_takes_the_slots_that_are_left_and_a_third_begins_when_there_are_some() -> None:
    first = placed()
    second = placed(holding(first), name="second")
    assert (second.slots.slot, second.interval.start) == (2, first.interval.start)
    third = placed(holding(first, second), name="third")
    assert third.interval.start == first.interval.start + 2 * EPOCHS.seconds


def test_where_no_slot_is_free_the_refusal_says_until_when_that_was_looked_for() -> None:
    rounds = 2 * (EPOCHS_AHEAD + 2)
    whole = [placed(name=name, rounds=rounds, epsilon=20) for name in ("first",)]
    whole.append(placed(holding(*whole), name="second", rounds=rounds, epsilon=20))
    with pytest.raises(UsageError, match="no 2 of the 4 token slots of an epoch are free"):
        placed(holding(*whole), name="third")


def test_a_start_is_kept_and_one_that_devices_do_not_see_in_time_is_refused() -> None:
    begin = BEGIN + EPOCHS.seconds
    late = asked_until(PLAN.interval(begin, 0)) - PACE.lead_seconds(EPOCHS.seconds)
    assert placed(start=begin, now=late).interval.start == begin
    with pytest.raises(UsageError, match=f"--start {begin} is too soon"):
        placed(start=begin, now=late + 1)
    with pytest.raises(UsageError, match="must be in the first 1200 s of an epoch"):
        placed(start=begin + 1260)


@pytest.mark.parametrize(
    ("epochs", "start", "found"),
    [
        (Epochs(4800, 1), 0, 1),
        (Epochs(4800, 1), 4800 + 1200, 1),
        (Epochs(14400, 3), 0, 3),
        (Epochs(86400, 3), 60, 3),
        (Epochs(9600, 2), 9600, 2),
    ],
)
def test_rounds_are_as_many_in_an_epoch_as_fit(epochs: Epochs, start: int, found: int) -> None:
    assert rounds_per_epoch(PLAN, start, epochs) == found


@pytest.mark.parametrize(
    ("epochs", "said"),
    [
        (Epochs(5000, 4), "4800 s do not divide the stack's epochs of 5000 s: change the plan, or make a stack with"),
        (Epochs(3600, 4), "tacit up --epoch-seconds 4800"),
        (Epochs(9600, 1), "2 rounds of the plan fall into an epoch, which has 1 token slots"),
    ],
)
def test_rounds_that_do_not_fit_into_epochs_are_refused_with_the_epochs_that_would(epochs: Epochs, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        rounds_per_epoch(PLAN, 0, epochs)


def test_what_a_policy_would_refuse_of_any_round_is_known_before_anything_is_published() -> None:
    plan = Plan.model_validate({**TINY, "round_seconds": 3660, "release_seconds": 1140})
    series = placed_run(plan, KIT.parties(), LiveLog(), EPOCHS, BEGIN, PACE)
    assert refusals_of(plan, series, OPEN, BEGIN) == []
    odd = plan.model_copy(update={"round_seconds": 3659})
    assert {one.rule for one in refusals_of(odd, series, OPEN, BEGIN)} == {"interval-unaligned"}
    assert "claim-cap" in {one.rule for one in refusals_of(plan, series, KIT.policy, BEGIN)}


@dataclass(frozen=True)
class Answering:
    """A recipe server that answers everything in the same way."""

    status: int
    type: str

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        content = json.dumps({"type": self.type, "title": "No."}).encode()
        return HttpResponse(self.status, {"content-type": PROBLEM_JSON}, content)


async def test_a_recipe_server_that_has_no_place_for_models_is_named_before_anything_is_published() -> None:
    stated = model_of(LEARNING, 1).stated()
    await require_model_place(Answering(404, "urn:tacit:problem:model-unknown"), "http://log", stated)
    for status in (404, 405):
        with pytest.raises(UsageError, match="http://log takes no model files: start a recipe server of this version"):
            await require_model_place(Answering(status, "about:blank"), "http://log", stated)
    with pytest.raises(Abort):
        await send_model(Answering(404, "urn:tacit:problem:model-unknown"), "http://log", stated, b"")


async def test_a_redirect_is_no_success_of_a_call_because_it_is_not_followed() -> None:
    stated = model_of(LEARNING, 1).stated()
    redirecting = Answering(307, "about:blank")
    calls = (
        put_bytes(redirecting, "http://log/v1/models/x", b"model"),
        get_bytes(redirecting, "http://log/v1/models/x"),
        call(redirecting, "GET", "http://log/v1/recipes"),
        send_model(redirecting, "http://log", stated, b"model"),
        require_model_place(redirecting, "http://log", stated),
    )
    for one in calls:
        with pytest.raises(Abort, match="redirect, which is not followed"):
            await one
