"""Rounds of local randomizers are composed by their own losses: against every outcome of small device paths."""

from __future__ import annotations

import math
from collections import defaultdict
from decimal import Decimal
from functools import partial
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.dp.donation import epsilon_rounds
from tacit.dp.solve import smallest_epsilon
from tacit.methods.base import method as base
from tacit.methods.base.method import LocalMethod
from tacit.methods.krr import Krr
from tacit.methods.oue import Oue
from tacit.methods.rappor import Rappor
from tacit.methods.rr import Rr
from tacit.recipe.claims import _own_losses, _Seen

Outcome = tuple[int, ...]
Law = dict[Outcome, float]
Masses = NDArray[np.float64]


def report(method: LocalMethod, answer: int | None) -> Law:
    """The law of one report that is sent, as numbers that are added up; None: a missing answer."""
    hit, noise = map(float, method.output_probabilities())
    cells = method.cells
    found: defaultdict[Outcome, float] = defaultdict(float)
    if isinstance(method, Krr):
        for place in range(cells):
            at = tuple(int(cell == place) for cell in range(cells))
            found[at] += 1 / cells if answer is None else hit if place == answer else noise
        return found
    if isinstance(method, Rr):
        one = 0.5 if answer is None else hit if answer else noise
        return {(0,): 1 - one, (1,): one}
    assert isinstance(method, Rappor | Oue)
    for bits in product((0, 1), repeat=cells):
        if sum(bits) <= method.max_weight:
            chances = [hit if cell == answer else noise for cell in range(cells)]
            found[bits] = math.prod(p if bit else 1 - p for bit, p in zip(bits, chances, strict=True))
    return {at: mass / sum(found.values()) for at, mass in found.items()}


def added(one: Law, other: Law) -> Law:
    found: defaultdict[Outcome, float] = defaultdict(float)
    for (a, mass), (b, chance) in product(one.items(), other.items()):
        found[tuple(x + y for x, y in zip(a, b, strict=True))] += mass * chance
    return found


def seen(method: LocalMethod, answers: tuple[int | None, ...], rate: float, least: int) -> Law:
    """All that one aggregator sees of a round of these devices: the batch's size, and from ``least`` reports on the
    sum. For ``krr`` that is as much as the reports in a random order."""
    found: Law = {(0, *(0,) * method.cells): 1.0}
    for answer in answers:
        sent = {(1, *at): rate * mass for at, mass in report(method, answer).items()}
        found = added(found, {(0,) * (method.cells + 1): 1 - rate, **sent})
    shown: defaultdict[Outcome, float] = defaultdict(float)
    for (size, *at), mass in found.items():
        shown[(size, *at) if size >= least else (size,)] += mass
    return shown


def hockey(p: Law, q: Law, epsilon: float) -> float:
    return math.fsum(max(mass - math.exp(epsilon) * q.get(at, 0.0), 0.0) for at, mass in p.items())


def exact_epsilon(laws: list[tuple[Law, Law]], delta: float) -> float:
    """The epsilon of independent rounds, each with a law for either answer, in the worse direction."""
    worst = 0.0
    for order in (1, -1):
        whole, neighbour = np.ones(1), np.ones(1)
        for pair in laws:
            p, q = pair[::order]
            places = sorted({*p, *q})
            one, other = (np.array([law.get(at, 0.0) for at in places]) for law in (p, q))
            whole, neighbour = np.multiply.outer(whole, one).ravel(), np.multiply.outer(neighbour, other).ravel()
        worst = max(worst, smallest_epsilon(partial(stick, whole, neighbour), delta, 100.0))
    return worst


def stick(whole: Masses, neighbour: Masses, epsilon: float) -> float:
    return float(np.maximum(whole - math.exp(epsilon) * neighbour, 0).sum())


RR, KRR = Rr(Decimal(1)), Krr(Decimal("1.5"), 3)
RAPPOR, OUE = Rappor(Decimal(2), 2, 1), Oue(Decimal(1), 2, 1)
METHODS: list[LocalMethod] = [RR, KRR, RAPPOR, OUE]


@pytest.mark.parametrize("method", METHODS, ids=lambda one: one.NAME)
@pytest.mark.parametrize("counted", [2, 1 << 17])
def test_the_curve_of_a_sum_lies_above_every_pair_of_answers_among_all_others(
    method: LocalMethod, counted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "MOST_COUNTED", counted)
    answers = (None, *range(max(2, method.cells)))
    curve, single = method.aggregate_curve(4), method.reports_curve(4)
    for epsilon in (0.0, 0.05, 0.3, 0.8, 1.4, 2.5):
        worst = max(
            hockey(seen(method, (x, *held), 1.0, 0), seen(method, (y, *held), 1.0, 0), epsilon)
            for held in ((0, 0, 0), (1, 1, 1), (0, 1, 1), (None, 0, 1))
            for x, y in product(answers, repeat=2)
        )
        assert worst <= curve(epsilon) + 1e-15 <= single(epsilon) + 2e-15


@pytest.mark.parametrize("method", METHODS, ids=lambda one: one.NAME)
def test_two_rounds_cost_no_more_over_all_outcomes_than_their_own_losses(method: LocalMethod) -> None:
    n, delta = 4, 0.02
    with_relay = _own_losses(method, _Seen.SUM, n=n, rounds=2, delta=delta, rate=None)
    worst = 0.0
    for first, second in (((0, 0, 0), (0, 0, 0)), ((0, 0, 1), (1, 1, 0)), ((1, 1, 1), (None, 1, 0))):
        laws = [(seen(method, (0, *held), 1.0, 0), seen(method, (1, *held), 1.0, 0)) for held in (first, second)]
        worst = max(worst, exact_epsilon(laws, delta))
    assert 0 < worst <= with_relay <= 2 * float(method.epsilon0)


@pytest.mark.parametrize("ones", [0, 20, 40])
def test_coins_sizes_and_flipped_bits_of_two_rounds_cost_no_more_than_the_claim_against_one_aggregator(
    ones: int,
) -> None:
    rate, least, delta = 0.1, 10, 0.1
    held = (1,) * ones + (0,) * (40 - ones)
    laws = [seen(RR, (answer, *held), rate, least) for answer in (0, 1)]
    one, both = (_own_losses(RR, own, n=least, rounds=2, delta=delta, rate=rate) for own in (_Seen.SUM, _Seen.REPORTS))
    assert exact_epsilon([(laws[0], laws[1])] * 2, delta) <= one <= both
    assert one < _own_losses(RR, _Seen.SUM, n=least, rounds=2, delta=delta, rate=None), "sampling counts"


@pytest.mark.parametrize("categories", [2, 3, 8])
def test_single_reports_of_rounds_cost_what_all_their_outcomes_do(categories: int) -> None:
    method, delta = Krr(Decimal(1), categories), 0.01
    laws = [report(method, answer) for answer in (0, 1, None)]
    claim = _own_losses(method, _Seen.SINGLE, 1, 3, delta, None)
    for neighbour in laws[1:]:
        assert exact_epsilon([(laws[0], neighbour)] * 3, delta) <= claim
    general = epsilon_rounds(1.0, 0.0, 3, delta)
    assert claim == pytest.approx(exact_epsilon([(laws[0], laws[1])] * 3, delta), rel=0.02)
    assert (claim < 0.9 * general) == (categories == 8)
