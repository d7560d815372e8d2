"""The collector's HTTP resources, all with the bearer token of the operator or of the organisation's admin service."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import web

from services.collector.batch_yield import BatchYields
from services.collector.recipes import Known, Recipes
from services.collector.records import Collection
from services.collector.releases import Releases
from services.collector.retrying import CollectionJobs, job_of
from services.collector.service import Collector
from tacit import media_types
from tacit.codec import b64url, unb64url
from tacit.errors import Abort, DecodeError
from tacit.service.app import read_body
from tacit.service.http.callers import CALLERS
from tacit.service.http.paging import page_of, page_response

OPERATOR, ADMIN = "operator", "admin"
"""The roles of callers; both may use every resource."""


class Handlers:
    """Check the credential, decode, call the service, encode."""

    def __init__(
        self,
        collector: Collector,
        releases: Releases,
        recipes: Recipes,
        batch_yields: BatchYields,
        retrying: CollectionJobs,
        *,
        max_body: int,
    ) -> None:
        self._collector = collector
        self._releases = releases
        self._retrying = retrying
        self._recipes = recipes
        self._batch_yields = batch_yields
        self._max_body = max_body
        self.wake = asyncio.Event()

    def routes(self) -> list[web.RouteDef]:
        """The routes of collections, results and recipes."""
        return [
            web.post("/v1/collections", self.create),
            web.get("/v1/collections", self.list_all),
            web.get("/v1/collections/{id}", self.show),
            web.post("/v1/collections/{id}/retry", self.retry),
            web.get("/v1/results", self.results),
            web.get("/v1/results/{recipe_hash}", self.results_of),
            web.get("/v1/recipes", self.recipes),
            web.get("/v1/recipes/{recipe_hash}/yield", self.get_yield),
        ]

    async def create(self, request: web.Request) -> web.Response:
        """POST /v1/collections ``{"recipe_hash": ...}``: 201 for a new collection, 200 for an existing one."""
        request.app[CALLERS].require(request, OPERATOR, ADMIN)
        body = await read_body(request, self._max_body, media_types.JSON)
        row, fresh = await self._collector.create(_recipe_hash(_member(body, "recipe_hash")))
        self.wake.set()
        return web.json_response(
            _collection(row),
            status=201 if fresh else 200,
            headers={"Location": f"/v1/collections/{row.id}"},
        )

    async def list_all(self, request: web.Request) -> web.Response:
        """GET /v1/collections?cursor=N&limit=N: a page of collections, for the operator and the admin service."""
        request.app[CALLERS].require(request, OPERATOR, ADMIN)
        after, limit = page_of(request)
        rows = await self._collector.collections(after, limit + 1)
        return page_response("collections", [_collection(row) for row in rows], after, limit)

    async def show(self, request: web.Request) -> web.Response:
        """GET /v1/collections/{id}: one collection, for the operator and the admin service."""
        request.app[CALLERS].require(request, OPERATOR, ADMIN)
        return web.json_response(_collection(await self._collector.show(request.match_info["id"])))

    async def retry(self, request: web.Request) -> web.Response:
        """POST /v1/collections/{id}/retry: 202 for a collection that was under way or refused, and is tried again
        now."""
        request.app[CALLERS].require(request, OPERATOR, ADMIN)
        row = await self._collector.show(request.match_info["id"])
        if not await self._retrying.retry(row.id):
            raise Abort("about:blank", "this collection has released its batch", status=409, title="Conflict")
        return web.json_response(_collection(await self._collector.show(row.id)), status=202)

    async def results(self, request: web.Request) -> web.Response:
        """GET /v1/results?cursor=N&limit=N: a page of releases, in the order of release."""
        request.app[CALLERS].require(request, OPERATOR, ADMIN)
        return web.json_response(await self._result_page(request))

    async def results_of(self, request: web.Request) -> web.Response:
        """GET /v1/results/{recipe-hash}?cursor=N&limit=N: a page of one recipe's releases; 404 while there is none."""
        request.app[CALLERS].require(request, OPERATOR, ADMIN)
        page = await self._result_page(request, _recipe_hash(request.match_info["recipe_hash"]))
        if not page["results"] and "cursor" not in request.query:
            raise Abort("about:blank", "no batch of this recipe was released", status=404, title="Not Found")
        return web.json_response(page)

    async def _result_page(self, request: web.Request, recipe_hash: bytes | None = None) -> dict[str, Any]:
        page, following = await self._releases.page(*page_of(request), recipe_hash)
        return {"results": page, "next": None if following is None else str(following)}

    async def recipes(self, request: web.Request) -> web.Response:
        """GET /v1/recipes?cursor=N&limit=N: a page of the log's recipes, and whether each can be collected."""
        request.app[CALLERS].require(request, OPERATOR, ADMIN)
        after, limit = page_of(request)
        rows = [_recipe(known) for known in self._recipes.all()[after : after + limit + 1]]
        return page_response("recipes", rows, after, limit)

    async def get_yield(self, request: web.Request) -> web.Response:
        """GET /v1/recipes/{recipe-hash}/yield: how full the batch is, as told by its server."""
        request.app[CALLERS].require(request, OPERATOR, ADMIN)
        batch_yield = await self._batch_yields.of(_recipe_hash(request.match_info["recipe_hash"]))
        return web.json_response(batch_yield.document())


def _member(body: bytes, name: str) -> str:
    try:
        members: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise DecodeError("the body is not JSON") from error
    if not isinstance(members, dict) or set(members) != {name} or not isinstance(members[name], str):
        raise DecodeError(f"the body must be a JSON object with the one member {name}")
    return str(members[name])


def _recipe_hash(text: str) -> bytes:
    return unb64url(text, length=32, what="recipe hash")


def _collection(row: Collection) -> dict[str, Any]:
    job = job_of(row)
    document = {
        "id": row.id,
        "recipe_hash": b64url(row.recipe_hash),
        "batch": row.number,
        "state": row.state.value,
        "stuck": job.stuck,
        "next_attempt": job.next_attempt,
    }
    return {**document, "rule": row.rule, "detail": row.detail} if row.rule else document


def _recipe(known: Known) -> dict[str, Any]:
    document = {"recipe_hash": known.recipe.hash_text, "name": known.recipe.name, "state": known.state}
    return {**document, "rule": known.rule, "detail": known.detail} if known.rule else document
