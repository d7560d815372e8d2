"""The device side of a model: how an answer becomes a submission, and what a server's answer means."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tacit import bhttp
from tacit.ports import Entropy
from tacit.recipe.model import Recipe
from tacit.tokens.binding import Preimages


@dataclass(frozen=True, slots=True)
class Submission:
    """What a device sends: one POST request, made once and kept; every retry repeats its bytes (P11)."""

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
    """What the server's answer to a submission means, and why, in words that reveal nothing of what was sent."""

    fate: Fate
    detail: str


class Channel(ABC):
    """The path of one recipe's answers from a device to the server that takes them. Everything that can refuse the
    recipe has been checked before."""

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL to which submissions are sent, in one POST request each."""

    @abstractmethod
    def submission(self, measurement: Any, token: bytes, preimages: Preimages, entropy: Entropy) -> Submission:
        """Make the submission of one randomised answer, bound to its token (P10). ``ValueError`` for a measurement that
        the recipe does not allow, or a token for another nonce."""


class DeviceSide(ABC):
    """What a device does for the recipes of one model. ``media_type``: the media type of its submissions, which stored
    submissions do not include."""

    name: ClassVar[str]
    media_type: ClassVar[str]

    @abstractmethod
    def channel(self, recipe: Recipe, slot_key: bytes) -> Channel:
        """Make the channel for the recipe's answers; ``slot_key`` is the token key (SPKI) of its slot. Raises a refusal
        where the recipe has no such channel. Nothing here depends on an answer, and devices call it before they read
        one (P27)."""

    @abstractmethod
    def verdict(self, response: bhttp.Response) -> Verdict:
        """What a server's answer to a submission means."""

    def sends_as(self, recipe: Recipe) -> DeviceSide:
        """The side that sends what ``channel`` makes and reads the answers, by whose name a device stores it: another
        one where a shuffler takes the recipe's reports."""
        del recipe
        return self
