"""The answers of a release in their two forms, as a collector makes them and as every reader of a document reads them.

``Buckets`` has one answer for each label of the question. ``Ranked`` has the answers that stand out among more than can
be listed, such as the strings of a large dictionary, and a bound on all others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from tacit.methods.base.candidate_labels import QUOTE, printable, unused_label
from tacit.methods.base.estimate import Estimate

MOST_ITEMS: Final = 1_000
"""The most answers of a ranked result."""
MOST_LISTED: Final = 16_384
"""The most answers of which a result lists those with an estimate of exactly 0 too."""
MOST_ITEM_BYTES: Final = 256
"""The most bytes (UTF-8) of an answer of a ranked result."""

_NUMBERS: Final = ("estimate", "stderr")


@dataclass(frozen=True, slots=True)
class Zeros:
    """What an estimate of exactly 0 means where small counts are cut: an answer of at least ``below`` devices is 0 with
    probability ``1 - probability`` at most. One that nobody has is always 0; with a ``false_positive_rate`` above 0,
    this is the probability that any of all those that nobody has is not."""

    below: float
    probability: float
    false_positive_rate: float = 0.0

    def sentence(self) -> str:
        """The meaning in words, for people."""
        sure = "an answer that nobody has is always 0 if every device is honest"
        if self.false_positive_rate:
            often = f"with probability {1 - self.false_positive_rate:g}"
            sure = f"{often}, all answers that nobody has are 0 if every device is honest"
        return (
            f"0 means: fewer than {math.ceil(self.below):,} devices, perhaps none (with probability "
            f"{self.probability:g} for each answer); {sure}"
        )


@dataclass(frozen=True, slots=True)
class Buckets:
    """One answer for each of ``labels``: the randomised count as it was summed, and the estimate with its error.
    ``zeros``: what an estimate of 0 means, where small counts are cut."""

    labels: Sequence[str]
    counts: tuple[int, ...]
    estimate: Estimate
    zeros: Zeros | None = None

    def members(self) -> dict[str, Any]:
        """The member ``buckets`` of a release, and ``zeros`` where small counts are released as 0. Of more than
        ``MOST_LISTED`` answers, ``buckets`` has those with another estimate, and ``unlisted`` says how many are left
        out, and their error."""
        listed = self._listed_places()
        more: dict[str, Any] = {} if self.zeros is None else {"zeros": asdict(self.zeros)}
        if len(listed) < len(self.labels):
            left_out = len(self.labels) - len(listed)
            more["unlisted"] = {"answers": left_out, "estimate": 0.0, "stderr": self._error_of_zero()}
        return more | {"buckets": [self._row(at) for at in listed]}

    def _listed_places(self) -> Sequence[int]:
        places = range(len(self.labels))
        return places if len(places) <= MOST_LISTED else [at for at in places if self.estimate.values[at]]

    def _error_of_zero(self) -> float:
        found = self.estimate
        return next(error for value, error in zip(found.values, found.stderrs, strict=True) if not value)

    def _row(self, at: int) -> dict[str, Any]:
        found = self.estimate
        row = {"label": self.labels[at], "count": self.counts[at], "estimate": found.values[at]}
        typical = {} if found.typical is None else {"stderr_typical": found.typical[at]}
        return {**row, "stderr": found.stderrs[at], **typical}


@dataclass(frozen=True, slots=True)
class Item:
    """An answer that was found, with its estimate."""

    text: str
    estimate: float
    stderr: float


@dataclass(frozen=True, slots=True)
class Ranked:
    """The answers that were found, in falling order of their estimates. With ``probability``, the true number of every
    answer that is not among them is less than ``below``. Every estimate is at least ``threshold``, which any answer
    that no device has passes with probability ``false_positive_rate`` at most, over all of them together. All of this
    is about the answers of the question's domain; ``outside``: the estimated number of devices that have others, and
    its standard error (None: they are not counted)."""

    items: tuple[Item, ...]
    below: float
    probability: float
    threshold: float = 0.0
    false_positive_rate: float = 1.0
    outside: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if len(self.items) > MOST_ITEMS:
            raise ValueError(f"{len(self.items)} answers are more than {MOST_ITEMS:,}")
        for item in self.items:
            _check_item(item)
        if len({item.text for item in self.items}) < len(self.items):
            raise ValueError("an answer is listed twice")
        if any(after.estimate > before.estimate for before, after in itertools.pairwise(self.items)):
            raise ValueError("the answers must be in falling order of their estimates")
        if self.items and self.items[-1].estimate < self.threshold:
            raise ValueError("an estimate is below the threshold")
        if not (math.isfinite(self.threshold) and 0 < self.false_positive_rate <= 1):
            raise ValueError("the threshold must be finite, and its rate of false positives a probability")
        if not (math.isfinite(self.below) and self.below > 0 and 0 < self.probability <= 1):
            raise ValueError("the bound on all other answers must be above 0, and hold with a probability up to 1")
        if self.outside is not None:
            _check_numbers(*self.outside)

    def members(self) -> dict[str, Any]:
        """The member ``ranked`` of a release; without ``outside`` where those devices are not counted."""
        items = [{"item": one.text, "estimate": one.estimate, "stderr": one.stderr} for one in self.items]
        outside = {} if self.outside is None else {"outside": dict(zip(_NUMBERS, self.outside, strict=True))}
        return {
            "ranked": {
                "items": items,
                "rest": {"below": self.below, "probability": self.probability},
                "threshold": {"estimate": self.threshold, "false_positive_rate": self.false_positive_rate},
                **outside,
            }
        }


Result = Buckets | Ranked


def rows(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The answers of a release, each with ``label``, ``estimate`` and ``stderr``; none if it has none. In the label of
    a ranked answer, characters that are not printable are escaped."""
    if "ranked" not in document:
        found: Sequence[Mapping[str, Any]] = document.get("buckets", ())
        return found
    return [{"label": printable(one["item"]), **one} for one in document["ranked"]["items"]]


def answers(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The ``rows`` that are shown to a person: all but those that fill up a round with fewer candidates than places,
    which no device can give."""
    found = rows(document)
    if not found or not str(found[0].get("label")).startswith(QUOTE):
        return found
    return [row for place, row in enumerate(found, start=1) if row["label"] != unused_label(place)]


def by_label(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The ``rows`` of a release by their labels; of equal labels, the last row."""
    return {row["label"]: row for row in rows(document)}


def _check_item(item: Item) -> None:
    try:
        size = len(item.text.encode())
    except UnicodeEncodeError as error:
        raise ValueError("an answer is not a text of Unicode characters") from error
    if not 1 <= size <= MOST_ITEM_BYTES:
        raise ValueError(f"an answer must have from 1 to {MOST_ITEM_BYTES} bytes")
    _check_numbers(item.estimate, item.stderr)


def _check_numbers(estimate: float, stderr: float) -> None:
    if not (math.isfinite(estimate) and math.isfinite(stderr) and stderr >= 0):
        raise ValueError("an estimate and its error must be finite numbers")
