"""The analyzer's HTTP resources: those of every server without aggregators, shuffled messages, and released sums."""

from __future__ import annotations

import json
from collections.abc import Sequence

from aiohttp import web

from services.analyzer.chunks import Chunks
from services.analyzer.releases import Releases
from services.analyzer.store import AnalyzerTx
from tacit import media_types
from tacit.aggregator.http import told_look
from tacit.aggregator.one_server.handlers import ReportHandlers
from tacit.aggregator.one_server.uploads import Uploads
from tacit.aggregator.parties import PartyTable
from tacit.aggregator.yield_looks import YieldLooks
from tacit.errors import Refusal
from tacit.roles.analyzer import AnalyzerParty
from tacit.service.app import read_body
from tacit.service.base.store import Transactions
from tacit.service.http.callers import CALLERS
from tacit.service.http.limits import ByteBudget
from tacit.task.one_server import INVALID


class Handlers(ReportHandlers):
    """The resources of ``ReportHandlers``, and the analyzer's own: for the shuffler chunks and looks, for the collector
    the released sum and the yield."""

    def __init__(
        self,
        uploads: Uploads,
        chunks: Chunks,
        releases: Releases,
        yield_looks: YieldLooks,
        store: Transactions[AnalyzerTx],
        parties: PartyTable[AnalyzerParty],
        gateways: Sequence[str],
        budget: ByteBudget,
        *,
        max_body: int,
    ) -> None:
        super().__init__(uploads, store, parties, gateways, budget, max_body=max_body)
        self._chunks = chunks
        self._releases = releases
        self._yield_looks = yield_looks

    def routes(self, prefix: str) -> list[web.RouteDef]:
        return [
            *super().routes(prefix),
            web.post(prefix + "/recipes/{recipe_hash}/chunks", self.chunk),
            web.post(prefix + "/recipes/{recipe_hash}/looks", self.look),
            web.get(prefix + "/recipes/{recipe_hash}/aggregate", self.aggregate),
            web.get(prefix + "/recipes/{recipe_hash}/yield", self.get_yield),
        ]

    async def chunk(self, request: web.Request) -> web.Response:
        """POST /recipes/{recipe-hash}/chunks: 201 once the shuffler's messages are durably counted."""
        request.app[CALLERS].require(request, "shuffler")
        body = await read_body(request, self._max_body, media_types.MESSAGE_CHUNK)
        with self._budget.reserve(len(body)):
            await self._chunks.take(await self._party(request), body)
        return web.Response(status=201)

    async def look(self, request: web.Request) -> web.Response:
        """POST /recipes/{recipe-hash}/looks: 201 once a look at the shuffler's count is recorded (the first one of its
        number)."""
        look = await told_look(request, self._max_body)
        party = await self._party(request)
        if party.bundling is None:
            raise Refusal(INVALID, "this analyzer counts the reports of the recipe itself")
        await self._yield_looks.keep(party, look)
        return web.Response(status=201)

    async def aggregate(self, request: web.Request) -> web.Response:
        """GET /recipes/{recipe-hash}/aggregate: ``{"report_count", "values"}``, and ``search`` with what was found in
        reports that are searched."""
        request.app[CALLERS].require(request, "collector")
        aggregate = await self._releases.released(await self._party(request))
        document = {"report_count": aggregate.report_count, "values": aggregate.numbers}
        if aggregate.search:
            document["search"] = json.loads(aggregate.search)
        return web.json_response(document)

    async def get_yield(self, request: web.Request) -> web.Response:
        """GET /recipes/{recipe-hash}/yield: how full the batch is, updated rarely and rounded coarsely."""
        request.app[CALLERS].require(request, "collector")
        party = await self._party(request)
        read = self._yield_looks.of if party.bundling is None else self._yield_looks.told
        return web.json_response((await read(party)).document())
