"""What parties say about single contributions, to anybody, at the loudest level: nothing (paper section 4.8).

One run of the whole system with everything logged that any library of the process would log. Afterwards every kind of
message that crossed is sent once more and once cut short, so that every party refuses something that it knows. Then all
logs, all problem documents and all status pages are searched for the values that belong to one contribution or device.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Iterable, Iterator

import pytest

from client_agent.journal import State
from infra.base.service_names import SERVICES
from infra.stacks.status import stack_status
from tacit import media_types
from tacit.errors import Refusal, UsageError
from tacit.messages import Role
from tacit.recipe.model import Recipe
from tacit.service.base.log import set_log_level
from tacit.tokens.structures import Token
from tests.kit import databases
from tests.kit.oracles.sealing import open_input_share
from tests.kit.simulation import AGENTS, DEVICE_ADDRESS, Simulation
from tests.kit.wire import Crossing

NewSimulation = Callable[..., Simulation]
DEVICES = 8
LEAST = 12
"""Bytes of a value that are enough to recognise it by."""


class Loud(logging.Handler):
    """Keeps every record of the standard library's loggers, arguments and tracebacks included."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Format the record as a careless handler would."""
        self.lines.append(logging.Formatter().format(record))


@pytest.fixture
def loud() -> Iterator[Loud]:
    """Everything at debug level, while the test runs."""
    root, handler = logging.getLogger(), Loud()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    set_log_level("debug")
    yield handler
    set_log_level("info")
    root.setLevel(before)
    root.removeHandler(handler)


async def lived(simulation: Simulation) -> Recipe:
    """Publish, answer, aggregate, collect."""
    recipe = simulation.recipe()
    await simulation.publish(recipe)
    simulation.provision([{"four": "abcd"[number % 4]} for number in range(DEVICES)])
    await simulation.step_agents()
    simulation.clock.jump(recipe.interval.start - 1 - simulation.clock.now())
    for device in simulation.devices:
        await device.agent.prefetch()
        await device.agent.consider()
    return recipe


async def private_values(simulation: Simulation, recipe: Recipe) -> dict[str, list[bytes]]:
    """What belongs to one contribution or one device, by kind."""
    found: dict[str, list[bytes]] = {"device": [], "address": [DEVICE_ADDRESS.encode()]}

    def add(kind: str, *values: bytes) -> None:
        found.setdefault(kind, []).extend(values)

    for device in simulation.devices:
        add("device", f'"{device.name}"'.encode(), f"'{device.name}'".encode(), *device.identity.chain[:1])
        for row in await device.store.prefetches():
            if row.token:
                token = Token.decode(row.token)
                add("token", token.nonce, token.authenticator)
            if row.preimages:
                add("preimage", row.preimages[:32], row.preimages[32:])
        report = device.report(recipe)
        assert report is not None
        add("report id", report.report_metadata.report_id)
        for role, sealed in (
            (Role.LEADER, report.leader_encrypted_input_share),
            (Role.HELPER, report.helper_encrypted_input_share),
        ):
            party = simulation.party(role.name.lower(), recipe)
            share = open_input_share(
                party.task, role, party.key_pair, report.report_metadata, report.public_share, sealed
            )
            add("share", share.payload, sealed.payload, sealed.enc)
    return found


def add_stored(simulation: Simulation, found: dict[str, list[bytes]]) -> None:
    """Values that only the parties' own tables have."""
    found["nullifier"] = [row[0] for row in simulation.rows("helper", "select nullifier from outcomes")]
    rows = simulation.rows("attester", "select stable_id, request_hash from quotas")
    found["device tag"] = [value for row in rows for value in row]


def kinds_of(crossings: Iterable[Crossing]) -> list[Crossing]:
    """One exchange with a body of each kind: same parties, same end of the path."""
    found: dict[tuple[str, str, str], Crossing] = {}
    for one in crossings:
        caller = AGENTS if one.caller.startswith("device-") else one.caller
        if one.body:
            found.setdefault((caller, one.callee, one.url.rpartition("/")[2][:16]), one)
    return list(found.values())


