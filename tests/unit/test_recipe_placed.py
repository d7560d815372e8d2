"""When a recipe asks: without a word the next epoch and its first free slot, and never before a watch is over."""

from __future__ import annotations

from typing import Any

import pytest

from infra.lab.kit.recipes import EPOCH, EPOCH_SECONDS, NOW
from infra.lab.kit.watched import TWO, WatchingKit
from tacit.errors import UsageError
from tacit.logview.live import LiveLog
from tacit.logview.signers import LeafSigners
from tacit.operations.drafting import placed
from tacit.recipe.encoder_specs import Watched
from tacit.recipe.writing.survey import Survey
from tacit.time_format import format_utc

KIT = WatchingKit()
UNPLACED = {"start": None, "duration": None, "epoch": None, "slot": None}
DAY, HOUR = 86_400, 3_600
"""NOW is one hour into EPOCH."""


def log() -> LiveLog:
    leaves = [KIT.directory_leaf(EPOCH + ahead) for ahead in range(3)]
    assert None not in LeafSigners(KIT.default_policy).keys_of(leaves)
    return LiveLog.from_leaves(enumerate(leaves))


def in_the_stack(steps: int, step_seconds: int, **members: Any) -> tuple[Survey, Watched]:
    encoder = {"kind": "occurrences", "steps": steps, "step_seconds": step_seconds}
    survey = KIT.watched_survey(TWO, "count", **{**UNPLACED, "encoder": encoder, **members})
    found = placed(survey, log(), "issuer.example", EPOCH_SECONDS, NOW + 0.5)
    assert isinstance(found.encoder, Watched)
    return found, found.encoder


def test_a_watch_that_is_over_before_the_next_epoch_is_reported_from_its_beginning_on() -> None:
    survey, watched = in_the_stack(30, 60)
    assert watched.start == NOW + 60
    assert (survey.epoch, survey.start, survey.duration) == (EPOCH + 1, (EPOCH + 1) * DAY, DAY)


def test_a_watch_that_ends_in_the_first_half_of_an_epoch_is_reported_in_the_rest_of_it() -> None:
    survey, watched = in_the_stack(27, HOUR)
    assert watched.start == NOW + HOUR
    assert watched.asked().end == NOW + 28 * HOUR == (EPOCH + 1) * DAY + 5 * HOUR
    assert (survey.epoch, survey.start, survey.duration) == (EPOCH + 1, (EPOCH + 1) * DAY + 5 * HOUR, 19 * HOUR)


def test_a_watch_that_ends_in_the_second_half_is_reported_in_the_epoch_after() -> None:
    survey, _ = in_the_stack(36, HOUR)
    assert (survey.epoch, survey.start, survey.duration) == (EPOCH + 2, (EPOCH + 2) * DAY, DAY)


def test_reports_of_a_watch_in_odd_seconds_begin_at_a_whole_minute() -> None:
    survey, watched = in_the_stack(1_000, 97)
    assert watched.start is not None
    assert watched.start % 97 == 0
    assert survey.start is not None
    assert 0 <= survey.start - watched.asked().end < 60
    assert survey.start % 60 == 0


def test_a_watch_longer_than_keys_are_published_for_is_refused_in_words() -> None:
    with pytest.raises(UsageError, match=r"no token keys for epoch \d+; the watched period ends at .* longer epochs"):
        in_the_stack(30, DAY)


def test_the_refusal_says_by_when_a_watch_would_have_to_end() -> None:
    with pytest.raises(UsageError) as refused:
        in_the_stack(30, DAY)
    latest = (EPOCH + 1) * DAY + DAY // 2 - 60
    assert f"must end by {format_utc(latest)}" in str(refused.value)
    steps = (latest - NOW) // 60 - 1
    survey, watched = in_the_stack(steps, 60)
    assert (survey.epoch, watched.asked().end) == (EPOCH + 1, latest)
    assert in_the_stack(steps + 1, 60)[0].epoch == EPOCH + 2


def test_what_is_stated_is_kept() -> None:
    start = (EPOCH + 1) * DAY + HOUR
    survey, _ = in_the_stack(10, 60, start=start, duration=2 * HOUR, slot=3)
    assert (survey.epoch, survey.start, survey.duration, survey.slot) == (EPOCH + 1, start, 2 * HOUR, 3)


def test_other_recipes_are_placed_as_they_were() -> None:
    survey = KIT.survey(**UNPLACED)
    found = placed(survey, log(), "issuer.example", EPOCH_SECONDS, float(NOW))
    assert (found.epoch, found.start, found.duration, found.slot) == (EPOCH + 1, (EPOCH + 1) * DAY, DAY, 0)
