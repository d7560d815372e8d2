"""What a series costs: against written-out enumerations, the operator's accountant, and the numbers of the design."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client_agent.journal import SeriesDraw
from client_agent.series import Participation
from infra.lab.kit.recipes import RecipeKit, changed
from tacit.accounting.mechanisms import explain
from tacit.dp import sampling
from tacit.dp.binomial_noise import delta_noise
from tacit.dp.claim import decimal_up
from tacit.dp.composition import delta_composed, epsilon_composed
from tacit.dp.donation import epsilon_donation, epsilon_rounds, slot_share, yield_of
from tacit.dp.repeated.rounds import epsilon_sampled_rounds
from tacit.dp.rr_exact import epsilon_one_cell, rr_flip
from tacit.errors import Refusal, UsageError
from tacit.ledger.account import ChargeState, Cost
from tacit.recipe.charges import series_charge
from tacit.recipe.claims import claim_of, donation_claim, independent_claim, total_claim
from tacit.recipe.derive import randomizer_of
from tacit.recipe.model import Recipe
from tacit.recipe.writing.series_builder import Shape, expected_contributions, propose_series, share_taking_part
from tacit.rules import series_table

KIT = RecipeKit()
Law = Mapping[tuple[int, ...], float]


def hockey(one: Law, other: Law, epsilon: float) -> float:
    """The larger hockey stick of two laws at ``epsilon``."""
    growth = math.exp(epsilon)
    outcomes = {*one, *other}
    return max(
        sum(max(a.get(outcome, 0.0) - growth * b.get(outcome, 0.0), 0.0) for outcome in outcomes)
        for a, b in ((one, other), (other, one))
    )


def donated(bit: int, epsilon0: float, rate: float, slots: int) -> Law:
    """Everything that is seen of a device which answers ``bit`` by randomised response in the first slot that its coin
    names; in the other slots somebody who holds a 0 answers instead."""
    flip = 1 / (math.exp(epsilon0) + 1)
    law: dict[tuple[int, ...], float] = {}
    choices: list[tuple[int | None, float]] = [(slot, slot_share(rate, slot)) for slot in range(slots)]
    for chosen, chance in [*choices, (None, (1 - rate) ** slots)]:
        held = [bit if slot == chosen else 0 for slot in range(slots)]
        for outcome in itertools.product((0, 1), repeat=slots):
            likely = math.prod(flip if seen != true else 1 - flip for seen, true in zip(outcome, held, strict=True))
            law[outcome] = law.get(outcome, 0.0) + chance * likely
    return law


@pytest.mark.parametrize("rate", [0.05, 1 / 3, 0.9])
@pytest.mark.parametrize("epsilon0", [0.3, 1.0, 3.0])
def test_three_slots_of_randomised_response_cost_no_more_than_each_bound(epsilon0: float, rate: float) -> None:
    """The exact law of all three rounds, for both neighbours: each of the bounds holds, and none is vacuous."""
    laws = donated(0, epsilon0, rate, 3), donated(1, epsilon0, rate, 3)
    whole = sampling.amplify(epsilon0, yield_of(rate, 3))
    assert hockey(*laws, whole) <= 1e-15
    assert hockey(*laws, epsilon0) <= 1e-15
    step = sampling.amplify(epsilon0, rate)
    for total in (0.5 * step, step, 2 * step):
        assert 0.0 < hockey(*laws, 0.5 * step) <= 1
        assert hockey(*laws, total) <= delta_composed(total, step, 0.0, 3) + 1e-15


def shared_batches(bit: int, epsilon0: float, devices: int, sizes: tuple[int, ...]) -> Law:
    """Sums of randomised bits per round, given the sizes of all batches: the assignment of ``devices`` to rounds is
    then uniform. One device holds ``bit``, all others 0."""
    flip = 1 / (math.exp(epsilon0) + 1)

    def summed(size: int, ones: int) -> list[float]:
        law = [1.0]
        for place in range(size):
            chance = 1 - flip if place < ones else flip
            law = [
                (law[count] if count < len(law) else 0.0) * (1 - chance) + (law[count - 1] if count else 0.0) * chance
                for count in range(len(law) + 1)
            ]
        return law

    found: dict[tuple[int, ...], float] = {}
    left = 1.0
    for chosen in (*range(len(sizes)), None):
        chance = left if chosen is None else sizes[chosen] / devices
        left -= 0.0 if chosen is None else chance
        laws = [summed(size, bit if at == chosen else 0) for at, size in enumerate(sizes)]
        for outcome in itertools.product(*(range(size + 1) for size in sizes)):
            likely = math.prod(law[count] for law, count in zip(laws, outcome, strict=True))
            found[outcome] = found.get(outcome, 0.0) + chance * likely
    return found


@pytest.mark.parametrize("sizes", [(2, 1, 1), (1, 2, 3), (4, 0, 1)])
def test_batches_whose_sizes_are_seen_hide_a_device_as_the_largest_share_of_those_left_says(
    sizes: tuple[int, int, int],
) -> None:
    devices, epsilon0 = 12, 1.5
    left = [devices - sum(sizes[:at]) for at in range(3)]
    share = max(size / among for size, among in zip(sizes, left, strict=True))
    laws = [shared_batches(bit, epsilon0, devices, sizes) for bit in (0, 1)]
    step = sampling.amplify(epsilon0, share)
    for total in (0.1 * step, step, 2 * step):
        assert hockey(laws[0], laws[1], total) <= delta_composed(total, step, 0.0, 3) + 1e-15
    assert hockey(laws[0], laws[1], sampling.amplify(epsilon0, yield_of(share, 3))) <= 1e-15


@pytest.mark.parametrize(
    ("epsilon", "delta", "slots", "composed"),
    [(1.0, 1e-8, 1000, 0.260), (0.5, 1e-8, 100, 0.307), (0.5, 1e-8, 1000, 0.094), (2.0, 1e-8, 1000, 1.027)],
)
def test_many_slots_come_to_the_optimal_composition_of_the_design(
    epsilon: float, delta: float, slots: int, composed: float
) -> None:
    """At very large B the seen batch size tells nothing, and what is left is the composition at a total of 2 delta."""
    found = epsilon_donation(epsilon, delta, rate=1 / slots, slots=slots, n=10**9, total_delta=2 * delta)
    assert found == pytest.approx(composed, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("slots", [2, 5, 10, 100, 1000])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-8), (0.5, 1e-6), (2.0, 1e-8)])
def test_the_light_bound_is_never_below_the_operators_for_a_gaussian_round(
    epsilon: float, delta: float, slots: int
) -> None:
    operators = explain("donation", {"epsilon": epsilon, "delta": delta, "m": slots})
    light = epsilon_donation(epsilon, delta, rate=1 / slots, slots=slots, n=10**8, total_delta=2 * delta)
    assert operators["epsilon"] <= light < epsilon
    assert light <= operators["epsilon_any_round"] * 1.01


@settings(max_examples=60, deadline=None)
@given(
    epsilon=st.floats(0.01, 4),
    exponent=st.floats(-9, -5),
    rate=st.floats(0.001, 1),
    slots=st.integers(1, 60),
    n=st.integers(1, 10**6),
)
def test_donation_never_costs_more_than_one_round_and_less_with_more_reports(
    epsilon: float, exponent: float, rate: float, slots: int, n: int
) -> None:
    delta = 10.0**exponent
    given_ = {"rate": rate, "slots": slots, "total_delta": 2 * delta}
    found = epsilon_donation(epsilon, delta, n=n, **given_)
    assert 0 <= found <= epsilon
    assert epsilon_donation(epsilon, delta, n=10 * n, **given_) <= found * (1 + 1e-6)


def test_a_total_delta_without_room_for_the_rounds_is_refused() -> None:
    with pytest.raises(ValueError, match="below the delta of one round"):
        epsilon_donation(1.0, 1e-6, rate=0.1, slots=5, n=1000, total_delta=1e-7)
    with pytest.raises(ValueError, match="below the sum"):
        epsilon_rounds(1.0, 1e-6, 11, 1e-5)
    assert epsilon_donation(1.0, 1e-6, rate=0.1, slots=5, n=1000, total_delta=1e-6) < 1, "sampling needs less"
    assert epsilon_donation(1.0, 1e-6, rate=1.0, slots=5, n=1000, total_delta=2e-6) == 1.0
    assert math.isinf(epsilon_donation(math.inf, 1e-6, rate=0.1, slots=5, n=1000, total_delta=2e-6))


def test_with_donation_each_adversary_faces_what_hides_the_one_round() -> None:
    series = KIT.series()
    one, total = claim_of(series.probe), total_claim(series)
    assert total["aggregator_with_relay"] == one["aggregator_with_relay"]
    assert total["both_aggregators_with_relay"] == one["both_aggregators_with_relay"] == float(series.probe.epsilon0)
    assert one["aggregator"] < total["aggregator"], "dearer than one round"
    assert total["aggregator"] < one["aggregator_with_relay"], "no dearer than (b)"
    assert total.delta == 1e-6 == 2 * one.delta
    assert series.claim.epsilon.model_dump() == total.rounded_up()


def test_without_donation_every_claim_composes() -> None:
    series = KIT.series(rounds=4, donation_slots=None)
    one, total = claim_of(series.probe), total_claim(series)
    for name in ("aggregator", "aggregator_with_relay", "both_aggregators"):
        assert one[name] < total[name] < 0.6 * epsilon_composed(one[name], one.delta, 4, 1e-6)
    general = epsilon_composed(one.epsilon0, 0.0, 4, 1e-6)
    assert 0.9 * general < total["both_aggregators_with_relay"] <= general


def test_rounds_of_noise_shares_compose_their_own_losses_with_sampling_against_the_aggregator_alone() -> None:
    series = KIT.series(rounds=40, donation_slots=None, randomizer="flips", epsilon=Decimal("0.5"))
    one, total = claim_of(series.probe), total_claim(series)
    step = randomizer_of(series.probe).noise_step
    assert step is not None
    noise, moved = one.n * step.flips, step.scale * step.maximum

    def base(epsilon: float) -> float:
        return delta_noise(epsilon, noise, moved, step.cells)

    effective = sampling.seen_rate(0.5, one.n, 0.05 * total.delta / 40)
    assert effective is not None
    assert total["aggregator"] == pytest.approx(epsilon_sampled_rounds(base, effective, 40, total.delta), rel=0.02)
    assert total["aggregator_with_relay"] == pytest.approx(epsilon_sampled_rounds(base, 1.0, 40, total.delta), rel=0.02)
    assert total["aggregator"] < total["aggregator_with_relay"]
    for name in ("aggregator", "aggregator_with_relay"):
        assert total[name] < 0.8 * epsilon_composed(one[name], one.delta, 40, total.delta)
    assert series.claim.epsilon.model_dump() == total.rounded_up()


def test_a_series_of_2500_rounds_is_drafted_checked_and_charged_once_with_slots_that_rotate_over_epochs() -> None:
    rate = Decimal("0.02")
    recipe = KIT.recipe(name="training", population=1_000_000, rate=rate, randomizer="flips", epsilon=Decimal(1))
    series = propose_series(recipe, Shape(2500, None, recipe.interval.start, 12_000, per_epoch=16))
    total = total_claim(series)
    assert total["aggregator"] < 0.6
    assert 40 < total["aggregator_with_relay"] < 50, "no sampling counts where the relay shows who takes part"
    policy = KIT.policy.model_copy(update={"allow_unbounded_local": True, "max_delta": "0.000001"})
    assert series_table.check(series, policy, recipe.interval.start - 86_400) == []
    strict = policy.model_copy(update={"max_series_epsilon_with_relay": "40"})
    (refusal,) = series_table.check(series, strict, recipe.interval.start - 86_400)
    assert refusal.rule == "series-claim"
    slots = {(series.token(index).epoch, series.token(index).slot) for index in range(2500)}
    assert len(slots) == 2500
    assert {epoch for epoch, _ in slots} == set(range(series.slots.epoch, series.slots.epoch + 157))
    charge = series_charge(series, ChargeState.PENDING)
    assert charge.cost == Cost(Decimal(decimal_up(total["aggregator"])), Decimal(series.claim.delta))
    round_ = series.round(2499, series.window(2499))
    assert Participation(round_, series, SeriesDraw(series.hash, series.name, 0.0, 0, None)).cost is None
    assert Participation(round_, series).cost == charge.cost


def test_a_series_is_drafted_for_the_total_that_its_rounds_may_cost_together() -> None:
    rate = Decimal("0.02")
    recipe = KIT.recipe(name="training", population=500_000, rate=rate, randomizer="flips", epsilon=Decimal(1))
    shape = Shape(500, None, recipe.interval.start, 12_000, per_epoch=16)
    series = propose_series(recipe, shape, total_epsilon=Decimal("0.4"))
    assert 0.38 < total_claim(series)["aggregator"] <= 0.4
    assert series.claim.epsilon.model_dump() == total_claim(series).rounded_up()
    with pytest.raises(UsageError, match="independent coins"):
        propose_series(recipe, Shape(3, 3, recipe.interval.start, 12_000), total_epsilon=Decimal(1))
    with pytest.raises(UsageError, match="more devices"):
        propose_series(recipe, Shape(9_000, None, recipe.interval.start, 3_000), total_epsilon=Decimal("0.000001"))


def test_noise_shares_stay_unbounded_against_both_aggregators() -> None:
    series = KIT.series(randomizer="flips", epsilon=Decimal("0.5"))
    stated = series.claim.epsilon
    assert stated["both_aggregators"] == stated["both_aggregators_with_relay"] == "unbounded"
    total = total_claim(series)
    assert total["aggregator"] < total["aggregator_with_relay"]


def _altered_sampling(recipe: Recipe) -> Recipe:
    class Extra(type(recipe.sampling)):  # type: ignore[misc]
        dummies: int = 3

    return recipe.model_copy(update={"sampling": Extra(rate=recipe.sampling.rate)})


def test_a_sample_design_that_nobody_has_accounted_for_is_refused() -> None:
    odd = _altered_sampling(KIT.recipe())
    with pytest.raises(Refusal, match="dummies is not accounted for in a series"):
        independent_claim(odd, 3, 1e-5)


def test_the_donation_of_a_recipe_is_cheaper_than_as_many_independent_rounds() -> None:
    recipe = changed(KIT.recipe(population=20_000), "privacy.delta", "0.0000001")
    once = donation_claim(recipe, 10, 1e-6)
    many = independent_claim(recipe, 10, 2e-6)
    for name, epsilon in once.items():
        assert epsilon < many[name] / 1.4


def test_expected_contributions_fall_by_the_share_that_is_left() -> None:
    series = KIT.series()
    assert expected_contributions(series, 2_000) == [667, 444, 296]
    assert share_taking_part(series) == pytest.approx(1 - (2 / 3) ** 3)
    assert series.probe.batch.min_batch_size == 237 == math.floor(0.8 * 2_000 * (4 / 27))
    assert series.probe.batch.expected_contributions == 667
    independent = KIT.series(donation_slots=None)
    assert expected_contributions(independent, 2_000) == [1000] * 3
    assert share_taking_part(independent) == pytest.approx(1 - 0.5**3)


State = tuple[tuple[int, int], ...]
"""Per round the batch's size and its sum."""


