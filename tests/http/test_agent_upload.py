"""The uploader through a real relay and gateway to a real Leader: stored once, whatever gets lost (P11)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from client_agent.config import Timing
from client_agent.journal import Entry, MemoryAgentStore, State
from client_agent.oblivious import ObliviousClient
from client_agent.upload import Uploader
from infra.lab.kit.aggregators import OPERATOR_TOKEN, AggregatorPair
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import LOSE_REQUEST, LOSE_RESPONSE, FaultyTransport, InProcessTransport, matching, no_faults
from infra.lab.kit.reports import make_task_kit
from relay.app import create_app as create_relay
from relay.config import RelayConfig
from services.gateway.app import create_app as create_gateway
from services.gateway.config import GatewayConfig, TargetRule
from services.gateway.handlers import GATEWAY
from services.gateway.service import Gateway
from tacit import bhttp
from tacit.dap_errors import ReportError
from tacit.errors import DAP_ERROR_PREFIX
from tacit.media_types import PROBLEM_JSON
from tacit.messages import ReportUploadStatus, Role, UploadErrors, UploadRequest
from tacit.messages.version_codec import encode_upload_errors
from tacit.models.devices import device_side
from tacit.models.interfaces.device import Fate
from tacit.ohttp import REQUEST_CLASSES, SIZE_CLASSES, KeyConfig, generate_key_config
from tacit.ports import HttpResponse, TransportError
from tacit.service.app import ServiceEnv
from tacit.service.base.secret_files import write_secret
from tacit.version import DAP_18, DAP_19
from tests.http.aggregator_pair import both_aggregators

RELAY = "http://127.0.0.1:8083"
GATEWAY_URL = "http://127.0.0.1:8084"
KIT = make_task_kit()
ENTROPY = SeededEntropy(b"upload tests")
TIMING = Timing(retry_seconds=4, retry_limit_seconds=60)


@dataclass
class Answering:
    """The network behind the gateway: the real one, or one answer for everything."""

    inner: InProcessTransport
    answer: HttpResponse | None = None
    seen: list[bytes] | None = None

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        if self.seen is None:
            self.seen = []
        self.seen.append(body)
        return self.answer or await self.inner.request(method, url, headers=headers, body=body)


@dataclass
class World:
    """Relay, gateway, Leader and Helper, and one device's uploader."""

    pair: AggregatorPair
    behind: Answering
    network: FaultyTransport
    gateway: Gateway
    store: MemoryAgentStore
    client: ObliviousClient
    uploader: Uploader

    def entry(self, seed: int = 0) -> Entry:
        report = KIT.reports(seed).valid(1)
        now = self.pair.clock.now()
        return Entry(
            bytes([seed]) * 32,
            "visits",
            State.SCHEDULED,
            now,
            send_at=now,
            deadline=float(KIT.task.end_seconds) + 600,
            url=KIT.task.url(Role.LEADER, "reports"),
            report=UploadRequest((report,)).encode(),
        )

    async def uploaded(self) -> int:
        path = f"/v1/tasks/{KIT.task.task_id_text}/status"
        answer = await self.pair.get(Role.LEADER, path, OPERATOR_TOKEN)
        return int(json.loads(answer.body)["uploaded"])


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    pair = both_aggregators(KIT, tmp_path)
    async with pair:
        write_secret(tmp_path / "relay.token", b"relay-credential\n")
        behind = Answering(pair.inner)
        leader = KIT.task.configuration.leader_aggregator_endpoint
        gateway = create_gateway(
            GatewayConfig(
                state_dir=tmp_path / "gateway",
                storage="memory",
                group_delay=0.0,
                relay_bearer=tmp_path / "relay.token",
                targets=(TargetRule(origin=leader, path_prefix="/tasks/", bearer=tmp_path / "leader" / "gateway"),),
            ),
            ServiceEnv(pair.clock, ENTROPY.child("gateway"), behind, background=False),
        )
        await pair.inner.mount(GATEWAY_URL, gateway)
        relay = create_relay(
            RelayConfig(state_dir=tmp_path, gateway_url=GATEWAY_URL, gateway_bearer=tmp_path / "relay.token"),
            ServiceEnv(pair.clock, ENTROPY.child("relay"), pair.inner, background=False),
        )
        await pair.inner.mount(RELAY, relay)
        network, store = FaultyTransport(pair.inner), MemoryAgentStore()
        key = gateway[GATEWAY].ring.active.config
        client = ObliviousClient(network, RELAY, [key], pair.clock, ENTROPY.child("device"))
        uploader = Uploader(store, client, pair.clock, ENTROPY.child("pauses"), TIMING)
        yield World(pair, behind, network, gateway[GATEWAY], store, client, uploader)


