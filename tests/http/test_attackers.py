"""Clients that hold connections, drip bytes or never stop asking: an honest request beside them is answered."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from infra.lab.kit.aggregators import GATEWAY_TOKEN, party_of, settings_of
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.reports import make_task_kit
from relay.app import create_app as create_relay
from relay.config import RelayConfig
from services.leader.app import create_app as create_leader
from services.leader.config import LeaderConfig
from tacit import media_types
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.tls import ClientTls
from tacit.adapters.system import SystemClock
from tacit.aggregator.parties import PARTIES
from tacit.media_types import OHTTP_REQ, OHTTP_RES
from tacit.messages import Role, UploadRequest
from tacit.ports import HttpResponse
from tacit.service.app import ServiceEnv
from tacit.service.base.config import Limits, Listen
from tacit.service.http.admission import Admission
from tacit.service.http.listener import listening_sockets
from tacit.service.run import Runner, started
from tests.certificates import Authority

ENTROPY = SeededEntropy(b"attackers")
ATTACKER = "127.0.0.66"
PATIENCE = 60.0
GATEWAY = {"Authorization": f"Bearer {GATEWAY_TOKEN}"}


class Gateway:
    """Answers at once, or when ``open`` is set."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.asked: asyncio.Queue[bytes] = asyncio.Queue()
        self.sealed = b"sealed"

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        self.asked.put_nowait(body)
        await self.open.wait()
        return HttpResponse(200, {"content-type": OHTTP_RES}, self.sealed)


@asynccontextmanager
async def relay(folder: Path) -> AsyncIterator[str]:
    """The URL of a relay whose gateway answers at once."""
    settings = RelayConfig(state_dir=folder, gateway_url="http://127.0.0.1:9")
    app = create_relay(settings, ServiceEnv(SystemClock(), ENTROPY, Gateway(), background=False))
    async with started(app, Listen(), grace_seconds=0.1) as ready:
        yield ready.url


@dataclass
class Listening:
    """A relay with limits of its own, and a way to let its deadlines pass."""

    gateway: Gateway
    admission: Admission
    host: str
    port: int
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    def pass_time(self, seconds: float) -> None:
        self.admission.sweep(asyncio.get_running_loop().time() + seconds)

    async def connect(self, sent: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self.host, self.port)
        self.writers.append(writer)
        writer.write(sent)
        return reader, writer


@asynccontextmanager
async def listening(folder: Path, **limits: object) -> AsyncIterator[Listening]:
    """A relay whose listener has these ``Limits``."""
    gateway = Gateway()
    settings = RelayConfig(state_dir=folder, gateway_url="http://127.0.0.1:9")
    app = create_relay(settings, ServiceEnv(SystemClock(), ENTROPY, gateway, background=False))
    runner = Runner(app, grace_seconds=0.1, limits=Limits.model_validate(limits))
    await runner.setup()
    try:
        await runner.listen(await listening_sockets("127.0.0.1", 0, backlog=100, reuse_port=False))
        assert runner.server is not None
        host, port = runner.addresses[0][:2]
        relay = Listening(gateway, runner.server.admission, host, port)
        yield relay
        for writer in relay.writers:
            writer.close()
    finally:
        gateway.open.set()
        await runner.cleanup()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 - what a server has read from a socket is no event here
            await asyncio.sleep(0.01)


async def status_of(reader: asyncio.StreamReader) -> int:
    """Of the next answer, whose rest is read too."""
    async with asyncio.timeout(PATIENCE):
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        length = next(int(line[15:]) for line in lines if line.lower().startswith("content-length:"))
        await reader.readexactly(length)
    return int(lines[0].split()[1])


@asynccontextmanager
async def held(url: str, count: int, sent: bytes, address: str = ATTACKER) -> AsyncIterator[None]:
    """``count`` connections from ``address`` that have sent ``sent`` and say nothing more."""
    host, port = url.removeprefix("http://").split(":")
    writers = []
    try:
        for _ in range(count):
            _, writer = await asyncio.open_connection(host, int(port), local_addr=(address, 0))
            writer.write(sent)
            writers.append(writer)
        await asyncio.sleep(0.05)
        yield
    finally:
        for writer in writers:
            writer.transport.abort()


def head(path: str, media_type: str, length: int, token: str = "") -> bytes:
    bearer = f"Authorization: Bearer {token}\r\n" if token else ""
    fields = f"Host: a\r\n{bearer}Content-Type: {media_type}\r\nContent-Length: {length}\r\n"
    return f"POST {path} HTTP/1.1\r\n{fields}\r\n".encode()


