"""How long honest uploads take beside attackers: a running stack, one listener attacked after the other.

Honest contributions go through relay, gateway and leader at a low rate from one address; attackers come from others, to
the relay's listener or to the leader's. Every repetition measures without an attack first, and each figure is a ratio
to that. The machine that attacks is the machine that serves: what its floods cost in processor time is in the figures.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from infra.bench.attackers import KINDS, MOST_SECONDS, OPENED_PER_SECOND, Attack
from infra.bench.contributions import Contribution, prepare
from infra.bench.implementations import OPENSSL
from infra.bench.ingest import BATCH_SIZE, FEW_JOBS, SUBJECT, warm_up
from infra.bench.live import LiveStack, default_servers, laid_out, path_of, run_on
from infra.bench.load import Load, send_all
from infra.bench.rows import Row, Timing
from infra.bench.targets import ALONE_AT_RATE, UNDER_ATTACK
from infra.deployment import Deployment
from tacit import media_types

RATE, COUNT = 80.0, 400
"""Honest contributions a second, and how many of them each figure is of."""
HONEST_CONNECTIONS = 16
ATTACKERS = {"silent": 1024, "slow head": 1024, "slow body": 1024, "flood": 256}
FLOOD_RATE = 800.0
"""Requests a second that a flood offers: well above the share of one source while the machine that sends them still
leaves the services most of its processors."""
FLOOD_BODY = 4096
LARGEST = {"relay": 262_144, "leader": 1 << 20}
"""Bytes of the largest request of a listener, which the slow ones promise."""
SETTLE_SECONDS = 1.0
LISTENERS = ("relay", "leader")
PERCENTILES = (50, 99)


def overload_rows(
    repetitions: int, servers: frozenset[str] | None = None, *, count: int = COUNT, kinds: Sequence[str] = KINDS
) -> Iterator[Row]:
    """p50 and p99 of honest uploads, alone and under each attack on each listener, with the ratio to those alone."""
    beside = default_servers() if servers is None else servers
    path = path_of(OPENSSL, beside, together=False)
    with laid_out(beside, Deployment(), limits=FEW_JOBS) as site:
        runs = run_on(site, lambda stack: _measure(stack, repetitions, count, kinds))
    for share in PERCENTILES:
        alone = Timing.of([run["alone"].percentile(share) for run in runs])
        yield SUBJECT.row(ALONE_AT_RATE, f"p{share}", path, alone, offered_rate=RATE)
        for name in runs[0]:
            if name != "alone":
                timing = Timing.of([run[name].percentile(share) for run in runs])
                more = {"floor_us": alone.micro, "offered_rate": RATE}
                yield SUBJECT.row(UNDER_ATTACK, f"p{share}, {name}", path, timing, **more)


async def _measure(stack: LiveStack, repetitions: int, count: int, kinds: Sequence[str]) -> list[dict[str, Load]]:
    order = await stack.publish(BATCH_SIZE, "at_B")
    attacks = {
        f"{kind} at the {name}": _attack(stack, order.recipe, kind, name) for name in LISTENERS for kind in kinds
    }
    total = 200 + count * repetitions * (1 + len(attacks))
    made = iter(await asyncio.to_thread(prepare, order, total, time.time()))
    sent = await warm_up(stack, made)
    found: list[dict[str, Load]] = []
    for _ in range(repetitions):
        run = {"alone": await _honest(stack, made, count)}
        for name, attack in attacks.items():
            async with _under(attack):
                run[name] = await _honest(stack, made, count)
        sent += count * len(run)
        found.append(run)
    await stack.require_stored(order.recipe, sent)
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
    """The attack is under way while the block runs."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "infra.bench.attackers", attack.encode())
    try:
        await asyncio.sleep(SETTLE_SECONDS + attack.connections / OPENED_PER_SECOND)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