async def scheduled(world: World, entry: Entry | None = None) -> Entry:
    entry = entry or world.entry()
    await world.store.decide(entry)
    return entry


async def test_a_report_is_stored_and_then_leaves_the_device(world: World) -> None:
    after = await world.uploader.send(await scheduled(world))
    assert (after.state, after.attempts, after.report) == (State.SENT, 1, b"")
    assert await world.store.entries() == [after]
    assert await world.uploaded() == 1


@pytest.mark.parametrize("lost", [LOSE_REQUEST, LOSE_RESPONSE], ids=["request", "response"])
async def test_after_a_loss_the_same_report_is_sent_in_a_fresh_encapsulation_and_counted_once(
    world: World, lost: object
) -> None:
    entry = await scheduled(world)
    world.network.plan = matching(RELAY, LOSE_REQUEST if lost is LOSE_REQUEST else LOSE_RESPONSE, times=2)
    for attempt in (1, 2):
        entry = await world.uploader.send(entry)
        assert (entry.state, entry.attempts) == (State.SCHEDULED, attempt)
        assert entry.send_at > world.pair.clock.now()
        await world.pair.clock.advance(entry.send_at - world.pair.clock.now())
    entry = await world.uploader.send(entry)
    assert (entry.state, entry.attempts) == (State.SENT, 3)
    assert await world.uploaded() == 1
    messages = [exchange.body for exchange in world.network.exchanges]
    assert len(set(messages)) == 3
    assert {len(message) for message in messages} <= set(SIZE_CLASSES)
    assert world.behind.seen is not None
    assert len(world.behind.seen) == (1 if lost is LOSE_REQUEST else 3)
    assert len(set(world.behind.seen)) == 1


async def test_the_waits_grow_have_no_beat_and_never_overflow(world: World) -> None:
    world.network.plan = matching(RELAY, LOSE_REQUEST)
    entry, waits = await scheduled(world), []
    for _ in range(7):
        entry = await world.uploader.send(entry)
        waits.append(entry.send_at - world.pair.clock.now())
    assert len(set(waits)) == 7
    assert waits[0] < 7 < waits[-1] <= 1.5 * TIMING.retry_limit_seconds
    worn = replace(world.entry(1), attempts=100_000)
    after = await world.uploader.send(await scheduled(world, worn))
    assert after.send_at - world.pair.clock.now() <= 1.5 * TIMING.retry_limit_seconds


def problem(name: str, status: int = 400) -> HttpResponse:
    return HttpResponse(status, {"content-type": PROBLEM_JSON}, f'{{"type":"{name}"}}'.encode())


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (problem(DAP_ERROR_PREFIX + "unrecognizedTask", 404), State.SCHEDULED),
        (problem("about:blank", 500), State.SCHEDULED),
        (problem("urn:tacit:problem:busy", 503), State.SCHEDULED),
        (HttpResponse(502, {}, b"[" * 100_000), State.SCHEDULED),
        (HttpResponse(200, {}, b"garbage"), State.SCHEDULED),
        (problem(DAP_ERROR_PREFIX + "invalidMessage"), State.FAILED),
        (problem(DAP_ERROR_PREFIX + "unsupportedExtension"), State.FAILED),
        (problem(DAP_ERROR_PREFIX + "invalidTask"), State.FAILED),
    ],
    ids=lambda value: str(getattr(value, "status", value)),
)
async def test_only_a_refusal_of_the_report_itself_is_final(world: World, answer: HttpResponse, state: State) -> None:
    world.behind.answer = answer
    after = await world.uploader.send(await scheduled(world))
    assert after.state is state
    assert bool(after.report) is (state is State.SCHEDULED)


@pytest.mark.parametrize("code", sorted(DAP_18.report_codes))
async def test_of_the_report_errors_only_those_of_clocks_are_retried(world: World, code: ReportError) -> None:
    errors = UploadErrors((ReportUploadStatus(b"i" * 16, code),)).encode()
    world.behind.answer = HttpResponse(200, {"content-type": "application/ppm-dap;message=upload-errors"}, errors)
    after = await world.uploader.send(await scheduled(world))
    passing = code in {ReportError.REPORT_TOO_EARLY, ReportError.TASK_NOT_STARTED}
    assert after.state is (State.SCHEDULED if passing else State.FAILED)
    assert after.detail == code.name.lower()


