"""The Client of the test API: shards, seals and uploads one report as a device does, but without token and relay."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from client_agent.journal import State
from client_agent.upload import offer
from infra.tools.interop.api import MAX_BODY, command, ready
from infra.tools.interop.documents import Upload
from infra.tools.interop.tasks import bare_task, usable
from tacit import bhttp
from tacit.errors import UsageError
from tacit.messages import (
    REPORT_ID_SIZE,
    HpkeConfig,
    HpkeConfigList,
    PlaintextInputShare,
    ReportMetadata,
    Role,
    TaskConfiguration,
    UploadRequest,
)
from tacit.models.secure_aggregation.device import SecureAggregationDevice
from tacit.ports import Transport, TransportError
from tacit.roles.client import AGGREGATORS, seal_report, shard
from tacit.service.app import ServiceEnv, make_app
from tacit.task import Task
from tacit.version import DapVersion


def make_client(deps: ServiceEnv, version: DapVersion) -> web.Application:
    """A Client that uploads what the test runner asks for."""
    app = make_app("interop-client", deps, max_body=MAX_BODY)
    app.router.add_routes([ready(), command("upload", Upload, Uploading(deps, version).upload)])
    return app


class _Direct:
    """Sends requests directly, without a relay."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def request(
        self, method: str, url: str, *, media_type: str | None = None, content: bytes = b""
    ) -> bhttp.Response:
        headers = {} if media_type is None else {"Content-Type": media_type}
        answer = await self._transport.request(method, url, headers=headers, body=content)
        return bhttp.Response(answer.status, tuple(answer.headers.items()), answer.body)


class Uploading:
    """The client's part of the interop test API."""

    def __init__(self, deps: ServiceEnv, version: DapVersion) -> None:
        self._deps = deps
        self._version = version

    async def upload(self, _request: web.Request, asked: Upload) -> dict[str, Any]:
        """Make one report and upload it, once."""
        configuration = asked.configuration(self._version)
        configs = {role: await hpke_config(self._deps.transport, configuration, role) for role in AGGREGATORS}
        task = bare_task(asked.id, configuration, self._version, configs)
        body = self._report(task, asked)
        answer = await offer(
            _Direct(self._deps.transport), SecureAggregationDevice(), task.url(Role.LEADER, "reports"), body
        )
        if answer.state is not State.SENT:
            raise UsageError(f"the report was not accepted: {answer.detail}")
        return {}

    def _report(self, task: Task, asked: Upload) -> bytes:
        now = self._deps.clock.now() if asked.time is None else float(asked.time)
        metadata = ReportMetadata(self._deps.entropy(REPORT_ID_SIZE), task.report_time(now))
        public_share, payloads = shard(task, asked.value(), metadata.report_id, self._deps.entropy)
        shares = {role: PlaintextInputShare((), payload) for role, payload in payloads.items()}
        report = seal_report(task, metadata, public_share, shares, self._deps.entropy)
        return UploadRequest((report,)).encode()


async def hpke_config(transport: Transport, configuration: TaskConfiguration, role: Role) -> HpkeConfig:
    """The first configuration of an aggregator that we can use (DAP-18 section 4.4.1). Raises ``TransportError`` and
    ``UsageError``."""
    leader, helper = configuration.leader_aggregator_endpoint, configuration.helper_aggregator_endpoint
    endpoint = leader if role is Role.LEADER else helper
    answer = await transport.request("GET", f"{endpoint.removesuffix('/')}/hpke_config")
    who = role.name.lower()
    if not 200 <= answer.status < 300:
        raise TransportError(f"the {who} answered /hpke_config with status {answer.status}")
    found = next((one for one in HpkeConfigList.decode(answer.body).configs if usable(one)), None)
    if found is None:
        raise UsageError(f"the {who} has no HPKE configuration that we support")
    return found
