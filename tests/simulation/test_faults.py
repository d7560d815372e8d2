"""Lists of operations against the whole system, with faults, crashes and partitions anywhere between its parties.

Two recipes run at once on the same devices: ``four`` (time interval, B = 6) and ``batches`` (leader-selected,
B = 3). After the list everything heals, time runs to the end of both, and everything is collected. Then:

* a report counts at most once, and a token is spent at most once (randomised measurements are one-hot, known by
  opening each report with both aggregators' keys: the released counts must be their sum exactly);
* a report that its device was told is stored, counts;
* nothing is released below B, released batches are disjoint, and nothing is released twice;
* one token at most per device and slot.

Not a failure: a report that no aggregator ever got, one that was offered after its batch was closed, a tail below B,
and a device whose token did not come in time. Left to chance are RSA keys, PSS salts and attestation signatures; what
a list does to the protocol does not depend on them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from client_agent.journal import State
from infra.lab.kit.network import DUPLICATE, LOSE_REQUEST, LOSE_RESPONSE, Fault
from tacit.messages import Report
from tacit.recipe.derive import task_id
from tacit.recipe.model import Recipe
from tests.kit.simulation import Simulation, Template

DEVICES = 7
CATEGORIES = "abcd"


@dataclass(frozen=True)
class AdvanceTime:
    """Nothing happens for a while."""

    seconds: int


@dataclass(frozen=True)
class AgentsStep:
    """Every device does what is due."""


@dataclass(frozen=True)
class LeaderStep:
    """One step of the leader's aggregation and collection."""


@dataclass(frozen=True)
class CollectorStep:
    """The analyst asks for both recipes' next batch, and the collector takes one step."""


@dataclass(frozen=True)
class Restart:
    """A service ends in good order and starts again."""

    service: str


@dataclass(frozen=True)
class Crash:
    """A service is killed and starts again on what it had on disk."""

    service: str


@dataclass(frozen=True)
class RestartDevice:
    """One device's agent ends and starts again on its journal."""

    number: int


Broken = Literal["request", "response", "twice"]
Party = Literal["agents", "relay", "gateway", "attester", "issuer", "leader", "helper", "collector"]


@dataclass(frozen=True)
class Lose:
    """The next exchange breaks: before the handler (``request``), after it (``response``), or it happens twice."""

    what: Broken
    caller: Party
    callee: Party


@dataclass(frozen=True)
class Partition:
    """Nothing gets through from one party to the other until ``Heal``."""

    caller: Party
    callee: Party


@dataclass(frozen=True)
class Heal:
    """Every fault that has not happened yet and every partition ends."""


Op = AdvanceTime | AgentsStep | LeaderStep | CollectorStep | Restart | Crash | RestartDevice | Lose | Partition | Heal
LINKS: list[tuple[Party, Party]] = [
    ("leader", "helper"),
    ("agents", "relay"),
    ("agents", "attester"),
    ("relay", "gateway"),
    ("gateway", "leader"),
    ("attester", "issuer"),
    ("collector", "leader"),
]
ENDED = {State.SENT, State.FAILED, State.EXPIRED, State.INELIGIBLE}
FAULTS: dict[Broken, Fault] = {"request": LOSE_REQUEST, "response": LOSE_RESPONSE, "twice": DUPLICATE}


