"""Overload and silence on the way of a report: bounded bytes, 503 with jitter, nothing acknowledged and lost, and no
waiting without end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from infra.lab.kit.entropy import SeededEntropy
from relay.app import create_app as create_relay
from relay.app import make_transport as relay_transport
from relay.config import Frames, RelayConfig
from relay.handlers import RELAY
from services.gateway.app import create_app as create_gateway
from services.gateway.app import make_transport as gateway_transport
from services.gateway.config import GatewayConfig, TargetRule
from services.gateway.handlers import GATEWAY
from services.gateway.targets import http_date
from tacit import bhttp, ohttp
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.system import SystemClock
from tacit.media_types import OHTTP_REQ
from tacit.ports import HttpResponse
from tacit.service.app import ServiceEnv
from tacit.service.base.config import Listen
from tacit.service.base.secret_files import write_secret
from tacit.service.run import started

ENTROPY = SeededEntropy(b"overload")
TARGET = "http://127.0.0.1:9001"
PATIENCE = 60.0


@dataclass
class SlowTarget:
    """Takes what arrives and answers once it is released."""

    taken: list[bytes] = field(default_factory=list)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        await self.released.wait()
        self.taken.append(body)
        return HttpResponse(200, {}, b"")


class SilentServer:
    """Accepts, reads and never answers; knows how many of its connections have ended."""

    def __init__(self) -> None:
        self.accepted = 0
        self.ended = 0
        self.all_ended = asyncio.Event()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        try:
            while await reader.read(65536):
                pass
        except ConnectionError:
            pass
        self.ended += 1
        if self.ended == self.accepted:
            self.all_ended.set()
        writer.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Its URL, while the block runs."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            await server.wait_closed()
            await asyncio.sleep(0)


def gateway_config(folder: Path, target: str, **changed: object) -> GatewayConfig:
    write_secret(folder / "bearer", b"credential")
    rule = TargetRule(origin=target, path_prefix="/")
    return GatewayConfig(
        state_dir=folder / "gateway",
        relay_bearer=folder / "bearer",
        targets=(rule,),
        **changed,
    )


def request_to(target: str, config: ohttp.KeyConfig, content: bytes) -> tuple[bytes, ohttp.ClientContext]:
    fields = (("date", http_date(SystemClock().now())),)
    request = bhttp.Request("POST", "http", target.removeprefix("http://"), "/reports", fields, content)
    return ohttp.padded_request(config, request, ENTROPY)


async def test_above_the_budgets_clients_get_503_and_what_was_acknowledged_has_arrived(tmp_path: Path) -> None:
    target, clock, entropy = SlowTarget(), SystemClock(), ENTROPY
    room = ohttp.SIZE_CLASSES[0] + ohttp.SIZE_CLASSES[-1]
    config = gateway_config(tmp_path, TARGET, max_in_flight=5 * room)
    gateway = create_gateway(config, ServiceEnv(clock, entropy, target, background=False))
    async with AsyncExitStack() as stack:
        url = (await stack.enter_async_context(started(gateway, Listen(), grace_seconds=0.1))).url
        settings = RelayConfig(
            state_dir=tmp_path, gateway_url=url, gateway_bearer=tmp_path / "bearer", max_in_flight=8 * room
        )
        transport = await stack.enter_async_context(relay_transport(settings))
        app = create_relay(settings, ServiceEnv(clock, entropy, transport, background=False))
        relay = await stack.enter_async_context(started(app, Listen(), grace_seconds=0.1))
        client = await stack.enter_async_context(HttpTransport())
        key = gateway[GATEWAY].ring.active.config
        made = [request_to(TARGET, key, b"report %d" % number) for number in range(20)]
        posts = [
            asyncio.create_task(
                client.request("POST", relay.url + "/", headers={"Content-Type": OHTTP_REQ}, body=message)
            )
            for message, _ in made
        ]
        refused, _ = await asyncio.wait(posts, return_when=asyncio.FIRST_COMPLETED)
        while len(refused) < 15:
            refused, _ = await asyncio.wait(posts, timeout=0.02)
        assert gateway[GATEWAY].budget.in_flight <= config.max_in_flight
        assert app[RELAY].budget.in_flight <= settings.max_in_flight
        target.released.set()
        answers = await asyncio.gather(*posts)
        late = [answer for answer in answers if answer.status == 503]
        assert len({answer.headers["retry-after"] for answer in late}) > 1
        acknowledged = {
            b"report %d" % number
            for number, (answer, (_, context)) in enumerate(zip(answers, made, strict=True))
            if answer.status == 200 and ohttp.open_response(context, answer.body).status == 200
        }
        assert (len(acknowledged), len(late)) == (5, 15)
        assert acknowledged == set(target.taken)
        again, context = request_to(TARGET, key, b"again")
        answer = await client.request("POST", relay.url + "/", headers={"Content-Type": OHTTP_REQ}, body=again)
        assert ohttp.open_response(context, answer.body).status == 200, "the budgets are given back"
        assert gateway[GATEWAY].budget.in_flight == app[RELAY].budget.in_flight == 0


async def test_a_gateway_that_never_answers_costs_a_bounded_wait_and_its_connection(tmp_path: Path) -> None:
    silent, clock, entropy = SilentServer(), SystemClock(), ENTROPY
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(silent.running())
        client = await stack.enter_async_context(HttpTransport())
        for frames in (None, Frames(max_delay=0.01)):
            settings = RelayConfig(state_dir=tmp_path, gateway_url=url, gateway_timeout=0.1, frames=frames)
            transport = await stack.enter_async_context(relay_transport(settings))
            app = create_relay(settings, ServiceEnv(clock, entropy, transport, background=False))
            relay = await stack.enter_async_context(started(app, Listen(), grace_seconds=0.1))
            silent.all_ended.clear()
            posts = [
                client.request("POST", relay.url + "/", headers={"Content-Type": OHTTP_REQ}, body=b"message")
                for _ in range(3)
            ]
            assert [answer.status for answer in await asyncio.gather(*posts)] == [504] * 3
            await asyncio.wait_for(silent.all_ended.wait(), PATIENCE)
            assert app[RELAY].budget.in_flight == 0


async def test_a_target_that_never_answers_is_a_504_inside_and_its_connection_is_dropped(tmp_path: Path) -> None:
    silent, clock, entropy = SilentServer(), SystemClock(), ENTROPY
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(silent.running())
        config = gateway_config(tmp_path, url, target_timeout=0.1)
        transport = await stack.enter_async_context(gateway_transport(config))
        app = create_gateway(config, ServiceEnv(clock, entropy, transport, background=False))
        gateway = await stack.enter_async_context(started(app, Listen(), grace_seconds=0.1))
        client = await stack.enter_async_context(HttpTransport())
        message, context = request_to(url, app[GATEWAY].ring.active.config, b"report")
        headers = {"Content-Type": OHTTP_REQ, "Authorization": "Bearer credential"}
        answer = await client.request("POST", gateway.url + "/gateway", headers=headers, body=message)
        assert ohttp.open_response(context, answer.body).status == 504
        await asyncio.wait_for(silent.all_ended.wait(), PATIENCE)
        assert app[GATEWAY].budget.in_flight == 0
