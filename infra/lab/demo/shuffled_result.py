"""What a demo of the shuffled model produced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.lab.demo.result import DemoResult


@dataclass(frozen=True, kw_only=True)
class ShuffledResult(DemoResult):
    """The whole run. ``messages_per_device``: of all devices alike, with ``bundle_bytes`` together; ``zeros``: what an
    estimate of 0 means, in words, and empty where small counts are not cut."""

    messages_per_device: int
    bundle_bytes: int
    zeros: str

    @property
    def flags(self) -> str:
        return f"--model {self.recipe['model']} "

    @property
    def false_positives(self) -> int:
        """How many answers that nobody has are estimated above 0."""
        return sum(one.estimate > 0 and not one.truth for one in self.buckets)

    @property
    def found_words(self) -> str:
        """What the run shows, in one sentence or two."""
        shown = sum(one.estimate > 0 for one in self.buckets)
        words = (
            f"{shown} of {len(self.buckets)} answers are estimated above 0, {self.false_positives} of them held by "
            f"nobody. Every device sent {self.messages_per_device:,} sealed messages of the same size, whatever it has."
        )
        return f"{words} {self.zeros}." if self.zeros else words

    def document(self) -> dict[str, Any]:
        """That of every demo, with the answers that are not estimated as 0."""
        found = super().document()
        return {
            **found,
            "buckets": [row for row in found["buckets"] if row["estimate"]],
            "answers": len(self.buckets),
            "false_positives": self.false_positives,
            "messages_per_device": self.messages_per_device,
            "bundle_bytes": self.bundle_bytes,
            "zeros": self.zeros,
        }
