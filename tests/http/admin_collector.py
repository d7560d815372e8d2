"""The collector of the admin stage: what it released, and what it was asked for."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tacit.service.base.secret_files import write_secret
from tacit.service.http.paging import page_of, page_response
from tests.http.admin_stage import Stage

COLLECTOR_URL = "http://127.0.0.1:8010"


class CollectorStub:
    """The organisation's collector: what it released, and what it was asked for."""

    def __init__(self) -> None:
        self.released: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.stuck: set[int] = set()
        self.token = "collections-secret"
        self.instead: Any = None
        """What it answers instead of a page of releases."""
        self.told = 0
        """How many releases it told of, all answers together."""

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._guard])
        app.router.add_get("/v1/results", self._results)
        app.router.add_get("/v1/results/{hash}", self._results_of)
        app.router.add_get("/v1/collections", self._listed)
        app.router.add_get("/v1/collections/{id}", self._shown)
        app.router.add_post("/v1/collections", self._ask)
        app.router.add_post("/v1/collections/{id}/retry", self._retry)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        assert request.headers["Authorization"] == f"Bearer {self.token}"
        found: web.StreamResponse = await handler(request)
        return found

    def _document(self, number: int) -> dict[str, Any]:
        known = {"id": f"c{number}", "recipe_hash": self.asked[number], "batch": 0, "state": "requested"}
        if number not in self.stuck:
            return known
        words = {"rule": "leader-unreachable", "detail": "nobody answers"}
        return {**known, **words, "stuck": True, "next_attempt": 1_000_000}

    async def _results(self, request: web.Request) -> web.Response:
        if self.instead is not None:
            return web.json_response(self.instead)
        after, limit = page_of(request)
        page = self.released[after : after + limit]
        self.told += len(page)
        following = str(after + limit) if len(self.released) > after + limit else None
        return web.json_response({"results": page, "next": following})

    async def _results_of(self, request: web.Request) -> web.Response:
        wanted = request.match_info["hash"]
        if found := [one for one in self.released if one["recipe_hash"] == wanted]:
            return web.json_response({"results": found})
        raise web.HTTPNotFound

    async def _listed(self, request: web.Request) -> web.Response:
        after, limit = page_of(request)
        return page_response("collections", [*map(self._document, range(len(self.asked)))][after:], after, limit)

    async def _shown(self, request: web.Request) -> web.Response:
        number = int(request.match_info["id"].removeprefix("c"))
        return web.json_response(self._document(number))

    async def _retry(self, request: web.Request) -> web.Response:
        number = int(request.match_info["id"].removeprefix("c"))
        self.stuck.discard(number)
        return web.json_response(self._document(number), status=202)

    async def _ask(self, request: web.Request) -> web.Response:
        self.asked.append((await request.json())["recipe_hash"])
        return web.json_response(self._document(len(self.asked) - 1), status=201)


def access(stage: Stage) -> dict[str, Any]:
    """What the configuration of the stage's admin service says of its collector."""
    return {"collector": {"url": COLLECTOR_URL, "token": stage.folder / "collections.token"}}


async def beside(stage: Stage, collector: CollectorStub) -> dict[str, Any]:
    """The same, of ``collector``, which serves from now on."""
    write_secret(stage.folder / "collections.token", b"collections-secret\n")
    await stage.inner.mount(COLLECTOR_URL, collector.app())
    return access(stage)
