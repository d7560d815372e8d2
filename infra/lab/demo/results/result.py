"""What a demo run produced, as the terminal, the JSON document and the report show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tacit.methods.figures import form_of_errors, margin, number

SHOWN = 40


def _short(value: str | int) -> str:
    text = str(value)
    if len(text) <= SHOWN and not (len(text) >= 24 and text.isalnum()):
        return text
    return f"{text[:12]}…" if text.isalnum() else f"{text[: SHOWN - 9]}…{text[-8:]}"


@dataclass(frozen=True)
class Bucket:
    """One answer category at whole-population scale; a mean is the one answer that is no whole number."""

    label: str
    truth: int | float
    estimate: float
    stderr: float

    @property
    def is_whole(self) -> bool:
        """Whether it counts devices."""
        return isinstance(self.truth, int)

    @property
    def numbers(self) -> tuple[str, str, str]:
        """Estimate, half of its 95 % interval, and truth, as they are written."""
        if self.is_whole:
            return number(self.estimate, ",.0f"), margin(self.stderr, ",.0f"), f"{self.truth:,}"
        form = form_of_errors([self.stderr])
        return number(self.estimate, form), margin(self.stderr, form), f"{self.truth:{form}}"


@dataclass(frozen=True)
class Sighting:
    """What one party could read of the one contribution that was followed."""

    party: str
    operator: str
    read: Mapping[str, str | int]
    never: str

    def text(self) -> str:
        """What could be read, on one line; long values shortened."""
        return ", ".join(f"{name.replace('_', ' ')} {_short(value)}" for name, value in self.read.items())


@dataclass(frozen=True)
class StagedRefusal:
    """An attack that the demo really tried, and what stopped it."""

    attempt: str
    refused_by: str
    reason: str


@dataclass(frozen=True)
class DemoResult:
    """Everything that a run of the demo found."""

    source: str
    question: str
    recipe: Mapping[str, Any]
    devices: int
    staged: int
    """Devices beside them that are there for the attacks: in neither the truth nor the answer."""
    sampled: int
    accepted: int
    rejected: int
    rejected_by_cause: Mapping[str, int]
    privacy: Mapping[str, Any]
    buckets: tuple[Bucket, ...]
    sightings: tuple[Sighting, ...]
    refusals: tuple[StagedRefusal, ...]
    seconds: float
    stages: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    """What stands beside the answer (``tacit.recipe.cautions``)."""

    @property
    def flags(self) -> str:
        """The flags of ``tacit demo`` that ask the same of other data, with a space behind."""
        return ""

    @property
    def found_words(self) -> str:
        """What the run shows besides its numbers, in a sentence or two, if anything."""
        return ""

    def document(self) -> dict[str, Any]:
        """What ``tacit demo --json`` prints; seconds are wall time."""
        return {
            "source": self.source,
            "question": self.question,
            "recipe": dict(self.recipe),
            "devices": self.devices,
            "staged_devices": self.staged,
            "sampled": self.sampled,
            "accepted": self.accepted,
            "rejected": self.rejected,
            "rejected_by_cause": dict(self.rejected_by_cause),
            "privacy": dict(self.privacy),
            "warnings": list(self.warnings),
            "buckets": [
                {
                    "label": bucket.label,
                    "truth": bucket.truth if bucket.is_whole else round(bucket.truth, 3),
                    "estimate": round(bucket.estimate, 3),
                    "stderr": round(bucket.stderr, 3),
                }
                for bucket in self.buckets
            ],
            "observed": [
                {"party": s.party, "operator": s.operator, "read": dict(s.read), "never": s.never}
                for s in self.sightings
            ],
            "refused": [{"attempt": r.attempt, "refused_by": r.refused_by, "reason": r.reason} for r in self.refusals],
            "seconds": round(self.seconds, 2),
            "stages": {name: round(value, 3) for name, value in self.stages.items()},
        }
