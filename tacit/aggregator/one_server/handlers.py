"""The HTTP resources of every server without aggregators: uploads through known gateways, and status."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from tacit import media_types
from tacit.aggregator.one_server.store import OneServerTx
from tacit.aggregator.one_server.uploads import Uploads
from tacit.aggregator.parties import PartyTable
from tacit.aggregator.records import recipe_status
from tacit.codec import unb64url
from tacit.errors import Abort, DecodeError
from tacit.roles.analyzer import AnalyzerParty
from tacit.service.app import read_body
from tacit.service.base.store import Transactions
from tacit.service.http.callers import CALLERS
from tacit.service.http.limits import ByteBudget
from tacit.service.http.paging import page_of, page_response
from tacit.task import RECIPE_HASH_SIZE

UNKNOWN = "urn:tacit:problem:recipe-unknown"


class ReportHandlers:
    """Check credentials, decode, call the service, encode. ``gateways``: the roles of callers that may upload."""

    def __init__(
        self,
        uploads: Uploads,
        store: Transactions[OneServerTx],
        parties: PartyTable[AnalyzerParty],
        gateways: Sequence[str],
        budget: ByteBudget,
        *,
        max_body: int,
    ) -> None:
        self._uploads = uploads
        self._statuses = store
        self._parties = parties
        self._gateways = tuple(gateways)
        self._budget = budget
        self._max_body = max_body

    def routes(self, prefix: str) -> list[web.RouteDef]:
        """The routes of upload, status and recipes, each path after ``prefix``."""
        return [
            web.post(prefix + "/recipes/{recipe_hash}/reports", self.upload),
            web.get(prefix + "/v1/tasks/{recipe_hash}/status", self.status),
            web.get(prefix + "/v1/recipes", self.recipes),
        ]

    async def upload(self, request: web.Request) -> web.Response:
        """POST /recipes/{recipe-hash}/reports: 201 once the report is durably counted."""
        request.app[CALLERS].require(request, *self._gateways)
        body = await read_body(request, self._max_body, media_types.ONE_SERVER_REPORT)
        with self._budget.reserve(len(body)):
            await self._uploads.take(await self._party(request), body)
        return web.Response(status=201)

    async def status(self, request: web.Request) -> web.Response:
        """GET /v1/tasks/{recipe-hash}/status: exact counts, only for the server's own operator."""
        request.app[CALLERS].require(request, "operator")
        return web.json_response(await self._status(await self._party(request)))

    async def recipes(self, request: web.Request) -> web.Response:
        """GET /v1/recipes?cursor=N&limit=N: a page of the recipes that name this server, each with its state and the
        rule that refused it, if any."""
        request.app[CALLERS].require(request, "operator", "collector")
        after, limit = page_of(request)
        async with self._statuses.read() as tx:
            rows = recipe_status(await tx.tasks(after, limit + 1))
        return page_response("recipes", rows, after, limit)

    async def _status(self, party: AnalyzerParty) -> dict[str, object]:
        """Counts of one recipe, with nothing about any single report. No report is ever ``pending``. Reads counters,
        however many reports there are."""
        task_id = party.task.task_id
        async with self._statuses.read() as tx:
            rejections, counted = await tx.rejections(task_id), await tx.counted(task_id)
            rejected = sum(rejections.values())
            return {
                "task_id": party.task.task_id_text,
                "uploaded": counted + rejected,
                "pending": 0,
                "aggregated": counted,
                "rejected": rejected,
                "rejected_by_cause": rejections,
                "distinct_nullifiers": counted,  # each has its own (one_report_per_nullifier)
                "released": await tx.release_count(task_id),
            }

    async def _party(self, request: web.Request) -> AnalyzerParty:
        """The recipe of a request. Raises ``Abort`` (404) for an unknown one, which the log may still show later."""
        try:
            recipe_hash = unb64url(request.match_info["recipe_hash"], length=RECIPE_HASH_SIZE, what="recipe hash")
        except DecodeError as error:
            raise Abort(UNKNOWN, str(error), status=404, title="There is no such recipe.") from error
        party = await self._parties.look_up(recipe_hash)
        if party is None:
            raise Abort(UNKNOWN, "this server serves no recipe of this hash", status=404, title="Not known.")
        return party
