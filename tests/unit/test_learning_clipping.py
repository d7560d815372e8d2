"""The clip follows the updates: by the written-out rule, to the target from far away, the same for everybody."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.lab.learning.bench import PLAN
from infra.lab.learning.population import population
from infra.lab.learning.rounds import trained
from tacit.learning.clipping import next_clip, share_unshortened
from tacit.learning.plan import EXAMPLE, LEAST_CLIP, Adaptive, Plan
from tacit.recipe.quantity import exact, quantity
from tacit.recipe.training import MAX_CLIP, Quantile, RoundModel

QUANTILE = Quantile(weight="0.1")


def adaptive_plan(clip: int | str) -> Plan:
    training: dict[str, object] = {**EXAMPLE["training"], "quantile": {"weight": "0.1"}}  # type: ignore[dict-item]
    return Plan.model_validate({**EXAMPLE, "training": training, "adaptive": {"target": "0.8"}, "clip": clip})


@pytest.mark.parametrize(("mean", "share"), [(0.1, 1), (-0.1, 0), (0.0, 0.5), (0.05, 0.75), (0.7, 1), (-0.7, 0)])
def test_the_mean_entry_tells_the_share_of_devices_that_were_not_shortened(mean: float, share: float) -> None:
    assert share_unshortened(QUANTILE, mean) == pytest.approx(share)


@given(st.integers(1, 10**9), st.floats(0, 1), st.integers(1, 99), st.integers(1, 100))
def test_a_clip_follows_the_rule_to_four_digits(clip: int, share: float, target: int, rate: int) -> None:
    rule = Adaptive.model_validate({"target": f"0.{target:02}", "rate": f"{rate}.5"})
    text = quantity(Fraction(clip, 1000))
    found = next_clip(rule, text, share)
    wanted = clip / 1000 * math.exp(-(rate + 0.5) * (share - target / 100))
    wanted = min(max(wanted, float(LEAST_CLIP)), MAX_CLIP)
    assert float(exact(found)) == pytest.approx(wanted, rel=6e-4)
    assert RoundModel(bytes=100, clip=found, model="A" * 43).clip == found


CLIPS = st.integers(1000, 10**15).map(lambda billionths: quantity(Fraction(billionths, 10**9)))


@given(CLIPS, CLIPS, st.floats(0, 1), st.floats(0, 1), st.integers(1, 10))
def test_a_larger_clip_or_a_smaller_share_never_gives_a_smaller_clip(
    clip: int | str, other: int | str, share: float, less: float, rate: int
) -> None:
    rule = Adaptive.model_validate({"rate": rate})
    (low, high), (few, many) = sorted((clip, other), key=exact), sorted((share, less))
    found = [exact(next_clip(rule, *given)) for given in ((low, many), (low, few), (high, few))]
    assert LEAST_CLIP <= found[0] <= found[1] <= found[2] <= MAX_CLIP


def test_a_clip_stays_at_its_floor_and_no_plan_begins_below_it() -> None:
    floor, rule = quantity(Fraction(LEAST_CLIP)), Adaptive.model_validate({"rate": 10})
    assert [next_clip(rule, clip, share=1.0) for clip in (floor, "0.000002")] == [floor, floor]
    assert adaptive_plan(floor).clip == floor
    with pytest.raises(ValueError, match=r"must be at least 0\.000001 where it is adaptive"):
        adaptive_plan("0.000000999")


def test_a_clip_that_is_far_from_the_updates_finds_them() -> None:
    people = population(2000, 8)
    fixed, followed = (
        {clip: trained(people, plan(clip), None, 8)[-1].accuracy for clip in ("0.02", 1)}
        for plan in (lambda clip: PLAN.model_copy(update={"clip": clip}), adaptive_plan)
    )
    assert fixed["0.02"] < 0.85 < min(followed.values())
