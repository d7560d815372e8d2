"""The analyzer's HTTP resources: uploads of devices' reports (through known gateways), released sums, and status."""

from __future__ import annotations

import json
from collections.abc import Sequence

from aiohttp import web

from services.analyzer.releases import Releases
from services.analyzer.uploads import Uploads
from tacit import media_types
from tacit.aggregator.filling import Fillings
from tacit.aggregator.parties import PartyTable
from tacit.codec import unb64url
from tacit.errors import Abort, DecodeError
from tacit.roles.analyzer import AnalyzerParty
from tacit.service.app import read_body
from tacit.service.callers import CALLERS
from tacit.service.limits import ByteBudget
from tacit.task import RECIPE_HASH_SIZE

UNKNOWN = "urn:tacit:problem:recipe-unknown"


class Handlers:
    """Check credentials, decode, call the service, encode. ``gateways``: the roles of callers that may upload."""

    def __init__(
        self,
        uploads: Uploads,
        releases: Releases,
        fillings: Fillings,
        parties: PartyTable[AnalyzerParty],
        gateways: Sequence[str],
        budget: ByteBudget,
        *,
        max_body: int,
    ) -> None:
        self._uploads = uploads
        self._releases = releases
        self._fillings = fillings
        self._parties = parties
        self._gateways = tuple(gateways)
        self._budget = budget
        self._max_body = max_body

    def routes(self, prefix: str) -> list[web.RouteDef]:
        """Every resource below ``prefix``."""
        return [
            web.post(prefix + "/recipes/{recipe_hash}/reports", self.upload),
            web.get(prefix + "/recipes/{recipe_hash}/aggregate", self.aggregate),
            web.get(prefix + "/recipes/{recipe_hash}/yield", self.filling),
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

    async def aggregate(self, request: web.Request) -> web.Response:
        """GET /recipes/{recipe-hash}/aggregate: ``{"report_count", "values"}``, and ``search`` with what was found in
        reports that are searched."""
        request.app[CALLERS].require(request, "collector")
        found = await self._releases.released(await self._party(request))
        document = {"report_count": found.report_count, "values": found.numbers}
        if found.search:
            document["search"] = json.loads(found.search)
        return web.json_response(document)

    async def filling(self, request: web.Request) -> web.Response:
        """GET /recipes/{recipe-hash}/yield: how full the batch is, updated rarely and rounded coarsely."""
        request.app[CALLERS].require(request, "collector")
        return web.json_response((await self._fillings.of(await self._party(request))).document())

    async def status(self, request: web.Request) -> web.Response:
        """GET /v1/tasks/{recipe-hash}/status: exact counts, only for the analyzer's own operator."""
        request.app[CALLERS].require(request, "operator")
        return web.json_response(await self._releases.status(await self._party(request)))

    async def recipes(self, request: web.Request) -> web.Response:
        """GET /v1/recipes: the recipes of this service, with their counts."""
        request.app[CALLERS].require(request, "operator", "collector")
        return web.json_response(await self._releases.recipes())

    async def _party(self, request: web.Request) -> AnalyzerParty:
        """The recipe of a request. Raises ``Abort`` (404) for an unknown one, which the log may still show later."""
        try:
            recipe_hash = unb64url(request.match_info["recipe_hash"], length=RECIPE_HASH_SIZE, what="recipe hash")
        except DecodeError as error:
            raise Abort(UNKNOWN, str(error), status=404, title="There is no such recipe.") from error
        party = await self._parties.look_up(recipe_hash)
        if party is None:
            raise Abort(UNKNOWN, "the analyzer serves no recipe of this hash", status=404, title="Not known.")
        return party
