"""The table of mechanisms: answers against sums and integrals written for the test, under every relation."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from infra.cli import run
from infra.lab.kit.shuffled import ShuffledKit
from tacit.accounting.accountants import epsilon_pld, epsilon_rdp
from tacit.accounting.events import DiscreteLaplace, Gaussian, Laplace, Relation, Repeated, Sampled
from tacit.accounting.mechanisms import MECHANISMS, explain
from tacit.dp.gaussian import epsilon_gaussian
from tacit.dp.heterogeneous import epsilon_heterogeneous
from tacit.dp.vector_noise import VectorStep, epsilon_vector_noise
from tacit.errors import Refusal
from tacit.methods.base.design import SampleDesign
from tacit.methods.estimators.registry import estimator_of
from tacit.models.shuffled.task import counts_of
from tacit.recipe.claims import claim_of
from tests.claims import compute_claim
from tests.kit.accounting import delta_pld
from tests.kit.methods import randomizer_from

ONE_VECTOR = {"scale": 1, "flips": 3, "n": 9, "delta": 1e-6, "length": 2, "maximum": 1, "norm": 1}
ADDED, REPLACED, DELETED = Relation.ADD_REMOVE, Relation.REPLACEMENT, Relation.DELETION


def hockey_stick(first: np.ndarray, second: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


def summed_flips(total: int, moved: int, size: int) -> np.ndarray:
    found = np.zeros(size)
    found[moved : moved + total + 1] = stats.binom.pmf(np.arange(total + 1), total, 0.5)
    return found


@pytest.mark.parametrize("cells", [1, 2])
def test_noise_shares_cost_what_the_full_sum_over_outcomes_says(cells: int) -> None:
    given = {"scale": 5, "flips": 2, "n": 100, "delta": 1e-4, "maximum": 2, "cells": cells}
    found = explain("flips-exact", given)
    total, moved, size = 200, 10, 211
    still, up = summed_flips(total, 0, size), summed_flips(total, moved, size)
    first, second = (up, still) if cells == 1 else (np.outer(up, still), np.outer(still, up))
    assert hockey_stick(first, second, found["epsilon"]) <= 1e-4
    assert hockey_stick(first, second, found["epsilon"] * (1 - 1e-4)) > 1e-4
    assert found["standard_deviation"] == pytest.approx(math.sqrt(200) / 10)
    one = explain("flips-exact", {**given, "cells": 1})
    assert explain("flips-exact", given, DELETED) == one


def test_an_honest_aggregators_flips_come_on_top_of_the_devices() -> None:
    given = {"scale": 2, "flips": 1, "n": 50, "delta": 1e-4}
    more = explain("flips-exact", {**given, "batch_flips": 50})
    assert more == explain("flips-exact", {**given, "n": 100})


def test_vector_sums_by_deletion_move_half_as_far_and_one_sign_less_than_two() -> None:
    given = {"scale": 2, "flips": 9, "n": 400, "delta": 1e-6, "length": 16, "maximum": 20, "norm": 12}
    replaced, deleted = explain("flips-vector", given), explain("flips-vector", given, DELETED)
    assert replaced["epsilon"] == epsilon_vector_noise(3600, VectorStep(16, 20, 4 * 144), 2, 1e-6)
    assert deleted["epsilon"] == epsilon_vector_noise(3600, VectorStep(16, 12, 144), 2, 1e-6)
    assert deleted["epsilon"] < explain("flips-vector", {**given, "signs": 1})["epsilon"] < replaced["epsilon"]


@pytest.mark.parametrize(("name", "k"), [("rr", 2), ("krr", 7), ("rappor", 7), ("oue", 7)])
def test_a_local_randomizer_says_its_probabilities_and_its_exact_error(name: str, k: int) -> None:
    n, e0 = 300, 1.25
    found = explain(name, {"e0": e0, "n": n, **({"k": k} if name in ("krr", "oue") else {})})
    device = randomizer_from(name, e0, k, k if name in ("rappor", "oue") else None)
    hit, noise = map(float, device.output_probabilities())
    assert found["epsilon"] == e0
    assert found["other" if name in ("krr", "oue") else "flip"] == pytest.approx(noise, rel=1e-12)
    assert found["standard_error"] == pytest.approx(
        estimator_of(device).expected_stderrs([0] * device.cells, n, SampleDesign(1.0))[-1], rel=1e-9
    )
    counts = np.arange(n + 1)
    absolute = (stats.binom.pmf(counts, n, noise) * abs(counts - n * noise)).sum() / (hit - noise)
    assert found["mean_absolute_error"] == pytest.approx(absolute, rel=1e-9)


def test_the_same_rappor_is_four_private_by_deletion_and_eight_private_by_replacement() -> None:
    deleted = explain("rappor", {"e0": 4.0}, DELETED)
    assert deleted["flip"] == pytest.approx(1 / (math.exp(4) + 1))
    assert (deleted["epsilon_deletion"], deleted["epsilon_replacement"]) == pytest.approx((4.0, 8.0))
    assert explain("rappor", {"e0": 8.0})["flip"] == pytest.approx(deleted["flip"])
    given = {"e0": 4.0, "n": 10_000, "delta": 1e-10}
    assert explain("rappor-exact", given, DELETED) == explain("rappor-deletion", given)
    assert explain("rappor-deletion", given)["epsilon"] == pytest.approx(0.4857, abs=5e-4)


def test_the_local_mechanisms_are_those_of_the_claim() -> None:
    claim = compute_claim(randomizer_from("rr", 2, 2), n=500, sampling_rate=1.0, delta=1e-7)
    assert claim["aggregator"] == explain("rr-exact", {"e0": 2.0, "n": 500, "delta": 1e-7}, REPLACED)["epsilon"]


@pytest.mark.parametrize("encoder", [{"kind": "boolean"}, {"kind": "categories", "categories": ["a", "b"]}])
def test_the_mechanism_that_a_claim_behind_a_shuffler_names_can_be_explained(encoder: dict[str, Any]) -> None:
    found = ShuffledKit().proposed(encoder=encoder)
    size = found.batch.min_batch_size
    given = {"intensity": size * float(counts_of(found).noise_rate), "n": size, "delta": 1e-6}
    assert claim_of(found)["analyzer_of_shuffled"] == explain(found.privacy.mechanism, given)["epsilon"]


def test_different_steps_compose_below_their_sum_and_the_light_bound_is_never_below() -> None:
    steps = ((0.3, 1e-8), (0.1, 1e-9), (0.2, 0.0)) * 12
    found = explain("heterogeneous", {"steps": steps, "total_delta": 1e-6})
    assert found["epsilon"] <= found["epsilon_light"] < found["epsilon_added"] == pytest.approx(7.2)
    assert found["epsilon_light"] == epsilon_heterogeneous(steps, 1e-6)
    assert found["epsilon_light"] < found["epsilon_adaptive"] < found["epsilon_added"], "what adapts costs more"
    assert found["delta_added"] == pytest.approx(12 * 1.1e-8)
    equal = explain("heterogeneous", {"steps": ((0.1, 1e-9),) * 40, "total_delta": 1e-6})["epsilon"]
    optimal = explain("composition", {"epsilon": 0.1, "delta": 1e-9, "rounds": 40, "total_delta": 1e-6})["epsilon"]
    assert equal == pytest.approx(optimal, rel=2e-3)


@pytest.mark.parametrize(
    "event", [Gaussian(4.0), Laplace(4.0), DiscreteLaplace(4.0), Repeated(Gaussian(4.0, 1.5), 3)], ids=repr
)
def test_by_replacement_a_report_moves_the_sum_twice_as_far_as_by_deletion(event: Gaussian) -> None:
    inner = event.event if isinstance(event, Repeated) else event
    doubled = type(inner)(*((inner.sigma,) if isinstance(inner, Gaussian) else (inner.scale,)), 2 * inner.sensitivity)
    twice = Repeated(doubled, event.count) if isinstance(event, Repeated) else doubled
    assert epsilon_pld(event, 1e-6, REPLACED) == pytest.approx(epsilon_pld(twice, 1e-6, ADDED), rel=1e-4)
    assert epsilon_pld(event, 1e-6, DELETED) == epsilon_pld(event, 1e-6, ADDED)
    if not isinstance(inner, DiscreteLaplace):
        assert epsilon_rdp(event, 1e-6, REPLACED) == pytest.approx(epsilon_rdp(twice, 1e-6, ADDED), rel=1e-9)
        assert epsilon_rdp(event, 1e-6, REPLACED) >= epsilon_pld(event, 1e-6, REPLACED) * (1 - 1e-3)


def test_the_gaussian_by_replacement_is_the_closed_form_of_twice_the_step() -> None:
    assert explain("gaussian-sigma", {"epsilon": 1.0, "delta": 1e-8}, REPLACED)["sigma"] == pytest.approx(
        10.2006, abs=1e-3
    )
    found = explain("gaussian", {"sigma": 6.0, "delta": 1e-7, "sensitivity": 1.5, "rounds": 4}, REPLACED)
    assert found["epsilon"] == epsilon_gaussian(6.0, 1e-7, 3.0, 4)


def test_a_sampled_gaussian_by_replacement_is_the_integral_over_its_worst_pair_and_no_other_pair_is_worse() -> None:
    sigma, q, epsilon = 1.2, 0.2, 0.5
    x = np.linspace(-14, 14, 400_001)

    def mixed(at: float) -> np.ndarray:
        return np.asarray((1 - q) * stats.norm.pdf(x, 0, sigma) + q * stats.norm.pdf(x, at, sigma))

    def delta_of(first: float, second: float) -> float:
        return hockey_stick(mixed(first), mixed(second), epsilon) * float(x[1] - x[0])

    claimed = delta_pld(Sampled(Gaussian(sigma), q), epsilon, REPLACED)
    assert delta_of(1, -1) == pytest.approx(claimed, rel=1e-6)
    pairs = itertools.product((1, 0.5, 0, -1), (-1, -0.3, 0.6, 1))
    assert all(delta_of(first, second) <= claimed * (1 + 1e-6) for first, second in pairs)
    assert claimed > delta_pld(Sampled(Gaussian(sigma), q), epsilon, ADDED)


def test_a_sampled_laplace_or_renyi_answer_by_replacement_is_refused() -> None:
    with pytest.raises(ValueError, match="add-remove or deletion only"):
        epsilon_pld(Sampled(Laplace(2.0), 0.1), 1e-6, REPLACED)
    with pytest.raises(ValueError, match="add-remove or deletion only"):
        epsilon_rdp(Sampled(Gaussian(2.0), 0.1), 1e-6, REPLACED)


@pytest.mark.parametrize(
    ("name", "relation", "has"),
    [
        ("shuffle-fmt22", ADDED, "replacement"),
        ("sampling-visible", DELETED, "replacement"),
        ("dummies", REPLACED, "add-remove"),
        ("rappor", ADDED, "replacement, deletion"),
        ("flips-exact", ADDED, "replacement, deletion"),
    ],
)
def test_a_relation_without_an_answer_is_refused_with_those_that_have_one(
    name: str, relation: Relation, has: str
) -> None:
    with pytest.raises(Refusal, match=f"no answer for {relation}; choose one of {has}") as refused:
        explain(name, {}, relation)
    assert refused.value.rule == "mechanism-relation"


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("flips-exact", {"scale": 2.5, "flips": 3, "n": 10, "delta": 1e-6}),
        ("flips-exact", {"scale": 0, "flips": 3, "n": 10, "delta": 1e-6}),
        ("flips-exact", {"scale": 1, "flips": 3, "n": 10, "delta": 1e-6, "cells": 3}),
        ("flips-exact", {"scale": 1, "flips": 3, "n": 10**9, "delta": 1e-6}),
        ("flips-vector", {**ONE_VECTOR, "length": 0}),
        ("flips-vector", {**ONE_VECTOR, "signs": 3}),
        ("krr", {"e0": 1.0, "k": 1}),
        ("rr", {"e0": 0.0}),
        ("heterogeneous", {"steps": (), "total_delta": 1e-6}),
        ("heterogeneous", {"steps": ((math.nan, 0.0),), "total_delta": 1e-6}),
        ("heterogeneous", {"steps": ((0.5, 2.0),), "total_delta": 1e-6}),
    ],
)  # fmt: skip
def test_parameters_that_no_mechanism_has_are_refused_by_its_rule(name: str, given: dict[str, object]) -> None:
    with pytest.raises(Refusal) as refused:
        explain(name, given)
    assert refused.value.rule == f"{name}-parameters"


def test_the_command_states_the_relation_and_what_it_means(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["privacy", "explain", "--mechanism", "gaussian", "--sigma", "5.1", "--delta", "1e-8"]
    assert run([*words, "--relation", "replacement"]) == 0
    assert "neighbours by replacement: one report becomes any other" in capsys.readouterr().out
    assert run([*words, "--relation", "deletion", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["relation"] == "deletion"
    assert document["epsilon"] == pytest.approx(1.00006, abs=1e-5)
    assert run(["privacy", "mechanisms", "--json"]) == 0
    listed = {entry["mechanism"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert listed.keys() == MECHANISMS.keys()
    assert list(listed["subsampled-gaussian"]["relations"]) == ["add-remove", "replacement", "deletion"]
    assert run(["privacy", "mechanisms"]) == 0
    shown = capsys.readouterr().out
    assert "[--batch-flips]" in shown
    assert "\\" not in shown


def test_the_command_composes_steps_given_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["privacy", "explain", "--mechanism", "heterogeneous", "--total-delta", "1e-6", "--json"]
    assert run([*words, "--step", "0.5:1e-8", "--step", "0.25"]) == 0
    assert json.loads(capsys.readouterr().out)["epsilon_added"] == 0.75
    assert run([*words, "--step", "0.5;1e-8"]) == 1
    assert "EPSILON:DELTA" in capsys.readouterr().err
    assert run(["privacy", "explain", "--mechanism", "shuffle-fmt22", "--relation", "add-remove"]) == 1
    assert "choose one of replacement" in capsys.readouterr().err
