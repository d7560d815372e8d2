"""Fifty runs of three hundred devices: do the released estimates miss the truth as their error bars say?

Each run is a path of the system without its network, at three depths: the randomisers alone; the same through the
VDAF; and everything that a report goes through, from the coin over token, sealing, both aggregators and sealed
aggregate shares to the release document (50 runs in ``make test``). The whole stack, agents, relay, gateway and all
services over in-process transports, takes some seconds a run: two runs in ``make test``, all fifty in
``make test-all``. Keys and the devices' tokens are made once; every run starts from a copy.

The standardised errors of all 16 buckets are tested for bias, spread, coverage and shape; see
``tests.kit.statistics``.

False alarms: seeds are fixed, so a test that passes keeps passing; over the choice of seeds it would fail with
probability at most ``ALPHA``. Power, by the broken estimators below: an error bar that leaves out sampling, a wrong
noise level and a forgotten sampling rate are each caught.
"""

from __future__ import annotations

import asyncio
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from client_agent.answering import draw_answer
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import RecipeKit
from infra.lab.kit.reports import issuer_key, token_source
from tacit.dp.calibrate import largest_epsilon0
from tacit.messages import CollectionJobResp, Interval, Report, Role
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.method import Measurement, Method
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.krr import Krr
from tacit.methods.planners.local import local_planner_of
from tacit.methods.randomisers.registry import device_randomiser_of
from tacit.models.collectors import collector_side
from tacit.recipe.derive import randomizer_of, task_of
from tacit.recipe.encoder_specs import Buckets
from tacit.recipe.model import Question, Recipe
from tacit.roles.aggregator import Party, Tally, merge
from tacit.roles.client import make_report
from tacit.roles.collector import collection_request, open_collection
from tacit.task import seal_aggregate_share, verify_key_of
from tacit.tokens.slots import TokenVerifier
from tacit.vdaf.prio3 import Prio3, Prio3Count, Prio3Histogram, Prio3MultihotCountVec
from tests.kit.device import Device
from tests.kit.methods import randomizer_from
from tests.kit.oracles import helper as helper_role
from tests.kit.oracles import leader as leader_role
from tests.kit.oracles.aggregator import Accepted, fold
from tests.kit.oracles.helper import Verified
from tests.kit.oracles.leader import Prepared
from tests.kit.simulation import OPTIONS, Simulation, Template
from tests.kit.statistics import Scores, normality, z_scores

ALPHA = 1e-4
RUNS = 50
RATE = 0.5
VISITS = [94, 56, 37, 27, 19, 14, 11, 8, 7, 5, 4, 3, 3, 2, 2, 8]
"""Three hundred devices spread over the buckets like the doctor visits of the demonstration."""
DEVICES = sum(VISITS)
EPSILON0 = largest_epsilon0(local_planner_of(Krr).keeps, int(0.8 * RATE * DEVICES), 1e-6, 1.0)

Aggregate = Callable[[list[Measurement], SeededEntropy], list[int]]


def join(randomizer: Method, truth: Sequence[int], q: float, seed: str) -> list[Measurement]:
    """The measurements of the devices that take part."""
    measurements: list[Measurement] = []
    entropy = SeededEntropy(seed.encode())
    threshold = int(q * 2**64)
    for category, devices in enumerate(truth):
        for _ in range(devices):
            if int.from_bytes(entropy(8), "big") >= threshold:
                continue
            measurement = device_randomiser_of(randomizer).randomise(category, entropy)
            if measurement is not None:
                measurements.append(measurement)
    return measurements


def aggregate_with(vdaf: Prio3[Any]) -> Aggregate:
    """Shard, verify and add up with two aggregators, then unshard."""

    def aggregate(measurements: list[Measurement], entropy: SeededEntropy) -> list[int]:
        ctx, verify_key = b"dap-18" + bytes(32), entropy(vdaf.VERIFY_KEY_SIZE)
        sums = [vdaf.agg_init(None) for _ in range(2)]
        for measurement in measurements:
            nonce = entropy(vdaf.NONCE_SIZE)
            public_share, input_shares = vdaf.shard(ctx, measurement, nonce, entropy(vdaf.RAND_SIZE))
            verifying = [
                vdaf.verify_init(verify_key, ctx, agg_id, None, nonce, public_share, input_share)
                for agg_id, input_share in enumerate(input_shares)
            ]
            message = vdaf.verifier_shares_to_message(ctx, None, [share for _, share in verifying])
            for agg_id, (state, _) in enumerate(verifying):
                out_share = vdaf.verify_next(ctx, state, message)
                sums[agg_id] = vdaf.agg_update(None, sums[agg_id], out_share)
        result = vdaf.unshard(None, sums, len(measurements))
        return [result] if isinstance(result, int) else list(result)

    return aggregate


