"""Accountants of record: privacy loss distributions (PLD) and, beside them, Renyi divergences (RDP).

Both answer for a whole composition at once; neither adds epsilons. PLD rounds losses up to a grid of 1e-4 and composes
by convolution: tight, and an upper bound. RDP is looser and quick; it is what most of the literature states.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from tacit.accounting.events import (
    Approximate,
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    Mechanism,
    RandomisedResponse,
    Relation,
    Sampled,
    flatten,
)
from tacit.dp import parameters
from tacit.dp.sampling import amplify
from tacit.extras import require_extra

GRID = 1e-4
_CACHED_STEPS = 256


def require_library() -> None:
    """Raise ``UsageError`` with one line where dp-accounting is not installed."""
    require_extra("the accountant", "accounting", "dp_accounting")


def epsilon_pld(event: Event, delta: float, relation: Relation) -> float:
    """The smallest epsilon at ``delta`` for ``event``; infinite where there is none.

    Raises ``ValueError`` naming a bad parameter, or a step that has no distribution under ``relation``.
    """
    parameters.failure_probability(delta)
    composed = _compose(event, relation)
    return 0.0 if composed is None else float(composed.get_epsilon_for_delta(delta))


def epsilon_rdp(event: Event, delta: float, relation: Relation) -> float:
    """Return the smallest epsilon at ``delta`` for ``event`` by Renyi divergences (Theorem 1 of the SA2 paper).

    Raises ``ValueError`` as ``epsilon_pld`` does, and for a step whose Renyi divergence is not known here: one of which
    only (epsilon, delta) is known, or a sampled one by replacement.
    """
    parameters.failure_probability(delta)
    require_library()
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant()
    for step, count in flatten(event).items():
        accountant.compose(dp_event.SelfComposedDpEvent(_library_event(step, relation), count))
    return float(accountant.get_epsilon(delta))


def _compose(event: Event, relation: Relation) -> Any:
    require_library()
    total = None
    for step, count in flatten(event).items():
        one = _distribution(step, relation)
        repeated = one if count == 1 else one.self_compose(count)
        total = repeated if total is None else total.compose(repeated)
    return total


@lru_cache(maxsize=_CACHED_STEPS)
def _distribution(step: Mechanism | Sampled, relation: Relation) -> Any:
    """The privacy loss distribution of one basic step.

    A sampled Gaussian by replacement is ``(1-q) N(0) + q N(s)`` against ``(1-q) N(0) + q N(-s)``, sigma 1. No other
    pair of contributions a, b of norm up to s tells more, in any dimension: for a set A with ``Pr[N(0) in A] = v``,
    ``Pr[N(a) in A] <= Phi(Phi^-1(v) + s)`` and ``Pr[N(b) in A] >= Phi(Phi^-1(v) - s)`` (Neyman, Pearson), and a half
    line attains both.
    """
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    mechanism, rate = (step.mechanism, step.rate) if isinstance(step, Sampled) else (step, 1.0)
    grid = {"value_discretization_interval": GRID}
    if isinstance(mechanism, Gaussian):
        sampled = {"sampling_prob": rate, "neighboring_relation": _neighbours(relation)}
        return pld.from_gaussian_mechanism(mechanism.sigma, mechanism.sensitivity, **grid, **sampled)
    if isinstance(mechanism, Approximate):
        epsilon = amplify(mechanism.epsilon, rate) if rate < 1 else mechanism.epsilon
        return pld.from_privacy_parameters(
            common.DifferentialPrivacyParameters(epsilon, rate * mechanism.delta), **grid
        )
    if isinstance(mechanism, RandomisedResponse):
        return _response(mechanism, rate, relation)
    if rate < 1 and relation is Relation.REPLACEMENT:
        raise ValueError(f"a sampled {type(mechanism).__name__} is accounted for by add-remove or deletion only")
    moved = mechanism.sensitivity * relation.contributions
    if isinstance(mechanism, Laplace):
        return pld.from_laplace_mechanism(mechanism.scale, moved, sampling_prob=rate, **grid)
    if isinstance(mechanism, DiscreteLaplace):
        return pld.from_discrete_laplace_mechanism(1 / mechanism.scale, int(moved), sampling_prob=rate, **grid)
    return pld.from_discrete_gaussian_mechanism(mechanism.sigma, int(moved), sampling_prob=rate, **grid)


def _response(mechanism: RandomisedResponse, rate: float, relation: Relation) -> Any:
    """Return the distribution of a response in plain view. Its presence shows that the device took part, so only
    replacement is supported."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    if relation is not Relation.REPLACEMENT or rate < 1:
        raise ValueError("a visible randomised response is accounted for by replacement only, and without sampling")
    noise = mechanism.categories / (math.expm1(mechanism.epsilon0) + mechanism.categories)
    return pld.from_randomized_response(
        noise, mechanism.categories, value_discretization_interval=GRID, neighboring_relation=_neighbours(relation)
    )


def _library_event(step: Mechanism | Sampled, relation: Relation) -> Any:
    """Translate the step into the library's event, with the sensitivity of ``relation``."""
    from dp_accounting import dp_event

    if isinstance(step, Sampled):
        if relation is Relation.REPLACEMENT:
            raise ValueError("a sampled step has a Renyi divergence here by add-remove or deletion only")
        return dp_event.PoissonSampledDpEvent(step.rate, _library_event(step.mechanism, relation))
    if isinstance(step, Gaussian):
        return dp_event.GaussianDpEvent(step.sigma / (step.sensitivity * relation.contributions))
    if isinstance(step, Laplace):
        return dp_event.LaplaceDpEvent(step.scale / (step.sensitivity * relation.contributions))
    raise ValueError(f"{type(step).__name__} has no Renyi divergence here; use the PLD accountant")


def _neighbours(relation: Relation) -> Any:
    from dp_accounting.privacy_accountant import NeighboringRelation

    return {
        Relation.ADD_REMOVE: NeighboringRelation.ADD_OR_REMOVE_ONE,
        Relation.REPLACEMENT: NeighboringRelation.REPLACE_ONE,
        Relation.DELETION: NeighboringRelation.REPLACE_SPECIAL,
    }[relation]
