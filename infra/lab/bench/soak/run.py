"""Streams contributions through a running stack for as long as asked, and samples what that costs.

A run has rounds: in each, every task gets the B contributions of its next batch and releases it. Within a round there
is a sample every so many contributions, and one right after its releases. At the end the counts of both aggregators and
the sums of all releases are compared with what was sent.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from infra.lab.bench.ingest import PARTIES, spent
from infra.lab.bench.loading.contributions import Order
from infra.lab.bench.loading.database_sizes import CONFIGS, DatabaseSize, weigh
from infra.lab.bench.loading.implementations import has_multibuffer
from infra.lab.bench.loading.issuers import SLOTS, BenchIssuer, make_issuers, publish_directories, trust_issuers
from infra.lab.bench.loading.live import LiveStack, default_servers, laid_out, run_on, survey_of
from infra.lab.bench.loading.load import send_all
from infra.lab.bench.loading.processes import memory_of_pool
from infra.lab.bench.loading.stream import BLOCK, MOST_TASKS, Stream, streaming
from infra.lab.bench.soak.samples import Sample
from infra.stacks.deployment import Deployment
from infra.stacks.layout import signing_key_of
from tacit.errors import Fatal, UsageError
from tacit.operations.calls import call
from tacit.recipe.model import Recipe
from tacit.recipe.writing.builder import propose
from tacit.tlog.leaves import LeafType, sign_leaf

LEAST_BATCH, ROUNDS = 7 * BLOCK, 5
"""The smallest B, which policies accept and whole blocks of contributions make up, and the most batches of a task."""
SAMPLES, LEAST_WINDOW = 40, 250
"""Samples of a run, more or less, and the fewest contributions between two."""
BEHIND = 4000
"""Contributions that may wait for their jobs when a sample within a round is taken."""
SCRUB_SECONDS = 10.0
"""Seconds within which the bytes of counted reports leave PostgreSQL's files (usually 600), and so how long after a
release its size is read."""
LIMITS = {"scrub_seconds": SCRUB_SECONDS}
SWEPT_SECONDS = 3 * SCRUB_SECONDS + 5.0
PATIENCE = 300.0
PAUSE = 0.25
SLOWEST = 200.0
"""Contributions a second below which the recipes' interval would end before the run."""
GENERATOR = "generator"
ACCOUNT = ("1000000", "0.5")
"""Epsilon and delta of the stack's account: room for every recipe, as there is no real data."""


