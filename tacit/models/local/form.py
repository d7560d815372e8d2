"""The local model: every device randomises its answer, and one server, the analyzer, reads single reports.

| adversary                                  | claim                                                        |
|--------------------------------------------|--------------------------------------------------------------|
| analyzer, which opens single reports       | local randomisation alone                                    |
| who sees only the result                   | n reports in an order that reveals nothing, if the analyzer  |
|                                            | is honest                                                    |

Reports arrive anonymously, one token each, but no row counts on it: sampling and anonymity protect further.
"""

from __future__ import annotations

from typing import ClassVar

from tacit.dp.claim import RELATION, Claim
from tacit.dp.hidden_claim import Sample
from tacit.dp.reports import Reports
from tacit.methods.base.method import Method
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
from tacit.models.parties import Parties


class Local(Form):
    """Model ``local``, with the claim that the table of this module describes."""

    name: ClassVar[str] = "local"
    parties: ClassVar[type[Parties]] = OneServerParties
    opts_in: ClassVar[tuple[str, ...]] = (ANALYZER,)
    different_operators: ClassVar[tuple[tuple[str, str], ...]] = DIFFERENT_OPERATORS
    proves: ClassVar[bool] = False
    adversaries: ClassVar[tuple[Adversary, ...]] = (ANALYZER_ROW, RELEASE_ROW)
    charged: ClassVar[str] = ANALYZER
    charged_with_relay: ClassVar[str] = ANALYZER
    refunds: ClassVar[bool] = False
    closes: ClassVar[tuple[str, ...]] = ("interval_end",)

    def answers_by(self, method: type[Method]) -> bool:
        """Whether single reports of ``method`` hide the answer by themselves."""
        return method.IS_LOCAL

    def claim(self, reports: Reports, sample: Sample, *, n: int, delta: float) -> Claim:
        """Compute the claim as in the table of this module. ``ValueError`` for importance sampling and dummies."""
        require_plain(sample, n, delta)
        single = single_epsilon(reports, delta)
        by_adversary = {ANALYZER: single, RELEASE: min(single, reports.reports_epsilon(n, delta))}
        return Claim(by_adversary, reports.mechanism, RELATION, n, reports.local_epsilon, float(delta))
