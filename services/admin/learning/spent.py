"""What the first rounds of a training run cost together, which takes a third of a second to find for each number."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Final

from services.admin.base.fair_threads import FairThreads
from tacit.errors import Abort, Refusal, UsageError
from tacit.models.secure_aggregation.form import SecureAggregation
from tacit.recipe.claims import independent_claim
from tacit.recipe.series import Series

KEPT: Final = 4096
PATIENCE_SECONDS: Final = 2.0
"""How long somebody waits for numbers that are not known yet; they are found in the background."""
WHO: Final = "the rounds of training runs"


class Spent:
    """Epsilon of the first rounds of a series against one aggregator or the analyst, computed in ``turns``."""

    def __init__(self, turns: FairThreads) -> None:
        self._turns = turns
        self._known: OrderedDict[tuple[str, int], float] = OrderedDict()
        self._finding: asyncio.Task[None] | None = None

    async def of(self, series: Series, rounds: Sequence[int]) -> dict[int, float]:
        """Epsilon by each of these numbers of rounds, as far as it is known after a moment."""
        missing = [count for count in rounds if (series.hash_text, count) not in self._known]
        if missing and self._finding is None:
            self._finding = asyncio.create_task(self._find(series, missing))
        if missing and self._finding is not None:
            await asyncio.wait({self._finding}, timeout=PATIENCE_SECONDS)
        epsilons = ((count, self._known.get((series.hash_text, count))) for count in rounds)
        return {count: epsilon for count, epsilon in epsilons if epsilon is not None}

    async def close(self) -> None:
        """End what is computed in the background."""
        if self._finding is not None:
            self._finding.cancel()
            await asyncio.wait({self._finding})

    async def _find(self, series: Series, rounds: Sequence[int]) -> None:
        try:
            for count in rounds:
                epsilon = await self._turns.do(WHO, partial(_cost, series, count))
                self._known[series.hash_text, count] = epsilon
                while len(self._known) > KEPT:
                    self._known.popitem(last=False)
        except (Abort, Refusal, UsageError):
            return  # whoever looks again asks for the rest
        finally:
            self._finding = None


def _cost(series: Series, rounds: int) -> float:
    return independent_claim(series.probe, rounds, float(series.claim.delta))[SecureAggregation.charged]
