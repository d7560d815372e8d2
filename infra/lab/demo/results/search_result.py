"""What a search for frequent texts in rounds produced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.lab.demo.results.texts_result import TextsResult

ROUNDS_TITLE = "What each round asked, and kept"
SHOWN = 8


@dataclass(frozen=True, slots=True)
class Round:
    """A released round: so many ``candidates`` of ``bits`` bits each, of which those with these labels were ``kept``,
    best first, among ``contributions``."""

    bits: int
    candidates: int
    kept: tuple[str, ...]
    contributions: int

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        """Its bits, candidates, contributions and how many were kept, and the best of these."""
        more = f" and {len(self.kept) - SHOWN} more" if len(self.kept) > SHOWN else ""
        shown = ", ".join(self.kept[:SHOWN]) or "nothing stands out"
        numbers = (self.bits, self.candidates, self.contributions, len(self.kept))
        bits, candidates, contributions, kept = (f"{number:,}" for number in numbers)
        return bits, candidates, contributions, kept, shown + more


ROUND_HEADINGS = ("prefix bits", "candidates", "contributions", "kept", "the best")


@dataclass(frozen=True, kw_only=True)
class SearchResult(TextsResult):
    """The whole search. ``planned``: the rounds of the series, of which those after one that kept nothing were not
    asked."""

    rounds: tuple[Round, ...]
    planned: int

    @property
    def flags(self) -> str:
        return "--heavy-hitters "

    def document(self) -> dict[str, Any]:
        """That of every demo that looks for texts, with the rounds."""
        rounds = [
            {
                "prefix_bits": one.bits,
                "candidates": one.candidates,
                "kept": list(one.kept),
                "contributions": one.contributions,
            }
            for one in self.rounds
        ]
        return {**super().document(), "rounds": rounds, "planned_rounds": self.planned}
