"""Creates, starts, queries over HTTP and removes a local stack of real processes for measurements."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Literal, TypeVar

import uvloop

from infra.backing.backends import backends, parse_backends
from infra.base.remembered_servers import amend_config
from infra.lab.bench.loading.contributions import Order, slot_keys
from infra.lab.bench.loading.processes import cpu_by_party, memory_by_party, memory_of_tree
from infra.lab.bench.loading.storage import POSTGRES, SQLITE, has_postgres
from infra.lab.kit.scratch import scratch_folder
from infra.stacks.api import verified_log
from infra.stacks.command_options import policy_of
from infra.stacks.deployment import INGEST, Deployment, Parts, deploy
from infra.stacks.layout import Layout, signing_key_of
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from infra.stacks.processes import ServiceProcess, running
from tacit.adapters.system import OsEntropy
from tacit.codec import b64url
from tacit.errors import Fatal
from tacit.operations.calls import MOST_A_PAGE, call, list_pages
from tacit.ports import Transport
from tacit.recipe.derive import task_id
from tacit.recipe.encoder_specs import Buckets
from tacit.recipe.model import Recipe
from tacit.recipe.writing.builder import propose
from tacit.recipe.writing.survey import Survey
from tacit.tlog.leaves import LeafType, sign_leaf

SLOTS = 4
ACCOUNT = ("1000", "0.001")
"""Epsilon and delta of the stack's account: large, as measurements publish many recipes and use no real data."""
JOB_SIZE = 1000
BUCKETS = 128
USUAL_RATE = Decimal("0.5")
POPULATION = 5_000_000
INTERVAL_SECONDS = 1800
READY_SECONDS, READY_FOR_EACH = 60.0, 1.0
PAUSE = 0.02
COUNT_PAUSE = 0.1
"""Seconds between two readings of the Leader's counts; each reading takes time of the measured processes."""
PARTIES = {INGEST: "gateway + uploads"}
"""What rows call the processes that run several services."""
Result = TypeVar("Result")


def default_servers() -> frozenset[str]:
    """PostgreSQL if it is installed; otherwise none, which means SQLite."""
    return frozenset({POSTGRES} if has_postgres() else ())


def path_of(crypto: str, servers: frozenset[str], *, together: bool = False, frames: bool = False) -> str:
    """The ``path`` of rows: cryptography, database and brokers, and whether gateway and uploads share one process
    (``tacit up --together``) or else the relay's messages come in frames (``--frames``)."""
    database = POSTGRES if POSTGRES in servers else SQLITE
    used = "+".join([database, *sorted(servers - {POSTGRES})])
    spread = "one process each, frames" if frames else "one process each"
    return f"{crypto}, {used}, {'together' if together else spread}"


@dataclass(frozen=True)
class Site:
    """A stack on disk, and the processes that will run for it."""

    layout: Layout
    parts: Parts


