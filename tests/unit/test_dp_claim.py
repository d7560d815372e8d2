"""Claims per adversary, sampling in plain view, and the accountant backwards."""

from __future__ import annotations

import math
import subprocess
import sys
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tacit.dp.amplification import delta_fmt22, epsilon_fmt22
from tacit.dp.calibrate import largest_epsilon0
from tacit.dp.claim import Claim, decimal_up
from tacit.dp.reports import epsilon_with_rejection
from tacit.dp.rr_exact import epsilon_two_cells, rappor_flip
from tacit.dp.sampling import amplify, amplify_visible, excess_bound, q_eff, seen_rate
from tacit.methods.base.method import LocalMethod
from tacit.methods.krr import Krr
from tacit.methods.planners.local import local_planner_of
from tacit.methods.rappor import Rappor
from tacit.methods.rr import Rr
from tests.claims import FORM, compute_claim
from tests.kit.methods import randomizer_from

METHODS = (Krr, Rr, Rappor)
WHOLE = 64
"""Categories, and the weight of all of them: nothing is rejected."""


def local(method: type[LocalMethod], epsilon0: float) -> LocalMethod:
    return randomizer_from(method.NAME, epsilon0, 2 if method is Rr else WHOLE, WHOLE if method is Rappor else None)


def krr_claim(n: int = 10_000, sampling_rate: float = 0.02, delta: float = 1e-10) -> Claim:
    return compute_claim(local(Krr, 4.0), n=n, sampling_rate=sampling_rate, delta=delta)


def test_example_six_of_the_paper() -> None:
    assert amplify(0.6053, 0.02) == pytest.approx(0.0165, rel=0.005)


def test_visible_batch_size_raises_the_sampling_rate_that_may_be_claimed() -> None:
    assert q_eff(0.02, 10**4, 1e-11) == pytest.approx(0.02 * (1 + math.sqrt(3 * math.log(1e11) / 10**4)))
    claimed = amplify_visible(0.6053, 0.02, 10**4, 1e-10)
    assert claimed is not None
    assert amplify(0.6053, 0.02) < claimed < 1.1 * amplify(0.6053, 0.02)


def test_sampling_is_not_claimed_at_rate_one_or_when_delta_has_no_room() -> None:
    assert amplify_visible(0.5, 1.0, 10**6, 1e-8) is None
    assert amplify_visible(0.5, 0.5, 10, 1e-8) is None
    assert q_eff(0.89, 10**9, 1e-9) * 1e-8 + 1e-9 <= 1e-8
    assert amplify_visible(0.5, 0.89, 10**9, 1e-8) is not None
    assert amplify_visible(0.5, 0.9, 10**9, 1e-8) is None


def test_a_claim_lists_what_each_adversary_learns() -> None:
    claim = krr_claim()
    shuffled = epsilon_fmt22(4.0, 10_000, 1e-10)
    assert claim["aggregator_with_relay"] == shuffled == pytest.approx(0.6053, rel=0.005)
    assert claim["aggregator"] == claim["both_aggregators"] == amplify_visible(shuffled, 0.02, 10_000, 1e-10)
    assert claim["both_aggregators_with_relay"] == 4.0
    assert (claim.mechanism, claim.relation, claim.n) == ("shuffle-fmt22+sampling", "replacement", 10_000)
    assert tuple(claim) == FORM.names


def test_sampling_is_not_claimed_where_a_small_population_could_fill_the_batch() -> None:
    """At B = 100, q = 0.1, delta = 1e-8 the worst N fills a batch beyond q_eff N with 9.4 times delta/10."""
    effective = q_eff(0.1, 100, 1e-9)
    fills = (stats.binom.sf(max(100, math.floor(effective * size) + 1) - 1, size, 0.1) for size in range(300, 1500))
    assert 8e-9 < max(fills) <= excess_bound(0.1, 100, effective)
    assert effective * 1e-8 + 1e-9 < 1e-8
    assert amplify_visible(0.5, 0.1, 100, 1e-8) is None
    assert amplify_visible(0.5, 0.5, 100, 1e-6) is not None
    assert amplify_visible(0.5, 0.1, 200, 1e-6) is not None
    assert excess_bound(1e-9, 10**9, q_eff(1e-9, 10**9, 1e-9)) == pytest.approx(1e-9**1.5, rel=0.02)


