"""Attester, issuer and aggregators count the tokens of a slot each for itself, and ``tacit status`` compares (P15)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from infra.lab.kit.network import LOSE_REQUEST, LOSE_RESPONSE, Fault
from infra.stacks.status import stack_status
from tacit import media_types
from tacit.errors import Refusal
from tacit.operations.issuance import Accepted, SlotIssuance, compare
from tacit.recipe.model import Recipe
from tacit.service.base.secret_files import read_secret
from tacit.tokens.issuance import request_token
from tacit.tokens.slots import Slot, slot_challenge
from tests.kit.simulation import AGENTS, EPOCH, Simulation

NewSimulation = Callable[..., Simulation]
PLACE = (EPOCH, 0)


async def slot_of(simulation: Simulation) -> SlotIssuance:
    """What ``tacit status`` says of the recipe's slot."""
    found = await stack_status(simulation.layout, simulation.network)
    assert found.troubles == []
    return next(one for one in found.issuance if (one.epoch, one.slot) == PLACE)


async def fetch_tokens(simulation: Simulation, recipe: Recipe) -> None:
    """Every device asks for what it is due until the recipe's interval begins."""
    await simulation.step_agents()
    simulation.clock.jump(recipe.interval.start - 1 - simulation.clock.now())
    for _ in range(4):
        for device in simulation.devices:
            await device.agent.prefetch()
        simulation.clock.jump(0.2)
    for device in simulation.devices:
        await device.agent.consider()


async def begun(simulation: Simulation, devices: int = 8) -> Recipe:
    recipe = simulation.recipe()
    await simulation.publish(recipe)
    simulation.provision([{"four": "abcd"[number % 4]} for number in range(devices)])
    return recipe


async def test_counts_of_an_honest_run_agree_and_name_the_recipe(new_simulation: NewSimulation) -> None:
    simulation = new_simulation()
    async with simulation.running():
        recipe = await begun(simulation)
        await fetch_tokens(simulation, recipe)
        await simulation.live(recipe.interval.end - 1)
        simulation.clock.jump(2)
        assert (await simulation.collect(recipe))["state"] == "released"
        slot = await slot_of(simulation)
        assert slot == SlotIssuance(*PLACE, "four", 8, 8, 8, 8, 8)
        found = await stack_status(simulation.layout, simulation.network)
        assert found.problems == []
        document = json.loads(json.dumps(found.document()))
        assert {one["slot"]: one["mismatches"] for one in document["issuance"] if one["epoch"] == EPOCH} == {
            0: [],
            1: [],
        }


