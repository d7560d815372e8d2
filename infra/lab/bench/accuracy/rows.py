"""The rows of ``tacit bench accuracy``: a figure over several seeds beside a peer's and a target."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from rich.table import Table
from rich.text import Text

from infra.views.terminal import plain_table

RECALL = "top-10 recall"
ALPHA = 0.05
"""From which chance on a difference from a peer counts as significant."""


@dataclass(frozen=True)
class AccuracyRow:
    """One figure: the mean ``value`` over ``seeds`` populations, with its standard error (None: one run, or no chance
    in it). ``peer_value``: what ``peer`` reaches for the same (None: not measured). ``difference_p``: the chance of at
    least this difference from the peer if both were equally good, by pairs of the same population. ``target``: what the
    figure should reach, from below for a recall, and otherwise from above. ``elsewhere``: there is a target, for
    another number of devices or another domain. ``limit``: what the best search could reach (None: not computed)."""

    model: str
    n: int
    domain_bits: float
    epsilon: float
    metric: str
    value: float
    stderr: float | None = None
    seeds: int = 1
    peer: str | None = None
    peer_value: float | None = None
    target: float | None = None
    difference_p: float | None = None
    elsewhere: bool = False
    limit: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the figure reaches its target; None without one."""
        if self.target is None:
            return None
        return self.value >= self.target if self.metric == RECALL else self.value <= self.target

    @property
    def within_error(self) -> bool:
        """Whether chance alone may have put the figure on this side of its target: they differ by no more than two
        standard errors."""
        if self.target is None or self.stderr is None:
            return False
        return abs(self.value - self.target) <= 2 * self.stderr

    @property
    def significant(self) -> bool | None:
        """Whether the difference from the peer is more than chance makes likely; None where it was not tested."""
        return None if self.difference_p is None else self.difference_p < ALPHA


@dataclass(frozen=True)
class Where:
    """What the figures of one measurement share: model, devices, size of the domain in bits, and epsilon."""

    model: str
    n: int
    domain_bits: float
    epsilon: float

    def row(self, metric: str, values: Sequence[float], **more: Any) -> AccuracyRow:
        """A row of the mean of ``values``, one for each seed; ``more`` may set the other members."""
        error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
        return AccuracyRow(
            self.model, self.n, self.domain_bits, self.epsilon, metric, fmean(values), error, len(values), **more
        )


def paired_p(ours: Sequence[int], theirs: Sequence[int]) -> float:
    """The chance, if neither is better, that the sums of two lists of whole numbers differ by as much as these: each
    pair could as well be the other way round (R. A. Fisher's exact test of paired samples)."""
    differences = [one - other for one, other in zip(ours, theirs, strict=True)]
    sums: Counter[int] = Counter({0: 1})
    for difference in differences:
        moved: Counter[int] = Counter()
        for total, ways in sums.items():
            moved[total + difference] += ways
            moved[total - difference] += ways
        sums = moved
    seen = abs(sum(differences))
    as_far: int = sum(ways for total, ways in sums.items() if abs(total) >= seen)
    return as_far / float(1 << len(differences))


def table(rows: Sequence[AccuracyRow]) -> Table:
    """The rows for a terminal, each with its standard error and what a peer or a target has beside it."""
    shown = plain_table("model", "n", "bits", "ε", "figure", "value", "± s.e.", "seeds", "peer", "its value", "target")
    for at in (1, 2, 3, 5, 6, 7, 9, 10):
        shown.columns[at].justify = "right"
    for column in shown.columns:
        column.no_wrap = True
    for one in rows:
        shown.add_row(
            one.model,
            f"{one.n:,}",
            f"{one.domain_bits:g}",
            f"{one.epsilon:g}" if one.epsilon else "",
            one.metric,
            _number(one.value),
            "" if one.stderr is None else _number(one.stderr),
            str(one.seeds),
            one.peer or "",
            _beside(one),
            _target(one),
        )
    return shown


def _beside(one: AccuracyRow) -> str:
    if one.peer_value is None:
        return ""
    return _number(one.peer_value) + ("" if one.significant is None else " *" if one.significant else " ~")


def _target(one: AccuracyRow) -> Text:
    if one.target is None:
        return Text("not the target's size" if one.elsewhere else "", style="dim")
    if one.met or one.within_error:
        return Text(f"{_number(one.target)} {'met' if one.met else 'met within error'}", style="green")
    limit = "" if one.limit is None or one.limit >= one.target else f" (limit {_number(one.limit)})"
    return Text(f"{_number(one.target)} missed{limit}", style="red")


def _number(value: float) -> str:
    if value.is_integer():
        return f"{value:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(digits, 6)}f}"
