"""How accurate each way to ask is, over many populations, and what it costs, beside peers and targets.

Devices are drawn many at once by the law of a single one (``infra.lab.devices.vectorised``), and the analyzer's own
search, estimator and thresholds are applied to their reports. Populations follow from their seeds, so that every figure
can be measured again; a peer gets the same populations.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from statistics import NormalDist, fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infra.lab.bench.accuracy import peers
from infra.lab.bench.accuracy.rows import RECALL, AccuracyRow, Where, paired_p
from infra.lab.bench.accuracy.shuffled import shuffled_rows
from infra.lab.devices.vectorised import collected, numbers_of, records, zipf_items
from tacit.adapters.system import OsEntropy
from tacit.methods.base.affine import AffineHashing
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.statistics import HEAVY_HITTERS, Shape
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.packing import HashPacking
from tacit.methods.planners.registry import planner_of
from tacit.methods.randomisers.affine import AffineRandomiser
from tacit.models.local.server import HashedReports
from tacit.succinct.engines import TreeEngine
from tacit.succinct.supports import count_supports
from tacit.succinct.tree import MAX_TOP, search

Tell = Callable[[float], None]
LOCAL, ORACLE = "local", "local, oracle"
BITS, ITEMS, EXPONENT, TOP = 32, 100_000, 1.2, 10
"""Populations of the recall: items are random strings of 32 bits, Zipf-distributed."""
LONG_BITS = (64, 128, 256, 512)
"""Longer strings, of which recall is measured too, without the peer."""
LEAST_LEVEL = 1e-300
"""A level below which no quantile can be computed; a larger one leaves the limit of recall one."""
PEER_DEVICES = 100_000
"""The peer is measured for as many devices at most."""
RECALL_TARGETS = {
    (100_000, 1): 0.40, (100_000, 2): 0.60, (100_000, 4): 0.95,
    (1_000_000, 1): 0.75, (1_000_000, 2): 0.90, (1_000_000, 4): 1.00,
}  # fmt: skip
ORACLE_TARGET = 1.1
"""Largest error over that of optimised local hashing, at most."""
MILLION = 1_000_000
SERVER_TARGET, CLIENT_TARGET = 3.0, 0.1
"""Seconds for a million reports, and milliseconds for one."""
ENTRY = 5_000
"""Reports that the analyzer keeps in one entry."""
EVERYBODY = SampleDesign(1.0)


@dataclass(frozen=True)
class Extent:
    """How much is measured: populations (``seeds``), devices, epsilons, domains."""

    seeds: int
    recall_devices: tuple[int, ...]
    epsilons: tuple[int, ...]
    oracle_devices: tuple[int, ...]
    oracle_bits: tuple[int, ...]
    shuffled_devices: int
    shuffled_cells: tuple[int, ...]
    cost_reports: int
    long_bits: tuple[int, ...] = ()
    long_seeds: int = 1


FULL = Extent(
    20, (100_000, 1_000_000), (1, 2, 4), (10_000, 100_000), (8, 12, 16), 100_000, (100, 10_000, MILLION), MILLION,
    LONG_BITS, 3,
)  # fmt: skip
QUICK = Extent(3, (20_000,), (4,), (2_000,), (4, 6), 5_000, (100,), 5_000)
Part = tuple[float, Callable[[Tell], list[AccuracyRow]]]
"""Some rows: about how many seconds they take, and how they are measured."""


def accuracy_parts(extent: Extent, *, with_peer: bool) -> dict[str, list[Part]]:
    """What is to be measured, by the names of its four parts."""
    recall: list[Part] = []
    for n in extent.recall_devices:
        peer = with_peer and n <= PEER_DEVICES
        weight = extent.seeds * (1 + 4e-6 * n + 11 * peer)
        recall += [(weight, partial(_recall, n, epsilon, extent.seeds, with_peer=peer)) for epsilon in extent.epsilons]
    for n, bits in itertools.product(extent.recall_devices, extent.long_bits):
        weight = extent.long_seeds * bits / BITS * (1 + 4e-6 * n)
        recall += [
            (weight, partial(_recall, n, epsilon, extent.long_seeds, with_peer=False, bits=bits))
            for epsilon in extent.epsilons
        ]
    oracle: list[Part] = [
        (extent.seeds * (0.05 + n * 2e-6), partial(_oracle, n, bits, epsilon, extent.seeds))
        for epsilon in extent.epsilons for bits in extent.oracle_bits for n in extent.oracle_devices
    ]  # fmt: skip
    shuffled: list[Part] = [
        (extent.seeds * (0.05 + cells * 3e-7), partial(shuffled_rows, extent.shuffled_devices, cells, extent.seeds))
        for cells in extent.shuffled_cells
    ]
    cost: list[Part] = [(10.0, partial(_cost, extent.cost_reports, epsilon)) for epsilon in extent.epsilons]
    return {"recall": recall, "oracle": oracle, "shuffled": shuffled, "cost": cost}


def measured(parts: Sequence[Part], tell: Tell) -> Iterator[AccuracyRow]:
    """The rows of ``parts`` in order; ``tell`` gets the share done."""
    total, done = sum(weight for weight, _ in parts), 0.0
    for weight, part in parts:
        yield from part(lambda share, at=done, more=weight: tell((at + share * more) / total))  # type: ignore[misc]
        done += weight
        tell(done / total)


def tuned(epsilon: float, bits: int) -> AffineHashing:
    """The method as a recipe states it for this epsilon."""
    return planner_of(AffineHashing).tuned(Shape(HEAVY_HITTERS, 0, item_bits=bits), Decimal(epsilon), 1, 1e-6)


def _recall(n: int, epsilon: int, seeds: int, tell: Tell, *, with_peer: bool, bits: int = BITS) -> list[AccuracyRow]:
    """How many of the ten most frequent items are among the ten that are ranked highest."""
    ours, theirs, limits, method = [], [], [], tuned(epsilon, bits)
    for seed in range(seeds):
        random = np.random.default_rng((seed, n))
        items = zipf_items(random, n, ITEMS, EXPONENT, bits)
        counts = Counter(numbers_of(items)).most_common(TOP)
        truth = {item for item, _ in counts}
        limits.append(largest_recall([count / n for _, count in counts], n, epsilon, bits))
        found = search(collected(method, items, random.bytes), MAX_TOP).items[:TOP]
        ours.append(len(truth.intersection(found)))
        if with_peer:
            theirs.append(len(truth.intersection(peers.most_frequent_by_peer(items, epsilon, BITS, TOP))))
        tell((seed + 1) / seeds)
    target = RECALL_TARGETS.get((n, epsilon)) if bits == BITS else None
    more: dict[str, Any] = {"target": target, "elsewhere": target is None, "limit": fmean(limits)}
    if theirs:
        more |= {"peer": peers.NAME, "peer_value": fmean(theirs) / TOP, "difference_p": paired_p(ours, theirs)}
    return [Where(LOCAL, n, bits, epsilon).row(RECALL, [one / TOP for one in ours], **more)]


def largest_recall(shares: Sequence[float], n: int, epsilon: float, bits: int = BITS) -> float:
    """The most of these items, as a share of them, that any search lists on average in as many places, if every one of
    2^bits strings is equally likely to be such an item and all n reports are about whole strings.

    A list of L of M strings has an item with the power, at most, of the best test at level L / M whether devices have
    it at all (Y. Polyanskiy, H. V. Poor, S. Verdu, "Channel Coding Rate in the Finite Blocklength Regime", 2010,
    theorem 27). That test counts supports. In the normal approximation its standard error, as a share, is the least of
    any local protocol: 2 e^(eps/2) / ((e^eps - 1) sqrt n) (M. Ye, A. Barg, "Optimal Schemes for Discrete Distribution
    Estimation Under Locally Differential Privacy", 2018)."""
    error, normal = 2 * math.exp(epsilon / 2) / (math.expm1(epsilon) * math.sqrt(n)), NormalDist()
    least = -normal.inv_cdf(max(len(shares) / 2**bits, LEAST_LEVEL))
    return fmean(normal.cdf(share / error - least) for share in shares)


def _oracle(n: int, bits: int, epsilon: int, seeds: int, tell: Tell) -> list[AccuracyRow]:
    """Errors of all 2^bits shares beside what optimised local hashing has in theory where every item is rare: devices
    have uniform items. In smaller domains than those of ``FULL`` none is rare, so that the target is not for them."""
    method, largest, typical = tuned(epsilon, bits), [], []
    for seed in range(seeds):
        random = np.random.default_rng((seed, n, bits))
        errors = _errors(method, random.integers(0, 1 << bits, n), random)
        largest.append(float(np.abs(errors).max()))
        typical.append(math.sqrt(float(np.square(errors).mean())))
        tell((seed + 1) / seeds)
    small = bits < min(FULL.oracle_bits) or n < min(FULL.oracle_devices)
    theory, where = 2 * math.exp(epsilon / 2) / (math.expm1(epsilon) * math.sqrt(n)), Where(ORACLE, n, bits, epsilon)
    return [
        where.row(
            name,
            values,
            peer="OLH, theory",
            peer_value=least,
            target=None if small else ORACLE_TARGET * least,
            elsewhere=small,
        )
        for name, values, least in (
            ("standard error of a share", typical, theory),
            ("largest error of a share", largest, theory * largest_of_normal(1 << bits)),
        )
    ]


def _errors(method: AffineHashing, answers: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.float64]:
    """Estimated minus true share of every item of a domain of one level."""
    n, items = len(answers), answers.astype(np.uint64)
    (reports,) = collected(method, items, random.bytes).levels
    (supports,) = count_supports(reports, [0], 0, method.bits)
    values = np.array(estimator_of(method).estimate(supports, n, EVERYBODY).values)
    return (values - np.bincount(answers, minlength=1 << method.bits)) / n


def largest_of_normal(count: int) -> float:
    """The expected largest absolute value of ``count`` independent standard normal numbers."""
    step, below = 0.001, NormalDist().cdf
    points = (step * (at + 0.5) for at in range(10_000))
    return sum(step * -math.expm1(count * math.log(max(1e-300, 2 * below(x) - 1))) for x in points)


def _cost(n: int, epsilon: int, tell: Tell) -> list[AccuracyRow]:
    """Processor time of the analyzer's search over ``n`` kept reports, that of a device's draws, and the sizes."""
    method, where = tuned(epsilon, BITS), Where(LOCAL, n, BITS, epsilon)
    packing, entropy, random = HashPacking(method.cells), OsEntropy(), np.random.default_rng(n)
    items = zipf_items(random, n, ITEMS, EXPONENT, BITS)
    some = items[:2_000].tolist()
    start = time.process_time()
    for item in some:
        packing.pack(AffineRandomiser(method).randomise(item, entropy))
    client = 1e3 * (time.process_time() - start) / len(some)
    whole, size = records(method, items, random.bytes), packing.size * ENTRY
    entries = [whole[at : at + size] for at in range(0, len(whole), size)]
    tell(0.3)
    start = time.process_time()
    HashedReports(TreeEngine(method), packing).search(entries)
    server = time.process_time() - start
    return [
        where.row("server seconds", [server], target=SERVER_TARGET if n == MILLION else None, elsewhere=n != MILLION),
        where.row("client ms per report", [client], target=CLIENT_TARGET),
        where.row("payload bits", [8 * packing.size]),
        where.row("answer bits", [method.hash_bits]),
    ]
