"""Everything that can be killed is killed while reports arrive: each of them counts once, and the result is their sum.

A stack with PostgreSQL, Redis, Mosquitto, two leader workers beside the leader, and two helper processes. Batches close
at exactly B reports and B is how many are sent, so that one lost report means no release, and one that counts twice
another sum.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import os
import re
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from client_agent.journal import State
from client_agent.oblivious import ObliviousClient
from client_agent.upload import offer
from infra.backing.mosquitto import MosquittoServer
from infra.backing.postgres import PostgresServer
from infra.backing.redis import RedisServer
from infra.base.remembered_servers import amend_config
from infra.lab.bench.loading.contributions import Order, make_reports, private_key
from infra.lab.bench.loading.live import BUCKETS, LiveStack
from infra.stacks.layout import Layout, load_layout
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from infra.stacks.processes import read_pids
from infra.stacks.status import stack_status
from infra.tools.staging import orders
from infra.tools.staging.orders import Act
from tacit import ohttp
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.codec import unb64url
from tacit.messages import UploadRequest
from tacit.models.secure_aggregation.device import SecureAggregationDevice
from tacit.operations.status import DeploymentStatus
from tacit.ports import TransportError
from tacit.recipe.derive import task_of
from tacit.service.base.secret_files import write_secret
from tacit.tokens.issuer_key import IssuerKey
from tests.conftest import PUBLISHER, PUBLISHER_PASSWORD, REDIS_USER
from tests.e2e.doomed_worker import STAGES
from tests.kit.processes import ReadyProcess

pytestmark = pytest.mark.slow

REPORTS = 120
SLOTS = 14
MODEL = SecureAggregationDevice()
PATIENCE = 90.0
PAUSE = 0.05
SENDERS = 6
LIMITS = {"job_size": 16, "min_job_size": 4, "max_job_delay": 0.2, "lease_seconds": 2.0, "retry_delay": 0.2}
FURTHER = ("leader worker-1", "leader worker-2")
DOOMED = Path(__file__).with_name("doomed_worker.py")
_slots = itertools.count()


@dataclass
class World:
    """A running stack, which starts its services again when they die, and its servers."""

    layout: Layout
    document: dict[str, Any]
    postgres: PostgresServer
    redis: RedisServer
    broker: MosquittoServer
    folder: Path

    def pid(self, title: str) -> int:
        """The process that now has this title."""
        return read_pids(self.layout.state_dir)[title]

    def signal(self, title: str, number: signal.Signals) -> None:
        """Send a signal to one process."""
        os.kill(self.pid(title), number)

    async def kill_and_return(self, title: str) -> None:
        """End the process with this title at once, and wait until another one has taken its place."""
        before = self.pid(title)
        os.kill(before, signal.SIGKILL)

        async def another() -> bool:
            return read_pids(self.layout.state_dir).get(title, before) != before

        await until(f"{title} runs again", another)

    async def order(self, act: Act, *titles: str) -> None:
        """Have the stack stop, start or restart services, as a person would."""
        await orders.give_order(self.layout.state_dir, orders.Order(act, titles), lambda: True, SystemClock())

    async def leave_work_to_one(self) -> Path:
        """End every worker; the leader takes uploads only. The configuration of the one worker that is to come."""
        config = self.layout.configs["leader"]
        if json.loads(config.read_text()).get("roles") != ["upload"]:
            amend_config(config, roles=["upload"])
            await self.order(Act.RESTART, "leader")  # the organisation: the workers start again too
        await self.order(Act.STOP, *FURTHER)
        return Path(self.document[FURTHER[0]]["config"])


def laid_out(folder: Path) -> Layout:
    """A new stack whose leader forms small jobs and tries again soon."""
    now = time.time()
    epoch = next(length for length in range(86400, 2 * 86400, 600) if length - now % length > 7200)
    options = StackOptions(
        epoch_seconds=epoch,
        slots_per_epoch=SLOTS,
        poll_seconds=0.5,
        idle_seconds=0.2,
        account_epsilon="1000",
        account_delta="0.001",
    )
    layout = create_layout(folder, options, OsEntropy(), now)
    body = json.loads(layout.configs["leader"].read_text())
    amend_config(layout.configs["leader"], limits={**body["limits"], **LIMITS})
    return layout


@pytest.fixture(scope="module")
def stack(
    postgres: PostgresServer, make_redis: Callable[[], RedisServer], make_mosquitto: Callable[[], MosquittoServer]
) -> Iterator[World]:
    folder = Path(tempfile.mkdtemp(prefix="tacit-faults-"))
    redis, broker = make_redis(), make_mosquitto()
    urls = {
        "postgres": postgres.url,
        "redis": redis.url_of(REDIS_USER),
        "mqtt": f"mqtt://{PUBLISHER}:{PUBLISHER_PASSWORD}@127.0.0.1:{broker.port}",
    }
    with contextlib.ExitStack() as ending:
        ending.callback(shutil.rmtree, folder, ignore_errors=True)
        for name, url in urls.items():
            write_secret(folder / name, url.encode())
        layout = laid_out(folder / "stack")
        command = [sys.executable, "-P", "-m", "infra.cli", "up", "--json", "--agents", "0"]
        command += ["--state-dir", str(layout.state_dir), "--leader-workers", "2", "--helper-workers", "2"]
        command += ["--with", "postgres,redis,mosquitto"]
        command += [part for name in urls for part in (f"--{name}-url-file", str(folder / name))]
        process = ending.enter_context(ReadyProcess(command, folder / "stderr"))
        document = process.ready()
        yield World(load_layout(layout.state_dir), document, postgres, redis, broker, folder)
        process.signal(signal.SIGTERM)
        process.wait()


@pytest.fixture
async def live(stack: World) -> AsyncIterator[LiveStack]:
    async with HttpTransport() as transport:
        found = LiveStack(stack.layout, [], transport, _slot=next(_slots))
        await found.until_keys()
        yield found


Fault = Callable[[World], Awaitable[None]]


async def until(what: str, condition: Callable[[], Awaitable[Any]]) -> Any:
    """What ``condition`` gives, once that is something true."""
    deadline = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(TransportError):
            if found := await condition():
                return found
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        await asyncio.sleep(PAUSE)


class Devices:
    """Reports on their way: each is offered, the same bytes in a fresh encapsulation, until it is stored."""

    def __init__(self, live: LiveStack, order: Order) -> None:
        key = private_key(order.issuer_key)
        task = task_of(order.recipe, IssuerKey.from_private_key(key).token_key.spki)
        answers = [secrets.randbelow(BUCKETS) for _ in range(REPORTS)]
        self.sums = Counter(answers)
        reports = make_reports(task, key, answers, task.report_time(time.time()))
        self._left = [UploadRequest((report,)).encode() for report in reports]
        config = ohttp.KeyConfig.decode(unb64url(order.gateway_key))
        relay = live.layout.urls["relay"]
        self._client = ObliviousClient(live.transport, relay, [config], SystemClock(), OsEntropy())
        self._url = f"{live.layout.urls['leader']}/tasks/{task.task_id_text}/reports"
        self.acknowledged = 0
        self.retried = 0

    async def send_all(self) -> None:
        """Several devices at a time."""
        await asyncio.gather(*(self._send() for _ in range(SENDERS)))

    async def _send(self) -> None:
        while self._left:
            report = self._left.pop()
            deadline = time.monotonic() + PATIENCE
            while (
                answer := await offer(self._client, SecureAggregationDevice(), self._url, report)
            ).state is not State.SENT:
                assert answer.state is State.SCHEDULED, answer.detail
                assert not re.search(r"\b500\b", answer.detail), "what passes by itself is no internal error"
                assert time.monotonic() < deadline, answer.detail
                self.retried += 1
                await asyncio.sleep(PAUSE)
            self.acknowledged += 1


async def statuses(layout: Layout) -> DeploymentStatus:
    """What ``tacit status`` shows."""
    async with HttpTransport(timeout=30) as transport:
        return await stack_status(layout, transport)


async def told(layout: Layout, *words: str) -> None:
    """``tacit status`` names each of ``words`` among the problems."""

    async def shown() -> bool:
        lines = "\n".join((await statuses(layout)).problems)
        return all(word in lines for word in words)

    await until(f"tacit status tells of {', '.join(words)}", shown)


async def redis_is_emptied_and_away(stack: World) -> None:
    stack.redis.crash()
    await told(stack.layout, "redis")
    shutil.rmtree(stack.redis.folder / "data")
    (stack.redis.folder / "data").mkdir(mode=0o700)
    await asyncio.to_thread(stack.redis.start)


async def database_is_restarted(stack: World) -> None:
    await asyncio.to_thread(stack.postgres.crash)
    await told(stack.layout, "postgres")
    await asyncio.to_thread(stack.postgres.start)


async def broker_is_gone(stack: World) -> None:
    stack.broker.crash()
    await told(stack.layout, "mosquitto")


async def workers_are_killed(stack: World) -> None:
    for title in ("leader", *FURTHER):
        await stack.kill_and_return(title)


async def helpers_are_killed(stack: World) -> None:
    for title in ("helper", "helper worker-2"):
        await stack.kill_and_return(title)


async def helper_stands_still(stack: World) -> None:
    for title in ("helper", "helper worker-2"):
        stack.signal(title, signal.SIGSTOP)
    await told(stack.layout, "helper is down")
    for title in ("helper", "helper worker-2"):
        stack.signal(title, signal.SIGCONT)


async def way_in_is_killed(stack: World) -> None:
    """The other ends of everybody's idle connections vanish."""
    for title in ("gateway", "relay"):
        await stack.kill_and_return(title)


