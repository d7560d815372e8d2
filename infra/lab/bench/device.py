"""What one contribution costs the device that makes it: reading the log, its token, the decision, and sending.

Each device is an agent of the product with a folder, a journal and connections of its own, and asks the real processes
of one running stack over HTTP. They run in this process, one after the other, so a figure is the CPU time of this
process and of nobody else. They have read the log once, before the recipe was in it. Every second one stands for a
device without neighbours: what the process remembers of bytes that it has verified or decoded is forgotten before it,
so that it does all of that again, as after a restart. The others find what the one before them left, as in a host.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from client_agent.common import Common
from client_agent.config import AgentConfig
from client_agent.journal import AgentStore, State
from client_agent.runner import open_agent
from infra.lab.bench.loading.live import LiveStack, laid_out, run_on
from infra.lab.bench.rows import Row, Subject, Timing
from infra.lab.bench.targets import CONTRIBUTION
from infra.stacks.agents import provision_agents
from infra.stacks.deployment import Deployment
from tacit import signing
from tacit.adapters.system import OsEntropy
from tacit.errors import Fatal
from tacit.logview import log_source, signers, view
from tacit.recipe import derive, encoder
from tacit.recipe.model import Recipe
from tacit.service.base.config_files import load_config
from tacit.tlog import leaves, pages
from tacit.tokens import blind_rsa

DEVICES = 40
WARM = 6
"""Devices that come first and are not measured: with them this process loads and compiles what it needs."""
BATCH_SIZE = 1_000
PARTS = ("read the log", "token", "decide", "send")
REMEMBERED = (
    leaves._decode,
    leaves._body_of,
    signers.recipe_in,
    signers.series_in,
    pages.decode_page,
    view._verify_inclusion,
    log_source._proof_in,
    encoder._buckets,
    encoder._categories,
    derive.hpke_config,
    blind_rsa._decoded_key,
)
"""What a process remembers of leaves, recipes and keys that it has verified or decoded, beside signatures."""
SUBJECT, ROLE, WHOLE, HOSTED = Subject(""), "device", "whole", "whole, in a host"


def device_rows(devices: int = DEVICES) -> Iterator[Row]:
    """Measure one contribution of each of ``devices`` alone, with its parts, and of as many in a host: medians."""
    with laid_out(frozenset(), Deployment()) as site:
        paths = provision_agents(site.layout, WARM + 2 * devices, OsEntropy(), time.time())
        found = run_on(site, lambda stack: _measure(stack, paths))[WARM:]
    alone, hosted = found[::2], found[1::2]
    for whole, kind in ((WHOLE, alone), (HOSTED, hosted)):
        yield SUBJECT.row(CONTRIBUTION, ROLE, whole, Timing.of([sum(parts) for parts in kind]))
    for number, part in enumerate(PARTS):
        yield SUBJECT.row(CONTRIBUTION, ROLE, part, Timing.of([parts[number] for parts in alone]))


async def _measure(stack: LiveStack, paths: Sequence[Path]) -> list[list[float]]:
    await asyncio.to_thread(lambda: asyncio.run(_enrolled(paths)))
    recipe = (await stack.publish(BATCH_SIZE, rate=Decimal(1))).recipe
    found = await asyncio.to_thread(lambda: asyncio.run(_contributions(paths, recipe)))
    await stack.require_stored(recipe, len(paths))
    return found


async def _enrolled(paths: Sequence[Path]) -> None:
    for path in paths:
        async with open_agent(load_config(path, AgentConfig)) as (agent, _):
            await agent.poll()


async def _contributions(paths: Sequence[Path], recipe: Recipe) -> list[list[float]]:
    async with Common() as common:
        kinds = itertools.cycle((None, common))
        return [await _contribution(path, recipe, kind) for path, kind in zip(paths, kinds, strict=False)]


async def _contribution(path: Path, recipe: Recipe, common: Common | None) -> list[float]:
    """One device, from its first look at the log to a stored report; returns CPU seconds for each of ``PARTS``. Its
    planned times are brought forward, so that nothing waits. ``common``: that of its host; None: it is alone. Raises
    ``Fatal`` if it sent nothing."""
    if common is None:
        signing._verified.clear()
        for kept in REMEMBERED:
            kept.cache_clear()
    seconds = list[float]()
    async with open_agent(load_config(path, AgentConfig), common=common) as (agent, store):
        await store.entries()
        for work in (agent.poll, agent.prefetch, agent.consider, agent.send_due):
            await _brought_forward(store, recipe)
            begin = time.process_time()
            await work()
            seconds.append(time.process_time() - begin)
        states = [entry.state for entry in await store.entries()]
    if states != [State.SENT]:
        raise Fatal(f"a device of the measurement did not contribute: {', '.join(states)}")
    return seconds


async def _brought_forward(store: AgentStore, recipe: Recipe) -> None:
    """Let the token of the recipe's slot, and a report, be due now."""
    for row in await store.prefetches():
        if row.slot.slot == recipe.token.slot and row.slot.epoch == recipe.token.epoch and not row.settled:
            await store.put_prefetch(replace(row, due_at=0.0))
    for entry in await store.entries():
        if entry.state is State.SCHEDULED:
            await store.update(replace(entry, send_at=time.time()))
