"""The largest error of frequency oracles in the local model, measured beside the theorems of succinct histograms.

Every device of a population has one of d items. Measured are affine hashing, which the model ``local`` uses, and the
paper's oracle by random projection (Bassily and Smith, 2015, Algorithms 2 and 3); beside them stand the bound that the
paper's oracle keeps (Theorem 2.5) and the one below which no local protocol can be (Theorem 5.2).
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
from rich.table import Table

from infra.lab.devices.vectorised import collected
from infra.lab.measure.lower_bound import share_error_bound
from infra.views.terminal import plain_table
from tacit.adapters.disk.files import replacing
from tacit.adapters.system import OsEntropy
from tacit.methods.base.affine import AffineHashing
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.statistics import HEAVY_HITTERS, Shape
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.planners.registry import planner_of
from tacit.methods.succinct_histogram.projection import FrequencyOracle
from tacit.methods.succinct_histogram.signs import SignSums
from tacit.ports import Entropy
from tacit.succinct.supports import count_supports

BETA = 0.05
"""Chance with which the paper's bound may fail."""
SIZES = (1_000, 3_000, 10_000, 30_000)
EVERYBODY = SampleDesign(1.0)


@dataclass(frozen=True, slots=True)
class Errors:
    """Largest errors over all ``items``, as shares of ``devices``: means over runs and their standard errors, and the
    two bounds."""

    devices: int
    items: int
    epsilon0: float
    affine: float
    affine_stderr: float
    projection: float
    projection_stderr: float
    proved: float
    least: float

    @property
    def holds(self) -> bool:
        """Whether both are above the least error, and the paper's oracle is within its bound, on average."""
        return min(self.affine, self.projection) >= self.least and self.projection <= self.proved


def compare(
    bits: int, epsilon0: Decimal, runs: int, tell: Callable[[float], None], sizes: Sequence[int] = SIZES
) -> list[Errors]:
    """Measure populations of ``sizes`` devices with 2^bits items (bits: 1 to 16), ``runs`` times each. ``tell`` gets
    the share done."""
    entropy, found, done = OsEntropy(), [], 0
    for devices in sizes:
        ours, theirs = [], []
        oracle = _oracle(bits, epsilon0, devices, entropy)
        for _ in range(runs):
            items = [_zipf(bits, entropy) for _ in range(devices)]
            ours.append(_affine(items, bits, epsilon0, entropy))
            theirs.append(_projected(items, oracle, entropy))
            done += devices
            tell(done / (runs * sum(sizes)))
        proved, least = oracle.error_bound(devices), share_error_bound(float(epsilon0), 1 << bits, devices)
        found.append(
            Errors(devices, 1 << bits, float(epsilon0), *_mean(ours), *_mean(theirs), proved=proved, least=least)
        )
    return found


def _oracle(bits: int, epsilon0: Decimal, devices: int, entropy: Entropy) -> FrequencyOracle:
    return FrequencyOracle(epsilon0, 1 << bits, devices, BETA, entropy(16))


def _zipf(bits: int, entropy: Entropy) -> int:
    """An item with a probability that falls about as 1 / (rank + 1), by inversion."""
    uniform = int.from_bytes(entropy(8), "big") / 2**64
    return min((1 << bits) - 1, int((1 << bits) ** uniform) - 1)


def _affine(items: Sequence[int], bits: int, epsilon0: Decimal, entropy: Entropy) -> float:
    """The largest error of affine hashing with one level."""
    method = planner_of(AffineHashing).tuned(Shape(HEAVY_HITTERS, 0, item_bits=bits), epsilon0, 1, 1e-6)
    (reports,) = collected(method, np.array(items, dtype=np.uint64), entropy).levels
    (supports,) = count_supports(reports, [0], 0, bits)
    truth = Counter(items)
    values = estimator_of(method).estimate(supports, len(items), EVERYBODY).values
    return max(abs(value - truth[item]) for item, value in enumerate(values)) / len(items)


def _projected(items: Sequence[int], oracle: FrequencyOracle, entropy: Entropy) -> float:
    """The largest error of the oracle by random projection."""
    sums = SignSums(oracle.rows)
    for item in items:
        sums.add(oracle.report(item, entropy))
    truth = Counter(items)
    return max(abs(oracle.estimate(item, sums) - truth[item] / len(items)) for item in range(oracle.items))


def _mean(values: Sequence[float]) -> tuple[float, float]:
    return fmean(values), stdev(values) / math.sqrt(len(values))


def table(found: Sequence[Errors]) -> Table:
    """Return a table with one row for each number of devices: measured, proved and least errors."""
    shown = plain_table("devices", "affine hashing", "projection", "proved for it", "least possible")
    for one in found:
        shown.add_row(
            f"{one.devices:,}",
            f"{one.affine:.4f} ± {one.affine_stderr:.4f}",
            f"{one.projection:.4f} ± {one.projection_stderr:.4f}",
            f"{one.proved:.4f}",
            f"{one.least:.4f}",
        )
    return shown


def write(found: Sequence[Errors], out: Path) -> list[Path]:
    """The figure as PNG and SVG, and its numbers as CSV, in ``out``."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    sizes = [one.devices for one in found]
    for name, values, errors, style in (
        ("affine hashing, measured", [one.affine for one in found], [one.affine_stderr for one in found], "o-"),
        ("projection, measured", [one.projection for one in found], [one.projection_stderr for one in found], "s-"),
    ):
        axes.errorbar(sizes, values, [1.96 * error for error in errors], fmt=style, capsize=3, label=name)
    axes.plot(sizes, [one.proved for one in found], "--", label="projection, proved (Theorem 2.5)")
    if any(one.least for one in found):
        axes.plot(sizes, [one.least or math.nan for one in found], ":", label="least possible (Theorem 5.2)")
    axes.set(xscale="log", yscale="log", xlabel="devices", ylabel="largest error, share of the devices")
    axes.set_title(f"{found[0].items:,} items, epsilon {found[0].epsilon0:g}")
    axes.grid(visible=True, which="both", alpha=0.25)
    axes.legend(frameon=False)
    paths = [out / "succinct.png", out / "succinct.svg"]
    for path in paths:
        with replacing(path) as draft:
            figure.savefig(draft, dpi=150)
    rows = out / "succinct.csv"
    with replacing(rows) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(asdict(found[0])))
        writer.writeheader()
        writer.writerows(asdict(one) for one in found)
    return [*paths, rows]
