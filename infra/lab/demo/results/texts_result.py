"""What a demo that looks for frequent texts produced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.lab.demo.results.result import DemoResult


@dataclass(frozen=True, kw_only=True)
class TextsResult(DemoResult):
    """The whole run; ``buckets`` are the frequent texts, best first. ``threshold``: the estimate from which on a text
    is listed, which one that nobody has passes with ``false_positive_rate``; with ``rest_probability``, every other
    text has fewer than ``rest_below`` devices. ``frequent``: the truly most frequent ones, with their numbers."""

    threshold: float
    false_positive_rate: float
    rest_below: float
    rest_probability: float
    domain_bits: int
    frequent: tuple[tuple[str, int], ...]

    @property
    def found_words(self) -> str:
        """How many of the truly most frequent texts were found."""
        listed = {one.label for one in self.buckets}
        hit = sum(text in listed for text, _ in self.frequent)
        return (
            f"{hit} of the {len(self.frequent)} most frequent texts were found, and "
            f"{sum(one.truth == 0 for one in self.buckets)} that nobody has; with probability "
            f"{self.rest_probability:g}, every other text has fewer than {self.rest_below:,.0f} devices."
        )

    def document(self) -> dict[str, Any]:
        """That of every demo, with the frequent texts instead of buckets."""
        found = super().document()
        hitters = [{"item": row.pop("label"), **row} for row in found.pop("buckets")]
        return {
            **found,
            "heavy_hitters": hitters,
            "threshold": round(self.threshold, 3),
            "false_positive_rate": self.false_positive_rate,
            "others_below": round(self.rest_below, 3),
            "others_probability": self.rest_probability,
            "epsilon": dict(self.privacy["by_adversary"]),
            "delta": self.privacy["delta"],
            "domain_bits": self.domain_bits,
            "frequent": [{"item": text, "devices": number} for text, number in self.frequent],
        }
