"""What the page of a series shows of a training run: its plan, what it waits for, and what its rounds cost so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from services.admin.pages.page_requests import PageRequest
from services.admin.pages.run_facts import plan_facts
from services.admin.questions.questions import plan_of
from services.admin.storage.records import QuestionState
from tacit.logview.live import LiveLog


async def run_of(page_request: PageRequest, live: LiveLog, series_hash: str, rounds: Sequence[int]) -> dict[str, Any]:
    """The run with this series, for the template, with epsilon of the first of ``rounds`` so far as it is known."""
    admin = page_request.admin
    async with admin.store.read() as tx:
        question = await tx.question_of_series(series_hash)
    carried = admin.runs.of(series_hash)
    series = next(one.series for one in live.series if one.series.hash_text == series_hash)
    state = ""
    if question is not None and question.state is QuestionState.ENDED:
        state = "ended by hand: no further round is published"
    elif question is not None and question.over_at is not None:
        state = "over"
    elif carried is not None:
        state = carried.words
    return {
        "question": question,
        "facts": [] if question is None else plan_facts(plan_of(question)),
        "state": state,
        "trouble": "" if carried is None else carried.trouble,
        "spent": await admin.spent.of(series, rounds),
    }
