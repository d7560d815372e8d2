"""The series and censuses in the log, as this organisation has verified it."""

from __future__ import annotations

from services.admin.api.calls import Call, Reply
from services.admin.base.problems import not_found
from services.admin.questions.series_documents import CensusPage, SeriesPage
from tacit.logview.live import LiveLog, LiveSeries
from tacit.recipe.census import Census
from tacit.service.documents.admin import CensusDocument, RoundDocument, SeriesDocument


async def list_series(call: Call) -> Reply:
    """A page of series, in the order of the log."""
    return Reply(page_of(await call.admin.followed_log.live(), *call.page()))


async def show_series(call: Call) -> Reply:
    """A series of the log, with the rounds that were published. Raises ``Abort`` (404)."""
    return Reply(document_of(await call.admin.followed_log.live(), call.part("hash")))


async def end(call: Call) -> Reply:
    """End a series in the log: no further round is asked, and the slots and room that it has not used are free."""
    own = call.part("hash")
    index = await call.admin.publishing.end_series(own)
    document = document_of(await call.admin.followed_log.live(), own)
    return Reply(document.model_copy(update={"ended": index}), target=own, detail=f"entry {index}")


async def censuses(call: Call) -> Reply:
    """A page of censuses, in the order of the log."""
    after, limit = call.page()
    found = (await call.admin.followed_log.live()).censuses
    more = len(found) > after + limit
    page = [_census(one) for one in found[after : after + limit]]
    return Reply(CensusPage(censuses=page, next=str(after + limit) if more else None))


def page_of(live: LiveLog, after: int, limit: int) -> SeriesPage:
    """At most ``limit`` series in the order of the log, behind the first ``after``; ``next`` is the following
    ``after``."""
    page = [_document(one, live) for one in live.series[after : after + limit]]
    return SeriesPage(series=page, next=str(after + limit) if len(live.series) > after + limit else None)


def document_of(live: LiveLog, wanted: str) -> SeriesDocument:
    """The series with this hash. Raises ``Abort`` (404) if the log has none."""
    series = next((one for one in live.series if one.series.hash_text == wanted), None)
    if series is None:
        raise not_found("series")
    return _document(series, live)


def _document(one: LiveSeries, live: LiveLog) -> SeriesDocument:
    series = one.series
    owners = {
        item.recipe.series.index: item.recipe.hash_text
        for item in live.recipes
        if item.recipe.series is not None and live.round_of(item.recipe) is series
    }
    return SeriesDocument(
        hash=series.hash_text,
        name=series.name,
        index=one.index,
        rounds=series.rounds,
        start=series.interval.start,
        end=series.interval.end,
        claim=series.claim.model_dump(mode="json"),
        published=[RoundDocument(index=index, recipe=owner) for index, owner in sorted(owners.items())],
        series=series.body(),
        ended=None if one.ended is None else one.ended.index,
    )


def _census(one: Census) -> CensusDocument:
    return CensusDocument(
        recipe=one.recipe.hash_text,
        name=one.recipe.name,
        index=one.index,
        report_count=one.report_count,
        end=one.recipe.interval.end,
    )