async def test_an_issuer_that_signs_more_than_its_attester_released_is_flagged(
    new_simulation: NewSimulation, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody else holds the attester's credential and asks the issuer directly."""
    simulation = new_simulation()
    async with simulation.running():
        recipe = await begun(simulation)
        await fetch_tokens(simulation, recipe)
        key = simulation.party("leader", recipe).tokens.token_key
        slot = Slot(recipe.token.issuer, recipe.token.epoch, recipe.token.slot)
        pending = request_token(key, slot_challenge(slot), bytes(32), simulation.entropy)
        bearer = read_secret(simulation.layout.credentials["issuer_client"]).decode().strip()
        headers = {"Content-Type": media_types.PRIVATE_TOKEN_REQUEST, "Authorization": f"Bearer {bearer}"}
        url = f"{simulation.layout.urls['issuer']}/token-request"
        answer = await simulation.network.request("POST", url, headers=headers, body=pending.request.encode())
        assert answer.status == 200
        capsys.readouterr()
        found = await stack_status(simulation.layout, simulation.network)
        line = (
            f"four, slot 0 of epoch {EPOCH}: the issuer signed 9, more than the 8 requests that the attester released"
        )
        assert found.problems == [line]
        assert not found.document()["ok"]
        (logged,) = [json.loads(one) for one in capsys.readouterr().err.splitlines() if "issuance_mismatch" in one]
        assert (logged["level"], logged["issued"], logged["requested"]) == ("warning", 9, 8)


@pytest.mark.parametrize(
    ("fault", "extra"),
    [pytest.param(LOSE_REQUEST, 0, marks=pytest.mark.slow), (LOSE_RESPONSE, 1)],
    ids=["request", "response"],
)
async def test_what_is_lost_between_attester_and_issuer_is_no_mismatch(
    new_simulation: NewSimulation, fault: Fault, extra: int
) -> None:
    simulation = new_simulation()
    async with simulation.running():
        recipe = await begun(simulation)
        simulation.break_next("attester", "issuer", fault, "/token-request")
        await fetch_tokens(simulation, recipe)
        for _ in range(3):
            simulation.clock.jump(200)
            await simulation.step_agents()
        found = await stack_status(simulation.layout, simulation.network)
        assert found.problems == []
        devices, requested, signed, answered = (
            sum(getattr(slot, name) for slot in found.issuance)
            for name in ("devices", "requested", "issued", "answered")
        )
        assert (requested - devices, signed - devices, answered - devices) == (1, extra, 0)


@pytest.mark.slow
async def test_no_crash_of_either_makes_a_mismatch(new_simulation: NewSimulation) -> None:
    """Each is killed after the tokens were given out, without a step of its drivers in between."""
    simulation = new_simulation()
    async with simulation.running():
        recipe = await begun(simulation)
        await simulation.step_agents()
        await fetch_tokens(simulation, recipe)
        for name in ("issuer", "attester"):
            await simulation.crash(name)
        slot = await slot_of(simulation)
        assert (slot.devices, slot.requested, slot.issued, slot.answered) == (8, 8, 8, 0)
        assert slot.mismatches == []


async def test_an_attester_forgets_its_devices_and_keeps_its_counts(new_simulation: NewSimulation) -> None:
    simulation = new_simulation()
    async with simulation.running():
        recipe = await begun(simulation)
        await fetch_tokens(simulation, recipe)
        simulation.clock.jump(30 * 86400)
        await simulation.step("attester")
        assert simulation.rows("attester", "select count(*) from quotas") == [(0,)]
        slot = await slot_of(simulation)
        assert (slot.devices, slot.requested, slot.issued, slot.answered) == (8, 8, 8, 8)


@pytest.mark.slow
async def test_counts_are_for_the_operator_and_hold_nothing_but_counts(new_simulation: NewSimulation) -> None:
    simulation = new_simulation()
    async with simulation.running():
        recipe = await begun(simulation)
        await fetch_tokens(simulation, recipe)
        for name, counts in (("attester", {"devices", "requested", "answered"}), ("issuer", {"issued"})):
            url = simulation.layout.urls[name] + "/v1/issuance"
            for headers in ({}, {"Authorization": "Bearer tacit-wrong"}):
                for transport in (simulation.network, simulation.wire.transport("device-0", AGENTS)):
                    assert (await transport.request("GET", url, headers=headers)).status == 401
            page = await simulation.operator(name, "GET", "/v1/issuance")
            assert {frozenset(row) for row in page["slots"]} == {frozenset({"epoch", "slot"} | counts)}
            assert all(type(value) is int for row in page["slots"] for value in row.values())
            await simulation.restart(name, operator_token=None)
            with pytest.raises(Refusal):
                await simulation.operator(name, "GET", "/v1/issuance")


async def test_status_says_where_the_counts_cannot_be_read(new_simulation: NewSimulation) -> None:
    simulation = new_simulation()
    async with simulation.running():
        await simulation.restart("issuer", operator_token=None)
        found = await stack_status(simulation.layout, simulation.network)
        (trouble,) = found.troubles
        assert trouble.startswith("the issuance counts cannot be read")
        assert found.issuance == []


FINE = SlotIssuance(*PLACE, "four", issued=10, devices=9, requested=11, answered=8, contributions=7)


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        ({}, []),
        ({"issued": 11, "requested": 11, "answered": 11, "devices": 11, "contributions": 11}, []),
        ({"issued": 12}, ["the issuer signed 12, more than the 11 requests that the attester released"]),
        ({"answered": 11}, ["the attester passed on 11, more than the 10 tokens that the issuer signed"]),
        ({"contributions": 10}, ["the aggregators accepted 10, more than the 9 devices that the attester let in"]),
        (
            {"contributions": 1_011, "devices": 2_000, "requested": 2_000},
            ["the aggregators accepted 1,011, more than the 10 tokens that the issuer signed"],
        ),
    ],
)
def test_each_broken_inequality_is_one_line_with_both_numbers(change: dict[str, Any], lines: list[str]) -> None:
    assert replace(FINE, **change).mismatches == lines


def test_slots_that_only_one_party_counted_are_compared_too() -> None:
    before = {(1, 0): {"devices": 3, "requested": 3, "answered": 3}}
    after = {(1, 0): {"devices": 4, "requested": 5, "answered": 4}}
    found = compare(before, [Accepted((2, 1), "forged", 6)], {(1, 0): {"issued": 4}, (3, 0): {"issued": 1}}, after)
    assert [(one.epoch, one.recipe, len(one.mismatches)) for one in found] == [(1, "", 0), (2, "forged", 2), (3, "", 1)]
    assert (found[0].answered, found[0].requested) == (3, 5)
