"""Many rounds of one mechanism: against whole outcomes, closed forms, and the operator's accountant."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting.accountants import epsilon_pld
from tacit.accounting.events import Gaussian, Relation, Repeated, Sampled
from tacit.dp.binomial_noise import delta_noise, epsilon_noise
from tacit.dp.gaussian import delta_gaussian, delta_subsampled, epsilon_gaussian
from tacit.dp.repeated.convolve import epsilon_of, fold, transform
from tacit.dp.repeated.losses import Curve, Loss, loss_of
from tacit.dp.repeated.rounds import (
    epsilon_repeated,
    epsilon_sampled_gaussian,
    epsilon_sampled_rounds,
    epsilon_visible_rounds,
)
from tacit.dp.repeated.shares import epsilon_share_rounds, share_for_rounds, twice
from tacit.dp.reports import NoiseStep
from tacit.dp.sampling import excess_bound, seen_rate
from tacit.dp.solve import smallest_epsilon
from tacit.dp.vector_noise import VectorStep

Law = dict[object, float]


def hockey(p: Law, q: Law, epsilon: float) -> float:
    return math.fsum(max(mass - math.exp(epsilon) * q.get(at, 0.0), 0.0) for at, mass in p.items())


def together(laws: Sequence[Law]) -> Law:
    """The joint law of independent outcomes."""
    found: Law = {(): 1.0}
    for law in laws:
        found = {(*at, one): mass * chance for at, mass in found.items() for one, chance in law.items()}  # type: ignore[misc]
    return found


def exact_epsilon(p: Law, q: Law, delta: float) -> float:
    return smallest_epsilon(lambda epsilon: hockey(p, q, epsilon), delta, 100.0)


def curves(p: Law, q: Law) -> tuple[Curve, Curve]:
    return lambda epsilon: hockey(p, q, epsilon), lambda epsilon: hockey(q, p, epsilon)


def joined(loss: Loss, epsilon: float) -> float:
    """The curve of a discrete loss."""
    terms = zip(loss.values, loss.masses, strict=True)
    return loss.infinite + math.fsum(mass * max(-math.expm1(epsilon - value), 0.0) for value, mass in terms)


@given(st.lists(st.integers(1, 30), min_size=4, max_size=16), st.integers(2, 24), st.integers(1, 3))
@settings(max_examples=30, deadline=None)
def test_a_transform_and_a_power_are_those_of_the_definition(values: list[int], count: int, log_size: int) -> None:
    size = 4 << log_size
    masses = [value / sum(values) for value in values] + [0.0] * (size - len(values))
    masses = masses[:size]
    masses = [mass / sum(masses) for mass in masses]
    assert np.allclose(transform([complex(mass) for mass in masses]), np.fft.fft(masses), atol=1e-14)
    straight = np.array([1.0] + [0.0] * (size - 1))
    for _ in range(count):
        straight = np.array([sum(straight[j] * masses[(k - j) % size] for j in range(size)) for k in range(size)])
    found = np.array(fold(masses, count))
    assert (found >= straight).all()
    assert np.allclose(found, straight, atol=1e-11)


LAWS = st.lists(st.integers(0, 20), min_size=4, max_size=4).filter(lambda masses: sum(masses) > 0)


def law_of(masses: Sequence[int]) -> Law:
    return {place: mass / sum(masses) for place, mass in enumerate(masses)}


@given(LAWS, LAWS, st.floats(-4, 4), st.floats(1e-4, 0.5))
@settings(max_examples=60, deadline=None)
def test_a_discrete_loss_dominates_its_mechanism_everywhere_on_a_grid_too(
    one: list[int], other: list[int], epsilon: float, width: float
) -> None:
    p, q = law_of(one), law_of(other)
    true, loss = hockey(p, q, epsilon), loss_of(*curves(p, q), 1e-12)
    assert joined(loss, epsilon) >= true * (1 - 1e-13) - 1e-15
    assert joined(loss.split(width), epsilon) >= true * (1 - 1e-11) - 1e-15
    assert joined(loss, epsilon) <= true + 0.03


@given(LAWS, LAWS, st.integers(1, 4), st.sampled_from([1e-6, 1e-3, 0.05]))
@settings(max_examples=20, deadline=None)
def test_no_epsilon_is_below_that_of_whole_outcomes(
    one: list[int], other: list[int], rounds: int, delta: float
) -> None:
    p, q = law_of(one), law_of(other)
    found = epsilon_repeated(*curves(p, q), rounds, delta)
    exact = exact_epsilon(together([p] * rounds), together([q] * rounds), delta)
    assert found >= exact * (1 - 1e-9)


def sums(flips: int, moved: int, shown: Law | None = None) -> Law:
    """A value and fair flips, as one number."""
    return {moved + heads: math.comb(flips, heads) / 2**flips for heads in range(flips + 1)}


def mixture(rate: float, one: Law, other: Law) -> Law:
    found: defaultdict[object, float] = defaultdict(float)
    for share, law in ((1 - rate, one), (rate, other)):
        for at, mass in law.items():
            found[at] += share * mass
    return dict(found)


PLACES = [(v, x) for v in (0, 1) for x in (0, 1)]


@pytest.mark.parametrize(("rate", "delta"), [(0.2, 0.01), (0.2, 0.05), (0.7, 0.05)])
def test_rounds_of_coin_flips_cost_no_more_whatever_the_others_hold(rate: float, delta: float) -> None:
    flips, rounds = 7, 2
    bound = epsilon_sampled_rounds(lambda epsilon: delta_noise(epsilon, flips, 1), rate, rounds, delta)
    worst = 0.0
    for held in product((0, 1), repeat=rounds):  # what the device in whose place it may be holds, round by round
        laws = [[mixture(rate, sums(flips, v), sums(flips, x)) for v in held] for x in (0, 1)]
        for p, q in (laws, laws[::-1]):
            worst = max(worst, exact_epsilon(together(p), together(q), delta))
    assert worst <= bound <= 1.25 * worst


@pytest.mark.parametrize("values", [(0, 0, 1), (1, 1, 1), (0, 1, 0)])
def test_rounds_of_a_sample_of_known_size_cost_no_more_over_all_draws_and_flips(values: tuple[int, ...]) -> None:
    drawn, flips, rounds, delta = 2, 4, 2, 1e-3
    everyone = len(values) + 1

    def law(own: int) -> Law:
        found: defaultdict[object, float] = defaultdict(float)
        draws = list(combinations((*values, own), drawn))
        for draw in draws:
            for at, mass in sums(drawn * flips, sum(draw)).items():
                found[at] += mass / len(draws)
        return dict(found)

    def base(epsilon: float) -> float:
        return delta_noise(epsilon, drawn * flips, 1)

    bound = epsilon_sampled_rounds(base, drawn / everyone, rounds, delta)
    for p, q in ((law(0), law(1)), (law(1), law(0))):
        assert exact_epsilon(together([p] * rounds), together([q] * rounds), delta) <= bound


@pytest.mark.parametrize(
    ("rounds", "delta", "target"),
    [(2500, 1e-8, 1.02045), (1000, 1e-8, 0.6338), (1500, 1e-8, 0.7820), (2500, 1e-6, 0.8319), (2500, 1e-5, 0.7227)],
)
def test_the_rounds_of_example_5_cost_what_privacy_loss_distributions_say(
    rounds: int, delta: float, target: float
) -> None:
    assert epsilon_sampled_gaussian(5.1, 0.02, rounds, delta) == pytest.approx(target, rel=1e-3)


@pytest.mark.parametrize(
    ("sigma", "rate", "rounds", "delta"),
    [
        (5.1, 0.02, 2500, 1e-8),
        pytest.param(0.8, 0.01, 300, 1e-6, marks=pytest.mark.slow),
        pytest.param(1.0, 0.3, 40, 1e-7, marks=pytest.mark.slow),
        (2.0, 0.001, 20_000, 1e-6),
    ],
)
def test_no_epsilon_is_below_the_optimistic_one_of_the_accountant(
    sigma: float, rate: float, rounds: int, delta: float
) -> None:
    optimistic = pld.from_gaussian_mechanism(
        sigma,
        sampling_prob=rate,
        pessimistic_estimate=False,
        use_connect_dots=False,
        value_discretization_interval=1e-4,
    )
    found = epsilon_sampled_gaussian(sigma, rate, rounds, delta)
    assert found >= optimistic.self_compose(rounds).get_epsilon_for_delta(delta)
    pessimistic = epsilon_pld(Repeated(Sampled(Gaussian(sigma), rate), rounds), delta, Relation.ADD_REMOVE)
    assert found == pytest.approx(pessimistic, rel=4e-3)


@pytest.mark.parametrize("releases", [1, 50, 2500])
def test_rounds_of_known_participants_are_the_closed_form(releases: int) -> None:
    exact = epsilon_gaussian(5.1, 1e-8, 1.0, releases)
    found = epsilon_sampled_gaussian(5.1, 1.0, releases, 1e-8)
    assert exact <= found <= 1.001 * exact


@pytest.mark.parametrize(("sigma", "rate"), [(5.1, 0.02), (1.0, 0.2), (0.5, 0.001)])
def test_one_sampled_round_is_the_closed_form(sigma: float, rate: float) -> None:
    exact = smallest_epsilon(lambda epsilon: delta_subsampled(epsilon, sigma, rate), 1e-7, 50.0)
    assert exact <= epsilon_sampled_gaussian(sigma, rate, 1, 1e-7) <= 1.015 * exact


@pytest.mark.parametrize("cells", [1, 2])
def test_one_round_of_coin_flips_is_the_exact_sum(cells: int) -> None:
    exact = epsilon_noise(15_000, 12, 1e-8, cells)
    found = epsilon_sampled_rounds(lambda epsilon: delta_noise(epsilon, 15_000, 12, cells), 1.0, 1, 1e-8)
    assert exact <= found <= 1.003 * exact


@pytest.mark.parametrize("cells", [1, 2])
def test_many_sampled_rounds_of_many_flips_approach_the_gaussian_of_their_variance(cells: int) -> None:
    flips, scale = 15_000, 12
    sigma = math.sqrt(flips / cells) / (2 * scale)
    found = epsilon_sampled_rounds(lambda epsilon: delta_noise(epsilon, flips, scale, cells), 0.02, 2500, 1e-8)
    limit = epsilon_sampled_rounds(lambda epsilon: delta_gaussian(epsilon, sigma), 0.02, 2500, 1e-8)
    assert found == pytest.approx(limit, rel=1e-4)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.7, 1.4, 3.0])
def test_two_cells_from_the_losses_of_one_are_just_above_the_exact_sum(epsilon: float) -> None:
    total, moved = 2_000, 4

    def one(epsilon: float) -> float:
        return delta_noise(epsilon, total, moved)

    exact = delta_noise(epsilon, total, moved, 2)
    assert exact <= twice(loss_of(one, one, 1e-12))(epsilon) <= 1.05 * exact + 1e-11


@pytest.mark.parametrize("cells", [1, 2])
def test_shares_of_many_flips_cost_what_their_exact_curve_gives(cells: int) -> None:
    step, n, rounds, delta = NoiseStep(12, 3, 1, cells), 10_000, 400, 1e-7

    def base(epsilon: float) -> float:
        return delta_noise(epsilon, 30_000, 12, cells)

    effective = seen_rate(0.02, n, 0.05 * delta / rounds)
    assert effective is not None
    seen = epsilon_sampled_rounds(base, effective, rounds, 0.95 * delta)
    assert epsilon_share_rounds(step, n, rounds, delta, 0.02) == pytest.approx(seen, rel=2e-3)
    open_ = epsilon_sampled_rounds(base, 1.0, rounds, delta)
    assert epsilon_share_rounds(step, n, rounds, delta) == pytest.approx(open_, rel=2e-3)
    assert epsilon_share_rounds(step, n, rounds, delta, 1.0) == pytest.approx(open_, rel=2e-3)
    assert epsilon_share_rounds(step, 40, rounds, delta, 0.5) == math.inf, "too little noise"


@pytest.mark.parametrize(("rate", "rounds"), [(None, 40), (0.02, 2500)])
def test_rounds_of_vectors_cost_hardly_more_than_those_of_the_gaussian_of_their_variance(
    rate: float | None, rounds: int
) -> None:
    n, flips, delta = 10_000, 576, 1e-8
    step = NoiseStep(1, flips, vector=VectorStep(10_000, 200, 200**2))
    sigma = math.sqrt(n * flips) / 2 / 200
    found = epsilon_share_rounds(step, n, rounds, delta, rate)
    if rate is None:
        limit = epsilon_gaussian(sigma, delta, 1.0, rounds)
    else:
        limit = epsilon_visible_rounds(lambda epsilon: delta_gaussian(epsilon, sigma), rate, n, rounds, delta)
    assert limit < found <= 1.003 * limit
    assert epsilon_share_rounds(replace(step, scale=32), n, rounds, delta, rate) == math.inf, "too little noise"


STEPS = [NoiseStep(1, 1, 5), NoiseStep(1, 1, cells=2), NoiseStep(1, 1, vector=VectorStep(500, 20, 400))]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("rate", "rounds", "epsilon"), [(None, 10, 2.0), (0.02, 400, 0.5), (0.5, 3, 1.0)])
def test_the_share_for_a_total_keeps_it_with_hardly_more_noise_than_it_needs(
    step: NoiseStep, rate: float | None, rounds: int, epsilon: float
) -> None:
    n, delta = 3_000, 1e-7
    share = share_for_rounds(step, n, rounds, epsilon, delta, rate)
    made = replace(step, scale=share.scale, flips=share.flips)
    assert 0.97 * epsilon <= epsilon_share_rounds(made, n, rounds, delta, rate) <= epsilon


def test_a_total_that_no_share_keeps_is_refused() -> None:
    with pytest.raises(ValueError, match="more devices"):
        share_for_rounds(NoiseStep(1, 1, 1000), 2, 2500, 0.01, 1e-8)
    with pytest.raises(ValueError, match="epsilon"):
        share_for_rounds(NoiseStep(1, 1), 2, 10, 0.0, 1e-8)


def test_a_batch_too_small_for_its_rate_is_not_counted_as_sampled() -> None:
    few = epsilon_visible_rounds(lambda epsilon: delta_gaussian(epsilon, 20.0), 0.02, 3, 100, 1e-7)
    assert few == epsilon_sampled_rounds(lambda epsilon: delta_gaussian(epsilon, 20.0), 1.0, 100, 1e-7)


def test_between_too_small_and_large_batches_sampling_counts_a_little_less_with_each_device_less() -> None:
    """A batch of 80 at rate 0.05, of 30 rounds: no closed form fits, and all amplification was thrown away."""
    assert excess_bound(0.05, 80, 0.05 * (1 + math.sqrt(-3 * math.log(0.05e-6 / 30) / 80))) > 1e-6 / 30
    sizes, base = range(4, 404, 10), lambda epsilon: delta_gaussian(epsilon, 4.0)
    found = [epsilon_visible_rounds(base, 0.05, n, 30, 1e-6) for n in sizes]
    open_ = epsilon_sampled_rounds(base, 1.0, 30, 1e-6)
    assert found[0] == open_ > 6
    assert all(more <= fewer for fewer, more in itertools.pairwise(found))
    assert found[sizes.index(84)] < 0.2 * open_
    assert max(fewer / more for fewer, more in itertools.pairwise(found[1:])) < 1.9, "no cliff"


def test_by_replacement_no_sample_of_known_size_costs_less_than_a_report_more_or_less() -> None:
    replaced = epsilon_sampled_rounds(lambda epsilon: delta_gaussian(epsilon, 5.1), 0.02, 2500, 1e-8)
    assert epsilon_sampled_gaussian(5.1, 0.02, 2500, 1e-8) < replaced < 1.1


@given(st.floats(0.5, 8), st.floats(0.001, 0.9), st.integers(1, 3000), st.floats(1e-12, 1e-3))
@settings(max_examples=4, deadline=None)
def test_epsilon_grows_with_rounds_and_rate_and_falls_with_sigma(
    sigma: float, rate: float, rounds: int, delta: float
) -> None:
    found = epsilon_sampled_gaussian(sigma, rate, rounds, delta)
    within = 1 - 5e-3
    assert epsilon_sampled_gaussian(sigma, rate, 2 * rounds, delta) >= within * found
    assert epsilon_sampled_gaussian(sigma, min(1.0, 1.1 * rate), rounds, delta) >= within * found
    assert epsilon_sampled_gaussian(1.2 * sigma, rate, rounds, delta) * within <= found


def test_where_nothing_hides_an_answer_epsilon_is_infinite_and_where_all_does_it_is_nothing() -> None:
    def open_(_: float) -> float:
        return 1e-6

    def closed(_: float) -> float:
        return 0.0

    assert math.isinf(epsilon_sampled_rounds(open_, 0.5, 100, 1e-6))
    assert epsilon_sampled_rounds(open_, 0.5, 100, 1e-3) < 1e-3
    assert epsilon_sampled_rounds(closed, 0.5, 100, 1e-6) < 1e-9
    assert math.isinf(epsilon_of(Loss([], [], 1.0), 3, 0.1))


def coined(value: int, others: int, rate: float, flips: int, least: int) -> Law:
    """All that is seen of a round: every device's coin, the size of the batch, and from ``least`` reports on the sum
    of values and flips. One device holds ``value``, the ``others`` 0."""
    found: defaultdict[object, float] = defaultdict(float)
    for own in (0, 1):
        for more in range(others + 1):
            chance = (rate if own else 1 - rate) * math.comb(others, more)
            chance *= rate**more * (1 - rate) ** (others - more)
            size = own + more
            if size < least:
                found[size, -1] += chance
                continue
            for at, mass in sums(size * flips, own * value).items():
                found[size, at] += chance * mass
    return dict(found)


@pytest.mark.parametrize(
    ("others", "rate", "flips", "least", "rounds", "delta"),
    [
        (3, 0.3, 12, 1, 2, 0.3),
        (5, 0.2, 9, 2, 2, 0.2),
        (4, 0.5, 10, 2, 2, 0.1),
        (2, 0.1, 16, 1, 3, 0.3),
        (50, 0.1, 1, 10, 2, 0.1),
        (60, 0.1, 1, 12, 2, 0.1),
    ],
)
def test_the_claim_of_a_device_path_with_coins_noise_and_seen_sizes_is_never_below_the_truth(
    others: int, rate: float, flips: int, least: int, rounds: int, delta: float
) -> None:
    laws = [coined(value, others, rate, flips, least) for value in (0, 1)]
    places = sorted({*laws[0], *laws[1]})  # type: ignore[type-var]
    claim = epsilon_share_rounds(NoiseStep(1, flips), least, rounds, delta, rate)
    if others > 10:
        assert 0 < claim < epsilon_share_rounds(NoiseStep(1, flips), least, rounds, delta), "sampling counts"
    one, other = (np.array([law.get(place, 0.0) for place in places]) for law in laws)
    assert one.sum() == pytest.approx(1.0)
    assert other.sum() == pytest.approx(1.0)
    for p, q in ((one, other), (other, one)):
        whole, neighbour = np.ones(1), np.ones(1)
        for _ in range(rounds):
            whole, neighbour = np.multiply.outer(whole, p).ravel(), np.multiply.outer(neighbour, q).ravel()
        assert 0 < np.maximum(whole - math.exp(claim) * neighbour, 0).sum() <= delta


REFUSED: list[Callable[[], float]] = [
    lambda: epsilon_sampled_gaussian(5.1, 0.02, 0, 1e-8),
    lambda: epsilon_sampled_gaussian(5.1, 0.02, 100_001, 1e-8),
    lambda: epsilon_sampled_gaussian(5.1, 1.2, 10, 1e-8),
    lambda: epsilon_sampled_gaussian(0.0, 0.5, 10, 1e-8),
    lambda: epsilon_sampled_gaussian(5.1, 0.5, 10, 0.0),
]


@pytest.mark.parametrize("asked", REFUSED)
def test_a_parameter_out_of_range_is_named(asked: Callable[[], float]) -> None:
    with pytest.raises(ValueError, match=r"rounds|rate|sigma|delta"):
        asked()
