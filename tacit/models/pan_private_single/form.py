"""Local pan-privacy with one server: devices keep counters encrypted to the analyzer, and send them randomised.

| adversary                                  | claim                                                        |
|--------------------------------------------|--------------------------------------------------------------|
| analyzer, which opens single reports       | local randomisation alone (noise shares: of one device)      |
| who sees only the result                   | the sum of n reports, if the analyzer is honest              |
| intruder on the device                     | 0, computationally (decisional Diffie-Hellman)               |
| intruder who works with the analyzer       | none: the analyzer can open every copy of the state          |

The batch minimum B does not bind the analyzer, which sees reports one by one (design rule P24), so an account is
charged with what the analyzer learns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

from tacit.dp.claim import RELATION, Claim
from tacit.dp.hidden_claim import Sample
from tacit.dp.reports import Reports
from tacit.errors import Refusal
from tacit.methods.base.statistics import StatisticName
from tacit.models.form import Adversary, Form
from tacit.models.one_server import (
    ANALYZER,
    ANALYZER_ROW,
    DIFFERENT_OPERATORS,
    RELEASE,
    RELEASE_ROW,
    OneServerParties,
    require_plain,
    single_epsilon,
)
from tacit.models.pan_private.form import INTRUDER, INTRUDER_ROW
from tacit.models.parties import Key, Parties, Server

INTRUDER_WITH_ANALYZER = "intruder_with_analyzer"


class Analyzer(Server):
    """The only server: it opens reports, and ``state_key`` is its ElGamal key, an element of ristretto255."""

    state_key: Key


class PanPrivateSingleParties(OneServerParties):
    """The parties of a model with one server, which also has a key for the devices' state."""

    analyzer: Analyzer


def state_key_of(server: Server) -> str:
    """The key (base64url) to which devices encrypt their state for ``server``. Raises refusal ``model-unsupported`` for
    a server of another model."""
    if not isinstance(server, Analyzer):
        raise Refusal("model-unsupported", "the recipe's analyzer has no key for states")
    return server.state_key


class PanPrivateSingle(Form):
    """Model ``pan-private-single``, with the claim that the table of this module describes."""

    name: ClassVar[str] = "pan-private-single"
    parties: ClassVar[type[Parties]] = PanPrivateSingleParties
    opts_in: ClassVar[tuple[str, ...]] = ("analyzer",)
    different_operators: ClassVar[tuple[tuple[str, str], ...]] = DIFFERENT_OPERATORS
    proves: ClassVar[bool] = False
    adversaries: ClassVar[tuple[Adversary, ...]] = (
        ANALYZER_ROW,
        RELEASE_ROW,
        INTRUDER_ROW,
        Adversary(
            INTRUDER_WITH_ANALYZER,
            "who reads it and works with the analyzer",
            unbounded=True,
            unprotected=True,
            pure=True,
        ),
    )
    charged: ClassVar[str] = ANALYZER
    charged_with_relay: ClassVar[str] = ANALYZER
    refunds: ClassVar[bool] = False
    watched: ClassVar[Mapping[StatisticName, str]] = {"count": "rr", "histogram": "rappor", "mean": "flips"}
    closes: ClassVar[tuple[str, ...]] = ("interval_end",)

    def claim(self, reports: Reports, sample: Sample, *, n: int, delta: float) -> Claim:
        """Compute the claim as in the table of this module. Sampling is not counted in any row: the analyzer takes
        reports one by one, and together with the relay it would know who sent them. Where the coin flips of n devices
        are too many to be summed, fewer are counted: further noise only lowers the true epsilon. ``ValueError`` for
        importance sampling and dummies."""
        require_plain(sample, n, delta)
        single = single_epsilon(reports, delta)
        by_adversary = {
            ANALYZER: single,
            RELEASE: min(single, reports.aggregate_epsilon(min(n, reports.most_reports), delta)),
            INTRUDER: 0.0,
            INTRUDER_WITH_ANALYZER: math.inf,
        }
        return Claim(by_adversary, reports.mechanism, RELATION, n, reports.local_epsilon, float(delta))