@pytest.mark.parametrize("error", sorted(DAP_19.report_codes))
def test_the_same_errors_are_retried_in_dap_19_where_they_have_other_codes(error: ReportError) -> None:
    told = UploadErrors((ReportUploadStatus(b"i" * 16, error),))
    verdict = device_side("dap-19").verdict(bhttp.Response(200, (), encode_upload_errors(told, DAP_19)))
    fate = Fate.LATER if error is ReportError.REPORT_TOO_EARLY else Fate.REFUSED
    assert (verdict.fate, verdict.detail) == (fate, error.name.lower())


async def test_a_task_that_the_leader_learns_of_later_gets_its_report(world: World) -> None:
    world.behind.answer = problem(DAP_ERROR_PREFIX + "unrecognizedTask", 404)
    entry = await world.uploader.send(await scheduled(world))
    assert entry.detail == "the leader answered 404, unrecognizedTask"
    world.behind.answer = None
    assert (await world.uploader.send(entry)).state is State.SENT


async def test_a_report_that_was_made_in_time_is_still_offered_a_little_late_and_then_no_more(world: World) -> None:
    entry = await scheduled(world)
    await world.pair.clock.advance(KIT.task.end_seconds + 300 - world.pair.clock.now())
    assert (await world.uploader.send(entry)).state is State.SENT
    late = await scheduled(world, world.entry(1))
    await world.pair.clock.advance(301)
    sent = len(world.network.exchanges)
    after = await world.uploader.send(late)
    assert (after.state, after.report, after.attempts) == (State.EXPIRED, b"", 0)
    assert len(world.network.exchanges) == sent


@pytest.mark.parametrize("largest", REQUEST_CLASSES[-3:])
async def test_a_report_too_large_for_the_size_classes_of_its_device_fails_and_is_not_sent(
    world: World, largest: int
) -> None:
    world.client._largest = largest
    entry = replace(world.entry(), report=bytes(largest))
    after = await world.uploader.send(await scheduled(world, entry))
    assert after.state is State.FAILED
    assert after.detail.startswith("size-class")
    assert world.network.exchanges == []


# The client by itself


async def get(world: World, path: str = "/tasks/x") -> int:
    url = KIT.task.configuration.leader_aggregator_endpoint + path
    return (await world.client.request("POST", url)).status


async def test_the_relay_sees_one_size_and_the_target_no_trace_of_the_device(world: World) -> None:
    await get(world)
    await world.uploader.send(await scheduled(world))
    assert {len(exchange.body) for exchange in world.network.exchanges} == {4096}
    assert {exchange.url for exchange in world.network.exchanges} == {RELAY}


async def test_a_gateway_that_knows_only_the_previous_key_is_reached_with_it(world: World) -> None:
    known = world.gateway.ring.active.config
    unknown = KeyConfig(known.key_id ^ 1, known.kem_id, known.public_key, known.algorithms)
    world.client.use([unknown, known])
    assert (await world.uploader.send(await scheduled(world))).state is State.SENT
    assert len(world.network.exchanges) == 2
    world.client.use([unknown])
    with pytest.raises(TransportError, match="knows none of the keys"):
        await get(world)


async def test_in_the_next_period_the_old_key_still_works_and_in_the_one_after_it_does_not(world: World) -> None:
    ring = world.gateway.ring
    for works in (True, False):
        world.pair.clock.jump(ring.rotation)
        assert world.gateway.rotate_if_due()
        if works:
            assert await get(world) == 404
        else:
            with pytest.raises(TransportError, match="knows none of the keys"):
                await get(world)
    world.client.use([])
    with pytest.raises(TransportError, match="no key of the gateway"):
        await get(world)
    world.client.use([ring.active.config])
    assert await get(world) == 404


async def test_a_response_that_does_not_open_is_no_answer(world: World) -> None:
    other, _ = generate_key_config(7, ENTROPY)
    world.client.use([replace(other, key_id=world.gateway.ring.active.config.key_id)])
    with pytest.raises(TransportError):
        await get(world)


async def test_everything_works_again_after_the_relay_was_away(world: World) -> None:
    world.network.partition(RELAY)
    entry = await world.uploader.send(await scheduled(world))
    assert entry.state is State.SCHEDULED
    world.network.heal()
    world.network.plan = no_faults
    assert (await world.uploader.send(entry)).state is State.SENT
