"""The log's recipes with their yields, collections, and releases."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from services.admin.api.calls import Admin, Call, Reply
from services.admin.api.documents import CollectionPage, RecipePage, ResultList
from services.admin.base.problems import Problem, not_found, refuse
from services.admin.questions.log import blaming
from services.admin.questions.shared import SHARED_SECONDS
from tacit import media_types
from tacit.codec import unb64url
from tacit.errors import Abort, DecodeError, UsageError
from tacit.operations import calls, services
from tacit.operations.tables import EXTRA, csv_bytes, parquet_bytes
from tacit.operations.yields import read_yield
from tacit.recipe.logged import RecipeState
from tacit.recipe.model import Recipe
from tacit.service.documents.admin import CollectionDocument, RecipeDocument, RecipeSummary

HASH_SIZE = 32
FORMATS: Final = {"csv": media_types.CSV, "parquet": media_types.PARQUET}
"""Formats of results other than JSON, by their name in the query."""
MOST_ACCEPTED: Final = 32
PATIENCE_SECONDS: Final = 1.0
"""How many seconds a request waits for this service's own reading of the log."""


async def list_recipes(call: Call) -> Reply:
    """A page of the log's recipes in its order; ``question_id`` is set for those that came from a question here."""
    first, limit = call.page()
    found, following = await _page(call.admin, first, limit)
    async with call.admin.store.read() as tx:
        own = await tx.questions_of([one["hash"] for one in found])
    recipes = [RecipeSummary(**one, question_id=own.get(one["hash"])) for one in found]
    return Reply(RecipePage(recipes=recipes, next=None if following is None else str(following)))


async def _page(admin: Admin, first: int, limit: int) -> tuple[list[dict[str, Any]], int | None]:
    """Summaries from log index ``first`` on, and the index of the next page, if there is one. They come from this
    service's own reading of the log, which is repeated if a recipe waits for opt-ins; while the log is read for the
    first time, they come from the recipe server."""
    for newer in (None, 0.0):
        if (seen := await admin.followed_log.look(PATIENCE_SECONDS, newer=newer)) is None:
            break
        found, following = seen.recipes.page(first, limit, admin.deps.clock.now())
        if newer is not None or all(one["state"] != RecipeState.PENDING for one in found):
            return found, following
    url = f"{admin.log.url}/v1/recipes?limit={limit}" + (f"&after={first - 1}" if first else "")
    page = await admin.shared.get(url, lambda: calls.call(admin.log.transport, "GET", url))
    found, rest = page["recipes"][:limit], page["recipes"][limit:]
    more = rest or page["next"] is not None
    return found, found[-1]["index"] + 1 if more and found else None


async def _in_full(admin: Admin, recipe_hash: str) -> tuple[dict[str, Any], Recipe]:
    """A recipe's document and the recipe. They come from this service's own reading of the log, which is repeated if
    the recipe waits for opt-ins, or if it is missing and the reading is not fresh; while reading is slow, they come
    from the recipe server. Raises ``Abort``: 404 if there is no such recipe."""
    newer: float | None = None
    while (seen := await admin.followed_log.look(PATIENCE_SECONDS, newer=newer)) is not None:
        document = seen.recipes.in_full(recipe_hash, admin.deps.clock.now())
        if document is not None and (newer == 0.0 or document[0]["state"] != RecipeState.PENDING):
            return document
        if document is None and admin.followed_log.is_newer(SHARED_SECONDS):
            raise not_found("recipe")
        if document is None and newer is not None:
            break
        newer = SHARED_SECONDS if document is None else 0.0
    transport, log = admin.log.transport, admin.log.url
    told_of: tuple[dict[str, Any], Recipe] = await admin.shared.get(
        recipe_hash, lambda: services.logged_recipe(transport, log, recipe_hash)
    )
    return told_of


async def show_recipe(call: Call) -> Reply:
    """A recipe of the log in full; ``yield`` is null where no collector tells it. Raises ``Abort``, 404 for an unknown
    hash."""
    return Reply(await document_of(call.admin, _hash(call.part("hash"))))


async def document_of(admin: Admin, recipe_hash: str) -> RecipeDocument:
    """The recipe with this hash, verified, with its yield. Raises ``Abort``."""
    document, recipe = await _in_full(admin, recipe_hash)
    async with admin.store.read() as tx:
        own = await tx.questions_of([recipe_hash])
    filled = await _yield(admin, recipe)
    kept = {name: value for name, value in document.items() if name != "leaf"}
    members = {**kept, "recipe": recipe.body(), "question_id": own.get(recipe_hash), "yield": filled}
    return RecipeDocument.model_validate(members)


async def _yield(admin: Admin, recipe: Recipe) -> dict[str, Any] | None:
    """The yield that the collector reports; None if this organisation does not collect the recipe, or the collector
    cannot be reached."""
    if admin.collector is None:
        return None
    transport = admin.log.transport
    try:
        async with blaming("collector"):
            listed = await admin.own_releases.listed(recipe.hash_text)
            count = listed[-1].report_count if listed else None
            batch_yield = await read_yield(transport, admin.collector, recipe, admin.deps.clock.now(), count)
    except Abort:
        return None
    return batch_yield.document()


