"""Model ``shuffled`` by exact enumeration: the whole device path from datum to bundle, for each outcome of its draws,
and what the analyzer sees of tiny populations, for every composition of the others."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from client_agent.answering import AnswerSources, Data, KeptStates
from client_agent.config import Timing
from client_agent.data.sources import CallableSource
from client_agent.deciding import AgentEnv, Decider, Decision
from client_agent.journal import MemoryAgentStore, State
from client_agent.panprivate.watches import Watches
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import NOW
from infra.lab.kit.shuffled import ShuffledKit
from tacit.dp.shuffled_counts import delta_hist, delta_zsum
from tacit.logview.live import LiveLog
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.draws import BYTES, ONE
from tacit.methods.base.statistics import HISTOGRAM, Shape
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.planners.registry import planner_of
from tacit.methods.randomisers.shuffled import shuffled_randomiser_of
from tacit.methods.shuffled import Zsum
from tacit.methods.shuffled_few import Unbiased
from tacit.models.shuffled.task import counts_of
from tacit.recipe.model import Recipe
from tacit.task.one_server import OneServerTask
from tacit.task.shuffled import Bundling
from tests.unit.device_path import Enumerated, Law, classes, convolved, divergence, telling
from tests.unit.test_local_laws import WALLET

KIT = ShuffledKit()
BATCH = 4
MANY = Shape(HISTOGRAM, 200)
RATE = "0.25"
VALUES = ("c0", "c1", None, "another")
SMALL = {"min_batch_size": BATCH, "expected_contributions": 2 * BATCH}


def recipe_of(categories: int, rate: str = "1") -> Recipe:
    """A recipe of ``zsum`` whose B is tiny; its claim is that of a larger one, because no epsilon is finite here."""
    big = KIT.stated({"name": "zsum", "categories": categories, "noise_rate": RATE}, rate)
    body = big.body()
    return Recipe.from_body({**body, "batch": {**body["batch"], **SMALL}})


class Draws(Enumerated):
    """A draw of 16 bytes that is compared with nothing is the noise of one cell."""

    def _choices(self, size: int) -> Any:
        if size == BYTES and self._told is None:
            return classes((math.ceil(Fraction(RATE) * ONE),), 1)
        return super()._choices(size)


class Path:
    """A device that accepts a recipe, and the numbers of messages that it seals."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, recipe: Recipe) -> None:
        self.sealed: list[tuple[int, ...]] = []
        self.log = LiveLog.from_leaves(enumerate([KIT.directory_leaf(), KIT.recipe_leaf(recipe)]))
        telling(monkeypatch, "client_agent.answering.coin", of=lambda _: (1 << 127, 1))
        monkeypatch.setattr(Decider, "refusals", lambda *_: [])
        monkeypatch.setattr(Bundling, "bundle", self._bundle)
        monkeypatch.setattr(OneServerTask, "seal", lambda *_: SimpleNamespace(encode=lambda: b"report"))

    def _bundle(self, counts: Sequence[int], _entropy: Any) -> bytes:
        self.sealed.append(tuple(counts))
        return b""

    async def law(self, value: Any) -> Law:
        """The exact law of what a fresh device with this value sends, None being silence."""
        entropy, found = Draws(), defaultdict[Any, Fraction](Fraction)
        for _ in entropy.runs():
            self.sealed.clear()
            clock, store = SimClock(float(NOW)), MemoryAgentStore()
            data = Data(CallableSource(lambda _metric: value), {}, store, clock)
            origins = AnswerSources(data, KeptStates(Watches(None, clock, entropy)))
            holder = SimpleNamespace(attributes={}, timing=Timing())
            parts: Any = (holder, KIT.policy, AgentEnv(clock, entropy, None), store, origins, WALLET)  # type: ignore[arg-type]
            made = await Decider(*parts).decisions(self.log, self.log.recipes, [])
            (entry,) = (one.entry for one in made if isinstance(one, Decision))
            assert entry.state in {State.SCHEDULED, State.NOT_SAMPLED}
            found[self.sealed[0] if entry.state is State.SCHEDULED else None] += entropy.weight
        assert sum(found.values()) == 1
        return dict(found)


