"""What parties can see and what they keep, after whole runs of the real system.

Transcripts are everything that crossed between two parties; searches go through every file of every service.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import pytest

from client_agent.journal import State
from infra.base.service_names import SERVICES
from tacit import ohttp
from tacit.messages import Role
from tacit.recipe.model import Recipe
from tacit.tokens.structures import Token
from tests.kit.device import Device
from tests.kit.oracles.sealing import open_input_share
from tests.kit.simulation import AGENTS, DEVICE_ADDRESS, Simulation
from tests.kit.wire import Crossing

NewSimulation = Callable[..., Simulation]
WINDOW = 16
"""Equal values are looked for in pieces of this many bytes: chance does not repeat one."""


@dataclass
class Ran:
    """A run up to the release, and every secret of every device."""

    simulation: Simulation
    recipe: Recipe
    tokens: list[bytes] = field(default_factory=list)
    secrets: dict[str, list[bytes]] = field(default_factory=dict)


@asynccontextmanager
async def ran(simulation: Simulation, devices: int = 8) -> AsyncIterator[Ran]:
    """Publish, answer, aggregate, collect; the services still run."""
    async with simulation.running():
        recipe = simulation.recipe()
        await simulation.publish(recipe)
        simulation.provision([{"four": "abcd"[number % 4]} for number in range(devices)])
        found = Ran(simulation, recipe)
        await simulation.step_agents()
        simulation.clock.jump(recipe.interval.start - 1 - simulation.clock.now())
        for device in simulation.devices:
            await device.agent.prefetch()
            await device.agent.consider()
            await keep_secrets(found, device)
        await simulation.live(recipe.interval.end - 1)
        simulation.clock.jump(2)
        collection = await simulation.collect(recipe)
        assert collection["state"] == "released"
        yield found


async def keep_secrets(found: Ran, device: Device) -> None:
    """Everything about a device's contribution that must be in no file later."""
    kept = found.secrets
    for row in await device.store.prefetches():
        if row.preimages:
            kept.setdefault("preimage", []).extend([row.preimages[:32], row.preimages[32:]])
        if row.token:
            token = Token.decode(row.token)
            kept.setdefault("token", []).extend([token.nonce, token.authenticator])
            if row.spent:
                found.tokens.append(row.token)
    report = device.report(found.recipe)
    assert report is not None
    sealed = {Role.LEADER: report.leader_encrypted_input_share, Role.HELPER: report.helper_encrypted_input_share}
    for role, ciphertext in sealed.items():
        party = found.simulation.party(role.name.lower(), found.recipe)
        share = open_input_share(
            party.task, role, party.key_pair, report.report_metadata, report.public_share, ciphertext
        )
        kept.setdefault("share", []).append(share.payload)
        kept.setdefault("sealed share", []).extend([ciphertext.payload, ciphertext.enc])


def pieces(data: bytes, step: int = 1) -> Iterable[bytes]:
    """Every run of ``WINDOW`` bytes."""
    return (data[at : at + WINDOW] for at in range(0, len(data) - WINDOW + 1, step))


def bodies(crossings: Iterable[Crossing]) -> list[bytes]:
    """Both directions of exchanges."""
    return [body for c in crossings for body in (c.body, c.response.body if c.response else b"") if body]


async def test_attester_and_issuer_share_no_value_with_the_aggregators(new_simulation: NewSimulation) -> None:
    async with ran(new_simulation()) as found:
        simulation = found.simulation
        issuance = simulation.wire.between(AGENTS, "attester") + simulation.wire.between(
            "attester", "issuer", "request"
        )
        seen = {piece for body in bodies(issuance) for piece in pieces(body)}
        assert len(seen) > 10_000
        uploads = simulation.wire.between("gateway", "leader") + simulation.wire.between("leader", "helper")
        opened = [*found.tokens, *(one for many in found.secrets.values() for one in many)]
        for body in [*bodies(uploads), *opened]:
            assert seen.isdisjoint(pieces(body)), "a value of an issuance turns up again in a contribution"


