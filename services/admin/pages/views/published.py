"""The results page, and the yields and releases of published recipes for other pages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aiohttp import web

from services.admin.api.calls import Admin
from services.admin.handlers.recipes import document_of
from services.admin.pages.charts import Fill, answers, over_time
from services.admin.pages.claims import describe_adversary
from services.admin.pages.page_requests import PageRequest
from services.admin.pages.survey_labels import plain
from services.admin.questions.releases import Release
from tacit.errors import Abort
from tacit.methods.base.statistics import STATISTICS
from tacit.methods.figures import form_of, population_texts, rest_words, share_texts
from tacit.models.forms import adversary
from tacit.recipe.model import Recipe

RUNNING = 8
"""How many of the newest recipes the overview shows with their yields."""
PATIENCE_SECONDS = 1.0
"""How many seconds a page waits for the log."""
SHOWN, POINTS = 20, 60
"""How many names one page shows, and how many releases of each name."""


async def results(page_request: PageRequest) -> web.StreamResponse:
    """The releases by name, the newest first: the newest release of a name in full, and all its releases over time."""
    after = page_request.cursor()
    listed, trouble = await listed_of(page_request.admin)
    groups = sorted(by_answers(listed), key=lambda several: several[-1].place, reverse=True)
    more, groups = len(groups) > after + SHOWN, groups[after : after + SHOWN]
    async with page_request.admin.store.read() as tx:
        own = await tx.questions_of(sorted({several[-1].recipe for several in groups}))
    shown = []
    for several in groups:
        documents = await page_request.admin.own_releases.documents(several[-POINTS:])
        shown.append(
            {
                "release": release_row(documents[-1], own.get(several[-1].recipe)),
                "multiples": over_time(documents) if len(documents) > 1 else [],
                "earlier": list(reversed(documents[:-1])),
            }
        )
    following = after + SHOWN if more else None
    return page_request.show("results.html", groups=shown, trouble=trouble, following=following, first=not after)


async def listed_of(admin: Admin, recipe_hash: str | None = None) -> tuple[Sequence[Release], str]:
    """The records of all releases, or of one recipe's, in order; if the collector cannot be asked, none and the
    reason."""
    if admin.releases is None:
        return (), "this service is configured without a collector, so it cannot show any releases"
    try:
        return await admin.releases.listed(recipe_hash), ""
    except Abort as problem:
        return (), problem.detail or problem.title


async def releases_of(admin: Admin, recipe_hash: str) -> tuple[list[dict[str, Any]], str]:
    """The result documents of a recipe's releases, in order; if the collector cannot be asked, none and the reason."""
    listed, trouble = await listed_of(admin, recipe_hash)
    return (await admin.own_releases.documents(listed) if listed else []), trouble


def release_row(document: Mapping[str, Any], question: str | None = None) -> dict[str, Any]:
    """A release with its drawing, the unit of its estimates and its privacy cost, for a template."""
    chart = answers(document)
    return {
        "document": document,
        "chart": chart,
        "unit": unit_of(document),
        "question": question,
        "price": _price(document.get("privacy", {})),
        "rest": rest_words(document),
        "shares": share_texts(document),
        "populations": population_texts(document, form_of(document)),
    }


def _price(privacy: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Who might look at a contribution, with the condition of the claim, and epsilon as stated."""
    rows: list[tuple[str, Any]] = []
    for name, epsilon in privacy.get("by_adversary", {}).items():
        one = adversary(name)
        known = one is not None and ("n" in privacy or one.condition is None)
        who = one.words.format(n=privacy.get("n")) if one is not None and known else plain(name)
        rows.append((describe_adversary(who, rows[-1][0] if rows else ""), epsilon))
    return rows


def unit_of(document: Mapping[str, Any]) -> str:
    """The unit of a release's estimates, in words."""
    kind = STATISTICS.get(document.get("statistic", ""))
    return "devices" if kind is None or kind.counts_devices else kind.name


def by_answers(found: Iterable[Release], *, by_name: bool = True) -> list[list[Release]]:
    """Group releases that have the same labels and, if ``by_name``, the same name."""
    groups: dict[tuple[str, bytes | None], list[Release]] = {}
    for one in found:
        groups.setdefault((one.name if by_name else "", one.answers), []).append(one)
    return list(groups.values())


async def running_of(page_request: PageRequest) -> list[dict[str, Any]]:
    """This organisation's newest recipes in the log with their yields, whether or not they were published here, except
    those whose question has ended. While the log cannot be read, only those that were published here."""
    admin = page_request.admin
    async with admin.store.read() as tx:
        hashes = list(await tx.newest_published(RUNNING))
    if (others := await _by_command(admin, hashes)) is not None:
        hashes = others
    async with admin.store.read() as tx:
        own = await tx.questions_of(hashes)
    yields = await asyncio.gather(*(yield_row(admin, one) for one in hashes))
    return [{**row, "word": row["state"], "question": own.get(row["hash"])} for row in yields if row is not None]


async def _by_command(admin: Admin, here: Sequence[str]) -> list[str] | None:
    """The hashes of the newest recipes among ``here`` and those that the organisation's analyst published without this
    service; None while the log cannot be read."""
    try:
        seen = await admin.followed_log.look(PATIENCE_SECONDS)
    except Abort:
        return None
    if seen is None:
        return None
    analysts = {one.analyst.signing_key for one in admin.questions.parties.values()}
    signed = [one.recipe for one in seen.live.recipes if one.recipe.parties.analyst.signing_key in analysts]
    newest = [one.hash_text for one in signed]
    async with admin.store.read() as tx:
        own = await tx.questions_of(newest)
    kept = [one for one in newest if one not in own or one in here]
    return [*(one for one in here if one not in newest), *reversed(kept)][:RUNNING]


async def yield_row(admin: Admin, recipe_hash: str) -> dict[str, Any] | None:
    """A recipe in the log and how far its batch is filled, for a template; None while the log cannot be read."""
    try:
        document = await document_of(admin, recipe_hash)
    except Abort:
        return None
    told = None if document.filled is None else document.filled.model_dump()
    recipe = Recipe.from_body(document.recipe)
    return {
        "hash": recipe_hash,
        "name": document.name,
        "index": document.index,
        "state": document.state,
        "recipe": recipe,
        "yield": told,
        "fill": None if told is None else Fill.of(told, recipe.batch.expected_contributions),
        "opt_ins": sorted(document.opt_ins),
        "rejections": document.rejections,
    }
