"""The collector side of a model: what is asked for, of whom, and how an opened aggregate becomes a result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol

from tacit.hpke import KeyPair
from tacit.messages import HpkeConfig, Interval
from tacit.methods.result import Result
from tacit.models.interfaces.release import buckets_of, release_document
from tacit.recipe.model import Recipe
from tacit.roles.collector import AggregateResult


class Source(Protocol):
    """Where the batches of one recipe come from."""

    @property
    def party(self) -> str:
        """The role in the recipe of the server that is asked."""
        ...

    @property
    def once(self) -> bool:
        """Whether the recipe has one batch only, so that a released one is not requested again."""
        ...

    @property
    def yield_url(self) -> str:
        """The URL at which the server says how full the batch is."""
        ...

    def request(self, interval: Interval | None) -> bytes:
        """The bytes of the request for a batch, or for ``interval`` if queries may name one; empty if nothing is sent.
        ``ValueError`` for an interval that does not fit."""
        ...


class CollectorSide(ABC):
    """What a collector does for the recipes of one model. ``party``: the role of the server that it asks."""

    party: ClassVar[str]

    @abstractmethod
    def sealed_to(self, recipe: Recipe) -> HpkeConfig | None:
        """The collector's HPKE configuration to which aggregates are sealed; None if the server answers with the sum
        itself. Raises refusal ``hpke-key-invalid``."""

    @abstractmethod
    def source(self, recipe: Recipe, slot_key: bytes, key_pair: KeyPair | None) -> Source:
        """Where the recipe's batches come from; ``slot_key`` is the token key (SPKI) of its slot, ``key_pair`` the one
        of ``sealed_to``. Raises the refusals of the recipe's task."""

    def result(self, recipe: Recipe, aggregate: AggregateResult) -> Result:
        """The answers in an opened aggregate: one for each label of the question, unless the model says otherwise.
        Raises refusal ``collection-values`` for an aggregate that cannot come from the recipe."""
        return buckets_of(recipe, aggregate)

    def release(
        self, recipe: Recipe, batch_id: str, number: int, aggregate: AggregateResult, now: float
    ) -> dict[str, Any]:
        """The document of a release, with the answers of ``result``, whose refusals it raises; see
        ``release_document``."""
        answers = self.result(recipe, aggregate)
        return release_document(recipe, batch_id, number, aggregate.report_count, answers, now)