@pytest.mark.parametrize(
    ("fault", "stops_uploads"),
    [
        (redis_is_emptied_and_away, True),
        (database_is_restarted, True),
        (workers_are_killed, True),
        (helpers_are_killed, False),
        (helper_stands_still, False),
        (broker_is_gone, False),
        (way_in_is_killed, True),  # and, the broker being gone, a recipe that is found by polling
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_every_report_counts_once_whatever_fails_meanwhile(
    stack: World, live: LiveStack, fault: Fault, stops_uploads: bool
) -> None:
    devices = await carried_through(live, functools.partial(fault, stack))
    assert devices.retried or not stops_uploads


@pytest.mark.parametrize("stage", STAGES)
async def test_every_report_counts_once_when_a_worker_is_killed_with_a_job_in_any_stage(
    stack: World, live: LiveStack, stage: str
) -> None:
    config = await stack.leave_work_to_one()
    command = [sys.executable, str(DOOMED), stage, str(config)]
    with ReadyProcess(command, stack.folder / f"doomed-{stage}.log") as process:
        await asyncio.to_thread(process.ready)

        async def it_dies_and_others_come() -> None:
            assert await asyncio.to_thread(process.wait) == -signal.SIGKILL
            await stack.order(Act.START, *FURTHER)

        await carried_through(live, it_dies_and_others_come)


async def carried_through(live: LiveStack, fault: Callable[[], Awaitable[None]]) -> Devices:
    """Send everything, with ``fault`` after a third of it; the batch is released and is what was sent."""
    order = await live.publish(REPORTS, "at_B")
    devices = Devices(live, order)
    await live.ask_for_batch(order.recipe)
    sending = asyncio.ensure_future(devices.send_all())

    async def a_third() -> bool:
        return sending.done() or devices.acknowledged >= REPORTS // 3

    try:
        await until("a third of the reports is stored", a_third)
        await fault()
        await sending
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    document = await until("the result is released", lambda: result_of(live, order))
    assert document["report_count"] == REPORTS
    assert [row["count"] for row in document["buckets"]] == [devices.sums[cell] for cell in range(BUCKETS)]
    for party in ("leader", "helper"):
        counts = await live.counts(order.recipe, party)
        assert (counts["aggregated"], counts["distinct_nullifiers"], counts["rejected"]) == (REPORTS, REPORTS, 0)
    counts = await live.counts(order.recipe)
    assert (counts["pending"], counts["failing_jobs"]) == (0, [])
    return devices


async def result_of(live: LiveStack, order: Order) -> dict[str, Any]:
    """The one result of the recipe, or nothing yet."""
    url = f"{live.layout.urls['collector']}/v1/results/{order.recipe.hash_text}"
    bearer = {"Authorization": f"Bearer {live.layout.operator_token('collector')}"}
    answer = await live.transport.request("GET", url, headers=bearer)
    found: list[dict[str, Any]] = json.loads(answer.body).get("results", []) if answer.status == 200 else []
    assert len(found) <= 1
    return found[0] if found else {}
