"""Reverse proxies before all services spell the media types of answers in another way that RFC 9110 allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from client_agent.journal import State
from tacit.ports import HttpResponse
from tests.kit.simulation import EPOCH, EPOCH_SECONDS, INTERVAL_SECONDS, INTERVAL_START, Simulation

SPELLINGS: dict[str, Callable[[str], str]] = {
    "with a charset, as nginx": lambda name: f"{name}; charset=utf-8",
    "in capital letters, with a quoted charset": lambda name: f'{_type_in_capitals(name)} ;Charset="UTF-8"',
}
STEPS, DEVICES = 30, 8


def _type_in_capitals(name: str) -> str:
    kind, semicolon, parameters = name.partition(";")
    return kind.upper() + semicolon + parameters


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_a_question_is_answered_and_released_however_proxies_spell_media_types(
    simulation: Simulation, spelling: str
) -> None:
    spell, seen = SPELLINGS[spelling], set()

    def proxied(answer: HttpResponse) -> HttpResponse:
        found = answer.headers.get("content-type")
        if found is None:
            return answer
        seen.add(found)
        return replace(answer, headers={**answer.headers, "content-type": spell(found)})

    simulation.wire.proxied = proxied
    async with simulation.running():
        simulation.provision([{"four": "abcd"[number % 4]} for number in range(DEVICES)])
        recipe = simulation.recipe()
        end = EPOCH * EPOCH_SECONDS + INTERVAL_START + INTERVAL_SECONDS + 120
        pause = (end - simulation.clock.now()) / STEPS
        for _ in range(STEPS):
            simulation.clock.jump(pause)
            await simulation.step_agents()
            await simulation.step()
        assert (await simulation.collect(recipe))["state"] == "released"
        states = [entry.state for device in simulation.devices for entry in await device.store.entries()]
        (result,) = await simulation.results(recipe)
    assert states == [State.SENT] * DEVICES
    assert result["report_count"] == DEVICES
    assert {
        "message/ohttp-res",
        "application/private-token-response",
        "application/ppm-dap;message=aggregation-job-resp",
        "application/ppm-dap;message=aggregate-share",
    } <= seen
