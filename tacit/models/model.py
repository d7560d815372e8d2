"""What devices and collectors ask of a recipe's model."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tacit import bhttp
from tacit.models.release import release_document
from tacit.ports import Entropy
from tacit.recipe.model import Recipe
from tacit.roles.collector import AggregateResult
from tacit.tokens.binding import Preimages


@dataclass(frozen=True, slots=True)
class Submission:
    """What a device sends: one POST request, made once and kept, whose bytes every retry repeats (P11)."""

    url: str
    media_type: str
    body: bytes = field(repr=False)


class Fate(enum.Enum):
    """What an answer means for a submission."""

    STORED = "stored"
    """It is durably stored: nothing is left to do."""
    LATER = "later"
    """The same bytes may be accepted later."""
    REFUSED = "refused"
    """It will never be accepted."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to a submission, and why, in words that hold nothing of what was sent."""

    fate: Fate
    detail: str


class Channel(ABC):
    """One recipe's way from devices to whoever takes their answers; whatever can refuse it, has by now."""

    @abstractmethod
    def submission(self, measurement: Any, token: bytes, preimages: Preimages, entropy: Entropy) -> Submission:
        """One randomised answer as it is sent, bound to its token (P10). ``ValueError`` for a measurement that the
        recipe does not allow, or a token of another nonce."""


class Model(ABC):
    """One model. ``media_type``: that of its submissions, which do not say it when they are kept."""

    name: ClassVar[str]
    media_type: ClassVar[str]

    @abstractmethod
    def channel(self, recipe: Recipe, slot_key: bytes) -> Channel:
        """The way of the recipe's answers; ``slot_key`` is the token key (SPKI) of its slot. Refusal where the recipe
        gives none. Nothing here depends on an answer, and devices ask it before they read one (P27)."""

    @abstractmethod
    def verdict(self, response: bhttp.Response) -> Verdict:
        """What a server's answer to a submission means."""

    def result(
        self, recipe: Recipe, batch_id: str, number: int, aggregate: AggregateResult, now: float
    ) -> dict[str, Any]:
        """The result document of an opened aggregate; see ``release_document``."""
        return release_document(recipe, batch_id, number, aggregate, now)
