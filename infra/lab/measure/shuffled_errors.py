"""The largest error of histograms in the shuffled and central models, against the number of categories."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from infra.lab.shuffled.variants import VARIANTS, largest_errors, zipf_counts
from tacit.adapters.system import OsEntropy
from tacit.ports import Entropy

USERS, EPSILON, DELTA, EXPONENT = 100_000, 1.0, 1e-8, 1.1
CATEGORIES = (100, 1_000, 10_000, 100_000, 1_000_000)


@dataclass(frozen=True, slots=True)
class Largest:
    """Largest errors of counts, by variant: means over runs, and their standard errors."""

    categories: int
    runs: int
    means: dict[str, float]
    stderrs: dict[str, float]

    def row(self) -> dict[str, float]:
        """The numbers by the names of their columns."""
        means = {name: self.means[name] for name in VARIANTS}
        return {"categories": self.categories, "runs": self.runs, **means} | {
            f"{name}_stderr": self.stderrs[name] for name in VARIANTS
        }


def largest(categories: int, runs: int, entropy: Entropy) -> Largest:
    """Means over at least two runs, each with a population of its own."""
    found = [
        largest_errors(zipf_counts(USERS, categories, EXPONENT, entropy), EPSILON, DELTA, entropy) for _ in range(runs)
    ]
    errors = {name: [one[name] for one in found] for name in VARIANTS}
    return Largest(
        categories,
        runs,
        {name: fmean(values) for name, values in errors.items()},
        {name: stdev(values) / math.sqrt(runs) for name, values in errors.items()},
    )


def compare_errors(runs: int, tell: Callable[[float], None], categories: Sequence[int] = CATEGORIES) -> list[Largest]:
    """Measure domains of so many categories, of ``CATEGORIES`` if none are given. ``tell`` gets the share done."""
    entropy, found, categories = OsEntropy(), [], categories or CATEGORIES
    work = [USERS + 2 * size for size in categories]
    for at, size in enumerate(categories):
        found.append(largest(size, runs, entropy))
        tell(sum(work[: at + 1]) / sum(work))
    return found
