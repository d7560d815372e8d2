"""The operator's accountant: published numbers, independent oracles, refusals."""

from __future__ import annotations

import importlib.util
import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting.accountants import epsilon_pld, epsilon_rdp
from tacit.accounting.events import (
    Approximate,
    Composed,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    RandomisedResponse,
    Relation,
    Repeated,
    Sampled,
    flatten,
)
from tacit.accounting.examples import rows
from tacit.accounting.mechanisms import MECHANISMS, explain
from tacit.accounting.sigma import sigma_for
from tacit.dp.composition import epsilon_composed
from tacit.dp.gaussian import epsilon_gaussian
from tacit.errors import Refusal, UsageError
from tacit.extras import install_command
from tests.kit.accounting import delta_pld, epsilon_subsampled

ADDED, REPLACED = Relation.ADD_REMOVE, Relation.REPLACEMENT
TARGETS = {
    "ex3_sigma": 5.10031,
    "ex4_fmt22": 0.6053,
    "ex4_fmt21": 0.8939,
    "ex5_round_pld": 0.02628,
    "ex5_round_analytic": 0.0338,
    "ex5_2500_pld": 1.0204,
    "ex5_noamp": 102.29,
    "ex5_nonanon_50": 8.3433,
    "ex5_nonanon_94": 12.01,
    "ex5_2500_rdp": 1.0826,
    "ex5_2500_device": 1.02045,
    "ex6_composed": 0.01650,
    "ex6_inner_delta_over_q": 0.01384,
    "dummies_lambda": 49.4,
    "donation_m100": 0.0919,
}


def test_the_worked_examples_come_out_within_half_a_percent() -> None:
    found = {str(row["id"]): row["value"] for row in rows()}
    for name, target in TARGETS.items():
        assert found[name] == pytest.approx(target, rel=5e-3), name


def test_the_three_figures_of_example_5_come_out_to_one_in_a_thousand_and_the_device_is_on_the_safe_side() -> None:
    found = {str(row["id"]): float(str(row["value"])) for row in rows()}
    for name, target in (("ex5_2500_pld", 1.02045), ("ex5_noamp", 102.288), ("ex5_nonanon_50", 8.3433)):
        assert found[name] == pytest.approx(target, rel=1e-4), name
    assert found["ex5_2500_pld"] <= found["ex5_2500_device"] <= 1.001 * found["ex5_2500_pld"] < found["ex5_2500_rdp"]


