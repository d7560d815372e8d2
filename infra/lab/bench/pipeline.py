"""The cost of a contribution on the whole server side, from the relay to the committed aggregate, and the time that the
release then takes.

Real processes: relay, gateway, leader, helper, collector, database and brokers. ``whole server side`` counts the CPU
time of all of them from the first upload until the last report is aggregated.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from infra.lab.bench.ingest import BATCH_SIZE, SUBJECT, WARM_UP, cost_rows, latency_rows, spent, warm_up
from infra.lab.bench.loading.contributions import Order, prepare
from infra.lab.bench.loading.implementations import MULTIBUFFER, OPENSSL, has_multibuffer
from infra.lab.bench.loading.live import LiveStack, default_servers, laid_out, path_of, run_on
from infra.lab.bench.loading.load import Load, send_all
from infra.lab.bench.rows import Row, Timing
from infra.stacks.deployment import Deployment
from tacit.errors import Fatal
from tacit.media_types import dap
from tacit.messages import Report
from tacit.service.http.token_files import first_token

RATES = {0.0: 4000, 1000.0: 2000}
AT_B = 1000
PATIENCE = 120.0
QUEUED = (10_000, 100_000)
PER_UPLOAD = 128
SETTLE_SECONDS = 2.0


@dataclass
class Findings:
    """What the runs of one stack measured, by rate (contributions a second); ``at_b``: seconds from the B-th
    contribution to the result."""

    costs: dict[float, list[dict[str, float]]] = field(default_factory=dict)
    loads: dict[float, list[Load]] = field(default_factory=dict)
    seconds: dict[float, list[float]] = field(default_factory=dict)
    at_b: list[float] = field(default_factory=list)


def pipeline_rows(
    repetitions: int,
    servers: frozenset[str] | None = None,
    queued: Sequence[int] = QUEUED,
    rates: dict[float, int] | None = None,
    at_b: int = AT_B,
) -> Iterator[Row]:
    """Measure costs at each rate, the sustained rate, and the time from the B-th contribution to the result: with a
    process for each service, the same with messages in frames, with gateway and uploads in one process, and the latter
    with batch cryptography. Then measure the memory under a queue."""
    beside = default_servers() if servers is None else servers
    plan = RATES if rates is None else rates
    deployments = [Deployment(), Deployment(frames=True), Deployment(together=True)]
    if has_multibuffer():
        deployments.append(Deployment(together=True, batch_crypto=True))
    for deployment in deployments:
        with laid_out(beside, deployment) as site:
            found = run_on(site, lambda stack: _measure(stack, plan, repetitions, at_b))
        crypto = MULTIBUFFER if deployment.batch_crypto else OPENSSL
        yield from _rows(path_of(crypto, beside, together=deployment.together, frames=deployment.frames), plan, found)
    yield from memory_rows(queued, beside)


def _rows(path: str, plan: dict[float, int], found: Findings) -> Iterator[Row]:
    for rate, costs in found.costs.items():
        yield from cost_rows("whole server side", path, rate, costs)
        yield from latency_rows("upload latency, busy", path, rate, found.loads[rate])
    for rate, seconds in found.seconds.items():
        if not rate:
            wall = Timing.of([one / plan[rate] for one in seconds])
            yield SUBJECT.row("sustained, wall time", "all servers", path, wall, offered_rate=rate)
    yield SUBJECT.row("release latency at B", "collector", path, Timing.of(found.at_b))


async def _measure(stack: LiveStack, plan: dict[float, int], repetitions: int, at_b: int) -> Findings:
    found = Findings()
    order = await stack.publish(BATCH_SIZE)
    total = WARM_UP + sum(plan.values()) * repetitions
    made = iter(await asyncio.to_thread(prepare, order, total, time.time()))
    sent = await warm_up(stack, made)
    await stack.until_aggregated(order.recipe, sent, PATIENCE)
    for rate, count in plan.items():
        for _ in range(repetitions):
            messages = [next(made).message for _ in range(count)]
            before, start = stack.cpu(), time.perf_counter()
            load = await send_all(stack.layout.urls["relay"], messages, rate)
            sent += count
            await stack.until_aggregated(order.recipe, sent, PATIENCE)
            found.seconds.setdefault(rate, []).append(time.perf_counter() - start)
            found.costs.setdefault(rate, []).append(spent(before, stack.cpu(), count))
            found.loads.setdefault(rate, []).append(load)
    found.at_b = [await _release_seconds(stack, at_b) for _ in range(min(repetitions, 2))]
    return found


async def _release_seconds(stack: LiveStack, batch_size: int) -> float:
    """Return the seconds from the acknowledgement of the B-th contribution to the result at the collector, which was
    told to collect it beforehand."""
    order = await stack.publish(batch_size, "at_B")
    made = await asyncio.to_thread(prepare, order, batch_size, time.time())
    await stack.ask_for_batch(order.recipe)
    await send_all(stack.layout.urls["relay"], [one.message for one in made])
    filled = time.perf_counter()
    await stack.until_released(order.recipe, PATIENCE)
    return time.perf_counter() - filled


def memory_rows(queued: Sequence[int], servers: frozenset[str]) -> Iterator[Row]:
    """Measure the bytes that only leader or only helper uses while ``queued`` reports wait: the largest of three
    readings, one with a full queue and a Helper that does not answer, two shortly after it answers again. ``ratio`` is
    relative to the shortest queue.
    """
    first: dict[str, float] = {}
    for count in sorted(queued):
        with laid_out(servers, Deployment()) as site:
            found = run_on(site, partial(_queue, count=count))
        for party, size in found.items():
            least = first.setdefault(party, size)
            timing = Timing(size, 0.0, 1)
            row = SUBJECT.row(f"memory, {count:,} queued", party, path_of(OPENSSL, servers, together=False), timing)
            yield replace(row, ratio=size / least)


async def _queue(stack: LiveStack, count: int) -> dict[str, float]:
    order = await stack.publish(BATCH_SIZE)
    real = await asyncio.to_thread(prepare_plain, order, min(count, 4 * PER_UPLOAD))
    found: dict[str, list[float]] = {party: [] for party in ("leader", "helper")}

    def weigh() -> None:
        for party, sizes in found.items():
            sizes.append(stack.memory(party))

    stack.signal("helper", signal.SIGSTOP)
    try:
        await _fill(stack, order, real, count)
        await stack.require_stored(order.recipe, count)
        weigh()
    finally:
        stack.signal("helper", signal.SIGCONT)
    for _ in range(2):
        await asyncio.sleep(SETTLE_SECONDS / 2)
        weigh()
    return {party: max(sizes) for party, sizes in found.items()}


def prepare_plain(order: Order, count: int) -> list[bytes]:
    """Make the bodies of ``count`` uploads that bypass the gateway."""
    return [one.upload for one in prepare(order, count, time.time(), enclosed=False)]


async def _fill(stack: LiveStack, order: Order, real: Sequence[bytes], count: int) -> None:
    """Upload ``count`` reports: first the real ones, then others of the same form that cannot be opened. No job reaches
    the latter during the measurement."""
    url = f"{stack.layout.urls['leader']}/tasks/{stack.task_text(order.recipe)}/reports"
    model = Report.decode(real[0])
    token = first_token(stack.layout.credentials["gateway_uploads"])
    headers = {"Content-Type": dap("upload-req"), "Authorization": f"Bearer {token}"}
    for start in range(0, count, PER_UPLOAD):
        size = min(PER_UPLOAD, count - start)
        some = list(real[start : start + size])
        some += [_filler(model) for _ in range(size - len(some))]
        answer = await stack.transport.request("POST", url, headers=headers, body=b"".join(some))
        if answer.status != 200 or answer.body:
            raise Fatal(f"the leader answered {answer.status} to reports of the measurement")


def _filler(model: Report) -> bytes:
    leader = model.leader_encrypted_input_share
    sealed = replace(leader, payload=os.urandom(len(leader.payload)))
    metadata = replace(model.report_metadata, report_id=os.urandom(16))
    return replace(model, report_metadata=metadata, leader_encrypted_input_share=sealed).encode()
