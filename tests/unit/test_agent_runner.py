"""The agent's loops, its pauses, its configuration and its ledger."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from decimal import Decimal
from typing import Any, cast

import pytest

from client_agent.agent import Agent
from client_agent.config import Budget
from client_agent.device_rules import charged_costs, spent_epsilon
from client_agent.hints import Hints
from client_agent.journal import Entry, MemoryAgentStore, State
from client_agent.runner import Watch, keep_running
from infra.lab.kit.clock import SimClock, settle
from tacit.adapters.messaging.topics import LOG
from tacit.backoff import NEVER
from tacit.errors import Fatal
from tacit.ledger.account import Cost
from tests.kit.announcer import MemoryAnnouncer


class Recorded:
    """Stands where an agent does: notes when its parts are called."""

    def __init__(self, clock: SimClock) -> None:
        self.clock = clock
        self.calls: Counter[str] = Counter()
        self.due = {"poll": 100.0, "prefetch": 7.0, "send_due": NEVER}
        self.hang = asyncio.Event()
        self.error: Exception | None = None
        self.hanging = False
        self.polls: list[float] = []
        self.coming: asyncio.Future[bool] | None = None

    def poll_within(self, within: float) -> None:
        self.polls.append(within)

    async def poll(self) -> float:
        self.calls["poll"] += 1
        return self.clock.now() + self.due["poll"]

    async def fetch_models(self) -> bool:
        self.calls["fetch_models"] += 1
        coming, self.coming = self.coming, None
        return coming is not None and await coming

    async def prefetch(self) -> float:
        self.calls["prefetch"] += 1
        return self.clock.now() + self.due["prefetch"]

    async def consider(self) -> None:
        self.calls["consider"] += 1
        if self.error is not None:
            raise self.error
        if self.hanging:
            await self.hang.wait()

    async def send_due(self) -> float:
        self.calls["send_due"] += 1
        return self.due["send_due"]


async def start(agent: Recorded, clock: SimClock, limit: float) -> tuple[asyncio.Task[None], asyncio.Event]:
    stop = asyncio.Event()
    watch = Watch(MemoryAgentStore(), lambda _event, _told: None)
    task = asyncio.ensure_future(keep_running(cast(Agent, agent), clock, limit, stop, watch))
    await settle()
    return task, stop


async def test_each_loop_sleeps_to_its_own_due_time_and_never_beyond_the_limit() -> None:
    clock = SimClock()
    agent = Recorded(clock)
    task, stop = await start(agent, clock, 60.0)
    await clock.advance(210)
    assert agent.calls == {"poll": 4, "fetch_models": 4, "consider": 4, "send_due": 4, "prefetch": 31}
    stop.set()
    await task
    assert task.exception() is None


async def test_an_announcement_wakes_the_loop_that_polls_and_no_other() -> None:
    clock, announcer, stop = SimClock(), MemoryAnnouncer(), asyncio.Event()
    agent = Recorded(clock)
    agent.due["prefetch"] = 1000.0
    watch = Watch(MemoryAgentStore(), lambda _event, _told: None)
    hints = Hints(announcer, 30.0)
    task = asyncio.ensure_future(keep_running(cast(Agent, agent), clock, 60.0, stop, watch, hints))
    await settle()
    announcer.publish(LOG, b"7")
    await settle()
    assert agent.polls == [30.0]
    await settle()
    assert agent.calls == {"poll": 2, "fetch_models": 2, "consider": 2, "send_due": 2, "prefetch": 1}
    await announcer.close()
    await clock.advance(60)
    assert agent.calls["poll"] == 3
    stop.set()
    await task


async def test_an_upload_that_hangs_does_not_delay_what_the_attester_sees() -> None:
    clock = SimClock()
    agent = Recorded(clock)
    agent.hanging = True
    task, stop = await start(agent, clock, 60.0)
    await clock.advance(70)
    assert agent.calls["consider"] == 1
    assert agent.calls["prefetch"] == 11
    stop.set()
    agent.hang.set()
    await task


async def test_a_data_source_that_hangs_delays_nothing_that_leaves_the_device() -> None:
    """It hangs where decisions are made; the log is asked, tokens are, and reports are sent as ever."""
    clock = SimClock()
    usual, slow = Recorded(clock), Recorded(clock)
    slow.hanging = True
    for agent in (usual, slow):
        agent.due |= {"poll": 10.0, "send_due": 5.0}
    made = [await start(agent, clock, 60.0) for agent in (usual, slow)]
    await clock.advance(70)
    for part in ("poll", "prefetch"):
        assert slow.calls[part] == usual.calls[part] >= 8
    assert slow.calls["consider"] == 1
    assert slow.calls["send_due"] >= 1
    slow.hang.set()
    for task, stop in made:
        stop.set()
        await task


async def test_a_model_that_is_long_in_coming_delays_nothing_and_is_decided_about_when_it_is_here() -> None:
    clock = SimClock()
    agent = Recorded(clock)
    agent.due |= {"poll": 10.0}
    agent.coming = coming = asyncio.get_running_loop().create_future()
    task, stop = await start(agent, clock, 60.0)
    await clock.advance(35)
    before = agent.calls["consider"]
    assert (agent.calls["poll"], before, agent.calls["fetch_models"]) == (4, 4, 1)
    coming.set_result(True)
    await settle()
    assert agent.calls["consider"] == before + 1
    stop.set()
    await task


async def test_a_broken_store_ends_the_run_with_its_error() -> None:
    clock = SimClock()
    agent = Recorded(clock)
    agent.error = Fatal("the store does not answer")
    task, _ = await start(agent, clock, 60.0)
    with pytest.raises(Fatal, match="does not answer"):
        await task


async def test_the_watch_reports_every_change_once() -> None:
    store, told = MemoryAgentStore(), []

    def report(event: str, fields: dict[str, Any]) -> None:
        told.append((event, fields.get("recipe")))

    watch = Watch(store, report)
    await watch.look()
    await store.decide(Entry(b"h" * 32, "visits", State.SCHEDULED, 1.0))
    await watch.look()
    await watch.look()
    await store.update(Entry(b"h" * 32, "visits", State.SENT, 1.0, attempts=1))
    await watch.look()
    assert told == [("scheduled", "visits"), ("sent", "visits")]


def test_the_devices_ledger_composes_the_claims_of_its_window() -> None:
    entries = [
        Entry(b"1", "a", State.SENT, 50.0, charged_epsilon="0.5", charged_delta="0.000001"),
        Entry(b"2", "b", State.NOT_SAMPLED, 150.0, charged_epsilon="0.25", charged_delta="0.000001"),
        Entry(b"3", "c", State.REFUSED, 160.0),
    ]
    first, second = (Cost(Decimal(epsilon), Decimal("0.000001")) for epsilon in ("0.5", "0.25"))
    assert charged_costs(entries, 100.0) == (second,)
    assert charged_costs(entries, 0.0) == (first, second)
    assert charged_costs([], 0.0) == ()
    going_on = Entry(b"4", "d", State.SENT, 50.0, charged_epsilon="0.5", charged_delta="0.000001", charged_until=101.0)
    assert charged_costs([going_on], 100.0) == (first,), "a series that it may still answer to"
    assert charged_costs([going_on], 101.0) == ()
    budget = Budget(days=2)
    assert 0.74 < spent_epsilon(entries, budget, 100.0) <= 0.75
    assert spent_epsilon([], budget, 100.0) == spent_epsilon(entries, budget, 1e9) == 0.0
    assert spent_epsilon(entries, Budget(delta="0.0000015"), 100.0) == math.inf
    assert Budget(days=2).seconds == 172_800
