"""When a recipe has to be published so that every device that runs decides in time: devices simulated, second by
second, on a machine that is busy with other work."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.base.machine_load import how_busy
from infra.lab.kit.recipes import EPOCH, RecipeKit
from infra.lab.kit.watched import TWO, WatchingKit
from infra.stacks.agent_configs import usual_check_in
from infra.stacks.options import StackOptions
from tacit.errors import UsageError
from tacit.logview.live import LiveLog
from tacit.operations.drafting import is_movable, move, placed, wanted_epoch, with_free_slot
from tacit.operations.pace import (
    DEVICE_SECONDS,
    SETTLE_SECONDS,
    SETTLE_SHARE,
    Pace,
    default_epoch_seconds,
)
from tacit.recipe.asking import LONGEST_SPREAD, asked_until
from tacit.recipe.model import Interval
from tacit.recipe.writing.survey import Survey

KIT = RecipeKit()
DAY = 86_400
SLOTS = 4


def served(arrivals: list[float], seconds: float) -> list[float]:
    """When one machine is done with what arrives, one after the other."""
    free, done = 0.0, []
    for arrival in sorted(arrivals):
        free = max(free, arrival) + seconds
        done.append(free)
    return done


def last_decision(pace: Pace, devices: int, epoch: int, seconds: int, published: float, draw: random.Random) -> float:
    """When the last of so many devices decides on a recipe of ``epoch`` that is ``published`` then: it has
    looked at the log, and holds the token that it fetches at a random time of the epoch before."""
    visible = published + min(SETTLE_SECONDS, SETTLE_SHARE * seconds)
    looks = [visible + draw.uniform(0, LONGEST_SPREAD) * pace.check_in_seconds for _ in range(devices)]
    begins = epoch * seconds
    due = [draw.uniform(begins - seconds, begins) for _ in range(devices * SLOTS)]
    return max([*served(looks, DEVICE_SECONDS), *served(due, DEVICE_SECONDS / SLOTS)], default=published)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    check_in=st.floats(0.5, 900),
    devices=st.integers(1, 400),
    moment=st.floats(0, 1),
    draw=st.randoms(use_true_random=False),
)
def test_for_every_check_in_interval_and_number_of_agents_all_decide_or_it_is_said_that_not_all_would(
    check_in: float, devices: int, moment: float, draw: random.Random
) -> None:
    pace, seconds = Pace(check_in, devices), default_epoch_seconds(devices)
    now = (1_000_000 + moment) * seconds
    epoch = wanted_epoch(seconds, now, pace)
    interval = Interval(start=epoch * seconds, duration=seconds)
    if pace.reaches(interval, seconds, now):
        assert last_decision(pace, devices, epoch, seconds, now, draw) <= asked_until(interval)
    else:
        assert pace.lead_seconds(seconds) > seconds * 1.25, "a deployment that looks so rarely needs longer epochs"


@settings(max_examples=100, deadline=None, derandomize=True)
@given(devices=st.integers(0, 10_000), moment=st.floats(0, 1), made=st.floats(0, 50), busy=st.floats(0, 50))
def test_a_default_stack_of_any_size_has_a_time_in_which_all_of_its_agents_decide(
    devices: int, moment: float, made: float, busy: float
) -> None:
    """However busy the machine was when the stack was ``made``, and is."""
    seconds = default_epoch_seconds(devices, made)
    pace = Pace(usual_check_in(StackOptions(epoch_seconds=seconds)), devices, busy)
    now = (1_000_000 + moment) * seconds
    start = wanted_epoch(seconds, now, pace) * seconds
    assert pace.reaches(Interval(start=start, duration=seconds), seconds, now)
    assert seconds % 60 == 0
    assert now + pace.lead_seconds(seconds) <= start, "a minute of dawdling is what the deciding quarter is left for"


def log(*taken: int) -> LiveLog:
    """Three epochs of four slots; those of ``EPOCH`` + 1 that are ``taken`` have a recipe."""
    leaves = [KIT.directory_leaf(EPOCH + ahead) for ahead in range(3)]
    start = (EPOCH + 1) * DAY
    recipes = [KIT.recipe(name=f"r{slot}", epoch=EPOCH + 1, slot=slot, start=start) for slot in taken]
    leaves += [KIT.recipe_leaf(one) for one in recipes]
    return LiveLog.from_leaves(enumerate(leaves))


def test_on_a_busy_machine_more_time_is_left_for_work_but_never_more_than_half_an_epoch() -> None:
    leads = [Pace(8.0, 60, busy).lead_seconds(120) for busy in (0.0, 2.0, 6.0, 50.0)]
    assert leads == [45.0, 45.0, 75.0, 90.0]


def test_a_stack_that_is_made_on_a_busy_machine_has_longer_epochs(tmp_path: Path) -> None:
    assert [default_epoch_seconds(60, busy) for busy in (0.0, 1.0, 2.0, 4.0, 12.0)] == [60, 60, 60, 120, 360]
    assert [default_epoch_seconds(devices) for devices in (0, 60, 61, 1_000)] == [60, 60, 120, 1_020]
    told = tmp_path / "loadavg"
    told.write_text("10.00 4.00 2.00 3/400 12345\n")
    assert how_busy(told) * (os.cpu_count() or 1) == pytest.approx(10.0)
    told.write_text("0.50 4.00 2.00 21/400 12345\n")
    assert how_busy(told) * (os.cpu_count() or 1) == pytest.approx(20.0)
    assert how_busy(tmp_path / "none") == 0.0


PACE = Pace(60.0, 0)


def test_a_draft_whose_time_was_left_open_moves_to_a_time_that_does_and_nothing_else_of_it_changes() -> None:
    draft = KIT.recipe(epoch=EPOCH, start=EPOCH * DAY, duration=DAY)
    now = (EPOCH + 1) * DAY - 30.0
    assert is_movable(draft, DAY)
    assert not PACE.reaches(draft.interval, DAY, now)
    after = move(draft, log(), DAY, now, PACE)
    assert (after.token.epoch, after.interval.start, after.interval.duration) == (EPOCH + 2, (EPOCH + 2) * DAY, DAY)
    same = {name: value for name, value in draft.body().items() if name not in {"interval", "token"}}
    assert same.items() <= after.body().items()
    assert PACE.reaches(after.interval, DAY, now)


def test_a_draft_with_a_start_of_its_own_is_moved_by_nobody_and_one_that_watches_neither() -> None:
    assert not is_movable(KIT.recipe(epoch=EPOCH, start=EPOCH * DAY + 60), DAY)
    watching = WatchingKit().watched_recipe(TWO, "count")
    assert not is_movable(watching, DAY)


def test_a_draft_whose_slot_another_recipe_has_takes_the_next_free_one() -> None:
    draft = KIT.recipe(name="other", epoch=EPOCH + 1, start=(EPOCH + 1) * DAY, slot=0)
    assert with_free_slot(draft, log(), []) == draft
    assert with_free_slot(draft, log(0)).token.slot == 1
    assert with_free_slot(draft, log(0), [(EPOCH + 1, 1)]).token.slot == 2
    with pytest.raises(UsageError, match="all 4 slots of epoch"):
        with_free_slot(draft, log(0, 1, 2, 3))


def test_a_draft_does_not_get_a_slot_that_a_series_in_the_log_assigns_to_a_round() -> None:
    series = KIT.series(rounds=3)
    held = {series.token(index).slot for index in range(3)}
    leaves = [KIT.directory_leaf(), KIT.series_leaf(series)]
    found, free = LiveLog.from_leaves(enumerate(leaves)), KIT.recipe(name="other", slot=0)
    assert {item.token for item in (with_free_slot(free, found),)}.isdisjoint({series.token(at) for at in range(3)})
    assert with_free_slot(free, found).token.slot not in held
    assert with_free_slot(KIT.round(series, 0), found) == KIT.round(series, 0)
    beyond = series.token(0).model_copy(update={"epoch": series.token(0).epoch + 1})
    assert not series.assigns(beyond)


def test_drafts_take_different_slots_and_where_all_are_reserved_the_one_reserved_first() -> None:
    def slot(*reserved: tuple[int, int]) -> int | None:
        return placed(Survey(), log(1), "issuer.example", DAY, EPOCH * DAY + 60.0, PACE, reserved).slot

    assert slot() == 0
    assert slot((EPOCH + 1, 0)) == 2
    assert slot((EPOCH + 2, 0)) == 0
    assert slot((EPOCH + 1, 2), (EPOCH + 1, 0), (EPOCH + 1, 3)) == 2
