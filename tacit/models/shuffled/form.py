"""The shuffled model: the shuffler mixes the sealed messages of all devices, the analyzer opens and counts them (P25).

| adversary                                  | claim                                                        |
|--------------------------------------------|--------------------------------------------------------------|
| analyzer, if the shuffler is honest        | the totals of n devices                                      |
| the same with the relay                    | the same: no row counts on sampling                          |
| shuffler alone                             | 0, computationally: it holds no key to a message             |
| shuffler with the analyzer                 | none: it tells which messages are one device's               |
| who sees the result, with an honest        | the totals of n devices, of which the result is a function   |
| shuffler                                   |                                                              |

The shuffler alone counts B. One that forwards messages of its own making in place of the devices' can also learn from
the result, as anybody may: that is a shuffler that works with the analyzer.
"""

from __future__ import annotations

import math
from typing import ClassVar

from tacit.dp import parameters
from tacit.dp.claim import RELATION, Claim
from tacit.dp.hidden_claim import Sample
from tacit.dp.reports import Reports
from tacit.methods.base.method import Method
from tacit.models.form import Adversary, Cap, Form
from tacit.models.one_server import ANALYZER, DIFFERENT_OPERATORS, OneServerParties, require_plain
from tacit.models.parties import SHUFFLER, Parties, Server

SHUFFLED = "analyzer_of_shuffled"
SHUFFLED_WITH_RELAY = "analyzer_of_shuffled_with_relay"
SHUFFLER_WITH_ANALYZER = "shuffler_with_analyzer"
SHUFFLED_RELEASE = "release_of_shuffled"


def _if_honest(name: str, words: str, cap: Cap) -> Adversary:
    """An adversary whose number rests on the shuffler's honesty, which nobody enforces."""
    return Adversary(name, words, cap, condition="the shuffler is honest", otherwise=SHUFFLER_WITH_ANALYZER)


class ShuffledParties(OneServerParties):
    """The parties of a model with one server, and the shuffler through which everything goes to it."""

    shuffler: Server


class Shuffled(Form):
    """Model ``shuffled``, with the claim that the table of this module describes."""

    name: ClassVar[str] = "shuffled"
    parties: ClassVar[type[Parties]] = ShuffledParties
    opts_in: ClassVar[tuple[str, ...]] = (SHUFFLER, ANALYZER)
    different_operators: ClassVar[tuple[tuple[str, str], ...]] = (
        *DIFFERENT_OPERATORS,
        (SHUFFLER, ANALYZER),
        (SHUFFLER, "analyst"),
        (SHUFFLER, "relay"),
        (SHUFFLER, "gateway"),
        ("attester", SHUFFLER),
        ("issuer", SHUFFLER),
    )
    proves: ClassVar[bool] = False
    adversaries: ClassVar[tuple[Adversary, ...]] = (
        _if_honest(SHUFFLED, "the analyzer, or the analyst, if the shuffler is honest", Cap.AGGREGATE),
        _if_honest(SHUFFLED_WITH_RELAY, "... together with the relay", Cap.AGGREGATE_WITH_RELAY),
        Adversary(SHUFFLER, "the shuffler, which sees sealed messages and no result", pure=True),
        Adversary(
            SHUFFLER_WITH_ANALYZER,
            "the shuffler with the analyzer, or one that forges messages and sees the result",
            unbounded=True,
            unprotected=True,
            pure=True,
        ),
        _if_honest(SHUFFLED_RELEASE, "who sees only the result, if the shuffler is honest", Cap.AGGREGATE),
    )
    charged: ClassVar[str] = SHUFFLED
    charged_with_relay: ClassVar[str] = SHUFFLED_WITH_RELAY
    refunds: ClassVar[bool] = False
    closes: ClassVar[tuple[str, ...]] = ("interval_end",)

    def answers_by(self, method: type[Method]) -> bool:
        """Methods whose answers are hidden once messages are shuffled."""
        return method.IS_SHUFFLED

    def claim(self, reports: Reports, sample: Sample, *, n: int, delta: float) -> Claim:
        """Compute the claim as in the table of this module. More than B devices only add independent noise, and fewer
        mean that the others are dishonest and add none. ``ValueError`` for importance sampling and dummies, and for
        noise that gives no epsilon."""
        require_plain(sample, n, delta)
        totals = reports.aggregate_epsilon(min(n, sample.batch), delta)
        if totals > parameters.MAX_EPSILON0:
            raise ValueError(f"the noise of {n} devices gives no epsilon up to {parameters.MAX_EPSILON0:g}")
        by_adversary = {
            SHUFFLED: totals,
            SHUFFLED_WITH_RELAY: totals,
            SHUFFLER: 0.0,
            SHUFFLER_WITH_ANALYZER: math.inf,
            SHUFFLED_RELEASE: totals,
        }
        return Claim(by_adversary, reports.mechanism, RELATION, n, reports.local_epsilon, float(delta))
