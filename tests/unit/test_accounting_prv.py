"""The accountant of record against prv-accountant, which shares no code with it.

prv-accountant composes truncated privacy loss random variables (S. Gopi, Y. T. Lee, L. Wutschitz, Numerical Composition
of Differential Privacy, arXiv 2106.02848) and answers (lower, estimate, upper), each bound ``EPSILON_ERROR`` from the
estimate.
"""

from __future__ import annotations

import pytest
from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

from tacit.accounting.accountants import epsilon_pld
from tacit.accounting.events import Gaussian, Relation, Repeated, Sampled
from tacit.accounting.examples import rows
from tacit.accounting.mechanisms import explain
from tacit.accounting.sigma import sigma_for
from tacit.dp.gaussian import sigma_gaussian

EPSILON_ERROR = 0.01
NOISE_OF_THE_FIGURES = [(0.01, 1.5627), (0.001, 0.6972), (0.1, 13.4322), (0.5, 66.8233)]
"""Sampling rate and noise at which 1,000 rounds are (1, 1e-6)-private."""


def prv_epsilon(sigma: float, q: float, rounds: int, delta: float, error: float = EPSILON_ERROR) -> list[float]:
    """(lower, estimate, upper) of the epsilon of Poisson-subsampled Gaussian rounds, add/remove."""
    step = PoissonSubsampledGaussianMechanism(noise_multiplier=sigma, sampling_probability=q)
    accountant = PRVAccountant(prvs=[step], max_self_compositions=[rounds], eps_error=error, delta_error=delta / 1000)
    return [float(value) for value in accountant.compute_epsilon(delta=delta, num_self_compositions=[rounds])]


def example(name: str) -> float:
    (found,) = [float(str(row["value"])) for row in rows() if row["id"] == name]
    return found


def test_one_round_of_example_five_lies_between_the_other_accountants_bounds() -> None:
    lower, estimate, upper = prv_epsilon(5.1, 0.02, 1, 1e-8, error=0.001)
    ours = example("ex5_round_pld")
    assert lower <= ours <= upper
    assert ours == pytest.approx(0.02628, rel=5e-3)
    assert ours == pytest.approx(estimate, rel=5e-3)


def test_2500_rounds_of_example_five_cost_1_02_by_both_accountants() -> None:
    lower, estimate, upper = prv_epsilon(5.1, 0.02, 2500, 1e-8)
    assert (lower, estimate, upper) == pytest.approx((1.0104, 1.0204, 1.0304), abs=1e-4)
    ours = example("ex5_2500_pld")
    assert lower <= ours <= upper
    assert ours == pytest.approx(estimate, rel=5e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("q", "sigma"), NOISE_OF_THE_FIGURES)
def test_the_noise_of_the_figures_gives_epsilon_one_by_both_accountants(q: float, sigma: float) -> None:
    ours = epsilon_pld(Repeated(Sampled(Gaussian(sigma), q), 1000), 1e-6, Relation.ADD_REMOVE)
    lower, estimate, upper = prv_epsilon(sigma, q, 1000, 1e-6)
    assert ours == pytest.approx(1.0, abs=1e-3)
    assert estimate == pytest.approx(ours, rel=5e-4)
    assert lower <= ours <= upper


@pytest.mark.slow
def test_noise_calibrated_here_keeps_its_target_there() -> None:
    q, sigma = NOISE_OF_THE_FIGURES[0]
    found = sigma_for(1.0, 1e-6, q, 1000)
    assert found == pytest.approx(sigma, rel=2e-3)
    lower, estimate, _ = prv_epsilon(found, q, 1000, 1e-6)
    assert lower <= 1.0
    assert estimate == pytest.approx(1.0, rel=2e-3)


def test_randomised_donation_time_over_100_slots_costs_the_same_by_both_accountants() -> None:
    ours = explain("donation", {"epsilon": 1.0, "delta": 1e-8, "m": 100})["epsilon"]
    lower, estimate, upper = prv_epsilon(sigma_gaussian(1.0, 1e-8), 0.01, 100, 2e-8, error=0.002)
    assert lower <= ours <= upper
    assert ours == pytest.approx(estimate, rel=2e-3)
    assert ours == pytest.approx(example("donation_m100"), rel=1e-9)
