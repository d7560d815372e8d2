"""Stages that several modules here play on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from infra.lab.kit.clock import SimClock
from infra.lab.kit.network import (
    FaultyTransport,
    InProcessTransport,
)
from infra.lab.kit.one_server import ANALYZER_URL
from infra.lab.kit.recipes import NOW, URLS, changed
from relay.app import create_app as create_relay
from relay.config import RelayConfig, RelayLog
from services.gateway.app import create_app as create_gateway
from services.gateway.config import GatewayConfig, TargetRule
from services.gateway.handlers import GATEWAY
from tacit.codec import b64url
from tacit.service.app import ServiceEnv
from tacit.service.base.secret_files import write_secret
from tacit.tlog.checkpoint import NoteKey
from tests.http.agent_world import ENTROPY, GATEWAY_URL, KIT, LOG_URL, Log, World
from tests.http.collector_stage import Stage, publish_recipe, write_secrets


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    clock, log = SimClock(float(NOW)), Log()
    write_secret(tmp_path / "relay.token", b"relay-credential\n")
    uploads: list[bytes] = []

    async def upload(request: web.Request) -> web.Response:
        uploads.append(await request.read())
        return web.Response()

    async with InProcessTransport() as inner:
        gateway = create_gateway(
            GatewayConfig(
                state_dir=tmp_path / "gateway",
                storage="memory",
                group_delay=0.0,
                relay_bearer=tmp_path / "relay.token",
                targets=(
                    TargetRule(origin=URLS["leader"], path_prefix="/tasks/"),
                    TargetRule(origin=ANALYZER_URL, path_prefix="/recipes/"),
                    TargetRule(origin=LOG_URL, path_prefix="/v1/", methods=("GET",)),
                ),
            ),
            ServiceEnv(clock, ENTROPY.child("gateway"), inner, background=False),
        )
        relay_config = RelayConfig(
            state_dir=tmp_path,
            gateway_url=GATEWAY_URL,
            gateway_bearer=tmp_path / "relay.token",
            log=RelayLog(
                url=LOG_URL,
                key=NoteKey("log.example/tacit", KIT.keys["log"].public).encode(),
                gateway="gateway.example",
                signing_key=b64url(KIT.keys["gateway"].public),
            ),
        )
        relay = create_relay(
            relay_config,
            ServiceEnv(clock, ENTROPY.child("relay"), inner, background=False),
        )
        leader, analyzer, server = web.Application(), web.Application(), web.Application()
        leader.router.add_post("/tasks/{task}/reports", upload)
        analyzer.router.add_post("/recipes/{recipe}/reports", upload)
        server.router.add_get("/v1/models/{path:.+}", log.model)
        server.router.add_get("/v1/{path:.+}", log.answer)
        for url, app in (
            (GATEWAY_URL, gateway),
            (URLS["relay"], relay),
            (URLS["leader"], leader),
            (ANALYZER_URL, analyzer),
            (LOG_URL, server),
        ):
            await inner.mount(url, app)
        ring = gateway[GATEWAY].ring
        first = b64url(ring.active.config.encode())
        log.add(KIT.directory_leaf())
        yield World(clock, inner, FaultyTransport(inner), gateway[GATEWAY], log, relay, relay_config, first, uploads)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    write_secrets(tmp_path)
    stage = Stage(tmp_path, KIT.recipe())
    publish_recipe(stage, stage.recipe)
    await stage.start()
    yield stage
    await stage.inner.close()


@pytest.fixture
async def selected(tmp_path: Path) -> AsyncIterator[Stage]:
    """A stage whose recipe releases a batch whenever B reports are there."""
    write_secrets(tmp_path)
    body = changed(KIT.recipe(), "batch.mode", "leader_selected")
    stage = Stage(tmp_path, changed(body, "batch.close", "at_B"))
    publish_recipe(stage, stage.recipe)
    await stage.start()
    yield stage
    await stage.inner.close()
