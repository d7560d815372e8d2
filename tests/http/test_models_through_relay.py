"""Devices fetch model files through relay and gateway, in answers whose sizes say nothing but what is public."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from client_agent.oblivious import ObliviousClient
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import InProcessTransport
from relay.app import create_app as create_relay
from relay.config import RelayConfig
from services.gateway.app import create_app as create_gateway
from services.gateway.config import GatewayConfig, TargetRule
from services.gateway.handlers import GATEWAY
from tacit import bhttp, media_types, ohttp
from tacit.ports import HttpResponse
from tacit.recipe.training import MODEL_PIECE
from tacit.service.app import ServiceEnv
from tacit.service.base.secret_files import write_secret
from tests.http.model_stage import MODEL, PATH, ModelServer, model_server
from tests.http.test_recipe_server import URL

GATEWAY_URL, RELAY_URL = "http://127.0.0.1:8085", "http://127.0.0.1:8086"
ENTROPY = SeededEntropy(b"models through a relay")


@dataclass
class Tap:
    """What a device and its relay say to each other: sizes of requests and answers."""

    network: InProcessTransport
    sizes: list[tuple[int, int]] = field(default_factory=list)

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        answer = await self.network.request(method, url, headers=headers, body=body)
        self.sizes.append((len(body), len(answer.body)))
        return answer


@dataclass
class Device:
    """A device that fetches through its relay."""

    tap: Tap
    client: ObliviousClient

    async def fetch(self, path: str) -> bhttp.Response:
        return await self.client.request("GET", URL + path)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ModelServer]:
    async with model_server(tmp_path) as running:
        yield running


@pytest.fixture
async def device(server: ModelServer, tmp_path: Path) -> Device:
    """A device behind a relay and a gateway that let it read the log."""
    write_secret(tmp_path / "relay.token", b"relay-credential\n")
    bearer, network = tmp_path / "relay.token", server.network
    target = TargetRule(origin=URL, path_prefix="/v1/", methods=("GET",))
    gateway = create_gateway(
        GatewayConfig(state_dir=tmp_path / "gateway", group_delay=0.0, relay_bearer=bearer, targets=(target,)),
        ServiceEnv(server.clock, ENTROPY.child("gateway"), network, background=False),
    )
    settings = RelayConfig(state_dir=tmp_path / "relay", gateway_url=GATEWAY_URL, gateway_bearer=bearer)
    relay = create_relay(settings, ServiceEnv(server.clock, ENTROPY.child("relay"), network, background=False))
    await network.mount(GATEWAY_URL, gateway)
    await network.mount(RELAY_URL, relay)
    config = gateway[GATEWAY].ring.active.config
    tap = Tap(network)
    return Device(tap, ObliviousClient(tap, RELAY_URL, [config], server.clock, ENTROPY.child("device")))


async def test_a_device_gets_every_piece_through_its_relay(server: ModelServer, device: Device) -> None:
    file = ENTROPY(2 * MODEL_PIECE + 16)
    path = await server.name(file)
    await server.stored(file, path)
    answers = [await device.fetch(f"{path}/{number}") for number in range(3)]
    assert b"".join(answer.content for answer in answers) == file
    assert {bhttp.field_value(answer.fields, "content-type") for answer in answers} == {media_types.OCTET_STREAM}
    small, *_, large = ohttp.SIZE_CLASSES
    assert device.tap.sizes == [(small, large), (small, large), (small, small)]


async def test_a_small_model_looks_to_the_relay_like_one_that_is_missing(server: ModelServer, device: Device) -> None:
    missing = await device.fetch(f"{PATH}/0")
    assert (missing.status, bhttp.field_value(missing.fields, "content-type")) == (404, media_types.PROBLEM_JSON)
    await server.stored(MODEL.file)
    assert (await device.fetch(f"{PATH}/0")).content == MODEL.file
    assert len(set(device.tap.sizes)) == 1


async def test_nobody_uploads_a_model_through_the_relay(server: ModelServer, device: Device) -> None:
    answer = await device.client.request("PUT", URL + PATH, media_type=media_types.OCTET_STREAM, content=MODEL.file)
    assert answer.status == 403
    assert not await server.serves()
