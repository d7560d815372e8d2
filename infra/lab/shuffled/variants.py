"""Histograms of one population by several protocols, and the largest error of each over all categories.

All but the last have the same messages: n users each withhold a noise message of a cell with probability lambda / n.
They differ in what the analyzer makes of a total of ``x + n - Bin(n, lambda / n)``:

* ``ZSUM`` (Balcer and Cheu, 2020): nothing up to n, else the unbiased estimate. What it erases is about lambda, and no
  empty cell is ever reported;
* ``UNBIASED``: the estimate ``total - n + lambda`` of every cell, empty or not;
* ``THRESHOLD``: that, or 0 below ``sqrt(2 lambda ln(2 d / beta))``, which noise exceeds in no cell, except with
  probability beta = 1/20 or so (a normal tail for the binomial one);
* ``PUBLISHED``: zsum with the paper's lambda;
* ``CENTRAL``: the central model's stability-based histogram: Laplace noise and a threshold for counts that are not 0.

With the least lambda, zsum is not the one with the smallest error: plain noise grows as sqrt(lambda ln d), but stays
below lambda for every practical d. What zsum gives is that nothing is reported which nobody has.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from infra.lab.shuffled.identification import stability_threshold
from infra.lab.shuffled.protocols import Hist
from infra.lab.shuffled.simulation import Lost, words
from tacit.ports import Entropy

PUBLISHED, ZSUM, UNBIASED, THRESHOLD, CENTRAL = "published", "zsum", "unbiased", "threshold", "central"
VARIANTS = (PUBLISHED, ZSUM, UNBIASED, THRESHOLD, CENTRAL)
BETA = 0.05
_WORD = float(1 << 64)


def zsum_estimate(count: Any, missing: Any, noise: float) -> Any:
    """What zsum makes of cells with these true counts of whose noise messages so many are missing: 0 where the total
    does not pass the number of users, else the unbiased estimate. Whole numbers, or arrays of them."""
    return (count > missing) * (count - missing + noise)


def cut_below(estimate: Any, least: float) -> Any:
    """An estimate, or each of an array of them, replaced by 0 if it is below ``least``."""
    return (estimate >= least) * estimate


def noise_threshold(noise: float, categories: int) -> float:
    """``sqrt(2 lambda ln(2 d / beta))``: the count from which on ``THRESHOLD`` reports."""
    return math.sqrt(2 * noise * math.log(2 * categories / BETA))


def largest_errors(counts: Sequence[int], epsilon: float, delta: float, entropy: Entropy) -> dict[str, float]:
    """The largest error of a count, for each variant, in one run with these true counts of all categories.
    ``ValueError`` where the counts sum to fewer users than the paper's protocol needs."""
    users, categories = sum(counts), len(counts)
    published = Hist.published(epsilon, delta, users, categories)
    exact = Hist.exact(epsilon, delta, users, categories)
    noise = exact.cell.noise
    threshold = noise_threshold(noise, categories)
    lost = Lost(exact.cell).draw(categories, entropy)
    fewer = Lost(published.cell).draw(categories, entropy)
    cells = [*zip(counts, lost, strict=True)]
    unbiased = [count - missing + noise for count, missing in cells]
    estimates = {
        PUBLISHED: [zsum_estimate(*cell, published.cell.noise) for cell in zip(counts, fewer, strict=True)],
        ZSUM: [zsum_estimate(*cell, noise) for cell in cells],
        UNBIASED: unbiased,
        THRESHOLD: [cut_below(one, threshold) for one in unbiased],
    }
    errors = {name: _largest(counts, found) for name, found in estimates.items()}
    return {**errors, CENTRAL: _central(counts, epsilon, delta, entropy)}


def zipf_counts(users: int, categories: int, exponent: float, entropy: Entropy) -> list[int]:
    """How many of ``users`` have each category, which are drawn with probabilities that fall as ``rank^-exponent``."""
    below = list(accumulate(rank**-exponent for rank in range(1, categories + 1)))
    counts = [0] * categories
    for word in words(users, entropy):
        counts[min(bisect_right(below, word / _WORD * below[-1]), categories - 1)] += 1
    return counts


def _largest(counts: Sequence[int], estimates: Sequence[float]) -> float:
    return max(abs(estimate - count) for count, estimate in zip(counts, estimates, strict=True))


def _central(counts: Sequence[int], epsilon: float, delta: float, entropy: Entropy) -> float:
    """The largest error of the stability-based histogram. Counts of 0 are exact."""
    threshold, scale = stability_threshold(epsilon, delta), 2 / epsilon
    some = [count for count in counts if count]
    largest = 0.0
    for count, word in zip(some, words(len(some), entropy), strict=True):
        size, negative = -math.log((1 + (word >> 1)) * 2.0**-63) * scale, word & 1
        noise = -size if negative else size
        largest = max(largest, abs(noise) if count + noise >= threshold else float(count))
    return largest
