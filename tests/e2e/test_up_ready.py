"""``tacit up`` is ready when a recipe can be made, which is later than when every service answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.lab.kit.clock import SimClock
from infra.stacks.layout import Layout
from infra.stacks.local import LocalStack
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from infra.stacks.readiness_watch import until_recipes
from tacit.adapters.system import OsEntropy

EPOCH_SECONDS = 3600


@dataclass
class Fresh:
    """A stack whose services answer and have done nothing yet."""

    layout: Layout
    stack: LocalStack
    clock: SimClock


@pytest.fixture
async def fresh(tmp_path: Path) -> AsyncIterator[Fresh]:
    clock = SimClock(time.time() // EPOCH_SECONDS * EPOCH_SECONDS + 600)
    options = StackOptions(epoch_seconds=EPOCH_SECONDS, slots_per_epoch=1, batch_floor=20)
    layout = create_layout(tmp_path, options, OsEntropy(), clock.now())
    stack = LocalStack(layout, clock, OsEntropy())
    async with stack.running():
        yield Fresh(layout, stack, clock)


async def test_a_stack_is_ready_once_the_log_shows_the_next_epochs_token_keys(fresh: Fresh) -> None:
    assert not await until_recipes(fresh.layout, fresh.clock, 0.0), "every service answers, and no key is published"
    await fresh.stack.settle("issuer", "recipe_server")
    assert await until_recipes(fresh.layout, fresh.clock, 0.0)


async def test_keys_that_come_while_they_are_awaited_end_the_wait(fresh: Fresh) -> None:
    waiting = asyncio.create_task(until_recipes(fresh.layout, fresh.clock, 1e6))
    await fresh.stack.settle("issuer", "recipe_server")
    while not waiting.done():
        await fresh.clock.advance(1.0)
    assert await waiting