async def refusals(simulation: Simulation) -> list[bytes]:
    """The problem documents that repeated, shortened and misplaced messages get, headers included."""
    outside = simulation.network.seen_from(DEVICE_ADDRESS)
    found = []
    for one in kinds_of(list(simulation.wire)):
        transport = outside if one.caller.startswith("device-") else simulation.network
        lines = {name: value for name, value in one.headers.items() if name.lower() != "content-length"}
        for headers, body in (
            (lines, one.body),
            (lines, one.body[:-1]),
            (lines, one.body + b"}"),
            ({**lines, "Content-Type": media_types.JSON}, one.body),
            ({}, one.body),
        ):
            for url in (one.url, f"{one.url}/{body[:16].hex()}"):
                answer = await transport.request(one.method, url, headers=headers, body=body)
                if answer.status >= 400:
                    found.append(repr(sorted(answer.headers.items())).encode() + answer.body)
    return found


async def pages(simulation: Simulation, recipe: Recipe) -> list[bytes]:
    """What services show about themselves, and ``tacit status`` of them."""
    found = []
    task = simulation.task(recipe).task_id_text
    for name in SERVICES:
        for path in ("/healthz", "/readyz", "/metrics"):
            found.append((await simulation.network.request("GET", simulation.layout.urls[name] + path)).body)
        for path in (f"/v1/tasks/{task}/status", "/v1/recipes", "/v1/issuance", "/v1/collections"):
            try:
                found.append(repr(await simulation.operator(name, "GET", path)).encode())
            except (Refusal, UsageError, ValueError):
                continue
    found.append(repr((await stack_status(simulation.layout, simulation.network)).document()).encode())
    return found


def written(value: bytes) -> set[bytes]:
    """The ways in which a value may turn up in a text."""
    if value.isascii():
        return {value}
    texts = {value, value.hex().encode(), value.hex().upper().encode(), repr(value)[2:-1].encode()}
    for shift in range(3):  # the beginning of base64 depends on what stands before
        texts.add(base64.b64encode(value[shift:])[: (LEAST * 4) // 3])
        texts.add(base64.urlsafe_b64encode(value[shift:])[: (LEAST * 4) // 3])
    return {text if len(text) < 2 * LEAST else text[: 2 * LEAST] for text in texts}


def said(texts: Iterable[bytes], values: dict[str, list[bytes]]) -> set[str]:
    """Kinds of values of which one stands in one of the texts."""
    whole = b"\n".join(texts)
    return {kind for kind, many in values.items() for value in many if any(form in whole for form in written(value))}


async def test_no_log_problem_document_or_status_page_tells_of_a_contribution_or_a_device(
    new_simulation: NewSimulation, loud: Loud, capsys: pytest.CaptureFixture[str]
) -> None:
    simulation = new_simulation()
    with databases.threads():
        async with simulation.running():
            recipe = await lived(simulation)
            values = await private_values(simulation, recipe)
            await simulation.live(recipe.interval.end - 1)
            simulation.clock.jump(2)
            assert (await simulation.collect(recipe))["state"] == "released"
            assert {await device.state(recipe) for device in simulation.devices} == {State.SENT}
            add_stored(simulation, values)
            assert {kind: len(many) >= DEVICES for kind, many in values.items() if kind != "address"} == dict.fromkeys(
                set(values) - {"address"}, True
            )
            told = await refusals(simulation)
            await simulation.step()
            shown = await pages(simulation, recipe)
            for name in SERVICES:
                await simulation.stop(name)
    assert len(told) > 60
    assert said(told, values) == set()
    assert said(shown, values) == set()
    out = capsys.readouterr()
    logged = (out.out + out.err).encode()
    assert logged.count(b"\n") > 20
    assert said([logged], values) == set()
    assert len(loud.lines) > 1000
    assert said([line.encode() for line in loud.lines], values) == set()


async def test_the_search_finds_each_kind_of_value_in_each_way_of_writing(new_simulation: NewSimulation) -> None:
    simulation = new_simulation()
    async with simulation.running():
        recipe = await lived(simulation)
        values = await private_values(simulation, recipe)
        for kind, many in values.items():
            value = many[0]
            for text in (value, repr(value).encode(), value.hex().encode(), base64.b64encode(b"x" + value)):
                if value.isascii() and text is not value:
                    continue
                assert said([b"before " + text + b" after"], {kind: [value]}) == {kind}
