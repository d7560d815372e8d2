"""Who publishes too late, or starts agents too late, is told that nobody will answer, and what to do."""

from __future__ import annotations

import io
from typing import Any, cast

import pytest
from rich.console import Console

from infra.commands.results import FEWER_HINT
from infra.commands.status import details
from infra.lab.kit.recipes import EPOCH, EPOCH_SECONDS, RecipeKit
from infra.views.recipe_outlook import asked_words
from infra.views.recipe_view import show_recipe
from tacit.errors import UsageError
from tacit.logview.live import LiveLog
from tacit.operations.drafting import placed
from tacit.operations.status import TaskStatus
from tacit.recipe.model import Interval
from tacit.recipe.writing.survey import Survey

INTERVAL = Interval(start=1_728_000_000, duration=3_600)
UNTIL = "2024-10-04 00:15:00 UTC"
PAGE: dict[str, Any] = {"uploaded": 0, "jobs": {}, "rejected": 0}


def test_before_the_end_of_the_first_quarter_a_person_is_told_by_when_agents_must_run() -> None:
    for now in (INTERVAL.start - 86_400, INTERVAL.start + 900):
        assert asked_words(INTERVAL, now).startswith(f"asks devices that have read it and hold a token by {UNTIL}")


def test_after_it_a_person_is_told_that_nobody_is_asked_and_what_to_do() -> None:
    words = asked_words(INTERVAL, INTERVAL.start + 901)
    assert words.startswith(f"nobody has been asked since {UNTIL}")
    assert words.endswith("ask again with a later --start")


def test_a_recipe_and_a_task_without_reports_show_until_when_devices_decide() -> None:
    console = Console(file=io.StringIO(), width=120, highlight=False)
    recipe = RecipeKit().recipe(start=INTERVAL.start, duration=INTERVAL.duration)
    show_recipe(recipe, {"state": "active"}, console)
    assert f"{UNTIL}; devices that read it later take no part" in cast("io.StringIO", console.file).getvalue()
    until = INTERVAL.start + 900.0
    waiting = TaskStatus("visits", "hash", "active", "", leader=PAGE, asked_until=until)
    assert [line.plain for line in details(waiting)] == [
        f"devices decide until {UNTIL}, then send; later ones take no part"
    ]
    assert details(TaskStatus("visits", "hash", "active", "", leader={**PAGE, "uploaded": 3}, asked_until=until)) == []


def test_a_recipe_that_is_written_just_before_an_epoch_begins_asks_in_the_one_after_if_the_log_has_its_keys() -> None:
    """Devices could hardly read it and fetch a token before the first quarter is over."""
    kit = RecipeKit()
    seconds, at = EPOCH_SECONDS, (EPOCH + 1) * EPOCH_SECONDS

    def written(now: float, *epochs: int) -> int | None:
        leaves = [kit.directory_leaf(epoch) for epoch in epochs]
        live = LiveLog.from_leaves(enumerate(leaves))
        return placed(Survey(), live, "issuer.example", seconds, now).epoch

    assert written(at - 96, EPOCH + 1, EPOCH + 2) == EPOCH + 1
    assert written(at - 94, EPOCH + 1, EPOCH + 2) == EPOCH + 2, "a look each 60 s, a quarter late, and 20 s to settle"
    assert written(at - 94, EPOCH + 1) == EPOCH + 1
    with pytest.raises(
        UsageError, match=r"epoch \d+; the log's newest token keys are of .*, this machine's clock says"
    ):
        written(at + 3 * seconds, EPOCH + 1)


def test_a_batch_that_did_not_fill_is_explained_by_late_devices_too() -> None:
    assert "after the first quarter of its interval took no part (see tacit agent journal)" in FEWER_HINT
