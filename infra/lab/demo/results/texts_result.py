"""What a demo that looks for frequent texts produced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.lab.demo.results.result import DemoResult
from tacit.methods.figures import with_margin


@dataclass(frozen=True, kw_only=True)
class TextsResult(DemoResult):
    """The whole run; ``buckets`` are the frequent texts, best first. ``threshold``: the estimate from which on a text
    is listed, which one that nobody has passes with ``false_positive_rate``; with ``rest_probability``, every other
    text of the domain has fewer than ``rest_below`` devices. ``domain``: which texts that are, in words; ``outside``:
    how many devices have others, and ``outside_estimate`` their estimated number and its standard error (None: they are
    not counted). ``frequent``: the truly most frequent texts of the domain, with their numbers."""

    threshold: float
    false_positive_rate: float
    rest_below: float
    rest_probability: float
    domain_bits: int
    domain: str
    outside: int
    outside_estimate: tuple[float, float] | None
    frequent: tuple[tuple[str, int], ...]

    @property
    def found_words(self) -> str:
        """How many of the truly most frequent texts were found."""
        listed = {one.label for one in self.buckets}
        hit = sum(text in listed for text, _ in self.frequent)
        return (
            f"{hit} of the {len(self.frequent)} most frequent texts were found, and "
            f"{sum(one.truth == 0 for one in self.buckets)} that nobody has; with probability "
            f"{self.rest_probability:g}, every other one of the {self.domain} has fewer than {self.rest_below:,.0f} "
            f"devices. {self._outside_words}"
        )

    @property
    def _outside_words(self) -> str:
        if self.outside_estimate is None:
            return f"{self.outside:,} devices have another text, which nobody counts."
        told = with_margin(max(0.0, self.outside_estimate[0]), self.outside_estimate[1], ",.0f")
        return f"{self.outside:,} devices have another text, which is never listed (estimate: {told})."

    def document(self) -> dict[str, Any]:
        """That of every demo, with the frequent texts instead of buckets."""
        found, estimate = super().document(), self.outside_estimate
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
            "domain": self.domain,
            "outside": {
                "devices": self.outside,
                "estimate": None if estimate is None else round(estimate[0], 3),
                "stderr": None if estimate is None else round(estimate[1], 3),
            },
            "frequent": [{"item": text, "devices": number} for text, number in self.frequent],
        }