@pytest.mark.parametrize(
    ("rate", "n", "chance"), [(0.05, 80, 1e-9), (0.05, 30, 1e-6), (0.5, 20, 1e-4), (0.9, 500, 0.5)]
)
def test_the_least_rate_of_a_seen_batch_holds_for_every_number_of_devices_and_no_smaller_one_is_bounded_so(
    rate: float, n: int, chance: float
) -> None:
    """By the exact law of how many take part, for all numbers of devices around and far from the worst."""
    found = seen_rate(rate, n, chance)
    assert found is not None
    assert rate < found < 1
    devices = sorted({*range(n, 40 * n), *(round(n / found * factor) for factor in (0.5, 1, 2, 100, 1000))})
    fills = [stats.binom.sf(max(n, math.floor(found * size) + 1) - 1, size, rate) for size in devices]
    assert max(fills) <= chance
    assert excess_bound(rate, n, found) <= chance
    assert found * (1 - 1e-6) <= rate or excess_bound(rate, n, found * (1 - 1e-6)) > chance


def test_there_is_no_such_rate_where_everybody_may_take_part() -> None:
    assert seen_rate(1.0, 10**6, 1e-9) is None
    assert seen_rate(0.05, 5, 1e-9) is None, "all five devices take part with a chance of 3 10^-7"
    assert seen_rate(0.02, 10**6, 1e-9) == pytest.approx(0.02, rel=0.01)


def test_without_sampling_the_mechanism_says_so() -> None:
    claim = krr_claim(sampling_rate=1.0)
    assert claim.mechanism == "shuffle-fmt22"
    assert claim["aggregator"] == claim["aggregator_with_relay"]


@pytest.mark.parametrize(("method", "mechanism"), [(Rr, "rr-exact"), (Rappor, "rappor-exact")])
def test_one_aggregator_sees_only_the_exact_aggregate_of_bits(method: type[LocalMethod], mechanism: str) -> None:
    claim = compute_claim(local(method, 3.0), n=2000, sampling_rate=0.3, delta=1e-7)
    assert claim.mechanism == mechanism + "+sampling"
    assert claim["aggregator"] < claim["both_aggregators"] < claim["both_aggregators_with_relay"]
    assert claim["aggregator_with_relay"] == local(method, 3.0).aggregate_epsilon(2000, 1e-7)


def test_half_a_batch_of_honest_devices_costs_more() -> None:
    at_batch, at_half = (compute_claim(local(Krr, 3.0), n=n, sampling_rate=0.4, delta=1e-6) for n in (501, 250))
    assert (at_batch.n, at_half.n) == (501, 250)
    for name in FORM.names[:3]:
        assert at_half[name] > at_batch[name]


def test_rejected_rappor_outputs_are_paid_for() -> None:
    def at(reject: float) -> float:
        return epsilon_with_rejection(general, exact, 1000, 1e-6, reject)

    def exact(delta: float) -> float:
        return epsilon_two_cells(rappor_flip(3.0), 1000, delta)

    general = epsilon_fmt22(3.0, 1000, 1e-6)
    assert at(0.0) < at(1e-10) < general
    assert at(1e-3) == general
    for bad in (1.0, math.nan):
        with pytest.raises(ValueError, match=r"^reject_probability "):
            at(bad)


def test_a_stated_claim_below_the_recomputed_one_is_noticed_per_adversary() -> None:
    claim = krr_claim()
    stated = claim.rounded_up()
    assert claim.exceeds(stated) == ()
    lowered = {**stated, "aggregator": decimal_up(claim["aggregator"] - 1e-5)}
    assert claim.exceeds(lowered) == ("aggregator",)
    del lowered["both_aggregators"]
    assert claim.exceeds(lowered) == ("aggregator", "both_aggregators")


def test_a_larger_batch_is_never_claimed_to_cost_more_than_a_smaller_one() -> None:
    def at(n: int) -> Claim:
        return compute_claim(
            Rappor(Decimal(3), WHOLE, 34),
            n=n,
            sampling_rate=1.0,
            delta=1e-6,
        )

    small, large = at(1000), at(4200)
    assert large["aggregator"] > small["aggregator"]
    assert large.no_worse_than(small)["aggregator"] == small["aggregator"]
    assert large.no_worse_than(small)["both_aggregators"] == large["both_aggregators"]
    assert large.no_worse_than(small).n == 4200
    with pytest.raises(ValueError, match="fewer"):
        small.no_worse_than(large)


