"""The attester's challenges: good once, for a while, whatever the clock does, and stored only when used."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from attester.challenges import Challenges
from attester.handlers import ATTESTER as ATTESTER_KEY
from attester.schema import METADATA
from infra.lab.kit.clock import SimClock
from tacit.service.app import DRIVERS
from tacit.tokens.attestation import (
    Evidence,
)
from tests.http.attester_stage import (
    ATTESTER,
    ENTROPY,
    EPOCH,
    NOW,
    Stage,
    good,
    staged,
)


@pytest.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    async with staged(tmp_path, monkeypatch) as running:
        yield running


async def test_a_challenge_serves_once_and_not_after_a_restart(stage: Stage) -> None:
    device, request = stage.device(), stage.pending().request
    used = await stage.challenge()
    evidence = good(device, used, request)
    both = await asyncio.gather(stage.send(evidence, used, request), stage.send(evidence, used, request))
    assert sorted(one.status for one in both) == [200, 403]
    assert (await stage.send(evidence, used, request)).status == 403
    fresh = await stage.challenge()
    await stage.restart()
    assert (await stage.send(evidence, used, request)).status == 403
    assert (await stage.send(good(device, fresh, request), fresh, request)).status == 200


async def test_a_challenge_ends(stage: Stage) -> None:
    device, request = stage.device(), stage.pending().request
    challenge = await stage.challenge()
    stage.clock.jump(301)
    assert (await stage.send(good(device, challenge, request), challenge, request)).status == 403


def _rows(stage: Stage) -> dict[str, int]:
    """How many rows each table of the attester's database has."""
    with closing(sqlite3.connect(stage.folder / "attester" / "attester.sqlite3")) as connection:
        return {
            table.name: connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0]  # noqa: S608
            for table in METADATA.sorted_tables
        }


async def test_a_flood_of_challenges_leaves_no_row_and_locks_no_device_out(stage: Stage) -> None:
    app = await stage.restart()
    given = [await stage.challenge() for _ in range(500)]
    given += [app[ATTESTER_KEY].challenge() for _ in range(50_000)]
    assert len(set(given)) == len(given)
    await app[DRIVERS][0].step()
    assert set(_rows(stage).values()) == {0}
    device, forged = stage.device(), Evidence("software-root", b"\0\3abc")
    for challenge in given[:50]:
        assert (await stage.send(forged, challenge, stage.pending().request)).status == 403
    assert set(_rows(stage).values()) == {0}
    assert (await stage.ask(device, stage.pending().request)).status == 200
    assert _rows(stage) == {"used_challenges": 1, "challenge_floor": 0, "issuance": 1, "quotas": 1}


async def test_used_challenges_are_forgotten_once_they_have_ended(stage: Stage) -> None:
    app = await stage.restart()
    for slot in (0, 1):
        await stage.ask(stage.device(), stage.pending(slot).request)
    assert _rows(stage)["used_challenges"] == 2
    stage.clock.jump(301)
    await app[DRIVERS][0].step()
    assert _rows(stage)["used_challenges"] == 0


@pytest.mark.parametrize("forgotten", [True, False])
async def test_a_clock_that_is_set_back_revives_no_used_challenge(stage: Stage, forgotten: bool) -> None:
    app = await stage.restart()
    device, request = stage.device(), stage.pending().request
    used, unused = await stage.challenge(), await stage.challenge()
    evidence = good(device, used, request)
    assert (await stage.send(evidence, used, request)).status == 200
    stage.clock.jump(301)
    if forgotten:
        await app[DRIVERS][0].step()
    stage.clock.set_back(280)
    for _ in range(2):
        assert (await stage.send(evidence, used, request)).status == 403
        if forgotten:
            assert (await stage.send(good(device, unused, request), unused, request)).status == 403
        assert (await stage.ask(device, request)).status == 200
        await stage.restart()


async def test_a_clock_that_was_ahead_for_a_while_gives_nobody_a_second_token(stage: Stage) -> None:
    app = await stage.restart()
    device, had = stage.device(), stage.pending().request
    assert (await stage.ask(device, had)).status == 200
    stage.clock.jump(300 * EPOCH)
    await app[DRIVERS][0].step()
    stage.clock.set_back(300 * EPOCH)
    await stage.ask_time()
    for _ in range(2):
        sent = stage.forwarded()
        for request in (had, stage.pending().request, stage.pending(1).request):
            assert (await stage.ask(device, request)).status == 422
        assert stage.forwarded() == sent
        assert _rows(stage)["quotas"] == 0
        await stage.restart()
    stage.clock.jump(EPOCH)
    assert (await stage.ask(device, stage.pending(0, 20_001).request)).status == 200


@pytest.mark.parametrize("days", [-30 * 365, -31, 70, 30 * 365])
@pytest.mark.parametrize("start", [False, True], ids=["running", "at start"])
async def test_a_clock_that_jumps_alone_forgets_nothing_and_closes_nothing(
    stage: Stage, days: int, start: bool
) -> None:
    right, device, request = SimClock(NOW), stage.device(), stage.pending().request
    assert (await stage.ask(device, request)).status == 200
    before = _rows(stage)
    stage.clock.set_back(-days * EPOCH)
    stage.between.dated = right.now
    if start:
        await stage.restart()
        await stage.app[DRIVERS][0].step()
        assert _rows(stage) == before, "nobody has vouched for the clock yet"
        await stage.ask_time()
    await stage.app[DRIVERS][0].step()
    assert _rows(stage) == before
    answer = await stage.network.request("GET", f"{ATTESTER}/readyz")
    assert (answer.status, b"this machine's clock says" in answer.body) == (503, True)
    assert (await stage.network.request("POST", f"{ATTESTER}/v1/challenge")).status == 503
    stage.clock.set_back(days * EPOCH)
    await stage.ask_time()
    assert (await stage.ask(device, request)).status == 200, "the token that it had, and no second one"
    assert (await stage.ask(device, stage.pending().request)).status == 429
    assert (await stage.network.request("GET", f"{ATTESTER}/readyz")).status == 200


async def test_a_challenge_of_a_clock_that_was_ahead_ends_with_the_correction(stage: Stage) -> None:
    device, request = stage.device(), stage.pending().request
    stage.clock.jump(3000)
    early = await stage.challenge()
    stage.clock.set_back(3000)
    assert (await stage.send(good(device, early, request), early, request)).status == 403
    assert (await stage.ask(device, request)).status == 200


async def test_nobody_else_makes_or_changes_a_challenge(stage: Stage) -> None:
    device, request = stage.device(), stage.pending().request
    challenge = await stage.challenge()
    stranger = Challenges(bytes(32), 300).fresh(stage.clock.now(), ENTROPY)
    changed = [bytes(byte ^ (position == at) for position, byte in enumerate(challenge)) for at in range(32)]
    for forged in (stranger, *changed):
        assert (await stage.send(good(device, forged, request), forged, request)).status == 403
    assert _rows(stage)["used_challenges"] == 0
    assert (await stage.send(good(device, challenge, request), challenge, request)).status == 200
