"""The gateway and the Leader's uploads in one process: the gateway hands an opened report to the Leader by a function
call instead of a further HTTP exchange.

The two services keep their own configurations, listeners and keys, and neither imports the other. Only the gateway's
transport changes: it recognises the Leader's upload resource. This process is the most valuable target (it holds both
the OHTTP key and the Leader's HPKE key), so it suits only a deployment where one operator runs both anyway: P1 allows
the analyst to run the gateway and to be the Leader.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from aiohttp import web

from infra.base.garbage import spare_what_is_here
from infra.stacks.deployables import announce, deployable
from tacit.adapters.network.origins import origin_of
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.errors import UsageError
from tacit.ports import Exchange, HttpResponse, Transport
from tacit.service.app import ServiceEnv
from tacit.service.base.config import Listen
from tacit.service.run import Site, serve_all

UploadCall = Callable[[Sequence[tuple[str, str | None, bytes]]], Awaitable[list[HttpResponse]]]
"""The upload function of ``services.leader``: takes the task id as in the URL, the Content-Type and the body of several
uploads, and returns the answers, problem documents included."""

_KNOWN_LENGTH = 512


class LocalUploads:
    """A ``GroupTransport`` that turns uploads to ``leader_url`` into calls of ``upload`` and sends everything else
    through ``onward``."""

    def __init__(self, onward: Transport, leader_url: str, upload: UploadCall) -> None:
        self._onward = onward
        self._upload = upload
        self._origin = origin_of(leader_url)
        prefix = re.escape(re.sub(r"^[^/]*//[^/]*", "", leader_url).rstrip("/"))
        self._resource = re.compile(rf"[^/]*//[^/]*{prefix}/tasks/([A-Za-z0-9_-]+)/reports")
        self._known = lru_cache(maxsize=4096)(self._find)

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> HttpResponse:
        """Return the Leader's answer to an upload without HTTP; send every other request onward."""
        if self.groups(method, url):
            return (await self.post_all([Exchange(url, headers or {}, body)]))[0]
        return await self._onward.request(method, url, headers=headers, body=body)

    def groups(self, method: str, url: str) -> bool:
        """Whether the request is an upload to the Leader; many of these share one transaction."""
        return method == "POST" and len(url) <= _KNOWN_LENGTH and self._known(url) is not None

    async def post_all(self, exchanges: Sequence[Exchange]) -> list[HttpResponse]:
        """Return the Leader's answers to uploads, in the order of ``exchanges``."""
        return await self._upload(
            [(self._known(url) or "", _content_type(headers), body) for url, headers, body in exchanges]
        )

    def _find(self, url: str) -> str | None:
        """The task in the URL of an upload resource of the Leader, None for any other URL."""
        match = self._resource.fullmatch(url)
        return match[1] if match is not None and origin_of(url) == self._origin else None


def leader_url_of(listen: Listen, prefix: str) -> str:
    """Return the URL of a Leader that listens on ``listen``, if its recipes name that listener itself. Raises
    ``UsageError`` if the port is only chosen at the start."""
    if listen.port == 0:
        raise UsageError("the leader's port is chosen when it starts; give --leader-url, as recipes name it")
    host = f"[{listen.host}]" if ":" in listen.host else listen.host
    return f"{'http' if listen.tls_cert is None else 'https'}://{host}:{listen.port}{prefix}"


def upload_call(leader: web.Application) -> UploadCall:
    """Return the Leader's upload function. Raises ``UsageError`` for a Leader that takes no uploads."""
    key = importlib.import_module("services.leader.app").UPLOAD
    if key not in leader:
        raise UsageError("this leader takes no uploads; its roles must include upload")
    call: UploadCall = leader[key]
    return call


async def run_ingest(gateway_config: Path, leader_config: Path, leader_url: str | None) -> None:
    """Serve gateway and leader until told to stop. ``leader_url``: the Leader's URL in recipes (default: its listener).

    Raises ``UsageError``.
    """
    gateway, leader = deployable("gateway"), deployable("leader")
    at_gateway, at_leader = gateway.load(gateway_config), leader.load(leader_config)
    clock, entropy = SystemClock(), OsEntropy()
    async with leader.make_transport(at_leader) as to_helper, gateway.make_transport(at_gateway) as to_targets:
        leader_app = leader.create_app(at_leader, ServiceEnv(clock, entropy, to_helper))
        url = leader_url or leader_url_of(at_leader.listen, getattr(at_leader, "prefix", ""))
        transport = LocalUploads(to_targets, url, upload_call(leader_app))
        gateway_app = gateway.create_app(at_gateway, ServiceEnv(clock, entropy, transport))
        spare_what_is_here()
        await serve_all(
            [Site.of(leader_app, at_leader), Site.of(gateway_app, at_gateway)],
            ready=announce,
            insecure_http=at_leader.insecure_http and at_gateway.insecure_http,
        )


def _content_type(headers: Mapping[str, str]) -> str | None:
    found = headers.get("content-type")
    return found or next((value for name, value in headers.items() if name.lower() == "content-type"), None)
