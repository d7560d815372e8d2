"""The accountants asked the other way round: delta of an epsilon, and epsilon of one sampled Gaussian."""

from __future__ import annotations

from tacit.accounting.accountants import _compose
from tacit.accounting.events import Event, Relation
from tacit.dp.gaussian import delta_subsampled
from tacit.dp.solve import smallest_epsilon


def delta_pld(event: Event, epsilon: float, relation: Relation) -> float:
    """delta at ``epsilon`` for ``event``, by the distributions behind ``epsilon_pld``."""
    composed = _compose(event, relation)
    return 0.0 if composed is None else float(composed.get_delta_for_epsilon(epsilon))


def epsilon_subsampled(sigma: float, sampling_rate: float, delta: float) -> float:
    """The smallest epsilon with ``delta_subsampled <= delta``, up to 600."""
    return smallest_epsilon(lambda epsilon: delta_subsampled(epsilon, sigma, sampling_rate), delta, 600.0)