@given(st.floats(1e-9, 40, allow_nan=False))
def test_decimals_are_rounded_up_by_less_than_their_last_place(value: float) -> None:
    text = decimal_up(value)
    assert "e" not in text.lower()
    assert 0 <= Decimal(text) - Decimal(repr(value)) < Decimal("0.000001")


def test_decimals_have_no_trailing_zeros() -> None:
    assert [decimal_up(v) for v in (0.0, 3.1, 2.0, 10.0, 0.60526)] == ["0", "3.1", "2", "10", "0.60526"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [1, 80, 200, 10**4])
def test_largest_epsilon0_keeps_the_target_and_little_more_does_not(method: type[LocalMethod], n: int) -> None:
    found = largest_epsilon0(local_planner_of(method).keeps, n, 1e-6, 1.0)
    assert found >= 1.0
    assert local(method, found).aggregate_epsilon(n, 1e-6) <= 1.0
    assert local(method, found + 0.001).aggregate_epsilon(n, 1e-6) > 1.0
    assert round(found, 4) == found


@settings(max_examples=10, deadline=None)
@given(
    st.sampled_from(METHODS),
    st.integers(1, 300),
    st.floats(2, 9),
    st.floats(0.05, 3),
    st.just(40.0) | st.floats(0.05, 9),
)
def test_a_search_that_spares_work_finds_the_same_epsilon0(
    method: type[LocalMethod], n: int, digits: float, target: float, most: float
) -> None:
    delta = 10**-digits
    left = delta * (1 - method.TAIL_SHARE)

    def keeps(epsilon0: float, reports: int, allowed: float, wanted: float) -> bool:
        if epsilon0 <= wanted or delta_fmt22(wanted, epsilon0, reports, tail=allowed * 1e-4) <= allowed:
            return True
        return method.aggregate_delta(wanted, epsilon0, reports) <= allowed

    assert local_planner_of(method).largest_epsilon0(n, delta, target, most) == min(
        largest_epsilon0(keeps, n, left, target), most
    )


def test_largest_epsilon0_reproduces_the_reference_table() -> None:
    assert largest_epsilon0(local_planner_of(Krr).keeps, 10**4, 1e-6, 1.0) == pytest.approx(5.470, abs=0.002)
    assert largest_epsilon0(local_planner_of(Krr).keeps, 10**5, 1e-8, 0.5) == pytest.approx(6.202, abs=0.002)
    assert largest_epsilon0(local_planner_of(Rr).keeps, 10**4, 1e-6, 1.0) == pytest.approx(5.689, abs=0.003)


@settings(max_examples=25, deadline=None)
@given(st.floats(0.05, 8), st.integers(1, 3000), st.floats(1e-12, 1e-3))
def test_any_epsilon_returned_keeps_its_delta(epsilon0: float, n: int, delta: float) -> None:
    epsilon = epsilon_fmt22(epsilon0, n, delta)
    assert epsilon == epsilon0 or delta_fmt22(epsilon, epsilon0, n) <= delta


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"sampling_rate": 0.0}, "sampling_rate"),
        ({"sampling_rate": 1.5}, "sampling_rate"),
        ({"sampling_rate": math.nan}, "sampling_rate"),
        ({"n": 0}, "n"),
        ({"delta": 0.0}, "delta"),
        ({"delta": math.nan}, "delta"),
    ],
)
def test_a_claim_of_bad_parameters_is_refused_by_name(change: dict[str, object], name: str) -> None:
    arguments: dict[str, object] = {
        "n": 100,
        "sampling_rate": 0.5,
        "delta": 1e-6,
    }
    with pytest.raises(ValueError, match=f"^{name} "):
        compute_claim(local(Krr, 3.0), **{**arguments, **change})  # type: ignore[arg-type]


def test_the_accountant_loads_nothing_heavy() -> None:
    program = (
        "import sys, tacit.dp.claim, tacit.dp.calibrate\n"
        "heavy = {'numpy', 'scipy', 'pydantic', 'aiohttp', 'asyncio'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