@pytest.mark.parametrize(
    "sent",
    [b"", b"POST / HT", head("/", OHTTP_REQ, 262_144), head("/", OHTTP_REQ, 8192) + bytes(8000)],
    ids=["nothing", "half-a-head", "no-body", "half-a-body"],
)
async def test_a_relay_answers_honest_clients_beside_600_that_keep_silent(tmp_path: Path, sent: bytes) -> None:
    async with relay(tmp_path) as url, HttpTransport() as client, held(url, 600, sent):
        answer = await client.request("POST", url + "/", headers={"Content-Type": OHTTP_REQ}, body=bytes(4096))
        assert answer.status == 200


async def test_a_leader_takes_uploads_beside_80_that_keep_silent(tmp_path: Path) -> None:
    kit = make_task_kit()
    config = LeaderConfig.model_validate(settings_of(tmp_path, kit, Role.LEADER))
    clock = SimClock(float(kit.task.start_seconds))
    app = create_leader(config, ServiceEnv(clock, ENTROPY, Gateway(), background=False))
    app[PARTIES].add(party_of(kit, Role.LEADER))
    path, media_type = f"/tasks/{kit.task.task_id_text}/reports", media_types.dap("upload-req")
    body = UploadRequest((kit.reports(1).valid(1),)).encode()
    async with AsyncExitStack() as stack:
        url = (await stack.enter_async_context(started(app, Listen(), grace_seconds=0.1))).url
        client = await stack.enter_async_context(HttpTransport())
        await stack.enter_async_context(held(url, 80, head(path, media_type, 1 << 20, GATEWAY_TOKEN)))
        posted = asyncio.create_task(
            client.request("POST", url + path, headers={"Content-Type": media_type, **GATEWAY}, body=body)
        )
        while not posted.done():
            await asyncio.sleep(0.01)
            await clock.advance(0.1)
        assert (await posted).status == 200


async def test_a_body_that_comes_too_slowly_is_answered_408_and_its_connection_ends(tmp_path: Path) -> None:
    async with listening(tmp_path) as relay:
        reader, _ = await relay.connect(head("/", OHTTP_REQ, 8192) + bytes(100))
        await until(lambda: relay.admission.receiving == 1)
        relay.pass_time(60)
        assert await status_of(reader) == 408
        relay.pass_time(120)
        assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
        assert len(relay.admission) == 0


async def test_a_request_that_waits_too_long_for_its_turn_is_told_when_to_come_back(tmp_path: Path) -> None:
    whole = head("/", OHTTP_REQ, 4) + b"abcd"
    async with listening(tmp_path, requests=1) as relay:
        relay.gateway.open.clear()
        first, _ = await relay.connect(whole)
        await asyncio.wait_for(relay.gateway.asked.get(), PATIENCE)
        second, two = await relay.connect(whole)
        await until(lambda: relay.admission.waiting == 1)
        relay.pass_time(11)
        assert await status_of(second) == 503
        relay.gateway.open.set()
        assert await status_of(first) == 200
        two.write(whole)
        assert await status_of(second) == 200, "the connection is good for more"


async def test_who_hangs_up_has_not_got_its_turn_back_before_its_request_is_answered(tmp_path: Path) -> None:
    whole = head("/", OHTTP_REQ, 4) + b"abcd"
    async with listening(tmp_path, requests=1) as relay:
        relay.gateway.open.clear()
        for _ in range(5):
            _, writer = await relay.connect(whole)
            await writer.drain()
            await asyncio.sleep(0.02)
            writer.transport.abort()
        reader, _ = await relay.connect(whole)
        await asyncio.sleep(0.05)
        assert (relay.admission.turns, relay.gateway.asked.qsize()) == (1, 1)
        relay.gateway.open.set()
        assert await status_of(reader) == 200


async def test_who_sends_the_next_request_early_waits_for_a_turn_like_everybody(tmp_path: Path) -> None:
    whole = head("/", OHTTP_REQ, 4) + b"abcd"
    async with listening(tmp_path, requests=1) as relay:
        relay.gateway.open.clear()
        greedy, writer = await relay.connect(whole)
        await asyncio.wait_for(relay.gateway.asked.get(), PATIENCE)
        honest, _ = await relay.connect(head("/", OHTTP_REQ, 6) + b"honest")
        await until(lambda: relay.admission.waiting == 1)
        writer.write(whole)
        await asyncio.sleep(0.05)
        relay.gateway.open.set()
        assert await asyncio.wait_for(relay.gateway.asked.get(), PATIENCE) == b"honest"
        assert [await status_of(one) for one in (greedy, honest, greedy)] == [200] * 3