@dataclass(frozen=True)
class Plan:
    """``rounds`` rounds of a batch of ``batch`` for each of ``tasks`` tasks, a sample every ``window`` contributions,
    and at most ``rate`` contributions a second (0: as fast as they are answered)."""

    tasks: int
    rounds: int
    batch: int
    window: int
    rate: float = 0.0

    @classmethod
    def of(cls, reports: int, tasks: int, rate: float = 0.0) -> Plan:
        """Plan at most ``reports`` contributions, as many for each task. Raises ``UsageError`` if they fill no batch of
        each."""
        if tasks > MOST_TASKS:
            raise UsageError(f"--tasks: at most {MOST_TASKS}")
        if reports < LEAST_BATCH * tasks:
            raise UsageError(f"--reports: {tasks} tasks need at least {LEAST_BATCH * tasks:,}, a batch each")
        rounds = min(ROUNDS, reports // (LEAST_BATCH * tasks))
        batch = reports // (tasks * rounds * BLOCK) * BLOCK
        return cls(tasks, rounds, batch, max(LEAST_WINDOW, math.ceil(tasks * rounds * batch / SAMPLES)), rate)

    @property
    def reports(self) -> int:
        return self.tasks * self.rounds * self.batch

    def windows(self) -> Iterator[int]:
        """The contributions between the samples of one round."""
        left = self.tasks * self.batch
        while left:
            yield min(self.window, left)
            left -= min(self.window, left)


@dataclass
class Soak:
    """The samples of a run, its ``errors`` (what was lost or counted wrongly), and the seconds until all tasks were
    live."""

    plan: Plan
    database: str
    samples: list[Sample] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    set_up: float = 0.0


def soak(plan: Plan, servers: frozenset[str] | None, tell: Callable[[float], None]) -> Soak:
    """Run ``plan`` on a new stack of real processes; ``tell`` is told the share that is done. A run that fails or is
    interrupted later than its first sample says so in its ``errors``. Raises ``Fatal`` or ``UsageError``."""
    beside = default_servers() if servers is None else servers
    found = Soak(plan, "+".join(sorted(beside)) or "sqlite")
    deployment = Deployment(together=True, batch_crypto=has_multibuffer())
    seconds = int(plan.reports / SLOWEST) + 3600
    issuers = make_issuers(plan.tasks)
    amend = partial(trust_issuers, issuers)
    with laid_out(beside, deployment, interval=seconds, account=ACCOUNT, limits=LIMITS, amend=amend) as site:
        try:
            run_on(site, lambda stack: _Run(stack, found, tell).whole(issuers, seconds))
        except (Fatal, KeyboardInterrupt) as error:
            if not found.samples:
                raise
            sent, why = found.samples[-1].sent, str(error) or "interrupted"
            found.errors.append(f"ended after {sent:,} of {plan.reports:,} contributions: {why}")
    return found


class _Run:
    def __init__(self, stack: LiveStack, found: Soak, tell: Callable[[float], None]) -> None:
        self._stack = stack
        self._plan, self._found, self._tell = found.plan, found, tell
        self._sent = self._retries = self._releases = 0
        self._begun = time.perf_counter()

    async def whole(self, issuers: Sequence[BenchIssuer], seconds: int) -> None:
        begun = time.perf_counter()
        population = max(2 * self._plan.rounds * self._plan.batch, 10 * self._plan.batch)
        shape = (self._plan.tasks, self._plan.batch, population, seconds)
        orders = await publish_many(self._stack, issuers, *shape)
        self._found.set_up = time.perf_counter() - begun
        with streaming(orders) as stream:
            self._begun = time.perf_counter()
            for number in range(self._plan.rounds):
                await self._round(stream, orders, number)
            await self._check(stream, orders)

    async def _round(self, stream: Stream, orders: Sequence[Order], number: int) -> None:
        for order in orders:
            await self._stack.ask_for_batch(order.recipe)
        before, since = self._stack.cpu(), self._sent
        end = since + self._plan.tasks * self._plan.batch
        for size in self._plan.windows():
            load = await send_all(self._stack.layout.urls["relay"], stream.messages(size), self._plan.rate)
            self._sent += size
            self._retries += load.retries
            await self._until_counted(self._sent - (BEHIND if self._sent < end else 0))
            after = self._stack.cpu()
            await self._sample(spent(before, after, self._sent - since), released=False)
            before, since = after, self._sent
        for order in orders:
            await self._stack.until_released(order.recipe, PATIENCE, number + 1)
            self._releases += 1
        await self._until_swept()
        await self._sample({}, released=True)

    async def _until_counted(self, count: int) -> None:
        """Wait until the Leader has counted so many contributions."""
        until = time.monotonic() + PATIENCE
        while (found := await weigh(self._stack.layout, "leader")).counted < count:
            if time.monotonic() > until:
                raise Fatal(f"the leader counted {found.counted:,} of {self._sent:,} contributions and no more")
            await asyncio.sleep(PAUSE)

    async def _until_swept(self) -> None:
        """Wait until the Leader's database is as small as after the first release, at most ``SWEPT_SECONDS``."""
        until = time.monotonic() + SWEPT_SECONDS
        first = next((sample.databases["leader"].rest for sample in self._found.samples if sample.released), 0)
        while time.monotonic() < until:
            if (await weigh(self._stack.layout, "leader")).rest <= first:
                return
            await asyncio.sleep(PAUSE)

    async def _sample(self, cpu: dict[str, float], *, released: bool) -> None:
        databases: dict[str, DatabaseSize] = {}
        for name in CONFIGS:
            databases[name] = await weigh(self._stack.layout, name)
        memory = {**self._stack.memories(PARTIES), GENERATOR: memory_of_pool()}
        self._found.samples.append(
            Sample(
                sent=self._sent,
                seconds=time.perf_counter() - self._begun,
                cpu_us={party: 1e6 * seconds for party, seconds in cpu.items() if party in PARTIES},
                memory=memory,
                databases=databases,
                releases=self._releases,
                released=released,
                retries=self._retries,
            )
        )
        self._tell(self._sent / self._plan.reports)

    async def _check(self, stream: Stream, orders: Sequence[Order]) -> None:
        """Compare both aggregators' counts and the released sums with what was sent."""
        each = self._plan.rounds * self._plan.batch
        for number, order in enumerate(orders):
            for party in CONFIGS:
                counts = await self._stack.counts(order.recipe, party)
                if (counts["aggregated"], counts["rejected"]) != (each, 0):
                    self._found.errors.append(
                        f"task {number}: the {party} counted {counts['aggregated']:,} of {each:,} contributions and"
                        f" rejected {counts['rejected']:,}"
                    )
            given = {answer: count for (task, answer), count in stream.given.items() if task == number}
            wrong = wrong_buckets(given, await self._stack.released(order.recipe))
            if wrong:
                self._found.errors.append(f"task {number}: {wrong} buckets differ from what was sent")


def wrong_buckets(given: dict[int, int], releases: Sequence[dict[str, object]]) -> int:
    """Count the answers whose counts, summed over all releases of a task, differ from what was ``given``."""
    counted: Counter[int] = Counter()
    for release in releases:
        rows = release["buckets"]
        if not isinstance(rows, list):
            raise Fatal("a release has no buckets")
        counted.update({answer: int(row["count"]) for answer, row in enumerate(rows)})
    return sum(counted[answer] != given.get(answer, 0) for answer in {*counted, *given})


async def publish_many(
    stack: LiveStack, issuers: Sequence[BenchIssuer], tasks: int, batch: int, population: int, seconds: int
) -> list[Order]:
    """Publish ``tasks`` recipes of ``BUCKETS`` buckets with batches of exactly ``batch``, whose interval of ``seconds``
    has begun, wait until all are live, and return what contributions to them are made from."""
    await publish_directories(stack.transport, stack.layout, issuers, stack.epoch())
    recipes = _recipes(stack, issuers, tasks, batch, population, seconds)
    key = signing_key_of(stack.layout)
    for recipe in recipes:
        leaf = sign_leaf(LeafType.RECIPE, recipe.body(), recipe.parties.analyst.operator, key)
        await call(stack.transport, "POST", f"{stack.layout.urls['recipe_server']}/v1/leaves", body=leaf.encode())
    await stack.until_served(recipes)
    slots = [slot for issuer in issuers for slot in issuer.slots]
    return [Order(recipe, slot, stack.layout.gateway_key_config) for recipe, slot in zip(recipes, slots, strict=True)]


def _recipes(
    stack: LiveStack, issuers: Sequence[BenchIssuer], tasks: int, batch: int, population: int, seconds: int
) -> list[Recipe]:
    """Make the first recipe from a survey; the others differ from it in name and token only, and so not in their
    claim."""
    survey = survey_of(
        "soak-0",
        seconds // 60 * 60,
        population=population,
        min_batch_size=batch,
        epoch=stack.epoch(),
        slot=0,
        close="at_B",
    )
    parties = [stack.layout.parties.model_copy(update={"issuer": one.party}) for one in issuers]
    body = propose(survey, parties[0]).body()
    made = []
    for number in range(tasks):
        issuer, slot = divmod(number, SLOTS)
        token = {**body["token"], "issuer": issuers[issuer].name, "slot": slot}
        named = {**body["parties"], "issuer": issuers[issuer].party.model_dump(mode="json")}
        made.append(Recipe.from_body({**body, "name": f"soak-{number}", "token": token, "parties": named}))
    return made
