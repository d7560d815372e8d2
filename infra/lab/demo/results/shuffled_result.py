"""What a demo of the shuffled model produced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.lab.demo.results.result import DemoResult
from tacit.recipe.policy import Policy

MOST_MESSAGES: int = Policy.model_fields["max_messages"].default
"""Most messages of a device that policies usually allow."""


@dataclass(frozen=True, kw_only=True)
class ShuffledResult(DemoResult):
    """The whole run. ``messages_per_device``: of all devices alike, with ``bundle_bytes`` together; ``answers``: how
    many there are, of which ``buckets`` need not have those estimated as 0; ``largest_error``: of any of them;
    ``sealed``: how many devices sealed their messages, while those of all others were counted; ``zeros``: what an
    estimate of 0 means, in words, and empty where small counts are not cut."""

    messages_per_device: int
    bundle_bytes: int
    answers: int
    largest_error: float
    sealed: int
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
            f"{shown:,} of {self.answers:,} answers are estimated above 0, {self.false_positives} of them held by "
            f"nobody. {self._messages_words}"
        )
        return f"{words} {self.zeros}." if self.zeros else words

    @property
    def _messages_words(self) -> str:
        """Who sealed how many messages, and whether a device could send as many."""
        if self.sealed == self.devices:
            return f"Every device sent {self.messages_per_device:,} sealed messages of the same size, whatever it has."
        words = (
            f"{self.sealed:,} devices sent {self.messages_per_device:,} sealed messages each; those of the other "
            f"{self.devices - self.sealed:,} were drawn by the same law and counted."
        )
        if self.messages_per_device <= MOST_MESSAGES:
            return words
        return f"{words} No device could send as many: policies allow {MOST_MESSAGES:,}, as much as a gateway takes."

    def document(self) -> dict[str, Any]:
        """As ``DemoResult.document``, without the answers whose estimate is 0, and with what was sent."""
        found = super().document()
        return {
            **found,
            "buckets": [row for row in found["buckets"] if row["estimate"]],
            "answers": self.answers,
            "largest_error": round(self.largest_error, 3),
            "sealed_devices": self.sealed,
            "counted_devices": self.devices - self.sealed,
            "false_positives": self.false_positives,
            "messages_per_device": self.messages_per_device,
            "bundle_bytes": self.bundle_bytes,
            "zeros": self.zeros,
        }
