"""The Leader's HTTP resources (DAP-18 section 3 and 4), and its status page."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from services.leader.arrivals import Wakeups
from services.leader.collection import Collections, abort_of
from services.leader.records import CollectionRow, CollectionState
from services.leader.senders import BY_SHUFFLER, require_sender
from services.leader.service import Leader
from tacit.aggregator.http import (
    hpke_config_response,
    message,
    read_message,
    resource_in_url,
    told_look,
)
from tacit.aggregator.keys import HpkeKey
from tacit.aggregator.parties import Parties
from tacit.aggregator.yield_looks import YieldLooks
from tacit.codec import b64url
from tacit.roles.aggregator import Party
from tacit.service.http.callers import CALLERS
from tacit.service.http.paging import page_of, page_response
from tacit.version import DAP_18, DapVersion

MAX_WAIT = 30
"""Most seconds that a request may wait for the end of a collection job."""


class Handlers:
    """Decode, check credentials, call the service, encode. ``services.leader.uploads`` takes the uploads."""

    def __init__(
        self,
        leader: Leader,
        collections: Collections,
        yield_looks: YieldLooks,
        parties: Parties,
        hpke_keys: Sequence[HpkeKey],
        *,
        max_body: int,
        wakeups: Wakeups,
    ) -> None:
        self._leader = leader
        self._collections = collections
        self._yield_looks = yield_looks
        self._parties = parties
        self._hpke_keys = hpke_keys
        self._max_body = max_body
        self._wakeups = wakeups

    def routes(self, prefix: str, version: DapVersion = DAP_18) -> list[web.RouteDef]:
        """Every resource below ``prefix`` except for uploads, as ``version`` creates them."""
        task = prefix + "/tasks/{task_id}"
        job = task + "/collection_jobs/{resource_id}"
        return [
            web.get(prefix + "/hpke_config", self.hpke_config),
            web.put(job, self.put_collection)
            if version.creates_by_put
            else web.post(task + "/collection_jobs", self.create_collection),
            web.get(job, self.show_collection),
            web.delete(job, self.delete_collection),
            web.post(task + "/looks", self.look),
            web.get(task + "/yield", self.get_yield),
            web.get(prefix + "/v1/tasks/{task_id}/status", self.status),
            web.get(prefix + "/v1/recipes", self.recipes),
        ]

    async def hpke_config(self, _request: web.Request) -> web.Response:
        """GET /hpke_config: the HPKE configuration to which devices encrypt."""
        return hpke_config_response(self._hpke_keys)

    async def create_collection(self, request: web.Request) -> web.Response:
        """POST /tasks/{task-id}/collection_jobs."""
        party, row = await self._collect(request, None)
        location = f"{request.path}/{b64url(row.job_id)}"
        return self._collection_response(party, row, status=201, location=location)

    async def put_collection(self, request: web.Request) -> web.Response:
        """PUT on a collection job whose id the Collector has chosen."""
        party, row = await self._collect(request, resource_in_url(request))
        return self._collection_response(party, row, status=201, location=None)

    async def _collect(self, request: web.Request, chosen: bytes | None) -> tuple[Party, CollectionRow]:
        request.app[CALLERS].require(request, "collector")
        body = await read_message(request, "collection-job-req", self._max_body)
        party = await self._parties.demand(request.match_info["task_id"])
        row = await self._collections.create(party, body, chosen)
        self._wakeups.collecting.notify()
        self._wakeups.forming.notify()
        return party, row

    async def show_collection(self, request: web.Request) -> web.Response:
        """GET /tasks/{task-id}/collection_jobs/{collection-job-id}."""
        request.app[CALLERS].require(request, "collector")
        party = await self._parties.demand(request.match_info["task_id"])
        job_id, seconds = resource_in_url(request), preferred_wait(request)
        row = await self._collections.wait(party, job_id, seconds)
        response = self._collection_response(party, row, status=200, location=None)
        if seconds:
            response.headers["Preference-Applied"] = f"wait={seconds}"
        return response

    def _collection_response(
        self, party: Party, row: CollectionRow, *, status: int, location: str | None
    ) -> web.Response:
        if row.state is CollectionState.FAILED:
            raise abort_of(row)
        if row.state is CollectionState.READY:
            return message("collection-job-resp", row.response, status=status, location=location)
        headers = {"Retry-After": str(self._collections.retry_after(party))}
        if location is not None:
            headers["Location"] = location
        return web.Response(status=status, headers=headers)

    async def delete_collection(self, request: web.Request) -> web.Response:
        """DELETE /tasks/{task-id}/collection_jobs/{collection-job-id}."""
        request.app[CALLERS].require(request, "collector")
        party = await self._parties.demand(request.match_info["task_id"])
        await self._collections.delete(party, resource_in_url(request))
        return web.Response(status=200)

    async def look(self, request: web.Request) -> web.Response:
        """POST /tasks/{task-id}/looks: 201 once a look at the shuffler's count is recorded (the first one of its
        number)."""
        look = await told_look(request, self._max_body)
        party = await self._parties.demand(request.match_info["task_id"])
        require_sender(BY_SHUFFLER, party.task)
        await self._yield_looks.keep(party, look)
        return web.Response(status=201)

    async def get_yield(self, request: web.Request) -> web.Response:
        """GET /tasks/{task-id}/yield: how full the batch is, updated rarely and rounded coarsely."""
        request.app[CALLERS].require(request, "collector")
        party = await self._parties.demand(request.match_info["task_id"])
        read = self._yield_looks.told if party.task.is_mixed else self._yield_looks.of
        return web.json_response((await read(party)).document())

    async def status(self, request: web.Request) -> web.Response:
        """GET /v1/tasks/{task-id}/status: exact counts, only for the Leader's own operator."""
        request.app[CALLERS].require(request, "operator")
        party = await self._parties.demand(request.match_info["task_id"])
        return web.json_response(await self._leader.status(party))

    async def recipes(self, request: web.Request) -> web.Response:
        """GET /v1/recipes?cursor=N&limit=N: a page of the recipes of this service, with their states."""
        request.app[CALLERS].require(request, "collector", "operator")
        after, limit = page_of(request)
        return page_response("recipes", await self._leader.recipes(after, limit + 1), after, limit)


def preferred_wait(request: web.Request) -> int:
    """Seconds for which the caller prefers to wait rather than ask again (RFC 7240 ``Prefer: wait``), at most
    ``MAX_WAIT``; 0 without a well-formed preference."""
    for field in request.headers.getall("Prefer", []):
        for preference in field.split(","):
            name, _, value = preference.partition(";")[0].partition("=")
            digits = value.strip().strip('"')
            if name.strip().lower() == "wait" and digits.isascii() and digits.isdigit():
                return min(MAX_WAIT, int(digits[:6]))
    return 0