async def results(call: Call) -> Reply:
    """A page of releases, of one recipe or all. A table (CSV or Parquet) has all of them unless a page is requested."""
    query, (after, limit), admin = call.request.query, call.page(), call.admin
    given = query.get("recipe")
    asked = _format(query.get("format"), call.request.headers.get("Accept", ""))
    listed = await admin.own_releases.listed(None if given is None else _hash(given))
    if asked == "json" or not query.keys().isdisjoint({"cursor", "limit"}):
        listed, rest = listed[after : after + limit], listed[after + limit :]
    else:
        rest = ()
    documents = await admin.own_releases.documents(listed)
    if asked != "json":
        return await _table(call, asked, documents)
    return Reply(ResultList(results=documents, next=str(after + limit) if rest else None))


async def _table(call: Call, asked: str, found: list[dict[str, Any]]) -> Reply:
    """Releases as a CSV or Parquet file. Raises ``Abort``: 501 if the extra is not installed, 502 if the releases
    cannot be written as a table."""
    try:
        made = csv_bytes if asked == "csv" else parquet_bytes
        content = await call.admin.computing.do(call.who.person.id, lambda: made(found))
    except UsageError as error:
        raise refuse(Problem.EXTRA_MISSING, str(error), extra=EXTRA) from error
    except (KeyError, TypeError, ValueError) as error:
        raise refuse(Problem.PEER_ANSWER, "the collector's releases cannot be written as a table") from error
    kept = f'attachment; filename="results.{asked}"'
    return Reply(None, headers={"Content-Type": FORMATS[asked], "Content-Disposition": kept}, content=content)


def _format(asked: str | None, accept: str) -> str:
    """The format that the query names, otherwise the one that ``Accept`` (RFC 9110) prefers; JSON unless another one is
    preferred to it. Raises ``DecodeError``."""
    if asked is not None:
        if asked != "json" and asked not in FORMATS:
            raise DecodeError(f"format must be one of json, {', '.join(FORMATS)}")
        return asked
    liked: dict[str, float] = {}
    for part in accept.split(",")[:MOST_ACCEPTED]:
        if (media_type := media_types.parse_media_type(part)) is not None:
            liked[media_type[0]] = _quality(media_type[1].get("q", "1"))
    best = max(FORMATS, key=lambda name: liked.get(FORMATS[name], 0.0))
    anything = max(liked.get(name, 0.0) for name in (media_types.JSON, "application/*", "*/*"))
    return best if liked.get(FORMATS[best], 0.0) > anything else "json"


def _quality(text: str) -> float:
    return float(text) if re.fullmatch(r"[01](\.[0-9]{0,3})?", text) else 0.0


async def collect(call: Call) -> Reply:
    """Ask the collector for a recipe's batch. Asking again gives the same collection."""
    recipe_hash = _hash(call.body.recipe)
    body = json.dumps({"recipe_hash": recipe_hash}).encode()
    found = CollectionDocument(**await at_collector(call.admin, "POST", "/v1/collections", body))
    return Reply(found, 201, {"Location": f"/v1/collections/{found.id}"}, found.id, f"recipe {recipe_hash}")


async def collections(call: Call) -> Reply:
    """A page of the collector's collections, by recipe and number. Raises ``Abort`` if the collector cannot be
    asked."""
    after, limit = call.page()
    page = await at_collector(call.admin, "GET", f"/v1/collections?cursor={after}&limit={limit}")
    shown = [CollectionDocument(**one) for one in page["collections"]]
    return Reply(CollectionPage(collections=shown, next=page.get("next")))


async def collection(call: Call) -> Reply:
    """The collection with this id, as the collector shows it. Raises ``Abort``: 404, or what asking the collector
    raises."""
    name = call.part("id")
    if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
        raise not_found("collection")
    return Reply(CollectionDocument(**await at_collector(call.admin, "GET", f"/v1/collections/{name}")))


async def collections_of(admin: Admin) -> list[dict[str, Any]]:
    """Every collection of the organisation's collector. Raises ``Abort``."""
    at = admin.own_collector
    async with blaming("collector"):
        return await calls.list_pages(admin.log.transport, f"{at.url}/v1/collections", "collections", bearer=at.bearer)


async def at_collector(admin: Admin, method: str, path: str, body: bytes = b"") -> Any:
    """Send a request to the organisation's collector, and return its JSON answer. Raises ``Abort``."""
    at = admin.own_collector
    async with blaming("collector"):
        transport = admin.log.transport
        return await calls.call(transport, method, f"{at.url}{path}", body=body, bearer=at.bearer)


def _hash(text: str) -> str:
    try:
        unb64url(text, length=HASH_SIZE, what="recipe hash")
    except DecodeError as error:
        raise not_found("recipe") from error
    return text
