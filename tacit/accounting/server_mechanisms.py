"""Noise that one trusted party adds to a sum, as an operator asks about it: once, sampled, repeated.

``sensitivity`` bounds the norm (L2 for Gaussian, L1 for Laplace noise) of one report's contribution; by replacement two
neighbours lie twice that apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tacit.accounting.accountants import epsilon_pld, epsilon_rdp
from tacit.accounting.device_mechanisms import Quantities
from tacit.accounting.events import Event, Gaussian, Relation, Repeated, Sampled
from tacit.accounting.sigma import sigma_for
from tacit.dp import composition, parameters, sampling
from tacit.dp.donation import yield_of
from tacit.dp.gaussian import classical_sigma, epsilon_gaussian, sigma_gaussian
from tacit.dp.repeated.rounds import epsilon_sampled_gaussian


def gaussian(sigma: float, delta: float, relation: Relation, sensitivity: float = 1.0, rounds: int = 1) -> Quantities:
    """Any number of releases, in closed form."""
    return {"epsilon": epsilon_gaussian(sigma, delta, sensitivity * relation.contributions, rounds)}


def gaussian_sigma(epsilon: float, delta: float, relation: Relation, sensitivity: float = 1.0) -> Quantities:
    """The noise of one release, beside what the textbook formula would require."""
    moved = sensitivity * relation.contributions
    return {
        "sigma": sigma_gaussian(epsilon, delta, moved),
        "sigma_classical": classical_sigma(epsilon, delta, moved),
    }


def subsampled(sigma: float, q: float, delta: float, relation: Relation, rounds: int = 1) -> Quantities:
    """Poisson-sampled rounds of contributions up to 1; also by Renyi divergences, and the bound that a device computes,
    where they are known for the relation."""
    event = Repeated(Sampled(Gaussian(sigma), q), rounds)
    answer = {"epsilon": epsilon_pld(event, delta, relation)}
    if relation is not Relation.REPLACEMENT:
        answer["epsilon_rdp"] = epsilon_rdp(event, delta, relation)
        answer["epsilon_device"] = epsilon_sampled_gaussian(sigma, q, rounds, delta)
    return answer


def subsampled_sigma(epsilon: float, q: float, delta: float, relation: Relation, rounds: int = 1) -> Quantities:
    """The noise that such rounds need; by deletion it is that of add/remove."""
    like = Relation.ADD_REMOVE if relation is Relation.DELETION else relation
    return {"sigma": sigma_for(epsilon, delta, q, rounds, relation=like)}


def noise(make: Callable[[float, Any], Event]) -> Callable[..., Quantities]:
    """Make a ``compute``: epsilon at ``delta``, by the PLD accountant, of ``rounds`` releases of ``make(scale,
    sensitivity)``."""

    def compute(
        scale: float, delta: float, relation: Relation, sensitivity: float = 1.0, rounds: int = 1
    ) -> Quantities:
        return {"epsilon": epsilon_pld(Repeated(make(scale, sensitivity), rounds), delta, relation)}

    return compute


def integer_noise(make: Callable[[float, int], Event]) -> Callable[..., Quantities]:
    """The same as ``noise``, for a sensitivity that is a whole number."""

    def compute(scale: float, delta: float, relation: Relation, sensitivity: int = 1, rounds: int = 1) -> Quantities:
        return {"epsilon": epsilon_pld(Repeated(make(scale, sensitivity), rounds), delta, relation)}

    return compute


def donation(epsilon: float, delta: float, m: int) -> Quantities:
    """Appendix A of the SA2 paper for a Gaussian round calibrated to (epsilon, delta): each of m slots has probability
    1/m, the first one drawn is taken, batch sizes are unseen; the total delta is 2 delta. Both answers are bounded by
    the possibility that a device never takes part; the Gaussian's own distribution, or the composition of steps, may
    give less."""
    slots = parameters.reports(m, "m")
    parameters.failure_probability(delta)
    sigma = sigma_gaussian(epsilon, delta)
    event = Repeated(Sampled(Gaussian(sigma), 1 / slots), slots)
    tight = epsilon_pld(event, 2 * delta, Relation.ADD_REMOVE)
    step, whole = (sampling.amplify(epsilon, rate) for rate in (1 / slots, yield_of(1 / slots, slots)))
    return {
        "epsilon": min(whole, tight),
        "epsilon_any_round": min(whole, composition.epsilon_composed(step, delta / slots, slots, 2 * delta)),
        "delta": 2 * delta,
        "never": (1 - 1 / slots) ** slots,
    }