@contextlib.contextmanager
def laid_out(
    servers: frozenset[str],
    deployment: Deployment,
    *,
    limits: Mapping[str, Any] | None = None,
    interval: int = INTERVAL_SECONDS,
    account: tuple[str, str] = ACCOUNT,
    amend: Callable[[Layout], None] = lambda _layout: None,
) -> Iterator[Site]:
    """Yield a new stack on disk, with its ``servers`` (as ``tacit up --with`` names them) running; ``limits`` change
    the Leader's limits, ``amend`` all else, and the epoch lasts for two more intervals of ``interval`` seconds.
    Everything is removed afterwards. Raises ``UsageError``."""
    now, left = time.time(), 2 * interval
    epoch = next(length for length in itertools.count(86400 + left // 600 * 600, 600) if length - now % length > left)
    epsilon, delta = account
    options = StackOptions(
        epoch_seconds=epoch,
        slots_per_epoch=SLOTS,
        job_size=JOB_SIZE,
        account_epsilon=epsilon,
        account_delta=delta,
    )
    with scratch_folder("tacit-bench-", 0o711) as folder:
        layout = create_layout(folder / "stack", options, OsEntropy(), now)
        leader = layout.configs["leader"]
        amend_config(leader, limits={**json.loads(leader.read_text("utf-8"))["limits"], **(limits or {})})
        amend(layout)
        with backends(layout, parse_backends(sorted(servers), {}), OsEntropy()):
            yield Site(layout, deploy(layout, deployment))


def run_on(site: Site, work: Callable[[LiveStack], Coroutine[Any, Any, Result]]) -> Result:
    """Start the services of ``site``, do ``work``, stop them."""

    async def whole() -> Result:
        async with started(site) as stack:
            return await work(stack)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(whole())


@contextlib.asynccontextmanager
async def started(site: Site) -> AsyncIterator[LiveStack]:
    """Start the stack of ``site``; yields it once all services are ready and its issuer's keys are in the log."""
    async with running(site.layout, site.parts) as services, site.layout.transport() as transport:
        stack = LiveStack(site.layout, services, transport)
        await stack.until_keys()
        yield stack


def survey_of(name: str, seconds: int, **members: Any) -> Survey:
    """A survey of ``BUCKETS`` buckets whose interval of ``seconds`` has begun; ``members`` are its other ones."""
    return Survey(
        name=name,
        text="What does it cost?",
        metric="cost",
        encoder=Buckets(kind="buckets", edges=tuple(range(BUCKETS))),
        missing="ignore",
        start=int(time.time()) // 60 * 60,
        duration=seconds,
        **members,
    )


@dataclass
class LiveStack:
    """A running stack, which can be measured, signalled and queried over HTTP."""

    layout: Layout
    services: list[ServiceProcess]
    transport: Transport
    _slot: int = 0

    def pids(self, name: str) -> list[int]:
        """Return the ids of the processes that serve ``name``."""
        return [one.pid for one in self.services if any(part.name == name for part in one.part.services)]

    def cpu(self) -> dict[str, float]:
        """Return the CPU seconds that every service, the database and the brokers have used so far."""
        return cpu_by_party((PARTIES.get(service.name, service.name), service.pid) for service in self.services)

    def memory(self, name: str) -> float:
        """Return the bytes of memory that only the processes of this service use."""
        return float(sum(map(memory_of_tree, self.pids(name))))

    def memories(self, parties: Collection[str]) -> dict[str, int]:
        """Return the bytes that only one process uses, for each service or server among ``parties``, by their names in
        rows."""
        named = ((PARTIES.get(service.name, service.name), service.pid) for service in self.services)
        return {name: size for name, size in memory_by_party(named).items() if name in parties}

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to every process of a service."""
        for pid in self.pids(name):
            os.kill(pid, number)

    @contextlib.contextmanager
    def paused(self, name: str) -> Iterator[None]:
        """Stop the processes that serve only ``name`` while the block runs."""
        pids = [one.pid for one in self.services if one.name == name]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    async def publish(
        self, batch_size: int, close: Literal["interval_end", "at_B"] = "interval_end", rate: Decimal = USUAL_RATE
    ) -> Order:
        """Publish a recipe of ``BUCKETS`` buckets whose interval has begun, wait until both aggregators take part, and
        return what contributions to it are made from."""
        epoch = self.epoch()
        survey = survey_of(
            f"bench-{self._slot}",
            INTERVAL_SECONDS,
            population=POPULATION,
            min_batch_size=batch_size,
            epoch=epoch,
            slot=self._slot,
            close=close,
            rate=rate,
        )
        recipe = propose(survey, self.layout.parties)
        leaf = sign_leaf(LeafType.RECIPE, recipe.body(), recipe.parties.analyst.operator, signing_key_of(self.layout))
        await call(self.transport, "POST", f"{self.layout.urls['recipe_server']}/v1/leaves", body=leaf.encode())
        key = (await asyncio.to_thread(slot_keys, self.layout))[epoch, self._slot]
        self._slot += 1
        await self.until_served([recipe])
        return Order(recipe, key, self.layout.gateway_key_config)

    async def until_served(self, recipes: Sequence[Recipe]) -> None:
        """Wait until both aggregators and the collector take part in all of ``recipes``."""
        seconds = READY_SECONDS + READY_FOR_EACH * len(recipes)
        for party in ("leader", "helper", "collector"):
            await self._until(partial(self._serves, party, recipes), f"the {party} takes part", seconds)

    def task_text(self, recipe: Recipe) -> str:
        """Return the recipe's task id as it appears in URLs."""
        return b64url(task_id(recipe))

    async def counts(self, recipe: Recipe, party: str = "leader") -> dict[str, Any]:
        """Return an aggregator's counts of the recipe's task."""
        url = f"{self.layout.urls[party]}/v1/tasks/{self.task_text(recipe)}/status"
        return dict(await call(self.transport, "GET", url, bearer=self.layout.operator_token(party)))

    async def until_aggregated(self, recipe: Recipe, count: int, seconds: float) -> None:
        """Wait until the Leader has counted ``count`` reports. Raises ``Fatal`` if one was lost or rejected."""

        async def done() -> bool:
            await asyncio.sleep(COUNT_PAUSE)
            found = await self.counts(recipe)
            if found["rejected"]:
                raise Fatal(f"valid contributions were rejected: {found['rejected_by_cause']}")
            return bool(found["aggregated"] >= count)

        await self._until(done, f"{count} contributions are counted", seconds)

    async def require_stored(self, recipe: Recipe, count: int) -> None:
        """Raise ``Fatal`` unless the Leader holds exactly ``count`` reports."""
        found = int((await self.counts(recipe))["uploaded"])
        if found != count:
            raise Fatal(f"the leader stored {found} of {count} contributions that the relay acknowledged")

    async def ask_for_batch(self, recipe: Recipe) -> None:
        """Tell the collector to collect the recipe's batch."""
        body = json.dumps({"recipe_hash": recipe.hash_text}).encode()
        url, bearer = f"{self.layout.urls['collector']}/v1/collections", self.layout.operator_token("collector")
        await call(self.transport, "POST", url, body=body, bearer=bearer)

    async def until_released(self, recipe: Recipe, seconds: float, batches: int = 1) -> None:
        """Wait until the collector shows the results of so many batches of the recipe."""

        async def done() -> bool:
            return len(await self.released(recipe)) >= batches

        await self._until(done, "the result is released", seconds)

    async def released(self, recipe: Recipe) -> list[dict[str, Any]]:
        """Return the documents of the recipe's releases so far."""
        url, bearer = f"{self.layout.urls['collector']}/v1/results", self.layout.operator_token("collector")
        answer = await self.transport.request(
            "GET", f"{url}/{recipe.hash_text}?limit={MOST_A_PAGE}", headers={"Authorization": f"Bearer {bearer}"}
        )
        return [] if answer.status == 404 else list(json.loads(answer.body)["results"])

    async def until_keys(self) -> None:
        """Wait until the log shows this epoch's token keys."""
        policy, issuer = policy_of(self.layout.policy_path), self.layout.parties.issuer.name

        async def done() -> bool:
            live = await verified_log(self.transport, self.layout, policy)
            return live.directory(issuer, self.epoch()) is not None

        await self._until(done, "the log shows the issuer's keys")

    def epoch(self) -> int:
        """The token epoch of the stack's issuer by this machine's clock."""
        return int(time.time() // self.layout.options.epoch_seconds)

    async def _serves(self, party: str, recipes: Sequence[Recipe]) -> bool:
        url = f"{self.layout.urls[party]}/v1/recipes"
        rows = await list_pages(self.transport, url, "recipes", bearer=self.layout.operator_token(party))
        known = {one["recipe_hash"]: one["state"] for one in rows}
        states = {known.get(recipe.hash_text) for recipe in recipes}
        if "refused" in states and party != "collector":
            raise Fatal(f"the {party} refuses a recipe of the measurement")
        return states == {"active"}

    async def _until(
        self, done: Callable[[], Coroutine[Any, Any, bool]], what: str, seconds: float = READY_SECONDS
    ) -> None:
        until = time.monotonic() + seconds
        while not await done():
            if time.monotonic() > until:
                raise Fatal(f"waited {seconds:.0f} s in vain until {what}")
            await asyncio.sleep(PAUSE)
