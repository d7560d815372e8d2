"""What proves a method's outputs valid: a VDAF with its parameters."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from tacit.vdaf.chunks import chunk_length_for
from tacit.vdaf.vector_bounds import VectorBounds

NORM_PROOF = "Prio3L2BoundSum"
"""The VDAF that proves the Euclidean length of vectors."""


class NormProof(enum.Enum):
    """Of which vector the length is proved: the one that enters the sum, noise included (P41); or its values alone,
    beside noise that is only bounded in each entry, as in older recipes, whose ``vector.flips`` is above 0."""

    SUM, VALUES = range(2)


@dataclass(frozen=True, slots=True)
class Proof:
    """The VDAF ``name`` over ``length`` numbers, whose circuit checks ``elements`` field elements. ``max_weight``: the
    most ones of a vector; ``max_measurement``: the largest number; ``vector``: the bounds of a vector and its noise.
    None where the VDAF has no such parameter."""

    name: str
    length: int
    elements: int
    max_weight: int | None = None
    max_measurement: int | None = None
    vector: VectorBounds | None = None

    @classmethod
    def of_norm(cls, bounds: VectorBounds) -> Proof:
        """The proof of a vector's Euclidean length."""
        return cls(NORM_PROOF, bounds.length, bounds.elements(), vector=bounds)

    @property
    def bounds(self) -> dict[str, Any]:
        """The bounds that the VDAF proves, by their names in a recipe."""
        vector = None if self.vector is None else self.vector.members()
        stated = {"max_weight": self.max_weight, "max_measurement": self.max_measurement, "vector": vector}
        return {name: value for name, value in stated.items() if value is not None}

    @property
    def chunk_length(self) -> int:
        """The chunk length with which the proof is shortest."""
        return chunk_length_for(self.elements, self.length if self.vector else 0)

    def members(self) -> dict[str, Any]:
        """The member ``vdaf`` of a recipe, with the bounds that this VDAF has."""
        return {"name": self.name, "length": self.length, "chunk_length": self.chunk_length, **self.bounds}

    def words(self) -> str:
        """A description in words, without the chunk length."""
        bounds = {**self.bounds, **(self.vector.members() if self.vector else {})}
        bounds.pop("vector", None)
        return " and ".join([f"{self.name} of length {self.length}", *(f"{k} {v}" for k, v in bounds.items())])