async def test_all_tokens_of_a_slot_have_one_key_and_one_challenge(new_simulation: NewSimulation) -> None:
    async with ran(new_simulation()) as found:
        tokens = [Token.decode(token) for token in found.tokens]
        assert len(tokens) == 8
        assert len({(token.token_key_id, token.challenge_digest) for token in tokens}) == 1
        assert len({token.nonce for token in tokens}) == 8


@pytest.mark.slow
async def test_every_message_between_devices_and_relay_has_a_global_size(new_simulation: NewSimulation) -> None:
    async with ran(new_simulation()) as found:
        crossings = found.simulation.wire.between(AGENTS, "relay")
        public = [one for one in crossings if one.method == "GET"]
        assert {(one.url.rpartition("/")[2], one.body) for one in public} <= {("key-sets", b"")}
        crossings = [one for one in crossings if one.method == "POST"]
        requests = {len(c.body) for c in crossings}
        responses = {len(c.response.body) for c in crossings if c.response is not None}
        assert requests == {ohttp.SIZE_CLASSES[0]}
        assert responses <= set(ohttp.SIZE_CLASSES)
        assert {tuple(sorted(c.headers)) for c in crossings} == {("content-type",)}


Shape = list[tuple[float, str, str, str, int, int]]


async def wire_shape(simulation: Simulation, *, rate: str = "1", datum: str = "a", floor: int | None = None) -> Shape:
    """What can be told from one device's traffic by who sees all of it: times, peers, sizes.

    Sizes in hundreds for the attester, because the length of an ECDSA signature differs by chance.
    """
    async with simulation.running():
        population = 8 if rate == "1" else 10**7
        recipe = simulation.recipe(rate=Decimal(rate), population=population, min_batch_size=6)
        await simulation.publish(recipe)
        if floor is not None:
            simulation.policy = simulation.policy.model_copy(update={"min_batch_size": floor})
        (device,) = simulation.provision([{"four": datum}])
        for _ in range(8):
            await simulation.step_agents()
            simulation.clock.jump(800)
        state = await device.state(recipe)
        expected = {"1": State.SENT, "0.000001": State.NOT_SAMPLED}[rate]
        if floor is not None:
            expected = State.REFUSED
        assert state is expected, state
        return [shape_of(crossing) for crossing in simulation.wire if crossing.caller == device.name]


def shape_of(crossing: Crossing) -> tuple[float, str, str, str, int, int]:
    """Everything about an exchange but the bytes."""
    size = len(crossing.body) // (100 if crossing.callee == "attester" else 1)
    answer = len(crossing.response.body) if crossing.response else 0
    return crossing.at, crossing.callee, crossing.method, crossing.url.rpartition("/")[2], size, answer


async def test_devices_that_were_not_sampled_refuse_or_have_no_answer_look_alike_on_the_wire(
    new_simulation: NewSimulation,
) -> None:
    not_sampled = await wire_shape(new_simulation(), rate="0.000001")
    refused = await wire_shape(new_simulation(), rate="0.000001", floor=100)
    without = await wire_shape(new_simulation(), rate="0.000001", datum="none of them")
    assert not_sampled == refused == without
    sampled = await wire_shape(new_simulation())
    without = await wire_shape(new_simulation(), datum="none of them")
    assert Counter(one[1:] for one in sampled) == Counter(one[1:] for one in without)
    issuance = [one for one in sampled if one[1] == "attester"]
    assert issuance == [one for one in not_sampled if one[1] == "attester"]
    assert len(sampled) == len(not_sampled) + 1


def files(simulation: Simulation) -> dict[str, bytes]:
    """Every file that a service has, by path."""
    found = {}
    for name in SERVICES:
        folder = simulation.layout.configs[name].parent
        for path in folder.rglob("*"):
            if path.is_file():
                found[str(path.relative_to(simulation.layout.state_dir))] = path.read_bytes()
    return found


