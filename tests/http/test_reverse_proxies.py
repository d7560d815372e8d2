"""nginx, HAProxy and Caddy with their usual configurations before services of ours: everything passes through them."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from client_agent.journal import State
from client_agent.oblivious import ObliviousClient
from client_agent.upload import Uploader
from client_agent.wallet import ask_attester
from infra.base.log_watch import Place, Watch
from infra.lab.kit.entropy import SeededEntropy
from tacit.adapters.network.http import HttpTransport
from tacit.client import AsyncOperator
from tacit.logview.whole import Tick
from tacit.tokens.slots import Slot, TokenVerifier
from tests.conftest import skip_or_fail
from tests.http.admin_stage import ADMIN_URL, key_of, serving
from tests.http.attester_stage import ATTESTER
from tests.http.attester_stage import Stage as AttesterStage
from tests.http.test_agent_upload import RELAY, TIMING, World, scheduled, world  # noqa: F401
from tests.http.test_attester import stage as attester_stage  # noqa: F401
from tests.http.test_recipe_server import GOOD, KIT, Server, server  # noqa: F401
from tests.http.test_recipe_server import URL as LOG
from tests.kit.reverse_proxies import PATIENCE, PROXIES, before

ASKS = {
    "gzip": {"Accept-Encoding": "gzip"},
    "a WebSocket": {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAECAwQFBgcICQoLDA0ODw==",
    },
    "HTTP/2": {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAEAAEAAAAIAAAAB"},
}
"""What clients ask for besides."""


@pytest.fixture(params=PROXIES)
def kind(request: pytest.FixtureRequest) -> str:
    """Each of the proxies."""
    name, proxy = str(request.param), PROXIES[request.param]
    if proxy.program is None:
        skip_or_fail(proxy.name, f"no {proxy.name} here (apt-get install {proxy.package})")
    return name


@contextmanager
def no_bar(_name: str, _total: int) -> Iterator[Tick]:
    yield lambda _pieces: None


async def asked(url: str, fields: dict[str, str], path: str = "/healthz") -> tuple[int, bytes]:
    """Status and body of the answer to a GET with these ``fields``, decompressed if it says so."""

    def ask() -> tuple[int, bytes]:
        with contextlib.closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)) as connection:
            connection.request("GET", path, headers=fields)
            answer = connection.getresponse()
            body = answer.read()
            return answer.status, gzip.decompress(body) if answer.getheader("Content-Encoding") == "gzip" else body

    return await asyncio.to_thread(ask)


async def test_a_report_reaches_the_leader_through_a_relay_behind_a_proxy(
    world: World,  # noqa: F811
    tmp_path: Path,
    kind: str,
) -> None:
    async with (
        before(kind, tmp_path, await world.pair.inner.listen(RELAY)) as (url,),
        HttpTransport() as to_proxy,
    ):
        client = ObliviousClient(to_proxy, url, world.client.configs, world.pair.clock, SeededEntropy(kind.encode()))
        uploader = Uploader(world.store, client, world.pair.clock, SeededEntropy(b"pauses"), TIMING)
        after = await uploader.send(await scheduled(world))
        assert after.state is State.SENT
        for fields in ASKS.values():
            assert (await asked(url, fields))[0] == 200
    assert await world.uploaded() == 1


async def test_a_device_gets_its_token_through_an_attester_behind_a_proxy(
    attester_stage: AttesterStage,  # noqa: F811
    tmp_path: Path,
    kind: str,
) -> None:
    stage = attester_stage
    async with (
        before(kind, tmp_path, await stage.network.listen(ATTESTER)) as (url,),
        HttpTransport() as to_proxy,
    ):
        pending = stage.pending()
        found = await ask_attester(to_proxy, url, stage.device(), pending)
        for fields in ASKS.values():
            assert (await asked(url, fields))[0] == 200
    token = pending.finalize(stage.key(), found)
    TokenVerifier(stage.key().spki, Slot("issuer.example", 20_000, 0)).verify(token.encode())


async def test_a_monitor_reads_a_log_behind_a_proxy(server: Server, tmp_path: Path, kind: str) -> None:  # noqa: F811
    await server.publish(KIT.directory_leaf(), KIT.recipe_leaf(GOOD))
    async with (
        before(kind, tmp_path, await server.network.listen(LOG)) as (url,),
        HttpTransport() as to_proxy,
    ):
        watch = Watch(Place(url, KIT.log_policy.log_key, KIT.policy), to_proxy, server.clock, None)
        assert (await watch.verify(no_bar)).findings == []
        assert (await watch.look(no_bar)).size == 2
        for fields in ASKS.values():
            status, body = await asked(url, fields, "/v1/recipes")
            assert (status, b'"recipes"' in body) == (200, True)


async def test_an_operator_works_with_an_admin_service_behind_a_proxy(tmp_path: Path, kind: str) -> None:
    async with (
        serving(tmp_path) as stage,
        before(kind, tmp_path, await stage.inner.listen(ADMIN_URL)) as (url,),
        HttpTransport() as to_proxy,
    ):
        operator = AsyncOperator(
            url, key=key_of("analyst"), transport=to_proxy, clock=stage.clock, entropy=SeededEntropy(1)
        )
        assert "read" in (await operator.session()).permissions
        events = operator.events()
        async with asyncio.timeout(PATIENCE):
            assert (await anext(events)).kind == "listening"
            await stage.draft()
            assert (await anext(events)).kind == "question"
        for fields in ASKS.values():
            status, body = await asked(url, fields, "/openapi.json")
            assert (status, b'"openapi"' in body) == (200, True)
        await operator.close()