def fourier_epsilon(sigma: float, q: float, rounds: int, delta: float) -> float:
    """An accountant of its own: the loss of the subsampled Gaussian (remove and add), on a grid, composed by FFT."""
    size, width = 1 << 18, 60.0
    step = width / size
    grid = (np.arange(size) - size // 2) * step
    x = np.linspace(-14 * sigma, 1 + 14 * sigma, 2_000_001)
    base = np.exp(-(x**2) / (2 * sigma**2))
    mixed = (1 - q) * base + q * np.exp(-((x - 1) ** 2) / (2 * sigma**2))
    worst = 0.0
    for top, bottom in ((mixed, base), (base, mixed)):
        loss, weight = np.log(top / bottom), top / top.sum()
        mass = np.bincount(np.rint(loss / step).astype(int) + size // 2, weight, size)
        composed = np.fft.irfft(np.fft.rfft(np.fft.ifftshift(mass)) ** rounds, size)
        composed = np.maximum(np.fft.fftshift(composed), 0)

        def delta_of(epsilon: float, composed: Any = composed) -> float:
            above = grid > epsilon
            return float((composed[above] * -np.expm1(epsilon - grid[above])).sum())

        low, high = 0.0, 10.0
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (low, middle) if delta_of(middle) <= delta else (middle, high)
        worst = max(worst, high)
    return worst


@pytest.mark.parametrize(("sigma", "q", "rounds", "delta"), [(5.1, 0.02, 2500, 1e-6), (1.5, 0.1, 30, 1e-6)])
def test_compositions_agree_with_an_accountant_written_for_the_test(
    sigma: float, q: float, rounds: int, delta: float
) -> None:
    event = Repeated(Sampled(Gaussian(sigma), q), rounds)
    assert epsilon_pld(event, delta, ADDED) == pytest.approx(fourier_epsilon(sigma, q, rounds, delta), rel=5e-3)


def test_the_distribution_accountant_agrees_with_the_closed_forms() -> None:
    assert epsilon_pld(Repeated(Gaussian(5.1), 50), 1e-8, ADDED) == pytest.approx(
        epsilon_gaussian(5.1, 1e-8, 1.0, 50), rel=1e-4
    )
    assert epsilon_pld(Sampled(Gaussian(1.0), 0.1), 1e-7, ADDED) == pytest.approx(
        epsilon_subsampled(1.0, 0.1, 1e-7), rel=1e-3
    )
    steps = Repeated(Approximate(0.1, 1e-10), 40)
    assert epsilon_pld(steps, 1e-6, REPLACED) == pytest.approx(epsilon_composed(0.1, 1e-10, 40, 1e-6), rel=2e-3)
    assert epsilon_pld(RandomisedResponse(2.0, 5), 1e-8, REPLACED) == pytest.approx(2.0, rel=1e-4)
    assert epsilon_pld(Laplace(0.5), 1e-9, ADDED) == pytest.approx(2.0, rel=1e-3)
    assert epsilon_pld(DiscreteLaplace(0.5), 1e-9, ADDED) == pytest.approx(2.0, rel=1e-3)


def test_renyi_divergences_are_looser_never_tighter() -> None:
    event = Repeated(Sampled(Gaussian(2.0), 0.05), 200)
    assert epsilon_pld(event, 1e-7, ADDED) < epsilon_rdp(event, 1e-7, ADDED)


def test_parts_of_a_composition_count_once_each() -> None:
    event = Composed((Gaussian(2.0), Repeated(Composed((Gaussian(2.0), Laplace(1.0))), 3)))
    assert flatten(event) == {Gaussian(2.0): 4, Laplace(1.0): 3}
    assert epsilon_pld(Composed(()), 1e-8, ADDED) == 0
    assert delta_pld(Composed(()), 1.0, ADDED) == 0


@settings(max_examples=2, deadline=None)
@given(st.floats(2, 6), st.floats(0.01, 1), st.integers(1, 50), st.integers(1, 50))
def test_more_rounds_never_cost_less(sigma: float, q: float, rounds: int, more: int) -> None:
    event = Sampled(Gaussian(sigma), q)
    first = epsilon_pld(Repeated(event, rounds), 1e-7, ADDED)
    assert epsilon_pld(Repeated(event, rounds + more), 1e-7, ADDED) >= first * (1 - 1e-6)


@pytest.mark.parametrize(
    ("q", "rounds", "sigma"), [pytest.param(0.01, 1000, 1.5627, marks=pytest.mark.slow), (0.5, 1000, 66.8233)]
)
def test_calibrated_noise_is_that_of_the_reference(q: float, rounds: int, sigma: float) -> None:
    found = sigma_for(1.0, 1e-6, q, rounds)
    assert found == pytest.approx(sigma, rel=2e-3)
    assert epsilon_pld(Repeated(Sampled(Gaussian(found), q), rounds), 1e-6, ADDED) <= 1.0


@pytest.mark.parametrize(
    ("m", "gaussian_round", "any_round"),
    [(2, 0.7947, 0.828), (5, 0.5001, 0.768), (50, 0.1347, 0.7385), (100, 0.0919, 0.7368), (1000, 0.0271, 0.260)],
)
def test_donation_time_hides_as_the_reference_says(m: int, gaussian_round: float, any_round: float) -> None:
    found = explain("donation", {"epsilon": 1.0, "delta": 1e-8, "m": m})
    assert found["epsilon"] == pytest.approx(gaussian_round, rel=5e-3)
    assert found["epsilon_any_round"] == pytest.approx(any_round, rel=5e-3)


@pytest.mark.parametrize(
    ("mechanism", "given_parameters"),
    [
        ("nothing-of-this-name", {}),
        ("dummies", {"epsilon": 1.0}),
        ("dummies", {"epsilon": 1.0, "delta": 0.0}),
        ("dummies", {"epsilon": 1.0, "delta": 1e-8, "n": 4}),
        ("sampling", {"epsilon": 1.0, "q": 0.0}),
        ("sampling", {"epsilon": 1.0, "q": 1.01}),
        ("shuffle-fmt22", {"e0": math.nan, "n": 100, "delta": 1e-8}),
        ("shuffle-fmt22", {"e0": 1.0, "n": 0, "delta": 1e-8}),
        ("shuffle-fmt22", {"e0": 1.0, "n": 2.5, "delta": 1e-8}),
        ("gaussian", {"sigma": math.inf, "delta": 1e-8}),
        ("donation", {"epsilon": 1.0, "delta": 1e-8, "m": 0}),
        ("sampling-visible", {"epsilon": 1.0, "q": 1.0, "n": 100, "delta": 1e-8}),
        ("hidden-count", {"epsilon": 1.0, "q": 0.1, "n": 100, "delta": 1e-8, "q0": 0.2}),
        ("hidden-count", {"epsilon": 1.0, "q": 0.1, "n": 100, "delta": 1e-8, "intensity": 50.0}),
    ],
)
def test_bad_input_is_refused_by_the_rule_of_its_mechanism(mechanism: str, given_parameters: dict[str, float]) -> None:
    with pytest.raises(Refusal) as refused:
        explain(mechanism, given_parameters)
    assert refused.value.rule in {"mechanism-unknown", f"{mechanism}-parameters"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name == "subsampled-gaussian-sigma" else name
        for name in sorted(MECHANISMS)
    ],
)
def test_every_mechanism_answers_for_ordinary_parameters(name: str) -> None:
    ordinary = {
        "e0": 2.0, "epsilon": 1.0, "delta": 1e-8, "total_delta": 1e-6, "n": 10_000, "q": 0.05, "m": 20, "rounds": 3,
        "sigma": 4.0, "scale": 4.0, "sensitivity": 1, "intensity": 60.0, "q0": 0.01, "devices": 200_000,
        "k": 5, "flips": 64, "maximum": 3, "cells": 2,
        "length": 8, "norm": 5, "signs": 1, "batch_flips": 100, "steps": ((0.2, 1e-9), (0.5, 1e-8), (0.2, 1e-9)),
    }  # fmt: skip
    entry = MECHANISMS[name]
    for relation in entry.relations:
        answer = explain(name, {key: ordinary[key] for key in entry.parameters()}, relation)
        assert all(math.isfinite(value) and value >= 0 for value in answer.values()), relation


@pytest.mark.parametrize(("q", "q0", "n", "leak"), [(0.05, 0.0005, 10_000, 0.00126), (0.5, 0.005, 100_000, 0.00526)])
def test_what_the_number_of_messages_tells_is_near_its_normal_approximation(
    q: float, q0: float, n: int, leak: float
) -> None:
    answer = explain("hidden-count", {"epsilon": 0.0, "q": q, "q0": q0, "n": n, "delta": 1e-6})
    assert leak < math.log1p(q * math.expm1(answer["epsilon_count"])) < 2 * leak
    assert answer["epsilon"] == answer["epsilon_unfilled"] == pytest.approx(math.log(q / q0), abs=1e-4), "at one device"
    assert answer["epsilon_relay"] == pytest.approx(math.log(q / q0))
    assert math.isinf(answer["epsilon_dummies"])


def test_without_its_library_the_accountant_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(UsageError, match=re.escape(install_command("accounting"))):
        epsilon_pld(Gaussian(1.0), 1e-8, ADDED)
