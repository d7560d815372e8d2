"""What searches single reports for frequent items, and what the result of a search tells: one engine for each method
that has one (``Method.ENGINE``).

``tree`` is affine hashing on a tree of prefixes (``tacit.succinct.tree``), ``paper`` the histogram of Bassily and Smith
(``tacit.methods.succinct_histogram.channels``).
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from tacit.methods.base.affine import PUBLIC_SIZE, AffineHashing
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.estimate import Estimate
from tacit.methods.base.method import Method
from tacit.methods.estimators.affine import AffineEstimator
from tacit.methods.estimators.succinct_histogram import SuccinctHistogramEstimator
from tacit.methods.succinct_histogram.channels import PublicComponents, decode_channels
from tacit.methods.succinct_histogram.histogram import BETA, PaperHistogram
from tacit.succinct.tree import (
    CONFIDENCE,
    EVERY,
    FALSE_POSITIVE_RATE,
    MAX_TOP,
    RECORD_SIZE,
    Collected,
    Found,
    Prefixes,
    expected_threshold,
    others_below,
    search,
    threshold,
)

Searched = TypeVar("Searched", bound=Method)


@dataclass(frozen=True, slots=True)
class Ranking:
    """The items that pass ``threshold``, best first, with their estimates. An item that no device has passes it with
    probability ``false_positive_rate`` at most, over all items together; with ``probability``, every item that is not
    listed has fewer devices than ``below``. ``outside``: the estimated number of devices that have item 0, and its
    standard error (None: the search did not count them)."""

    items: tuple[int, ...]
    estimate: Estimate
    threshold: float
    false_positive_rate: float
    below: float
    probability: float
    outside: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Engine(ABC, Generic[Searched]):
    """Searches the reports of ``method`` for items of ``domain``."""

    NAME: ClassVar[str]
    method: Searched
    domain: Prefixes = EVERY

    @property
    @abstractmethod
    def report_bits(self) -> int:
        """Bits of a report that depend on the item."""

    @property
    @abstractmethod
    def domain_bits(self) -> int:
        """Bits of an item: log2 of the number of possible texts."""

    @abstractmethod
    def search(self, records: Iterable[bytes]) -> dict[str, Any]:
        """What is found in reports, as JSON: their records of 17 bytes (public bytes and value), several one after
        another. ``ValueError`` if that is impossible."""

    @abstractmethod
    def ranking(self, document: Any, reports: int, design: SampleDesign) -> Ranking:
        """What a search of so many ``reports`` tells. ``ValueError`` for a document that no search of them makes."""

    @abstractmethod
    def expected(self, reports: float, design: SampleDesign) -> tuple[float, float]:
        """The threshold and the standard error of a rare item, in devices, as expected from so many reports."""


class TreeEngine(Engine[AffineHashing]):
    """Searches reports of affine hashing level by level, down a tree of prefixes (``tacit.succinct.tree``)."""

    NAME = "tree"

    @property
    def report_bits(self) -> int:
        """Bits that a report says: those of the hash of its text."""
        return self.method.hash_bits

    @property
    def domain_bits(self) -> int:
        """Bits of an item of the domain: those of the last level."""
        return self.method.bits

    def search(self, records: Iterable[bytes]) -> dict[str, Any]:
        """The most frequent items, and the levels of the search (``tacit.succinct.tree.Found``)."""
        collected = Collected(self.method)
        for several in records:
            collected.add(several)
        return search(collected, MAX_TOP, domain=self.domain).document()

    def ranking(self, document: Any, reports: int, design: SampleDesign) -> Ranking:
        """Items that pass the exact threshold over all candidates of the last level."""
        method, found = self.method, self._checked(document, reports)
        least = threshold(found, method, design, FALSE_POSITIVE_RATE)
        estimator = AffineEstimator(method)
        estimate = estimator.estimate(found.supports, found.levels[-1].reports, design)
        passing = sum(value >= least for value in estimate.values)
        rest = others_below(found.first(passing), method, design, CONFIDENCE)
        listed = Estimate(estimate.values[:passing], estimate.stderrs[:passing])
        outside = None if found.outside is None else estimator.estimate_of_all(found.outside, reports, design)
        items = found.items[:passing]
        return Ranking(items, listed, least, FALSE_POSITIVE_RATE, max(1.0, rest), CONFIDENCE, outside)

    def expected(self, reports: float, design: SampleDesign) -> tuple[float, float]:
        """``expected_threshold`` of the method: with the usual number of candidates."""
        return expected_threshold(self.method, reports, design)

    def _checked(self, document: Any, reports: int) -> Found:
        """The search, which must be one of this many reports, over this domain. Numbers that no search has would take
        long, or could not be computed with."""
        method, found = self.method, Found.from_document(document)
        if len(found.levels) != len(method.levels):
            raise ValueError(f"the search has {len(found.levels)} levels, the recipe {len(method.levels)}")
        if sum(level.reports for level in found.levels) != reports:
            raise ValueError("the levels of the search must have all reports together")
        if any(item >> method.bits for item in found.items):
            raise ValueError(f"items must have {method.bits} bits")
        for level, (before, after) in zip(found.levels, itertools.pairwise((0, *method.levels)), strict=True):
            if not 1 <= level.candidates <= (MAX_TOP if before else 1) << (after - before):
                raise ValueError("candidates must be extensions of the prefixes that are kept")
        return found


class PaperEngine(Engine[PaperHistogram]):
    """Every channel is decoded, and the oracle tells what was decoded rightly. The reports that were accepted have the
    law of a random part of all devices' reports."""

    NAME = "paper"

    @property
    def report_bits(self) -> int:
        """One: whether the report of the public bytes is accepted."""
        return 1

    @property
    def domain_bits(self) -> int:
        """Bits of an item, which is the message of the code."""
        return self.method.bits

    def search(self, records: Iterable[bytes]) -> dict[str, Any]:
        """The items that any channel gives and the oracle puts above its bound, with the numbers of ``accepted``
        reports whose signs are ``agreeing`` with them."""
        starts = ((several, at) for several in records for at in range(0, len(several), RECORD_SIZE))
        publics = [several[at : at + PUBLIC_SIZE] for several, at in starts if several[at + PUBLIC_SIZE]]
        if not publics:
            raise ValueError("no report was accepted")
        histogram = self.method.histogram
        signs = [PublicComponents(histogram, public)[histogram.oracle_channel] for public in publics]

        def agreeing(item: int) -> int:
            column = histogram.oracle.column(item)
            return sum(sign == 1 - 2 * (column >> row & 1) for row, sign in signs)

        rows = [(-agreeing(item), item) for item in decode_channels(histogram, publics)]
        best = [(item, -count) for count, item in sorted(rows) if self._share(-count, len(publics)) > 0][:MAX_TOP]
        items, counts = [item for item, _ in best], [count for _, count in best]
        return {"items": items, "agreeing": counts, "accepted": len(publics), "outside": agreeing(0)}

    def ranking(self, document: Any, reports: int, design: SampleDesign) -> Ranking:
        """Items whose estimate passes the oracle's error bound (Theorem 2.5)."""
        items, counts, accepted, others = self._checked(document, reports)
        method, outside = self.method, None
        estimator = SuccinctHistogramEstimator(method)
        if others is not None:
            told = estimator.estimate([others], accepted, design)
            outside = told.values[0], told.stderrs[0]
        total, least = estimator.total(accepted, design), method.share_bound(accepted)
        found = estimator.estimate(counts, accepted, design)
        passing = sum(value >= least * total for value in found.values)
        listed = Estimate(found.values[:passing], found.stderrs[:passing])
        # of an item's devices fewer may have been accepted than their share: Hoeffding's inequality, for each of at
        # most sqrt(n) items that are frequent enough
        fewer = math.sqrt(math.log(math.sqrt(method.reports) / (1 - CONFIDENCE)) / (2 * accepted))
        enough = method.histogram.sufficient_share(accepted) if accepted <= method.reports else math.inf
        below = total * (enough + fewer) if enough + fewer < 1 else total + 1
        return Ranking(items[:passing], listed, least * total, BETA / 3, below, CONFIDENCE - BETA, outside)

    def expected(self, reports: float, design: SampleDesign) -> tuple[float, float]:
        """The oracle's error bound as the threshold, and the error, both at the expected number of accepted reports."""
        accepted = max(1, round(reports * self.method.one_bit.accepted))
        estimator = SuccinctHistogramEstimator(self.method)
        total = estimator.total(accepted, design)
        (stderr,) = estimator.estimate([accepted // 2], accepted, design).stderrs
        return self.method.share_bound(accepted) * total, stderr

    def _share(self, agreeing: int, accepted: int) -> float:
        return self.method.histogram.oracle.randomizer.scale * (2 * agreeing - accepted) / accepted

    def _checked(self, document: Any, reports: int) -> tuple[tuple[int, ...], tuple[int, ...], int, int | None]:
        needed = {"items", "agreeing", "accepted"}
        if not isinstance(document, dict) or not needed <= set(document) <= {*needed, "outside"}:
            raise ValueError("a search must have the members items, agreeing and accepted")
        items, counts, accepted = document["items"], document["agreeing"], document["accepted"]
        others = document.get("outside")
        if not isinstance(items, list | tuple) or not isinstance(counts, list | tuple) or len(items) != len(counts):
            raise ValueError("items must have one number of agreeing reports each")
        if len(items) > MAX_TOP or any(type(one) is not int or one < 0 for one in (*items, *counts, accepted)):
            raise ValueError(f"a search must have at most {MAX_TOP} items, and whole numbers")
        if not 1 <= accepted <= reports or any(item >> self.method.bits for item in items):
            raise ValueError("accepted reports must be some of all, and items in the domain")
        if len(set(items)) < len(items) or any(a < b for a, b in itertools.pairwise((accepted, *counts))):
            raise ValueError("items must be distinct, and fall by their agreeing reports")
        if others is not None and not (type(others) is int and 0 <= others <= accepted):
            raise ValueError("outside must be a number of accepted reports")
        return tuple(items), tuple(counts), accepted, others


_ENGINES: dict[str, type[Engine[Any]]] = {one.NAME: one for one in (TreeEngine, PaperEngine)}


def engine_of(method: Method, domain: Prefixes = EVERY) -> Engine[Any] | None:
    """What searches the reports of a method for items of a domain; None where they are added up."""
    return None if method.ENGINE is None else _ENGINES[method.ENGINE](method, domain)
