"""Relay and gateway over real TLS: the gateway serves who holds its relay's certificate, and no one else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from relay.app import create_app as create_relay
from relay.app import make_transport
from relay.config import RelayConfig
from services.gateway.app import create_app as create_gateway
from services.gateway.config import GatewayConfig
from services.gateway.handlers import GATEWAY
from services.gateway.targets import http_date
from tacit import bhttp, ohttp
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.tls import ClientTls
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.media_types import OHTTP_REQ
from tacit.ports import HttpResponse, TransportError
from tacit.service.app import ServiceEnv
from tacit.service.base.config import Listen
from tacit.service.run import started
from tests.certificates import Authority


class NoTarget:
    """A network in which nothing answers."""

    async def request(self, *_arguments: object, **_options: object) -> HttpResponse:
        raise TransportError("nothing here")


Send = Callable[[ClientTls], Awaitable[tuple[HttpResponse, ohttp.ClientContext]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    return Authority(folder, "ca")


@pytest.fixture
async def send(folder: Path, tmp_path: Path, authority: Authority) -> AsyncIterator[Send]:
    """Start a gateway behind mutual TLS; send one request through a relay with the given client identity."""
    certificate, key = authority.issue("gateway")
    names = {"relay": ("relay.example",)}
    listen = Listen(tls_cert=certificate, tls_key=key, client_ca=authority.certificate, client_names=names)
    config = GatewayConfig(state_dir=tmp_path / "gateway", listen=listen)
    clock, entropy = SystemClock(), OsEntropy()
    app = create_gateway(config, ServiceEnv(clock, entropy, NoTarget(), background=False))
    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(started(app, listen))
        assert gateway.url.startswith("https://")

        async def through_relay(tls: ClientTls) -> tuple[HttpResponse, ohttp.ClientContext]:
            settings = RelayConfig(
                state_dir=tmp_path / "relay",
                gateway_url=gateway.url,
                peer_ca=tls.ca,
                client_cert=tls.certificate,
                client_key=tls.key,
            )
            transport = await stack.enter_async_context(make_transport(settings))
            deps = ServiceEnv(clock, entropy, transport, background=False)
            relay = await stack.enter_async_context(started(create_relay(settings, deps), Listen()))
            request = bhttp.Request("GET", "https", "target.example", "/", (("date", http_date(clock.now())),))
            message, context = ohttp.padded_request(app[GATEWAY].ring.active.config, request, entropy)
            client = await stack.enter_async_context(HttpTransport())
            headers = {"Content-Type": OHTTP_REQ}
            return await client.request("POST", relay.url + "/", headers=headers, body=message), context

        yield through_relay


async def test_a_relay_with_its_certificate_is_served(send: Send, authority: Authority) -> None:
    answer, context = await send(ClientTls(authority.certificate, *authority.issue("relay.example")))
    assert answer.status == 200
    assert ohttp.open_response(context, answer.body).status == 403, "no target is on the list"


async def test_a_relay_without_a_certificate_is_not_served(send: Send, authority: Authority) -> None:
    answer, _ = await send(ClientTls(authority.certificate))
    assert answer.status == 502


async def test_a_relay_with_a_certificate_of_another_authority_is_not_served(
    send: Send, folder: Path, authority: Authority
) -> None:
    other = Authority(folder, "other-ca")
    answer, _ = await send(ClientTls(authority.certificate, *other.issue("relay.example")))
    assert answer.status == 502


async def test_a_gateway_whose_certificate_is_not_trusted_gets_nothing(send: Send, authority: Authority) -> None:
    answer, _ = await send(ClientTls(None, *authority.issue("relay.example")))
    assert answer.status == 502


async def test_another_party_of_the_relays_authority_is_not_served(send: Send, authority: Authority) -> None:
    answer, _ = await send(ClientTls(authority.certificate, *authority.issue("leader.example")))
    assert answer.status == 502
