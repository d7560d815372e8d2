"""The Helper's HTTP resources (DAP-18 sections 4.5 and 4.6), and its status page."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from services.helper.service import Helper
from tacit.aggregator.http import (
    decode,
    hpke_config_response,
    message,
    read_message,
    resource_in_url,
)
from tacit.aggregator.keys import HpkeKey
from tacit.aggregator.parties import Parties
from tacit.codec import b64url
from tacit.dap_errors import DapAbort, DapProblem
from tacit.errors import Abort
from tacit.messages import AggregationJobContinueReq
from tacit.messages.version_codec import decode_versioned
from tacit.roles.aggregator import Party
from tacit.service.http.callers import CALLERS
from tacit.service.http.limits import ByteBudget
from tacit.service.http.paging import page_of, page_response
from tacit.version import DAP_18, DapVersion

_RESPONSE = "aggregation-job-resp"


class Handlers:
    """Decode, check credentials, call the service, encode. ``budget`` bounds the bodies of aggregation jobs."""

    def __init__(
        self,
        helper: Helper,
        parties: Parties,
        hpke_keys: Sequence[HpkeKey],
        *,
        max_body: int,
        budget: ByteBudget,
    ) -> None:
        self._helper = helper
        self._parties = parties
        self._hpke_keys = hpke_keys
        self._max_body = max_body
        self._budget = budget

    def routes(self, prefix: str, version: DapVersion = DAP_18) -> list[web.RouteDef]:
        """Every resource below ``prefix``, as ``version`` creates them."""
        task = prefix + "/tasks/{task_id}"
        job = task + "/aggregation_jobs/{resource_id}"
        share = task + "/aggregate_shares/{resource_id}"
        by_put = version.creates_by_put
        return [
            web.get(prefix + "/hpke_config", self.hpke_config),
            web.put(job, self.put_job) if by_put else web.post(task + "/aggregation_jobs", self.create_job),
            web.post(job, self.continue_job),
            web.get(job, self.show_job),
            web.delete(job, self.delete_job),
            web.put(share, self.put_share) if by_put else web.post(task + "/aggregate_shares", self.create_share),
            web.get(share, self.show_share),
            web.delete(share, self.delete_share),
            web.get(prefix + "/v1/tasks/{task_id}/status", self.status),
            web.get(prefix + "/v1/recipes", self.recipes),
        ]

    async def _party(self, request: web.Request) -> Party:
        """The task that a request of the Leader names. What follows from a body is decided by a task that is looked up
        after it has arrived, because the sender decides how long that takes."""
        request.app[CALLERS].require(request, "leader")
        return await self._parties.demand(request.match_info["task_id"])

    async def hpke_config(self, _request: web.Request) -> web.Response:
        """GET /hpke_config: the HPKE configuration to which devices encrypt."""
        return hpke_config_response(self._hpke_keys)

    async def create_job(self, request: web.Request) -> web.Response:
        """POST /tasks/{task-id}/aggregation_jobs."""
        job_id, response = await self._aggregate(request, None)
        location = f"{request.path}/{b64url(job_id)}?step=0"
        return message(_RESPONSE, response, status=201, location=location)

    async def put_job(self, request: web.Request) -> web.Response:
        """PUT on a job whose id the Leader has chosen."""
        _, response = await self._aggregate(request, resource_in_url(request))
        return message(_RESPONSE, response, status=201)

    async def _aggregate(self, request: web.Request, chosen: bytes | None) -> tuple[bytes, bytes]:
        request.app[CALLERS].require(request, "leader")
        body = await read_message(request, "aggregation-job-init-req", self._max_body)
        with self._budget.reserve(min(len(body), self._budget.max_bytes)):
            return await self._helper.aggregate(await self._party(request), body, chosen)

    async def _known_job(self, request: web.Request) -> bytes:
        party = await self._party(request)
        job_id = resource_in_url(request, DapProblem.UNRECOGNIZED_AGGREGATION_JOB)
        response = await self._helper.job(party, job_id)
        if response is None:
            raise DapAbort(DapProblem.UNRECOGNIZED_AGGREGATION_JOB)
        return response

    async def continue_job(self, request: web.Request) -> web.Response:
        """POST on a job: Prio3 is done after the first request, so no continuation fits."""
        await self._known_job(request)
        body = await read_message(request, "aggregation-job-continue-req", self._max_body)
        version = (await self._party(request)).task.version
        step = decode(lambda data: decode_versioned(AggregationJobContinueReq, data, version), body).step
        if step == 0:
            raise DapAbort(DapProblem.INVALID_MESSAGE, "a continuation has a step above 0")
        raise DapAbort(DapProblem.STEP_MISMATCH, "the job has no further step")

    async def show_job(self, request: web.Request) -> web.Response:
        """GET on a job, which names the step it asks for."""
        response = await self._known_job(request)
        step = request.query.getall("step", [])
        if len(step) != 1 or not step[0].isascii() or not step[0].isdigit():
            raise DapAbort(DapProblem.INVALID_MESSAGE, "the step is missing or malformed")
        if step[0].strip("0"):
            raise DapAbort(DapProblem.STEP_MISMATCH, "the job is at step 0")
        return message(_RESPONSE, response)

    async def delete_job(self, request: web.Request) -> web.Response:
        """DELETE on an aggregation job's URL: forget the job."""
        party = await self._party(request)
        job_id = resource_in_url(request, DapProblem.UNRECOGNIZED_AGGREGATION_JOB)
        if not await self._helper.drop_job(party, job_id):
            raise DapAbort(DapProblem.UNRECOGNIZED_AGGREGATION_JOB)
        return web.Response(status=200)

    async def create_share(self, request: web.Request) -> web.Response:
        """POST /tasks/{task-id}/aggregate_shares."""
        share_id, response = await self._share(request, None)
        location = f"{request.path}/{b64url(share_id)}"
        return message("aggregate-share", response, status=201, location=location)

    async def put_share(self, request: web.Request) -> web.Response:
        """PUT on an aggregate share whose id the Leader has chosen."""
        _, response = await self._share(request, resource_in_url(request))
        return message("aggregate-share", response)

    async def _share(self, request: web.Request, chosen: bytes | None) -> tuple[bytes, bytes]:
        request.app[CALLERS].require(request, "leader")
        body = await read_message(request, "aggregate-share-req", self._max_body)
        return await self._helper.aggregate_share(await self._party(request), body, chosen)

    async def show_share(self, request: web.Request) -> web.Response:
        """GET on an aggregate share: the answer as it was first given; 404 once it is deleted, or for an id that is not
        known."""
        party = await self._party(request)
        response = await self._helper.share(party, resource_in_url(request))
        if response is None:
            raise _no_share()
        return message("aggregate-share", response)

    async def delete_share(self, request: web.Request) -> web.Response:
        party = await self._party(request)
        if not await self._helper.drop_share(party, resource_in_url(request)):
            raise _no_share()
        return web.Response(status=200)

    async def status(self, request: web.Request) -> web.Response:
        """GET /v1/tasks/{task-id}/status: exact counts, only for the Helper's own operator."""
        request.app[CALLERS].require(request, "operator")
        party = await self._parties.demand(request.match_info["task_id"])
        return web.json_response(await self._helper.status(party))

    async def recipes(self, request: web.Request) -> web.Response:
        """GET /v1/recipes?cursor=N&limit=N: a page of the recipes of this service, with their states."""
        request.app[CALLERS].require(request, "collector", "operator")
        after, limit = page_of(request)
        return page_response("recipes", await self._helper.recipes(after, limit + 1), after, limit)


def _no_share() -> Abort:
    return Abort("about:blank", "the aggregate share is not known", status=404, title="Not Found")
