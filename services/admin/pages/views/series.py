"""Series of the log: which rounds were published, and what was released of them over time."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from services.admin.handlers.series import document_of, page_of
from services.admin.pages.charts import over_time
from services.admin.pages.views.published import POINTS, by_answers, releases_of, unit_of
from services.admin.pages.visits import Visit
from tacit.service.openapi import DEFAULT_LIMIT

ANSWERS = 6
"""Answers with a column in the table."""


async def listed(visit: Visit) -> web.StreamResponse:
    """A page of the log's series."""
    after = visit.cursor()
    page = page_of(await visit.admin.whole.live(), after, DEFAULT_LIMIT)
    return visit.show("series.html", series=page.series, following=page.next, first=not after)


async def shown(visit: Visit) -> web.StreamResponse:
    """One series: its releases over time with their intervals, and the newest of its rounds in a table."""
    live = await visit.admin.whole.live()
    series = document_of(live, visit.part("hash"))
    newest = series.published[-POINTS:]
    recipes = {item.recipe.hash_text: item for item in live.recipes}
    found, trouble = await releases_of(visit.admin)
    rounds = {one.recipe for one in series.published}
    releases = [one for one in found if one["recipe_hash"] in rounds and one["buckets"]]
    releases.sort(key=lambda one: one["interval"]["start"])
    async with visit.admin.store.read() as tx:
        own = await tx.questions_of([one.recipe for one in newest])
    released: dict[str, Any] = {one["recipe_hash"]: one for one in releases}
    rows = [
        {
            "round": one.index + 1,
            "recipe": one.recipe,
            "link": f"/questions/{own[one.recipe]}" if one.recipe in own else f"/log/{recipes[one.recipe].index}",
            "interval": recipes[one.recipe].recipe.interval,
            "release": released.get(one.recipe),
        }
        for one in reversed(newest)
    ]
    drawn = [
        {"unit": unit_of(several[-1]), "count": len(several), "charts": over_time(several[-POINTS:])}
        for several in by_answers(releases, by_name=False)
    ]
    return visit.show(
        "one_series.html", series=series, rows=rows, drawn=drawn, trouble=trouble, answers=ANSWERS,
        released=len(released),
    )  # fmt: skip
