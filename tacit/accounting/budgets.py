"""Which account holds given steps, when each is chosen after the results of the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

from tacit.dp import parameters
from tacit.dp.heterogeneous import Step
from tacit.ledger.account import Account, Cost
from tacit.ledger.budget import spent_epsilon

PLACES = 4
"""Decimals to which the epsilon of an account is computed."""
_MOST = 10**13
"""The largest epsilon that is tried, in steps of 1e-4."""
_ATTEMPTS = 16
"""What steps take of an account depends on its order; the account of which they take all is found by trying again."""


def compose_steps(steps: Sequence[Step], delta: float) -> float:
    """The epsilon, rounded up to 4 decimals, of a small account at ``delta`` whose filter holds all of ``steps``
    (epsilon, delta): what they may cost together if they are chosen one after another. Infinite where their own deltas
    exceed what such an account has for them. An account that is a little larger may have another order, and hold a
    little less. ``ValueError`` names what is out of range."""
    total = _decimal(parameters.failure_probability(delta, "total_delta"))
    costs = []
    for epsilon, own in steps:
        if not 0 <= parameters.finite("delta", own) < 1:
            raise ValueError("delta must be at least 0 and below 1")
        costs.append(Cost(_decimal(parameters.epsilon("epsilon", epsilon)), _decimal(own)))
    high = math.ceil(sum((cost.epsilon for cost in costs), Decimal(0)).scaleb(PLACES))
    if high > _MOST:
        raise ValueError(f"the epsilons must add up to at most {_MOST // 10**PLACES}")

    best = at = max(1, high)
    for _ in range(_ATTEMPTS):
        taken = spent_epsilon(costs, Account("", Decimal(at).scaleb(-PLACES), total, 1))
        if taken.is_infinite():
            return math.inf
        found = math.ceil(taken.scaleb(PLACES))
        best = min(best, at) if found <= at else best
        if found in (0, at):
            break
        at = found
    return float(Decimal(min(best, high)).scaleb(-PLACES))


def _decimal(number: float) -> Decimal:
    """The decimal that a person would write for it."""
    return Decimal(repr(float(number)))
