"""How long honest uploads to a running stack take while one of its listeners is attacked.

Honest contributions go through relay, gateway and leader at a low rate from one address; attackers use other addresses
and attack the listener of the relay or of the leader. Right before every attack the same load is measured without one.
A ratio is the figure under attack over the figure without, as a median over the repetitions. Attackers and services
share this machine, so the figures include the processor time that sending a flood takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from infra.lab.bench.ingest import BATCH_SIZE, FEW_JOBS, SUBJECT, WARM_UP, warm_up
from infra.lab.bench.loading.attackers import KINDS, MOST_SECONDS, OPENED_PER_SECOND, Attack
from infra.lab.bench.loading.contributions import Contribution, prepare
from infra.lab.bench.loading.implementations import OPENSSL
from infra.lab.bench.loading.live import LiveStack, default_servers, laid_out, path_of, run_on
from infra.lab.bench.loading.load import Load, send_all
from infra.lab.bench.rows import Row, Timing
from infra.lab.bench.targets import ALONE_AT_RATE, UNDER_ATTACK
from infra.stacks.deployment import Deployment
from tacit import media_types

RATE, COUNT = 80.0, 400
"""Honest contributions per second, and how many of them each figure covers."""
HONEST_CONNECTIONS = 16
ATTACKERS = {"silent": 1024, "slow head": 1024, "slow body": 1024, "flood": 256}
FLOOD_RATE = 800.0
"""Requests a second that a flood sends: well above the share of one source, yet few enough that sending them leaves
most of the processors to the services."""
FLOOD_BODY = 4096
LARGEST = {"relay": 262_144, "leader": 1 << 20}
"""Bytes of the largest request that a listener accepts; slow requests announce this size."""
SETTLE_SECONDS = 1.0
LISTENERS = ("relay", "leader")
PERCENTILES = (50, 99)


def overload_rows(
    repetitions: int, servers: frozenset[str] | None = None, *, count: int = COUNT, kinds: Sequence[str] = KINDS
) -> Iterator[Row]:
    """Measure p50 and p99 of honest uploads, alone and under each attack on each listener, and the ratio of the two."""
    beside = default_servers() if servers is None else servers
    path = path_of(OPENSSL, beside, together=False)
    with laid_out(beside, Deployment(), limits=FEW_JOBS) as site:
        runs = run_on(site, lambda stack: _measure(stack, repetitions, count, kinds))
    for share in PERCENTILES:
        alone = Timing.of([before.percentile(share) for pairs in runs.values() for before, _ in pairs])
        yield SUBJECT.row(ALONE_AT_RATE, f"p{share}", path, alone, offered_rate=RATE)
        for name, pairs in runs.items():
            timing = Timing.of([attacked.percentile(share) for _, attacked in pairs])
            ratio = statistics.median(
                attacked.percentile(share) / before.percentile(share) for before, attacked in pairs
            )
            yield SUBJECT.row(UNDER_ATTACK, f"p{share}, {name}", path, timing, ratio=ratio, offered_rate=RATE)


async def _measure(
    stack: LiveStack, repetitions: int, count: int, kinds: Sequence[str]
) -> dict[str, list[tuple[Load, Load]]]:
    """Return, for each attack and repetition, the load without it and the load under it."""
    order = await stack.publish(BATCH_SIZE, "at_B")
    attacks = {
        f"{kind} at the {name}": _attack(stack, order.recipe, kind, name) for name in LISTENERS for kind in kinds
    }
    total = WARM_UP + 2 * count * repetitions * len(attacks)
    made = iter(await asyncio.to_thread(prepare, order, total, time.time()))
    await warm_up(stack, made)
    found: dict[str, list[tuple[Load, Load]]] = {}
    for _ in range(repetitions):
        for name, attack in attacks.items():
            before = await _honest(stack, made, count)
            async with _under(attack):
                found.setdefault(name, []).append((before, await _honest(stack, made, count)))
    await stack.require_stored(order.recipe, total)
    return found


def _attack(stack: LiveStack, recipe: Any, kind: str, name: str) -> Attack:
    leader = f"/tasks/{stack.task_text(recipe)}/reports"
    path, media_type = ("/", media_types.OHTTP_REQ) if name == "relay" else (leader, media_types.dap("upload-req"))
    body = FLOOD_BODY if kind == "flood" else LARGEST[name]
    url = stack.layout.urls[name] + path
    return Attack(kind, url, media_type, ATTACKERS[kind], MOST_SECONDS, rate=FLOOD_RATE, body=body)


async def _honest(stack: LiveStack, made: Iterator[Contribution], count: int) -> Load:
    messages = [next(made).message for _ in range(count)]
    return await send_all(stack.layout.urls["relay"], messages, RATE, HONEST_CONNECTIONS)


@contextlib.asynccontextmanager
async def _under(attack: Attack) -> AsyncIterator[None]:
    """Run the attack while the block runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "infra.lab.bench.loading.attackers", attack.encode()
    )
    try:
        await asyncio.sleep(SETTLE_SECONDS + attack.connections / OPENED_PER_SECOND)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