def hits(stored: dict[str, bytes], planted: Iterable[bytes]) -> list[str]:
    """Which files hold one of the planted values, or a piece of it."""
    wanted = {piece for value in planted for piece in pieces(value, WINDOW)}
    return [path for path, data in stored.items() if any(piece in data for piece in wanted)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "end",
    [pytest.param("running", marks=pytest.mark.slow), pytest.param("stopped", marks=pytest.mark.slow), "killed"],
)
async def test_after_a_collection_no_file_holds_a_share_a_token_or_a_device(
    new_simulation: NewSimulation, end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with ran(new_simulation()) as found:
        simulation = found.simulation
        for name in SERVICES:
            if end == "stopped":
                await simulation.stop(name)
            if end == "killed":
                await simulation.kill(name)
        stored = files(simulation)
        for kind, values in found.secrets.items():
            assert hits(stored, values) == [], f"a {kind} is left"
        devices = [device.name.encode() for device in simulation.devices]
        authority = (simulation.layout.configs["attester"].parent / "device-root.pem").read_bytes()
        certificates = [
            {line for line in device.identity.to_pem().split(b"\n") if len(line) > 40} - set(authority.split(b"\n"))
            for device in simulation.devices
        ]
        assert all(certificates)
        planted = [DEVICE_ADDRESS.encode(), bytes(map(int, DEVICE_ADDRESS.split(".")))]
        log = "".join(capsys.readouterr()).encode()
        stored = {path: data for path, data in stored.items() if not path.startswith("devices")}
        for data in (*stored.values(), log):
            assert not any(one in data for one in (*planted, *devices))
            assert not any(line in data for lines in certificates for line in lines)
        text = log.decode()
        for values in found.secrets.values():
            assert not any(value.hex()[:32] in text for value in values)


async def test_before_the_collection_the_search_finds_what_it_looks_for(new_simulation: NewSimulation) -> None:
    simulation = new_simulation()
    async with simulation.running():
        recipe = simulation.recipe()
        await simulation.publish(recipe)
        simulation.provision([{"four": "a"}])
        found = Ran(simulation, recipe)
        await simulation.step_agents()
        simulation.clock.jump(recipe.interval.start - 1 - simulation.clock.now())
        await simulation.step_agents()
        await keep_secrets(found, simulation.devices[0])
        simulation.clock.jump(recipe.interval.end - 1 - simulation.clock.now())
        await simulation.step_agents()
        kept = hits(files(simulation), found.secrets["sealed share"])
        assert {Path(path).parent.name for path in kept} == {"leader"}


@pytest.mark.slow
async def test_when_a_token_was_issued_says_nothing_about_when_it_is_used(new_simulation: NewSimulation) -> None:
    """A permutation test on 150 devices; false alarms one in a thousand seeds."""
    simulation = new_simulation(seed=5)
    async with simulation.running():
        recipe = simulation.recipe()
        await simulation.publish(recipe)
        simulation.provision([{"four": "a"} for _ in range(150)])
        pairs = []
        for device in simulation.devices:
            await device.agent.sync()
        simulation.clock.jump(recipe.interval.start - 1 - simulation.clock.now())
        for device in simulation.devices:
            planned = {row.slot.slot: row.due_at for row in await device.store.prefetches()}
            await device.agent.prefetch()
            await device.agent.consider()
            entry = await device.entry(recipe)
            assert entry is not None
            pairs.append((planned[0], entry.send_at))
    issued, used = zip(*pairs, strict=True)
    chance = random.Random(5)

    def together(order: tuple[float, ...]) -> float:
        return abs(sum(a * b for a, b in zip(centred(issued), centred(order), strict=True)))

    seen = together(used)
    shuffles = [together(tuple(chance.sample(used, len(used)))) for _ in range(2000)]
    assert sum(one >= seen for one in shuffles) / len(shuffles) > 0.001


def centred(values: tuple[float, ...]) -> list[float]:
    """Subtract the mean from each value."""
    mean = sum(values) / len(values)
    return [value - mean for value in values]