def plus(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(left + right for left, right in zip(one, other, strict=True))


def totals(laws: Sequence[Law], others: int) -> Iterator[list[Law]]:
    """For every composition of the others: the law of the totals by the value of one device more."""
    zero = (0,) * len(next(iter(laws[0])))
    for held in itertools.combinations_with_replacement(laws, others):
        crowd = convolved(held, plus, zero)
        yield [convolved([crowd, own], plus, zero) for own in laws]


def worst(laws: Sequence[Law], n: int, epsilon: float) -> float:
    """The largest delta at ``epsilon`` of one replaced value among n devices, whatever the others have."""
    return max(
        float(divergence(*pair, epsilon)) for sums in totals(laws, n - 1) for pair in itertools.permutations(sums, 2)
    )


@pytest.mark.parametrize("epsilon", [0.2, 0.7, 1.5])
async def test_what_the_analyzer_sees_of_whole_device_paths_tells_exactly_what_is_claimed(
    epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a histogram, with devices without a value and with one of no category among them."""
    path = Path(monkeypatch, recipe_of(2))
    laws = [await path.law(value) for value in VALUES]
    assert laws[2] == laws[3], "what is no value is a missing one"
    rate = float(RATE)
    for n in (1, 2, BATCH):
        claimed = delta_hist(epsilon, n, n * rate)
        assert worst(laws, n, epsilon) == pytest.approx(claimed, rel=1e-9)
    assert worst(laws, BATCH + 1, epsilon) <= delta_hist(epsilon, BATCH, BATCH * rate)


@pytest.mark.parametrize("epsilon", [0.2, 0.7, 1.5])
async def test_a_count_tells_exactly_what_is_claimed_of_one_total(
    epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(monkeypatch, recipe_of(1))
    laws = [await path.law(value) for value in (True, False, None)]
    assert laws[1] == laws[2]
    for n in (1, BATCH, BATCH + 3):
        assert worst(laws, n, epsilon) == pytest.approx(delta_zsum(epsilon, n, n * float(RATE)), rel=1e-9)


async def test_silence_depends_on_no_value_nor_on_whether_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(monkeypatch, recipe_of(2, rate="0.5"))
    laws = [await path.law(value) for value in VALUES]
    assert {law[None] for law in laws} == {Fraction(1, 2)}


@pytest.mark.parametrize("weight", [1, 2, 3])
@pytest.mark.parametrize("n", [2, 4])
def test_bounded_noise_keeps_the_delta_that_its_bound_costs(weight: int, n: int) -> None:
    """By the law of noise given its bound: the module's inequality holds, and with no bound it is the exact delta."""
    method = Unbiased("histogram", 3, Decimal(RATE), weight)
    laws = [bounded_law(method, answer) for answer in (0, 1, 2, None)]
    kept = sum(math.comb(3, k) * Fraction(RATE) ** k * (1 - Fraction(RATE)) ** (3 - k) for k in range(weight + 1))
    eta = float(1 - kept**n)
    for epsilon in (0.5, 1.0):
        exact = delta_hist(epsilon, n, n * float(RATE))
        assert worst(laws, n, epsilon) <= (exact + math.exp(epsilon) * eta) / (1 - eta) + 1e-12
        if weight == 3:
            assert worst(laws, n, epsilon) == pytest.approx(exact, rel=1e-9)
    mean = sum(share * counts[0] for counts, share in laws[3].items())
    assert method.noise_mean == pytest.approx(float(mean))


def bounded_law(method: Unbiased, answer: int | None) -> Law:
    """The law of a device's messages, by definition."""
    rate = Fraction(RATE)
    fitting = [bits for bits in itertools.product((0, 1), repeat=3) if sum(bits) <= method.max_weight]
    shares = [math.prod((rate if bit else 1 - rate for bit in bits), start=Fraction(1)) for bits in fitting]
    own = tuple(int(cell == answer) for cell in range(3))
    return {plus(bits, own): share / sum(shares) for bits, share in zip(fitting, shares, strict=True)}


def test_bounded_noise_is_drawn_with_that_law() -> None:
    """Chi-square over 20,000 draws, below 27.9 for three degrees of freedom plus one for four outcomes of weight 1:
    a correct draw fails once in 250,000 runs."""
    method, entropy = Unbiased("histogram", 3, Decimal(RATE), 1), SeededEntropy(b"bounded")
    law = bounded_law(method, 1)
    seen = Counter(tuple(shuffled_randomiser_of(method).randomise(1, entropy)) for _ in range(20_000))
    assert seen.keys() == law.keys()
    expected = {counts: 20_000 * float(share) for counts, share in law.items()}
    assert sum((seen[one] - expected[one]) ** 2 / expected[one] for one in law) < 27.9


def test_a_bound_that_is_too_tight_for_delta_gives_no_claim() -> None:
    loose = planner_of(Unbiased).tuned(MANY, Decimal(1), 2_000, 1e-6)
    assert loose.aggregate_epsilon(2_000, 1e-6) == pytest.approx(1, abs=1e-4)
    tight = Unbiased("histogram", loose.cells, loose.noise_rate, loose.max_weight // 4)
    assert math.isinf(tight.aggregate_epsilon(2_000, 1e-6))


@pytest.mark.parametrize("kind", [Zsum, Unbiased])
def test_estimates_have_the_errors_that_they_state_and_empty_cells_no_false_positive(kind: Any) -> None:
    """10 cells, 400 devices, 60 runs: an estimate is within 5.5 errors with probability 1 - 4e-8 each (600 of them),
    and a run of zsum has no estimate above 0 for an answer that nobody has."""
    method, entropy = planner_of(kind).tuned(Shape(HISTOGRAM, 10), Decimal(1), 400, 1e-6), SeededEntropy(b"runs")
    truth = [300, 100, *[0] * 8]
    design, draw = SampleDesign(1.0), shuffled_randomiser_of(method).randomise
    for _ in range(60):
        counts = [0] * 10
        for answer in [0] * 300 + [1] * 100:
            counts = [one + more for one, more in zip(counts, draw(answer, entropy), strict=True)]
        found = estimator_of(method).estimate(counts, 400, design)
        if kind is Zsum:
            assert found.values[2:] == (0.0,) * 8
        checked = truth[:2] if kind is Zsum else truth
        rows = zip(found.values, checked, found.stderrs, strict=False)
        assert all(abs(value - true) < 5.5 * error for value, true, error in rows)
    expected = estimator_of(method).expected_stderrs(truth, 400, design)
    shown = 2 if kind is Zsum else 10
    assert expected[:shown] == pytest.approx(found.stderrs[:shown])
    assert estimator_of(counts_of(KIT.proposed())).missing_adds(design) == (0.0,) * 4


@pytest.mark.parametrize("count", [0, 10, 25, 40, 50, 60, 80, 200])
def test_an_interval_holds_the_truth_as_often_as_it_says_also_where_small_counts_are_cut(count: int) -> None:
    """By the exact law of the noise of 400 devices; discreteness makes up for the half per cent."""
    method = planner_of(Zsum).tuned(Shape(HISTOGRAM, 3), Decimal(1), 400, 1e-6)
    kept, held = 1 - method.noise_mean, 0.0
    for absent in range(401):
        share = math.comb(400, absent) * kept**absent * (1 - kept) ** (400 - absent)
        found = estimator_of(method).estimate([count + 400 - absent, 0, 0], 400, SampleDesign(1.0))
        held += share * (abs(found.values[0] - count) <= 1.96 * found.stderrs[0])
    assert held > 0.945
