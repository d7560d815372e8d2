"""The interface of a randomiser: what a device sends for its answer, drawn as its method says.

Each randomiser is a class in this folder and one line in ``tacit.extension_points``. Every draw is compared with the
method's own thresholds, so that what is accounted for is what is drawn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from tacit.methods.base.method import Measurement, Method
from tacit.ports import Entropy

MethodT_co = TypeVar("MethodT_co", bound=Method, covariant=True)


@dataclass(frozen=True, slots=True)
class Draws:
    """A method's draws in words, for authors of other device implementations: how the measurement of an ``answer`` v,
    of a ``missing`` answer and of a ``dummy`` is drawn, in the notation of ``docs/device.md``; ``bounds`` of its proof,
    where they follow from its members; ``note``: what does not fit into a table."""

    answer: str
    dummy: str
    missing: str = "a dummy"
    bounds: str = ""
    note: str = ""


@dataclass(frozen=True)
class Randomiser(ABC, Generic[MethodT_co]):
    """Draws for ``method``. ``DRAWS`` describes its draws for the page of methods."""

    DRAWS: ClassVar[Draws]

    method: MethodT_co

    @abstractmethod
    def randomise(self, answer: Any, entropy: Entropy, /) -> Measurement | None:
        """The measurement to shard for a device whose encoded answer is ``answer`` (an ``Answer``).

        Run by the client, once per recipe. None means that nothing is sent; this has the method's
        ``reject_probability``, whatever the answer. ``ValueError`` when the answer is out of range.
        """

    @abstractmethod
    def dummy(self, entropy: Entropy, /) -> Measurement:
        """The measurement of a dummy report (P20): a draw that depends on no answer, with the same form and range as
        every other measurement. Never None."""

    def missing(self, entropy: Entropy, /) -> Measurement | None:
        """The measurement of a device that takes part but has no answer (P27): a dummy. None with the same probability
        as for every answer."""
        return self.dummy(entropy)

    def thresholds(self) -> dict[str, Any]:
        """The thresholds with which draws are compared, in hex, for authors of other device implementations."""
        return {}
