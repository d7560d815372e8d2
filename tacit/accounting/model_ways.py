"""Ways to ask that the model of a feature adds to those of secure aggregation and of the local model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

from tacit.accounting.requirements import Alternative, Requirements
from tacit.extension_points import WAYS as PLACES
from tacit.extension_points import ByName
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.method import Method


class ModelWays(ABC):
    """What the ways to ask of one model cost, and their errors."""

    @abstractmethod
    def compared(self, needs: Requirements) -> Iterator[Iterable[Alternative]]:
        """For each method of the model the ways to ask by it, at every rate that fills a batch."""

    @abstractmethod
    def stated(
        self, needs: Requirements, made: Method, design: SampleDesign, batch: int, contributions: int
    ) -> Alternative:
        """The way that a recipe of the model states, as ``tacit.accounting.alternatives.stated_way``."""


WAYS: ByName[ModelWays] = ByName(PLACES, lambda ways: ways())