async def test_several_requests_in_one_piece_have_one_turn_after_the_other(tmp_path: Path) -> None:
    whole = head("/", OHTTP_REQ, 4) + b"abcd"
    async with listening(tmp_path, requests=2) as relay:
        relay.gateway.open.clear()
        reader, writer = await relay.connect(40 * whole)
        await until(lambda: relay.admission.turns == 1)
        await asyncio.sleep(0.05)
        assert (relay.gateway.asked.qsize(), relay.admission.turns) == (1, 1)
        relay.gateway.open.set()
        assert [await status_of(reader) for _ in range(40)] == [200] * 40
        assert relay.gateway.asked.qsize() == 40
        writer.close()
        await until(lambda: len(relay.admission) == 0)
        assert relay.admission.turns == 0


async def test_what_follows_an_upgrade_that_nobody_takes_up_is_not_answered_beside_the_turns(tmp_path: Path) -> None:
    upgrade = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    async with listening(tmp_path, requests=1) as relay:
        relay.gateway.open.clear()
        readers = [(await relay.connect(upgrade + head("/", OHTTP_REQ, 4) + b"abcd"))[0] for _ in range(5)]
        await until(lambda: relay.gateway.asked.qsize() == 1)
        await asyncio.sleep(0.05)
        assert (relay.gateway.asked.qsize(), relay.admission.turns) == (1, 1)
        relay.gateway.open.set()
        assert [[await status_of(reader), await status_of(reader)] for reader in readers] == [[200, 200]] * 5


async def test_who_does_not_read_its_answer_holds_no_turn(tmp_path: Path) -> None:
    async with listening(tmp_path, requests=2, receiving_bytes=1 << 20) as relay:
        relay.gateway.sealed = bytes(262_144)
        for _ in range(2):
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, (relay.host, relay.port))
            _, writer = await asyncio.open_connection(sock=sock, limit=16)
            relay.writers.append(writer)
            writer.write(head("/", OHTTP_REQ, 4) + b"abcd")
            await asyncio.wait_for(relay.gateway.asked.get(), PATIENCE)
        await asyncio.sleep(0.1)
        reader, _ = await relay.connect(head("/", OHTTP_REQ, 6) + b"honest")
        assert await asyncio.wait_for(relay.gateway.asked.get(), PATIENCE) == b"honest"
        assert await status_of(reader) == 200


async def test_a_front_proxy_names_the_client_and_nobody_else_can(tmp_path: Path) -> None:
    whole = head("/", OHTTP_REQ, 4) + b"abcd"
    line = b"PROXY TCP4 198.51.100.7 127.0.0.1 40000 443\r\n"
    async with listening(tmp_path, requests=4, front_proxies=["127.0.0.1"]) as relay:
        relay.gateway.open.clear()
        readers = [(await relay.connect(line + whole))[0] for _ in range(2)]
        another = line.replace(b".7", b".8") + whole
        reader, writer = await relay.connect(another[:20])
        writer.write(another[20:])
        asked = [await asyncio.wait_for(relay.gateway.asked.get(), PATIENCE) for _ in range(2)]
        assert asked == [b"abcd"] * 2, "one of each client, whose share is one"
        assert relay.admission.turns == 2
        relay.gateway.open.set()
        assert [await status_of(one) for one in (*readers, reader)] == [200] * 3
        without, _ = await relay.connect(whole)
        assert await asyncio.wait_for(without.read(), PATIENCE) == b""
    async with listening(tmp_path) as relay:
        assert await status_of((await relay.connect(line + whole))[0]) == 400


async def test_connections_that_never_greet_in_tls_are_counted_and_give_way(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    certificate, key = authority.issue("relay")
    listen = Listen(tls_cert=certificate, tls_key=key, limits=Limits(connections=20))
    settings = RelayConfig(state_dir=tmp_path, gateway_url="http://127.0.0.1:9")
    app = create_relay(settings, ServiceEnv(SystemClock(), ENTROPY, Gateway(), background=False))
    async with AsyncExitStack() as stack:
        url = (await stack.enter_async_context(started(app, listen, grace_seconds=0.1))).url
        host, port = url.removeprefix("https://").split(":")
        stack.push_async_callback(asyncio.sleep, 0)
        silent: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        for sent in 40 * (b"", b"\x16\x03\x01\x02"):
            reader, writer = await asyncio.open_connection(host, int(port), local_addr=(ATTACKER, 0))
            stack.callback(writer.transport.abort)
            writer.write(sent)
            silent.append((reader, writer))
        client = await stack.enter_async_context(HttpTransport(tls=ClientTls(authority.certificate)))
        headers = {"Content-Type": OHTTP_REQ}
        answers = [await client.request("POST", url + "/", headers=headers, body=bytes(100_000)) for _ in range(3)]
        assert [answer.status for answer in answers] == [200] * 3
        await until(lambda: sum(one.at_eof() or one.exception() is not None for one, _ in silent) > 60)