def with_device(
    law: dict[State, float], first: int, bit: int, flip: float, rate: float, slots: int
) -> dict[State, float]:
    """The law of all batches once another device, eligible from round ``first`` on, has chosen a slot or none."""
    found: dict[State, float] = {}
    for state, chance in law.items():
        places = range(first, min(first + slots, len(state)))
        one = 1 - flip if bit else flip
        for seen, likely in ((1, one), (0, 1 - one)):
            for slot in places:
                size, total = state[slot]
                moved = (*state[:slot], (size + 1, total + seen), *state[slot + 1 :])
                share = chance * likely * slot_share(rate, slot - first)
                found[moved] = found.get(moved, 0.0) + share
        found[state] = found.get(state, 0.0) + chance * (1 - rate) ** len(places)
    return found


@pytest.mark.parametrize(
    ("epsilon0", "rate", "slots", "batch", "arrivals", "own"),
    [
        (1.0, 0.1, 2, 1, (0, 0, 0, 1, 1, 1, 0, 1), 0),
        (2.0, 0.1, 2, 3, (0, 0, 0, 0, 0, 0, 0, 0, 0, 0), 0),
        (2.0, 0.05, 2, 3, (1, 1, 1, 1, 1, 0, 0, 0, 0, 0), 0),
        (3.0, 0.1, 2, 5, (0, 1, 0, 1, 0, 1, 0, 1, 0, 1), 1),
        (1.0, 0.02, 1, 1, (0, 0, 0, 0), 0),
        (2.0, 0.05, 3, 2, (0, 1, 2, 0, 1, 2), 1),
    ],
)
@pytest.mark.parametrize("total_delta", [0.05, 0.2])
def test_the_claim_holds_exactly_where_every_size_is_seen_and_devices_come_at_different_times(
    epsilon0: float, rate: float, slots: int, batch: int, arrivals: tuple[int, ...], own: int, total_delta: float
) -> None:
    """Everything that is seen of all rounds together, batches below B by their size alone, with a round more than the
    first comers' slots: enumerated, for both answers of one device beside devices of known answers."""
    flip, inner = rr_flip(epsilon0), 0.5 * total_delta
    one = min(epsilon0, epsilon_one_cell(flip, batch, inner))
    claim = epsilon_donation(one, inner, rate=rate, slots=slots, n=batch, total_delta=total_delta)
    law: dict[State, float] = {((0, 0),) * max(2, slots): 1.0}
    for number, first in enumerate(arrivals):
        law = with_device(law, first, number % 3 == 0, flip, rate, slots)
    seen = []
    for bit in (0, 1):
        released: dict[tuple[int, ...], float] = {}
        for state, chance in with_device(law, own, bit, flip, rate, slots).items():
            shown = tuple(value for size, total in state for value in (size, total if size >= batch else -1))
            released[shown] = released.get(shown, 0.0) + chance
        seen.append(released)
    assert math.isclose(sum(seen[0].values()), 1.0)
    assert hockey(seen[0], seen[1], claim) <= total_delta
    assert hockey(seen[0], seen[1], 0.0) > 0
