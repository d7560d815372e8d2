"""What the page of a series shows of a search for frequent texts: prefixes that each round kept, the ranking, and the
next round with the question that is its draft."""

from __future__ import annotations

from typing import Any

from services.admin.base.problems import Problem
from services.admin.pages.page_requests import PageRequest
from services.admin.pages.views.questions import waits_for
from services.admin.questions.rounds import Search, search_at
from tacit.errors import Abort, UsageError
from tacit.logview.live import LiveLog
from tacit.methods.figures import rest_words, with_margin
from tacit.methods.result import rows
from tacit.operations.prefix_rounds import Progress

SHOWN = 24
"""How many prefixes of a round have a place in the table."""


async def search_of(page_request: PageRequest, live: LiveLog, series_hash: str) -> dict[str, Any] | None:
    """Where the search is, for the template; None for a series that searches for nothing, or whose releases are not
    those of its rounds, and while the collector cannot be asked."""
    try:
        search = await search_at(live, page_request.admin.releases, series_hash)
    except UsageError:
        return None
    except Abort as problem:
        if problem.type == Problem.NOT_FOUND.uri:
            raise
        return None
    return {"rounds": _rounds(search.found), "next": await _next(page_request, search), **_ranking(search.found)}


def _rounds(found: Progress) -> list[dict[str, Any]]:
    return [
        {
            "round": index + 1,
            "bits": level.candidates.bits,
            "candidates": len(level.counts),
            "kept": kept[:SHOWN],
            "more": len(kept[SHOWN:]),
        }
        for index, (level, kept) in enumerate(zip(found.levels, found.kept, strict=True))
    ]


async def _next(page_request: PageRequest, search: Search) -> dict[str, Any] | None:
    """The next round: its number, the candidates that it would have, the question that is its draft (None: nobody has
    drafted it), and why it cannot be drafted now. None once the search is over."""
    found, own = search.found, page_request.admin.questions.has_analyst(search.series.probe.parties)
    if found.ranked is not None:
        return None
    index = found.published if found.following is not None else found.published - 1
    async with page_request.admin.store.read() as tx:
        question = await tx.question_of_round(search.series.hash_text, index)
    why = search.waits_for(page_request.admin.now)
    operator = search.series.probe.parties.analyst.operator
    return {
        "round": min(found.published + 1, search.series.rounds),
        "of": search.series.rounds,
        "candidates": None if found.following is None else len(found.following.prefixes),
        "question": question,
        "waits": "" if question is None else waits_for(question),
        "why": why or ("" if own else f"{operator} publishes the rounds of this series"),
    }


def _ranking(found: Progress) -> dict[str, Any]:
    if found.ranked is None:
        return {"ranked": None, "rest": None}
    document = found.ranked.members()
    told = [(row["label"], with_margin(row["estimate"], row["stderr"], ",.0f")) for row in rows(document)]
    return {"ranked": told, "rest": rest_words(document)}
