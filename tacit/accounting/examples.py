"""The worked examples of the SA2 paper and of its appendix, recomputed, including those where the paper is wrong.

``ex5_2500_pld`` is 1.02045, not the paper's 0.8, which no accountant reproduces; ``ex5_2500_device`` is the bound that
a device computes for the same. Without sampling it is 102.288 (``ex5_noamp``). Who sees which rounds a device takes
part in learns 8.3433 after 50 of them, the mean, and 12.01 after 94, which are exceeded with a chance below 1e-8.
Example 4 needs the bound of 2022.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tacit.accounting.events import Relation
from tacit.accounting.mechanisms import MECHANISMS, explain, relation_of


@dataclass(frozen=True, slots=True)
class Example:
    """One number of an example: ``value`` is the member ``answers`` of what ``mechanism`` returns for ``parameters``
    under ``relation`` (None: the mechanism's first relation)."""

    id: str
    mechanism: str
    parameters: dict[str, float]
    answers: str = "epsilon"
    relation: Relation | None = None

    def row(self) -> dict[str, object]:
        """The example as a row: its parameters, the relation that applies, and ``value``, computed by ``explain``."""
        return {
            "id": self.id,
            "mechanism": self.mechanism,
            "parameters": self.parameters,
            "relation": relation_of(MECHANISMS[self.mechanism], self.relation).value,
            "value": explain(self.mechanism, self.parameters, self.relation)[self.answers],
        }


_ROUND = {"sigma": 5.1, "q": 0.02, "delta": 1e-8}
_SHUFFLED = {"e0": 4, "n": 10_000, "delta": 1e-10}
EXAMPLES = (
    Example("ex3_sigma", "gaussian-sigma", {"epsilon": 1, "delta": 1e-8}, "sigma"),
    Example("ex3_sigma_replacement", "gaussian-sigma", {"epsilon": 1, "delta": 1e-8}, "sigma", Relation.REPLACEMENT),
    Example("ex4_fmt22", "shuffle-fmt22", _SHUFFLED),
    Example("ex4_fmt21", "shuffle-fmt21", _SHUFFLED),
    Example("ex5_round_pld", "subsampled-gaussian", {**_ROUND, "rounds": 1}),
    Example("ex5_round_analytic", "sampling", {"epsilon": 1, "q": 0.02}),
    Example("ex5_2500_pld", "subsampled-gaussian", {**_ROUND, "rounds": 2500}),
    Example("ex5_2500_rdp", "subsampled-gaussian", {**_ROUND, "rounds": 2500}, "epsilon_rdp"),
    Example("ex5_2500_device", "subsampled-gaussian", {**_ROUND, "rounds": 2500}, "epsilon_device"),
    Example("ex5_noamp", "gaussian", {"sigma": 5.1, "delta": 1e-8, "rounds": 2500}),
    Example("ex5_nonanon_50", "gaussian", {"sigma": 5.1, "delta": 1e-8, "rounds": 50}),
    Example("ex5_nonanon_94", "gaussian", {"sigma": 5.1, "delta": 1e-8, "rounds": 94}),
    Example("ex6_composed", "shuffle-sampled", {**_SHUFFLED, "q": 0.02}),
    Example("ex6_inner_delta_over_q", "shuffle-sampled", {**_SHUFFLED, "q": 0.02}, "epsilon_inner_delta_over_q"),
    Example("dummies_lambda", "dummies", {"epsilon": 1, "delta": 1e-8}, "lambda"),
    Example("donation_m100", "donation", {"epsilon": 1, "delta": 1e-8, "m": 100}),
)


def rows() -> Iterator[dict[str, object]]:
    """Yield every example, computed now."""
    for example in EXAMPLES:
        yield example.row()