def added_up(cells: int) -> Aggregate:
    """The same sums without the cryptography."""

    def aggregate(measurements: list[Measurement], _entropy: SeededEntropy) -> list[int]:
        counts = [0] * cells
        for measurement in measurements:
            if isinstance(measurement, list):
                counts = [a + b for a, b in zip(counts, measurement, strict=True)]
            elif cells == 1:
                counts[0] += measurement
            else:
                counts[measurement] += 1
        return counts

    return aggregate


def score(randomizer: Method, truth: Sequence[int], q: float, runs: int, aggregate: Aggregate, label: str) -> Scores:
    """Standardised errors of ``runs`` runs."""
    scores = Scores()
    cells = list(truth) if randomizer.cells > 1 else [truth[1]]
    expected = estimator_of(randomizer).expected_stderrs(cells, sum(truth), SampleDesign(q))
    for run in range(runs):
        measurements = join(randomizer, truth, q, f"{label} {run}")
        counts = aggregate(measurements, SeededEntropy(f"{label} shares {run}".encode()))
        estimate = estimator_of(randomizer).estimate(counts, len(measurements), SampleDesign(q))
        scores.add(cells, estimate.values, estimate.stderrs, expected)
    return scores


@pytest.mark.false_alarm(ALPHA, "five tests, corrected")
@pytest.mark.parametrize(
    "aggregate",
    [added_up(16), pytest.param(aggregate_with(Prio3Histogram(2, 16, 6)), marks=pytest.mark.slow)],
    ids=["added up", "through the VDAF"],
)
def test_errors_of_the_histogram_look_standard_normal(aggregate: Aggregate) -> None:
    randomizer = randomizer_from("krr", EPSILON0, 16)
    scores = score(randomizer, VISITS, RATE, RUNS, aggregate, "histogram")
    assert scores.smallest() > ALPHA, (normality(scores.exact), normality(scores.reported))


@pytest.mark.false_alarm(ALPHA, "five tests, corrected", runs=5)
def test_errors_of_the_count_look_standard_normal_through_the_vdaf() -> None:
    randomizer = randomizer_from("rr", 1.5, 2)
    scores = score(randomizer, [200, 100], RATE, RUNS, aggregate_with(Prio3Count(2)), "count")
    assert scores.smallest() > ALPHA, (normality(scores.exact), normality(scores.reported))


def test_the_vdaf_adds_up_exactly_what_devices_sent() -> None:
    cases: list[tuple[Method, Prio3[Any]]] = [
        (randomizer_from("krr", 2, 16), Prio3Histogram(2, 16, 6)),
        (randomizer_from("rappor", 3, 16, 9), Prio3MultihotCountVec(2, 16, 9, 6)),
        (randomizer_from("rr", 1, 2), Prio3Count(2)),
    ]
    for randomizer, vdaf in cases:
        truth = VISITS if randomizer.cells > 1 else [200, 100]
        measurements = join(randomizer, truth, 0.3, randomizer.NAME)
        direct = added_up(randomizer.cells)(measurements, SeededEntropy(0))
        assert aggregate_with(vdaf)(measurements, SeededEntropy(0)) == direct


@pytest.mark.false_alarm(ALPHA, "five tests, corrected")
@pytest.mark.parametrize(
    ("name", "epsilon0", "max_weight", "q"),
    [("krr", 4.0, None, 0.5), ("krr", 2.0, None, 1.0), ("rappor", 3.0, 6, 0.5), ("rappor", 5.0, 16, 0.2)],
)
def test_errors_of_other_recipes_look_standard_normal(
    name: str, epsilon0: float, max_weight: int | None, q: float
) -> None:
    randomizer = randomizer_from(name, epsilon0, 16, max_weight)
    scores = score(randomizer, VISITS, q, RUNS, added_up(16), f"{name} {epsilon0}")
    assert scores.smallest() > ALPHA, (normality(scores.exact), normality(scores.reported))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["krr", "rappor"])
def test_errors_look_standard_normal_in_a_thousand_runs(name: str) -> None:
    randomizer = randomizer_from(name, 2.5, 16, 8 if name == "rappor" else None)
    scores = score(randomizer, VISITS, RATE, 1000, added_up(16), f"long {name}")
    exact = normality(scores.exact)
    assert min(exact.bias, exact.spread) > ALPHA / 2, exact
    assert abs(normality(scores.reported).covered - 0.95) < 0.02


