"""Who takes part, and what their sums say about everybody, where devices take part with the rate of their value.

With one rate for all values this is uniform sampling; with a smaller one for a default value it is importance sampling.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from client_agent.fleet.decisions import coins
from tacit.ports import Entropy
from tacit.randomizers.flips import Flips


def take_part(categories: NDArray[np.uint16], rates: Sequence[Decimal], entropy: Entropy) -> NDArray[np.uint16]:
    """The categories of the devices whose coin falls for them; category k has the rate ``rates[k]``."""
    joined = np.zeros(len(categories), dtype=np.bool_)
    of_device = np.asarray([sorted(set(rates)).index(rate) for rate in rates])[categories]
    for place, rate in enumerate(sorted(set(rates))):
        mine = np.flatnonzero(of_device == place)
        joined[mine] = coins(rate, len(mine), entropy)
    return categories[joined]


def estimated_shares(
    shares: Flips, sums: Sequence[int], reports: int, rates: Sequence[Decimal], population: int
) -> NDArray[np.float64]:
    """The share of each category among ``population`` devices, by inverse probability of taking part: the sum without
    its scale and the mean of its noise, over the category's rate and the population."""
    counts = np.asarray(shares.estimate(sums, reports, 1.0).values)
    estimated: NDArray[np.float64] = counts / (np.asarray([float(rate) for rate in rates]) * population)
    return estimated
