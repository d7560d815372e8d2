"""What a release waits for, as the one who operates the stack is told."""

from __future__ import annotations

from typing import Any

import pytest

from infra.lab.kit.recipes import RecipeKit
from tacit.operations.status import TaskStatus
from tacit.operations.unreleased import unreleased_words
from tacit.time_format import format_utc

RECIPE = RecipeKit().recipe(population=250, min_batch_size=40)
OVER = float(RECIPE.interval.end)


def page(aggregated: int = 0, waiting: int = 0, rejected: int = 0, **jobs: int) -> dict[str, Any]:
    in_jobs = 5 * jobs.get("sent", 0)
    return {
        "uploaded": aggregated + waiting + in_jobs + rejected, "pending": waiting + in_jobs, "waiting": waiting,
        "aggregated": aggregated, "rejected": rejected, "rejected_by_cause": {"report_replayed": rejected},
        "jobs": jobs, "failing_jobs": [],
    }  # fmt: skip


def told(leader: dict[str, Any], now: float = OVER) -> str:
    return unreleased_words(TaskStatus("visits", RECIPE.hash_text, "active", "", leader=leader), RECIPE, now)


@pytest.mark.parametrize(
    ("leader", "words"),
    [
        (page(34), "34 of at least 40 contributions came"),
        (
            page(30, sent=6),
            "6 jobs wait for the helper; 30 of 60 contributions are counted, and at least 40 are needed",
        ),
        (page(39, waiting=1), "1 contribution waits for a job; 39 of 40 contributions are counted, and at least 40"),
        (page(50, formed=1), "1 job waits to be sent; 50 contributions counted, at least 40 needed"),
        (page(39, rejected=3), "39 of at least 40 contributions came; 3 were rejected (3 report_replayed)"),
        (page(0, failed=1, abandoned=1), "2 jobs failed for good; 0 of at least 40 contributions came"),
    ],
)
def test_what_is_missing_or_unfinished_is_counted(leader: dict[str, Any], words: str) -> None:
    assert told(leader).startswith(words)


def test_the_reason_why_a_job_makes_no_progress_is_told_once() -> None:
    leader = page(30, sent=2)
    leader["failing_jobs"] = [{"cause": "the helper does not answer"}, {"cause": "the helper does not answer"}, {}]
    assert told(leader).startswith("2 jobs wait for the helper; the helper does not answer; 30 of 40 contributions")


def test_an_interval_that_is_not_over_is_told_with_its_end() -> None:
    assert told(page(3), OVER - 1) == (f"its interval ends at {format_utc(OVER)}; 3 of at least 40 contributions came")


def test_a_recipe_that_no_server_serves_is_told_by_its_state_or_rule() -> None:
    def of(task: TaskStatus | None) -> str:
        return unreleased_words(task, RECIPE, OVER)

    assert of(None) == "no server of the recipe answers"
    assert of(TaskStatus("v", "h", "refused", "claim-cap")) == "a server refused the recipe by rule claim-cap"
    assert of(TaskStatus("v", "h", "opted-in", "")) == "the recipe is opted-in: no server counts contributions to it"
    analyzer = {"uploaded": 12, "pending": 0, "aggregated": 12, "rejected": 0, "rejected_by_cause": {}}
    one_server = TaskStatus("v", "h", "active", "", analyzer=analyzer)
    assert of(one_server) == "12 of at least 40 contributions came"