def broken(mistake: str) -> list[list[float]]:
    """z-scores of fifty runs whose estimator makes one mistake."""
    randomizer = randomizer_from("krr", 4.0, 16)
    estimator = randomizer_from("krr", 3.0, 16) if mistake == "noise" else randomizer
    rows = []
    for run in range(RUNS):
        measurements = join(randomizer, VISITS, RATE, f"broken {run}")
        counts = added_up(16)(measurements, SeededEntropy(0))
        q = 0.6 if mistake == "rate" else RATE
        values = estimator_of(estimator).estimate(counts, len(measurements), SampleDesign(q)).values
        stderrs = estimator_of(randomizer).expected_stderrs(VISITS, DEVICES, SampleDesign(RATE))
        if mistake == "sampling":
            unsampled = (s * s - x * (1 - RATE) / RATE for s, x in zip(stderrs, VISITS, strict=True))
            stderrs = tuple(math.sqrt(value) for value in unsampled)
        rows.append(z_scores(values, VISITS, stderrs))
    return rows


@pytest.mark.parametrize("mistake", ["noise", "rate", "sampling"])
def test_a_mistake_in_the_estimator_is_caught(mistake: str) -> None:
    assert normality(broken("none")).smallest() > ALPHA
    assert normality(broken(mistake)).smallest() < ALPHA


KIT = RecipeKit(b"statistics")


class Parties:
    """Everybody who touches a report of ``KIT``'s recipe, and one token per device, made once. No network, no database.
    ``answers`` are the devices' own."""

    def __init__(self, recipe: Recipe, answers: Sequence[int]) -> None:
        kit, self.recipe, self.answers = KIT, recipe, answers
        key = issuer_key()
        self.task = task_of(self.recipe, key.token_key.spki)
        self.collector = kit.key_pairs[Role.COLLECTOR]
        verifier = TokenVerifier(self.task.token_key_spki, self.task.slot)
        verify_key = verify_key_of(kit.verify_key_seed, self.task.task_id)
        self.leader, self.helper = (
            Party(self.task, role, verify_key, kit.key_pairs[role], verifier, self.task.end_seconds)
            for role in (Role.LEADER, Role.HELPER)
        )
        draw = token_source(key, SeededEntropy(b"tokens"))
        self.tokens = [draw(self.task.slot) for _ in answers]

    def contribute(self, entropy: SeededEntropy) -> list[Report]:
        """What every device does once it has decided that the recipe is good."""
        reports = []
        for answer, held in zip(self.answers, self.tokens, strict=True):
            measurement, _ = draw_answer(self.recipe, answer, entropy)
            if measurement is None:
                continue
            time = self.task.interval.start
            reports.append(make_report(self.task, measurement, held.token, held.preimages, entropy(16), time, entropy))
        return reports

    def aggregate(self, reports: Sequence[Report]) -> tuple[Tally, Tally]:
        """One aggregation job, and each aggregator's sum."""
        now = float(self.task.end_seconds - 1)
        prepared = [leader_role.prepare_report(self.leader, report, now) for report in reports]
        sums: tuple[list[Accepted], list[Accepted]] = ([], [])
        for one in prepared:
            assert isinstance(one, Prepared)
            verified = helper_role.prepare_report(self.helper, one.verify_init, now)
            assert isinstance(verified, Verified)
            finished = leader_role.finish_report(self.leader, one, helper_role.respond(verified))
            assert isinstance(finished, Accepted)
            sums[0].append(finished)
            sums[1].append(verified.accepted)
        leader, helper = (merge(self.task, fold(self.task, accepted, None).values()) for accepted in sums)
        assert leader is not None
        assert helper is not None
        assert leader.checksum == helper.checksum
        return leader, helper

    def release(self, tallies: tuple[Tally, Tally], entropy: SeededEntropy) -> dict[str, Any]:
        """The result document of the collector."""
        request = collection_request(self.task)
        leader, helper = (
            seal_aggregate_share(self.task, role, request.encode(), tally.agg_share, entropy)
            for role, tally in zip((Role.LEADER, Role.HELPER), tallies, strict=True)
        )
        interval = Interval(tallies[0].first_time, tallies[0].last_time - tallies[0].first_time + 1)
        response = CollectionJobResp(tallies[0].count, interval, leader, helper)
        aggregate = open_collection(self.task, self.collector, request, response)
        return collector_side(self.recipe.model).release(self.recipe, "batch", 0, aggregate, 0.0)


