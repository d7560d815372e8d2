"""Local pan-privacy with two servers: leader and helper sum secret shares that devices keep encrypted to them.

An intruder who reads a device's storage and memory between two updates learns nothing about what the device watches
(Local Pan-Privacy, section 5, and design rule P23); an intruder who works with one of the aggregators can open that
aggregator's part of every copy. What is sent is the same as in secure aggregation, and so are the other four rows of
the claim.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

from tacit.dp.claim import Claim
from tacit.dp.hidden_claim import Sample
from tacit.dp.reports import Reports
from tacit.errors import Refusal
from tacit.methods.base.method import Method
from tacit.methods.base.proof import Proof
from tacit.methods.base.statistics import StatisticName
from tacit.models.form import Adversary
from tacit.models.parties import Aggregator, Key, Parties
from tacit.models.secure_aggregation.form import SecureAggregation, SecureAggregationParties

INTRUDER = "intruder"
INTRUDER_WITH_AGGREGATOR = "intruder_with_aggregator"
INTRUDER_ROW = Adversary(
    INTRUDER, "who reads a device's storage and memory between two updates, and works with no server", pure=True
)


class StateAggregator(Aggregator):
    """Leader or helper to which devices encrypt their state: ``state_key`` is its ElGamal key, an element of
    ristretto255."""

    state_key: Key


class PanPrivateParties(SecureAggregationParties):
    """The parties of secure aggregation; the aggregators also have a key for the devices' state."""

    leader: StateAggregator
    helper: StateAggregator


def state_aggregators(parties: Parties) -> tuple[StateAggregator, StateAggregator]:
    """Leader and helper among ``parties`` of this model. Raises refusal ``model-unsupported`` for parties of another
    model."""
    if not isinstance(parties, PanPrivateParties):
        raise Refusal("model-unsupported", "the recipe's aggregators have no state keys")
    return parties.leader, parties.helper


class PanPrivate(SecureAggregation):
    """Model ``pan-private``: secure aggregation of answers that devices make from an encrypted state."""

    name: ClassVar[str] = "pan-private"
    parties: ClassVar[type[Parties]] = PanPrivateParties
    adversaries: ClassVar[tuple[Adversary, ...]] = (
        *SecureAggregation.adversaries,
        INTRUDER_ROW,
        Adversary(
            INTRUDER_WITH_AGGREGATOR,
            "who reads it and works with an aggregator",
            unbounded=True,
            unprotected=True,
            pure=True,
        ),
    )
    refunds: ClassVar[bool] = True
    watched: ClassVar[Mapping[StatisticName, str]] = {"count": "rr", "histogram": "rappor"}

    def proof(self, method: Method) -> Proof:
        """Every cell is proved to be 0 or 1 by itself, since shares and proofs are made before it is known which cells
        will be sent (P23); the weight is not proved."""
        return Proof("Prio3CountVec", method.cells, 1)

    def claim(self, reports: Reports, sample: Sample, *, n: int, delta: float) -> Claim:
        """The claim of secure aggregation, and two further rows: 0 for the intruder, by the hardness of decisional
        Diffie-Hellman, and no guarantee against an intruder who works with an aggregator."""
        claim = super().claim(reports, sample, n=n, delta=delta)
        return claim.changed({INTRUDER: 0.0, INTRUDER_WITH_AGGREGATOR: math.inf})