class Run:
    """One list against one stack."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.recipes = (
            simulation.recipe(),
            simulation.recipe(name="batches", token=simulation.slot(1), min_batch_size=3, close="at_B"),
        )

    async def apply(self, op: Op) -> None:
        """Do one operation. Whatever a fault does to a request of ours is part of the game."""
        simulation = self.simulation
        match op:
            case AdvanceTime(seconds):
                simulation.clock.jump(seconds)
            case AgentsStep():
                await simulation.step_agents()
            case LeaderStep():
                await simulation.step("leader")
            case CollectorStep():
                for recipe in self.recipes:
                    await simulation.operator("collector", "POST", "/v1/collections", {"recipe_hash": recipe.hash_text})
                await simulation.step("collector")
            case Restart(service):
                await simulation.restart(service)
            case Crash(service):
                await simulation.crash(service)
            case RestartDevice(number):
                simulation.restart_device(number % len(simulation.devices))
            case Lose(what, caller, callee):
                simulation.break_next(caller, callee, FAULTS[what])
            case Partition(caller, callee):
                simulation.partition(caller, callee)
            case Heal():
                simulation.heal()

    async def quiesce(self) -> None:
        """Heal, let both recipes run to their end, and collect all that there is."""
        simulation = self.simulation
        simulation.heal()
        end = self.recipes[0].interval.end
        await simulation.live(end - 1, pieces=5)
        await simulation.live(max(end, simulation.clock.now()) + 1500, pieces=2)
        for recipe in self.recipes:
            for _ in range(DEVICES):
                collection = await simulation.collect(recipe)
                if collection["state"] == "refused" or recipe.batch.close == "interval_end":
                    break

    async def check(self) -> None:
        """Check the invariants after a run."""
        for recipe in self.recipes:
            made = {
                report.report_metadata.report_id: self.simulation.measurement(recipe, report)
                for report in self._reports(recipe)
            }
            counted = self._counted(recipe)
            acknowledged = await self._acknowledged(recipe)
            assert acknowledged <= set(counted), "an acknowledged report was lost"
            assert set(counted) <= set(made), "a report counts that no device made"
            await self._check_tokens(recipe, counted)
            await self._check_releases(recipe, made, counted)
        self._check_issuance()

    def _reports(self, recipe: Recipe) -> list[Report]:
        found = (device.report(recipe) for device in self.simulation.devices)
        return [report for report in found if report is not None]

    async def _acknowledged(self, recipe: Recipe) -> set[bytes]:
        found = set()
        for device in self.simulation.devices:
            report, entry = device.report(recipe), await device.entry(recipe)
            assert entry is None or entry.state in ENDED, "a device is not done"
            if entry is not None and entry.state is State.FAILED:
                assert entry.detail == "batch_collected", "a good report was refused"
            if report is not None and entry is not None and entry.state is State.SENT:
                found.add(report.report_metadata.report_id)
        return found

    def _counted(self, recipe: Recipe) -> dict[bytes, bytes]:
        """Report id -> bucket of every report that the leader counted; the helper must agree."""
        own = task_id(recipe).hex()
        query = f"select report_id, bucket from outcomes where code = 0 and hex(task_id) = '{own.upper()}'"  # noqa: S608
        done = " and job_id in (select job_id from aggregation_jobs where state = 'done')"
        found: dict[bytes, bytes] = {}
        for name, which in (("helper", query), ("leader", query + done)):
            rows = self.simulation.rows(name, which)
            assert len({report_id for report_id, _ in rows}) == len(rows), f"the {name} counts a report twice"
            assert not found or found == dict(rows), "leader and helper count different reports"
            found = dict(rows)
        return found

    async def _check_tokens(self, recipe: Recipe, counted: dict[bytes, bytes]) -> None:
        for name in ("leader", "helper"):
            status = await self.simulation.status(name, recipe)
            assert status["distinct_nullifiers"] == status["aggregated"] == len(counted), (name, status)

    async def _check_releases(self, recipe: Recipe, made: dict[bytes, list[int]], counted: dict[bytes, bytes]) -> None:
        """What was released is the sum of what counts, batch by batch, each batch once and none below B."""
        least = recipe.batch.min_batch_size
        buckets: dict[bytes, list[list[int]]] = {}
        for report_id, bucket in counted.items():
            key = bucket if recipe.batch.close == "at_B" else b""
            buckets.setdefault(key, []).append(made[report_id])
        expected = sorted(
            [sum(column) for column in zip(*members, strict=True)]
            for members in buckets.values()
            if len(members) >= least
        )
        results = await self.simulation.results(recipe) if expected else []
        released = sorted([bucket["count"] for bucket in result["buckets"]] for result in results)
        assert released == expected, "a release is not the sum of the reports that count in it"
        assert all(result["report_count"] == sum(row["count"] for row in result["buckets"]) for result in results)
        for name in ("leader", "helper"):
            status = await self.simulation.status(name, recipe)
            assert status["released"] == len(expected), f"the {name} released below B, or a batch again"

    def _check_issuance(self) -> None:
        """At most one blinded message per device and slot was ever signed."""
        signed: dict[int, set[bytes]] = {}
        for crossing in self.simulation.wire:
            if (crossing.caller, crossing.callee) == ("attester", "issuer") and crossing.method == "POST":
                signed.setdefault(crossing.body[2], set()).add(crossing.body[3:])
        assert signed
        assert all(len(messages) <= len(self.simulation.devices) for messages in signed.values())


async def assert_invariants(template: Template, ops: Sequence[Op], seed: int) -> Counter[str]:
    """Run a list and check everything; returns what became of the reports."""
    with TemporaryDirectory() as folder:
        simulation = Simulation(template.copy(Path(folder) / "stack"), seed=seed)
        async with simulation.running():
            simulation.provision([{"four": CATEGORIES[number % 4]} for number in range(DEVICES)])
            run = Run(simulation)
            await simulation.step_agents()
            try:
                for op in ops:
                    await run.apply(op)
                await run.quiesce()
                await run.check()
            except BaseException:
                print(f"seed {seed}, ops {list(ops)!r}")  # noqa: T201 - what a person needs to run it again
                raise
            return Counter([str(await device.state(recipe)) for device in simulation.devices for recipe in run.recipes])


def times(count: int, *ops: Op) -> list[Op]:
    """``ops``, repeated ``count`` times."""
    return list(ops) * count


TOKENS: list[Op] = [AdvanceTime(1790), AgentsStep()]
"""Every device gets its tokens and decides, before the interval begins."""
WORK: list[Op] = [AdvanceTime(450), AgentsStep(), LeaderStep(), CollectorStep()]


NAMED: dict[str, list[Op]] = {
    "a good day": [*TOKENS, *times(8, *WORK)],
    "nothing happens until the end": [],
    "nobody gets a token before the interval": [Partition("agents", "attester"), *TOKENS, Heal(), *times(8, *WORK)],
    "the helper is away for half of the interval": [
        *TOKENS,
        Partition("leader", "helper"),
        *times(4, *WORK),
        Heal(),
        *times(4, *WORK),
    ],
    "the helper is away until the end": [*TOKENS, Partition("leader", "helper"), *times(9, *WORK)],
    "the relay is away until the end": [*TOKENS, Partition("agents", "relay"), *times(9, *WORK)],
    "aggregators crash between all steps": [
        *TOKENS,
        *times(8, AdvanceTime(450), AgentsStep(), Crash("leader"), LeaderStep(), Crash("helper"), CollectorStep()),
    ],
    "the leader crashes after every lost answer": [
        *TOKENS,
        *times(
            8,
            AdvanceTime(450),
            AgentsStep(),
            Lose("response", "leader", "helper"),
            LeaderStep(),
            Crash("leader"),
            LeaderStep(),
        ),
    ],
    "the attester crashes between debit and issuer": [
        *times(
            6,
            AdvanceTime(300),
            Lose("request", "attester", "issuer"),
            AgentsStep(),
            Crash("attester"),
            Lose("response", "attester", "issuer"),
            AgentsStep(),
            Crash("issuer"),
        ),
        *times(8, *WORK),
    ],
    "every party restarts in every round": [
        *TOKENS,
        *times(
            3,
            *WORK,
            *(Restart(name) for name in ("recipe_server", "issuer", "attester", "gateway", "relay")),
            *(Restart(name) for name in ("leader", "helper", "collector")),
        ),
    ],
    "devices restart and the collector crashes while it collects": [
        *TOKENS,
        *times(7, RestartDevice(0), AdvanceTime(450), AgentsStep(), RestartDevice(3), LeaderStep()),
        AdvanceTime(700),
        *times(4, LeaderStep(), Lose("response", "collector", "leader"), CollectorStep(), Crash("collector")),
    ],
    "the last job is not answered when the batch could be closed": [
        *TOKENS,
        *times(7, *WORK),
        Partition("leader", "helper"),
        *WORK,
        AdvanceTime(300),
        *times(2, CollectorStep(), LeaderStep(), AdvanceTime(61)),
        Heal(),
    ],
    "the share of a batch is asked for again and again": [
        *TOKENS,
        *times(7, AdvanceTime(450), AgentsStep(), LeaderStep()),
        AdvanceTime(700),
        CollectorStep(),
        *times(3, Lose("response", "leader", "helper"), LeaderStep(), Crash("helper"), AdvanceTime(8), LeaderStep()),
        Crash("leader"),
    ],
}


IN_SHORT = (
    "a good day",
    "aggregators crash between all steps",
    "the attester crashes between debit and issuer",
    "devices restart and the collector crashes while it collects",
)
"""The plans that ``make test`` runs."""


def others_are_slow(names: Iterable[str], kept: Container[str]) -> list[Any]:
    return [name if name in kept else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("name", others_are_slow(NAMED, IN_SHORT))
def test_named_lists_keep_the_invariants(template: Template, name: str) -> None:
    states = asyncio.run(assert_invariants(template, NAMED[name], seed=2))
    if name == "a good day":
        assert states == {"sent": 2 * DEVICES}


@pytest.mark.slow
@pytest.mark.parametrize("what", others_are_slow(FAULTS, ("response",)))
def test_a_fault_on_every_link_in_every_round_keeps_the_invariants(template: Template, what: Broken) -> None:
    broken = [Lose(what, caller, callee) for caller, callee in LINKS]
    states = asyncio.run(assert_invariants(template, [*broken, *TOKENS, *times(8, *broken, *WORK)], seed=2))
    assert states["sent"] > DEVICES, states


@pytest.mark.slow
@pytest.mark.parametrize("what", FAULTS)
@pytest.mark.parametrize(("caller", "callee"), LINKS)
def test_a_fault_on_one_link_keeps_the_invariants(
    template: Template, what: Broken, caller: Party, callee: Party
) -> None:
    day = [*TOKENS, *times(4, Lose(what, caller, callee), *WORK, *WORK)]
    states = asyncio.run(assert_invariants(template, day, seed=2))
    assert states["sent"] > DEVICES, states


OPS = st.one_of(
    st.sampled_from([60, 300, 900]).map(AdvanceTime),
    st.just(AgentsStep()),
    st.just(LeaderStep()),
    st.just(CollectorStep()),
    st.sampled_from(["leader", "helper", "collector", "attester", "issuer", "gateway"]).map(Crash),
    st.integers(0, DEVICES - 1).map(RestartDevice),
    st.builds(lambda what, link: Lose(what, *link), st.sampled_from(list(FAULTS)), st.sampled_from(LINKS)),
    st.sampled_from(LINKS).map(lambda link: Partition(*link)),
    st.just(Heal()),
)
LISTS = st.lists(st.lists(OPS, max_size=4).map(lambda some: [*some, *WORK]), max_size=8).map(
    lambda rounds: [op for some in rounds for op in some]
)
SEEDS = st.integers(0, 2**16)
LONG = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]


@pytest.mark.slow
@settings(max_examples=5, derandomize=True, deadline=None, database=None, suppress_health_check=LONG)
@given(ops=LISTS, seed=SEEDS)
def test_generated_lists_keep_the_invariants(template: Template, ops: list[Op], seed: int) -> None:
    asyncio.run(assert_invariants(template, [*TOKENS, *ops], seed))


@pytest.mark.slow
@settings(max_examples=300, deadline=None, database=None, suppress_health_check=LONG)
@given(ops=LISTS, seed=SEEDS, ready=st.booleans())
def test_many_generated_lists_keep_the_invariants(template: Template, ops: list[Op], seed: int, ready: bool) -> None:
    asyncio.run(assert_invariants(template, [*(TOKENS if ready else []), *ops], seed))
