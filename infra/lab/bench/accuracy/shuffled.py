"""How accurate counts and histograms of the shuffled model are, drawn from their exact law in one step for each cell.

A cell's total is its count and noise of law ``Bin(n, p)``, independent of all other cells, so devices need not be
simulated (``tacit.dp.shuffled_counts``). Neighbours differ by replacement, and lambda is the exact one for a histogram.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from infra.lab.bench.accuracy.rows import AccuracyRow, Where
from infra.lab.devices.vectorised import zipf_shares
from infra.lab.shuffled.variants import BETA, UNBIASED, ZSUM, cut_below, zsum_estimate
from tacit.dp.binomial import rarely_reached
from tacit.dp.shuffled_counts import lambda_hist, paper_hist_lambda

EPSILON, DELTA, EXPONENT = 1.0, 1e-8, 1.1
TARGETS = {("unbiased", 10**6): 42.5, ("unbiased, threshold", 10**6): 56.6}
THRESHOLD = "unbiased, threshold"
PAPER = "zsum, the paper's lambda"


def shuffled_rows(n: int, cells: int, seeds: int, tell: Callable[[float], None]) -> list[AccuracyRow]:
    """Largest count errors and false positives of a histogram of ``cells`` cells of n devices, for each way to read the
    totals: ``zsum`` with noise of n coins that rarely fail, cut at n; the same noise without bias; and that above a
    threshold which an empty cell passes with probability 0.05, over all cells. The peer is zsum with the paper's
    lambda."""
    noise, paper = lambda_hist(EPSILON, DELTA, n), min(n / 2, paper_hist_lambda(EPSILON, DELTA))
    least = rarely_reached(n, noise / n, BETA / cells) - noise
    errors: dict[str, list[float]] = {name: [] for name in (ZSUM, UNBIASED, THRESHOLD, PAPER)}
    false: dict[str, list[float]] = {name: [] for name in errors}
    for seed in range(seeds):
        random = np.random.default_rng((seed, n, cells))
        truth = random.multinomial(n, zipf_shares(cells, EXPONENT))
        drawn = random.binomial(n, noise / n, cells)
        unbiased = truth + drawn - noise
        estimates = {
            ZSUM: zsum_estimate(truth, drawn, noise),
            UNBIASED: unbiased,
            THRESHOLD: cut_below(unbiased, least),
            PAPER: zsum_estimate(truth, random.binomial(n, paper / n, cells), paper),
        }
        for name, estimate in estimates.items():
            errors[name].append(float(np.abs(estimate - truth).max()))
            false[name].append(float(np.count_nonzero(estimate[truth == 0])))
        tell((seed + 1) / seeds)
    where = Where("shuffled", n, round(math.log2(cells), 2), EPSILON)
    beside = sum(errors[PAPER]) / seeds
    rows = [
        where.row(
            f"largest count error, {name}",
            errors[name],
            peer=PAPER,
            peer_value=beside,
            target=TARGETS.get((name, cells)),
            elsewhere=(name, cells) not in TARGETS and any(name == one for one, _ in TARGETS),
        )
        for name in (ZSUM, UNBIASED, THRESHOLD)
    ]
    limits = {ZSUM: 0.0, THRESHOLD: None}
    return rows + [where.row(f"false positives, {name}", false[name], target=limit) for name, limit in limits.items()]
