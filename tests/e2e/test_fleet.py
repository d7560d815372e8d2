"""A fleet over the real wire: every service of a local stack in this process, on real loopback ports.

Devices are asked, coins tossed, tokens attested and issued, faults injected; the oracle must agree with leader, helper
and collector, and must notice when the books are wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import infra.lab.fleet.oracle as oracle_module
from client_agent.deciding import AgentEnv
from client_agent.journal import State
from infra.lab.devices import faulty_transports, sender
from infra.lab.devices.destination import Destination, verified_target
from infra.lab.devices.faults import FATE, WORDS, Fault, parse_faults
from infra.lab.devices.population import parse_population
from infra.lab.devices.prepared import PreparedHeader, PreparedWriter, Totals
from infra.lab.devices.profile import Profile
from infra.lab.devices.shard import Shard, ShardPlan, World
from infra.lab.fleet.oracle import Oracle, Verdict, noise_bound
from infra.lab.fleet.origin import Origin, open_target, origin_of, population_of, slot_private_key
from infra.lab.fleet.report import write_report
from infra.lab.fleet.result import FleetResult
from infra.lab.fleet.run import Load
from infra.lab.kit.recipes import changed, survey_from
from infra.stacks.command_options import policy_of
from infra.stacks.layout import signing_key_of
from infra.stacks.local import LocalStack
from infra.stacks.new_layout import create_layout
from infra.stacks.options import OPERATORS, StackOptions
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.system import OsEntropy, ShiftedClock, SystemClock
from tacit.errors import Refusal, UsageError
from tacit.recipe.encoder import labels
from tacit.recipe.model import Question, Recipe, TokenSlot
from tacit.recipe.response import biased_by_missing
from tacit.recipe.writing.builder import propose
from tacit.recipe.writing.survey import Survey
from tacit.tlog.leaves import LeafType, sign_leaf
from tacit.tokens.software_root import SoftwareRoot
from tests.kit.fleet_journal import last_states, read_journal

EPOCH_SECONDS = 7200
DEVICES = 300
LABELS = ("a", "b", "c")
FAULTS = ",".join(f"{word}=0.02" for word in WORDS)


def question(statistic: str, **encoder: Any) -> Question:
    body = {"text": "?", "metric": "m", "encoder": encoder, "statistic": statistic}
    return Question.model_validate(body)


THREE = question("histogram", kind="categories", categories=LABELS)
SUM = question("sum", kind="number", low=-1, high=3, unit="0.1")
SHARE = question("mean", kind="number", low=0, high=1, unit="0.01")
VECTOR = question("vector-sum", kind="vector", length=3, low=-5, high=5, norm=6)


class Stage:
    """A running stack with one active recipe, and the clock that all read."""

    def __init__(self, folder: Path, **options: Any) -> None:
        now = time.time() // EPOCH_SECONDS * EPOCH_SECONDS + 600
        self.clock = ShiftedClock(SystemClock(), start=now)
        usual = StackOptions(epoch_seconds=EPOCH_SECONDS, slots_per_epoch=6, batch_floor=20, unbounded_local=True)
        self.layout = create_layout(folder, replace(usual, **options), OsEntropy(), now)
        self.stack = LocalStack(self.layout, self.clock, OsEntropy())
        self.origin: Origin = origin_of(self.layout, None, None)
        self.transport = HttpTransport(connections=64)
        self.world = World(self.clock, OsEntropy(), self.transport)
        self.folder = folder

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Stage]:
        async with self.stack.running(), self.transport:
            await self.stack.settle("issuer", "gateway", "recipe_server", "attester")
            yield self

    async def publish(
        self, name: str, slot: int, rate: Decimal, floor: int, question: Question = THREE, **options: Any
    ) -> Destination:
        """A recipe as ``proposed`` makes it, active and verified as a device verifies it."""
        return await self.published(self.proposed(name, slot, rate, floor, question, **options))

    def proposed(
        self, name: str, slot: int, rate: Decimal, floor: int, question: Question = THREE, **options: Any
    ) -> Recipe:
        """A recipe whose interval has begun; ``options`` of ``tacit.recipe.writing.builder.propose``."""
        start = int(self.clock.now()) // 60 * 60
        recipe: Recipe = propose(
            survey_from(
                name=name,
                question=question,
                population=DEVICES,
                token=TokenSlot(issuer=OPERATORS["issuer"], epoch=start // EPOCH_SECONDS, slot=slot),
                start=start,
                duration=1800,
                rate=rate,
                min_batch_size=floor,
                **options,
            ),
            self.layout.parties,
        )
        return recipe

    async def published(self, recipe: Recipe) -> Destination:
        """A recipe, active and verified as a device verifies it."""
        await self.posted(recipe)
        await self.stack.settle("recipe_server")
        with pytest.raises(Refusal, match="opt-in-missing"):
            await self.verified(recipe.name)
        for _ in range(3):
            await self.stack.step("leader", "helper", "shuffler", "analyzer", "collector")
        return await self.verified(recipe.name)

    async def posted(self, recipe: Recipe) -> Recipe:
        """The recipe, once it is in the log."""
        leaf = sign_leaf(LeafType.RECIPE, recipe.body(), recipe.parties.analyst.operator, signing_key_of(self.layout))
        url = f"{self.layout.urls['recipe_server']}/v1/leaves"
        headers = {"content-type": "application/json"}
        answer = await self.transport.request("POST", url, headers=headers, body=leaf.encode())
        assert answer.status == 201, answer.body
        return recipe

    async def verified(self, name: str, wait: float = 0.0) -> Destination:
        policy = policy_of(self.layout.policy_path)
        device = SoftwareRoot.from_pem(self.origin.authority).issue("policy", OsEntropy(), self.clock.now())
        deps = AgentEnv(self.clock, OsEntropy(), self.transport)
        return await verified_target(self.origin.config, policy, device, deps, name, wait)

    async def run(self, plan: ShardPlan) -> FleetResult:
        """One shard, while leader and helper work."""
        done = asyncio.Event()
        told: list[int] = []
        working = asyncio.ensure_future(self._work(done))
        try:
            result = await Shard(plan, self.world, lambda progress: told.append(progress.acknowledged)).run()
        finally:
            done.set()
            await working
        assert told[-1] == result.progress.acknowledged
        return FleetResult.of([result])

    async def judged(self, oracle: Oracle, result: FleetResult, patience: float = 20.0) -> dict[str, bool]:
        """The oracle's findings, of a recipe that it has nothing to remark on."""
        verdict = await self.verdict(oracle, result, patience)
        assert verdict.remarks == []
        return {finding.what: finding.holds for finding in verdict.findings}

    async def verdict(self, oracle: Oracle, result: FleetResult, patience: float = 20.0) -> Verdict:
        """What the oracle says, after the interval, while the services work."""
        done = asyncio.Event()
        working = asyncio.ensure_future(self._work(done, "leader", "shuffler", "collector"))
        try:
            return await oracle.judge(result, self.transport, patience)
        finally:
            done.set()
            await working

    async def _work(self, done: asyncio.Event, *names: str) -> None:
        while not done.is_set():
            await self.stack.settle(*(names or ("leader",)))
            await asyncio.sleep(0.02)

    def recipe(self, model: str, name: str, slot: int, **members: object) -> Recipe:
        """A recipe of another model about the metric ``word``, whose interval has begun."""
        start = int(self.clock.now()) // 60 * 60
        when = {"start": start, "duration": 1800, "epoch": start // EPOCH_SECONDS, "slot": slot}
        body = {"model": model, "name": name, "metric": "word", "rate": "1", **when, **members}
        return propose(Survey.from_body(body), self.layout.parties_of(model))

    async def answered(self, recipe: Recipe, words: Sequence[str], faults: str) -> tuple[Oracle, FleetResult]:
        """One device with each of ``words`` answers the recipe."""
        rows = self.folder / f"{recipe.name}.csv"
        rows.write_text("device,word\n" + "".join(f"{number},{word}\n" for number, word in enumerate(words)))
        target = await self.published(recipe)
        oracle = Oracle(self.layout, target, self.clock)
        await oracle.before(self.transport)
        plan = self.plan(
            target,
            recipe.name,
            devices=len(words),
            population=population_of(recipe, None, rows, "word"),
            slot_key=await slot_private_key(self.layout, target),
            faults=parse_faults(faults),
            everybody=True,
        )
        return oracle, await self.run(plan)

    def plan(self, target: Destination, name: str, **options: object) -> ShardPlan:
        values: dict[str, object] = {
            "number": 0,
            "shards": 1,
            "target": target,
            "first": 0,
            "devices": DEVICES,
            "population": parse_population("zipf", len(LABELS)),
            "journal": self.folder / f"{name}.journal",
            "window": 32,
        }
        return ShardPlan(**{**values, **options})  # type: ignore[arg-type]


@asynccontextmanager
async def quick_stage(folder: Path, patch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    """A running stage on which pauses are short."""
    patch.setattr(faulty_transports, "PAUSE_SECONDS", 0.02)
    patch.setattr(sender, "AWAY_SECONDS", 0.2)
    patch.setattr(oracle_module, "POLL_SECONDS", 0.05)
    async with Stage(folder / "stack").running() as running:
        yield running


@pytest.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    async with quick_stage(tmp_path, monkeypatch) as running:
        yield running


async def test_a_fleet_with_every_fault_is_counted_as_the_oracle_says(stage: Stage, tmp_path: Path) -> None:
    target = await stage.publish("all-faults", 0, Decimal("0.5"), 40)
    oracle = Oracle(stage.layout, target, stage.clock)
    await oracle.before(stage.transport)
    plan = stage.plan(
        target,
        "live",
        authority=stage.origin.authority,
        faults=parse_faults(FAULTS),
        profile=Profile.BURST,
        rate=400.0,
    )
    result = await stage.run(plan)

    assert result.devices == DEVICES
    assert result.sampled == result.contributions == result.progress.tokens
    states = last_states(read_journal(plan.journal)[1])
    assert states[State.NOT_SAMPLED] == DEVICES - result.sampled
    assert states[State.SENT] == result.progress.acknowledged
    assert set(states) <= {State.NOT_SAMPLED, State.SENT, State.FAILED, State.EXPIRED}

    stage.clock.jump(target.recipe.interval.end - stage.clock.now() + 2)
    findings = await stage.judged(oracle, result)
    assert all(findings.values()), findings
    assert {f"released: {label}" for label in LABELS} <= set(findings)

    result.deliveries.sums[0] += 1
    result.deliveries.states[Fault.NONE, State.SENT] += 1
    wrong = [what for what, holds in (await stage.judged(oracle, result, 0.0)).items() if not holds]
    assert {"leader: accepted", "helper: accepted", "released: a", "released: contributions"} <= set(wrong)

    paths = write_report(result, None, Load(devices=DEVICES, faults=FAULTS), target, tmp_path / "out")
    document = json.loads((tmp_path / "out" / "fleet.json").read_text())
    assert document["injected"] == {fault.word: count for fault, count in result.injected.items()}
    page = (tmp_path / "out" / "fleet.html").read_text()
    assert "http://" not in page
    assert "https://" not in page
    assert page.count("data:image/png;base64,") == 3
    assert len(paths) == 5


@pytest.mark.slow
async def test_a_fleet_of_unequal_rates_and_dummies_is_counted_as_the_oracle_says(stage: Stage) -> None:
    """The devices' sampling alone is another one than published: what it costs is not asked here."""
    target = await stage.publish("unequal", 0, Decimal("0.5"), 40)
    oracle = Oracle(stage.layout, target, stage.clock)
    await oracle.before(stage.transport)
    recipe = changed(target.recipe, "sampling.importance", {"default": 0, "default_rate": "0.1"})
    recipe = changed(recipe, "sampling.dummies", {"intensity": "1", "population": 3})
    unequal = replace(target)
    assert (unequal.task.task_id, unequal.url) == (target.task.task_id, target.url), "kept from before the change"
    vars(unequal)["recipe"] = recipe
    plan = stage.plan(unequal, "unequal", authority=stage.origin.authority, rate=400.0)
    result = await stage.run(plan)
    assert 0 < result.dummies < result.sampled < DEVICES
    states = last_states(read_journal(plan.journal)[1])
    assert states == {State.NOT_SAMPLED: DEVICES - result.sampled, State.SENT: result.sampled}
    stage.clock.jump(target.recipe.interval.end - stage.clock.now() + 2)
    findings = await stage.judged(oracle, result)
    assert all(findings.values()), findings


@pytest.mark.slow
async def test_a_recipe_that_the_log_does_not_show_yet_is_waited_for(stage: Stage) -> None:
    asking = asyncio.ensure_future(stage.verified("soon", 60.0))
    await asyncio.sleep(0.1)
    assert (await stage.publish("soon", 2, Decimal("0.3"), 20)).recipe == (await asking).recipe


async def test_of_several_recipes_with_one_name_the_one_just_published_is_waited_for(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "stack", witnesses=1)
    async with stage.running():
        origin = replace(stage.origin, ahead=stage.clock.now() - time.time())
        older = await stage.publish("twice", 0, Decimal("0.3"), 20)
        newer = await stage.posted(stage.proposed("twice", 1, Decimal("0.3"), 20))
        assert (await stage.verified("twice")).recipe == older.recipe, "the log does not show the newer one yet"
        said: list[str] = []
        with pytest.raises(UsageError, match=r"is published, but the log does not show it .* do its witnesses run"):
            await open_target(origin, "twice", 0.5, said.append)
        asking = asyncio.ensure_future(open_target(origin, "twice", 60.0, said.append))
        for _ in range(3):
            await asyncio.sleep(1.0)
            await stage.stack.step("recipe_server", "leader", "helper", "collector")
        assert (await asking).recipe == newer
        assert said[0] == f"waiting until the log shows recipe {newer.hash_text} (at most 0.5 s)"


async def test_a_recipe_that_is_over_is_not_waited_for(stage: Stage) -> None:
    target = await stage.publish("over", 0, Decimal("0.3"), 20)
    origin = replace(stage.origin, ahead=target.recipe.interval.end - time.time())
    with pytest.raises(UsageError, match=r"recipe over, .*, is over; publish a new one"):
        await open_target(origin, "over", 60.0)


@pytest.mark.slow
async def test_prepared_contributions_are_sent_by_shards_and_counted(stage: Stage, tmp_path: Path) -> None:
    target = await stage.publish("prepared", 1, Decimal("0.3"), 20)
    with pytest.raises(UsageError, match="no recipe called nobody"):
        await stage.verified("nobody")
    oracle = Oracle(stage.layout, target, stage.clock)
    await oracle.before(stage.transport)
    part, path = tmp_path / "part", tmp_path / "fleet"
    key = await slot_private_key(stage.layout, target)
    made = await stage.run(
        stage.plan(
            target, "prepare", slot_key=key, prepare=part, faults=parse_faults("late=0.1"), send_at=stage.clock.now()
        )
    )
    assert made.contributions == 0
    with PreparedWriter(path) as writer:
        writer.header(PreparedHeader(target.recipe.hash, 0, DEVICES, int(stage.clock.now()), direct=True))
        writer.append(part)
        writer.finish(Totals(made.prepared))
    results = [
        await stage.run(
            stage.plan(
                target,
                f"send-{number}",
                number=number,
                shards=2,
                prepared=path,
                contributions=len(range(number, made.prepared, 2)),
            )
        )
        for number in range(2)
    ]
    result = results[0]
    for counter, other in (
        (result.deliveries.states, results[1].deliveries.states),
        (result.deliveries.sums, results[1].deliveries.sums),
    ):
        counter.update(other)  # type: ignore[arg-type]
    result.sampled += results[1].sampled
    assert result.contributions == made.prepared
    assert result.ended(State.SENT, counting=True) == sum(
        count for (fault, _), count in result.deliveries.states.items() if FATE[fault].counts
    )
    stage.clock.jump(target.recipe.interval.end - stage.clock.now() + 2)
    findings = await stage.judged(oracle, result)
    assert all(findings.values()), findings


@pytest.mark.slow
async def test_fleets_with_noise_shares_are_counted_bit_by_bit(stage: Stage, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text('m\n"1,2,3"\n"-9, 4.4,0"\n"5,5,5"\n')
    asked = (
        ("shares-three", THREE, "zipf:0.5", None, 0),
        ("shares-sum", SUM, "normal:0.4,0.9", None, 0),
        ("shares-mean", SHARE, "normal:0.3,0.02", None, 0),
        ("shares-vector", VECTOR, None, rows, 0),
        ("shares-proved", VECTOR, None, rows, 0),
        ("shares-noisy", SUM, None, None, 400),
    )
    runs: list[tuple[Destination, Oracle, FleetResult]] = []
    for slot, (name, one, data, file, flips) in enumerate(asked):
        more = {"proof": "norm"} if name == "shares-proved" else {}
        target = await stage.publish(
            name, slot, Decimal("0.5"), 30, one, randomizer="flips", aggregator_flips=flips, **more
        )
        oracle = Oracle(stage.layout, target, stage.clock)
        await oracle.before(stage.transport)
        key = await slot_private_key(stage.layout, target)
        population = population_of(target.recipe, data, file, None)
        faults = parse_faults("bad-proof=0.1")
        plan = stage.plan(target, name, slot_key=key, devices=150, population=population, faults=faults, everybody=True)
        runs.append((target, oracle, await stage.run(plan)))
    end = max(target.recipe.interval.end for target, _, _ in runs)
    stage.clock.jump(end - stage.clock.now() + 2)
    for target, oracle, result in runs[:-1]:
        verdict = await stage.verdict(oracle, result)
        assert verdict.remarks == []
        findings = {finding.what: finding.holds for finding in verdict.findings}
        assert all(findings.values()), findings
        share = 1 / result.devices if target.recipe.question.statistic == "mean" else 1
        assert [one.truth for one in verdict.answers] == [total * share for total in result.known]
        assert all(abs(one.estimate - one.truth) < 6 * one.stderr for one in verdict.answers), verdict.answers
        known = not biased_by_missing(target.recipe)
        assert [one.inside is not None for one in verdict.answers] == [known] * len(verdict.answers), target.recipe.name
        assert {f"released: {label}" for label in labels(target.recipe)} <= set(findings)
        assert sum(result.deliveries.sums.values()) > result.contributions
    await _check_noise(stage, *runs[-1][1:])


async def _check_noise(stage: Stage, oracle: Oracle, result: FleetResult) -> None:
    """Noise of the aggregators stays within its bound, a sum that is further away does not pass."""
    verdict = await stage.verdict(oracle, result)
    assert verdict.holds, verdict.findings
    assert [remark.split(":")[0] for remark in verdict.remarks] == ["aggregators add noise"]
    (released,) = [finding for finding in verdict.findings if finding.what == "released: sum"]
    assert released.slack == noise_bound(400) < 400
    result.deliveries.sums[0] += 2 * released.slack + 1
    assert not (await stage.verdict(oracle, result, 0.0)).holds