@pytest.mark.slow
@pytest.mark.false_alarm(ALPHA, "five tests, corrected", runs=3)
@pytest.mark.parametrize("runs", [10, pytest.param(RUNS, marks=pytest.mark.slow)])
def test_errors_of_whole_contributions_look_standard_normal(runs: int) -> None:
    answers = [category for category, devices in enumerate(VISITS) for _ in range(devices)]
    parties = Parties(KIT.recipe(population=DEVICES, rate=Decimal(str(RATE))), answers)
    expected = estimator_of(randomizer_of(parties.recipe)).expected_stderrs(VISITS, DEVICES, SampleDesign(RATE))
    scores = Scores()
    for run in range(runs):
        entropy = SeededEntropy(b"whole %d" % run)
        result = parties.release(parties.aggregate(parties.contribute(entropy)), entropy)
        assert sum(row["count"] for row in result["buckets"]) == result["report_count"]
        scores.add(
            VISITS,
            [row["estimate"] for row in result["buckets"]],
            [row["stderr"] for row in result["buckets"]],
            expected,
        )
    assert scores.smallest() > ALPHA, (normality(scores.exact), normality(scores.reported))


@dataclass(frozen=True)
class Crowd:
    """A stack with one active recipe, and three hundred devices that hold their tokens."""

    template: Template
    recipe: Recipe
    devices: Sequence[Device]
    now: float


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Crowd:
    """Issue every device's token once, through attester and issuer."""

    async def make() -> Crowd:
        folder = tmp_path_factory.mktemp("crowd") / "stack"
        await Template.make(folder, options=replace(OPTIONS, slots_per_epoch=1))
        async with Simulation(folder, seed=b"crowd").running() as simulation:
            question = Question(
                text="How many doctor visits?",
                metric="mdvis",
                encoder=Buckets(kind="buckets", edges=tuple(range(16))),
                statistic="histogram",
            )
            recipe = simulation.recipe(
                question=question, population=DEVICES, rate=Decimal(str(RATE)), min_batch_size=None
            )
            await simulation.publish(recipe)
            answers = [str(bucket) for bucket, devices in enumerate(VISITS) for _ in range(devices)]
            simulation.provision([{"mdvis": answer} for answer in answers])
            for device in simulation.devices:
                await device.agent.sync()
            simulation.clock.jump(recipe.interval.start - 1 - simulation.clock.now())
            for device in simulation.devices:
                await device.agent.prefetch()
            return Crowd(Template(folder), recipe, simulation.devices, simulation.clock.now())

    return asyncio.run(make())


async def whole_run(crowd: Crowd, folder: Path, seed: int) -> dict[str, Any]:
    """One run of the whole stack: 300 agents, relay, gateway, leader, helper, collector; the result document."""
    simulation = Simulation(crowd.template.copy(folder), seed=seed, now=crowd.now)
    async with simulation.running():
        devices = simulation.adopt(crowd.devices)
        for device in devices:
            await device.agent.sync()
            await device.agent.consider()
        simulation.clock.jump(crowd.recipe.interval.end - 1 - simulation.clock.now())
        for device in devices:
            await device.agent.send_due()
        simulation.clock.jump(2)
        collection = await simulation.collect(crowd.recipe)
        assert collection["state"] == "released", collection
        (result,) = await simulation.results(crowd.recipe)
        reports = [report for device in devices if (report := device.report(crowd.recipe)) is not None]
        measurements = [simulation.measurement(crowd.recipe, report) for report in reports]
        counts = [sum(column) for column in zip(*measurements, strict=True)]
        assert [row["count"] for row in result["buckets"]] == counts
        found: dict[str, Any] = result
        return found


def scored(crowd: Crowd, folder: Path, seeds: Sequence[int]) -> Scores:
    """Standardised errors of whole runs."""
    expected = estimator_of(randomizer_of(crowd.recipe)).expected_stderrs(VISITS, DEVICES, SampleDesign(RATE))
    scores = Scores()
    for seed in seeds:
        result = asyncio.run(whole_run(crowd, folder / str(seed), seed))
        shutil.rmtree(folder / str(seed))
        estimates, stderrs = ([row[name] for row in result["buckets"]] for name in ("estimate", "stderr"))
        scores.add(VISITS, estimates, stderrs, expected)
    return scores


@pytest.mark.slow
def test_errors_of_two_runs_of_the_whole_stack_are_not_outrageous(crowd: Crowd, tmp_path: Path) -> None:
    """Two runs cannot show a distribution, only that nothing is lost, doubled or scaled wrongly: none of 32
    standardised errors beyond 4.5 (false alarm 2 in 10,000), their mean square below 2.5."""
    scores = scored(crowd, tmp_path, range(2))
    errors = [z for run in scores.exact for z in run]
    assert max(map(abs, errors)) < 4.5
    assert sum(z * z for z in errors) / len(errors) < 2.5


@pytest.mark.slow
def test_errors_of_the_whole_stack_look_standard_normal_in_fifty_runs(crowd: Crowd, tmp_path: Path) -> None:
    scores = scored(crowd, tmp_path, range(RUNS))
    assert scores.smallest() > ALPHA, (normality(scores.exact), normality(scores.reported))
