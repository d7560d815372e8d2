"""The pages of series: which rounds were published, their releases, and how far a search or a training run is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiohttp import web

from services.admin.base.problems import Problem
from services.admin.handlers.series import document_of, page_of
from services.admin.pages.charts import over_time
from services.admin.pages.learning.facts import plan_facts
from services.admin.pages.page_requests import PageRequest
from services.admin.pages.views.published import POINTS, by_answers, listed_of, unit_of
from services.admin.pages.views.questions import waits_for
from services.admin.questions.learning import plan_of
from services.admin.questions.rounds import Search, search_at
from services.admin.storage.records import QuestionState
from tacit.codec import b64url
from tacit.errors import Abort, UsageError
from tacit.logview.live import LiveLog
from tacit.methods.figures import rest_words, with_margin
from tacit.methods.result import rows
from tacit.operations.prefix_rounds import Progress
from tacit.recipe.encoder_specs import Update
from tacit.recipe.model import Recipe
from tacit.recipe.training import read_round_model
from tacit.service.http.paging import DEFAULT_LIMIT

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


ANSWERS = 6
"""How many answers have a column in the table."""


async def list_series(page_request: PageRequest) -> web.StreamResponse:
    """A page of the log's series, in its order."""
    after = page_request.cursor()
    page = page_of(await page_request.admin.followed_log.live(), after, DEFAULT_LIMIT)
    return page_request.show("series.html", series=page.series, following=page.next, first=not after)


async def draft(page_request: PageRequest) -> web.StreamResponse:
    """Draft the next round, and open its question; if somebody has drafted it before, open that one."""
    try:
        answer = await page_request.act("round.create", {})
    except Abort as problem:
        if problem.type == Problem.ROUND_DRAFTED.uri:
            raise web.HTTPSeeOther(f"/questions/{problem.extensions['question']}") from problem
        if problem.status in {401, 404}:
            raise
        return await _page(page_request, problem)
    raise web.HTTPSeeOther(answer.headers["Location"].removeprefix("/v1"))


async def end(page_request: PageRequest) -> web.StreamResponse:
    """End a series in the log for good; a refusal is shown on the page of the series."""
    try:
        await page_request.act("series.end", {})
    except Abort as problem:
        if problem.status in {401, 404}:
            raise
        return await _page(page_request, problem)
    raise web.HTTPSeeOther(f"/series/{page_request.part('hash')}")


async def show_series(page_request: PageRequest) -> web.StreamResponse:
    """Render the page of the series whose hash is in the path."""
    return await _page(page_request)


async def _page(page_request: PageRequest, problem: Abort | None = None) -> web.Response:
    """One series: its releases over time with their intervals, and a table of its newest rounds."""
    live = await page_request.admin.followed_log.live()
    series = document_of(live, page_request.part("hash"))
    newest = series.published[-POINTS:]
    recipes = {item.recipe.hash_text: item for item in live.recipes}
    found, trouble = await listed_of(page_request.admin)
    rounds = {one.recipe for one in series.published}
    releases = sorted((one for one in found if one.recipe in rounds and one.answers), key=lambda one: one.start)
    last = {one.recipe: one for one in releases}
    groups = [several[-POINTS:] for several in by_answers(releases, by_name=False)]
    tabled = [last[one.recipe] for one in newest if one.recipe in last]
    wanted = {one.place: one for one in (*tabled, *(one for several in groups for one in several))}
    documents = {}
    if wanted:
        documents = dict(zip(wanted, await page_request.admin.own_releases.documents([*wanted.values()]), strict=True))
    async with page_request.admin.store.read() as tx:
        own = await tx.questions_of([one.recipe for one in newest])
    rows = [
        {
            "round": one.index + 1,
            "recipe": one.recipe,
            "link": f"/questions/{own[one.recipe]}" if one.recipe in own else f"/log/{recipes[one.recipe].index}",
            "interval": recipes[one.recipe].recipe.interval,
            "release": documents[last[one.recipe].place] if one.recipe in last else None,
            "model": _model_of(recipes[one.recipe].recipe),
        }
        for one in reversed(newest)
    ]
    search = await search_of(page_request, live, series.hash)
    trains = series.series["template"]["question"]["encoder"]["kind"] == "update"
    run = await run_of(page_request, live, series.hash, [one.index + 1 for one in newest]) if trains else None
    drawn = []
    alike = zip(groups, by_answers(releases, by_name=False), strict=True)
    # rounds of a search ask of other prefixes each, and entries of updates mean nothing to a reader
    for several, whole in () if search is not None or trains else alike:
        points = [documents[one.place] for one in several]
        drawn.append({"unit": unit_of(points[-1]), "count": len(whole), "charts": over_time(points)})
    return page_request.show(
        "one_series.html", status=200 if problem is None else problem.status, problem=problem, series=series,
        rows=rows, drawn=drawn, trouble=trouble, answers=ANSWERS,
        released=len(last), search=search, trains=trains, run=run,
        can_end=_can_end(page_request, live, series.hash),
    )  # fmt: skip


def _can_end(page_request: PageRequest, live: LiveLog, series_hash: str) -> bool:
    """Whether the visitor may end the series here: it goes on, and is this organisation's, whose key is here."""
    series = next(one for one in live.series if one.series.hash_text == series_hash)
    key, goes_on = (
        page_request.admin.publishing.signs_with,
        series.ended is None and series.series.interval.end > page_request.admin.now,
    )
    own = key is not None and b64url(key) == series.series.probe.parties.analyst.signing_key
    return page_request.may("operate") and goes_on and own


def _model_of(recipe: Recipe) -> str | None:
    """The hash of the model that a round trains; None for other recipes."""
    question = recipe.question
    if not isinstance(question.encoder, Update) or question.round_input is None:
        return None
    return read_round_model(question.round_input, question.encoder.training).model
