"""What proves a method's outputs valid: a VDAF with its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacit.vdaf.chunks import chunk_length_for


@dataclass(frozen=True, slots=True)
class Proof:
    """The VDAF ``name`` over ``length`` numbers, whose circuit checks ``elements`` field elements. ``max_weight``: the
    most ones of a vector; ``max_measurement``: the largest number; None where the VDAF has no such parameter."""

    name: str
    length: int
    elements: int
    max_weight: int | None = None
    max_measurement: int | None = None

    @property
    def bounds(self) -> dict[str, int]:
        """The bounds that the VDAF proves, by their names in a recipe."""
        stated = {"max_weight": self.max_weight, "max_measurement": self.max_measurement}
        return {name: value for name, value in stated.items() if value is not None}

    @property
    def chunk_length(self) -> int:
        """The chunk length with which the proof is shortest."""
        return chunk_length_for(self.elements)

    def members(self) -> dict[str, Any]:
        """The member ``vdaf`` of a recipe."""
        return {"name": self.name, "length": self.length, "chunk_length": self.chunk_length, **self.bounds}

    def words(self) -> str:
        """A description in words, without the chunk length."""
        return " and ".join([f"{self.name} of length {self.length}", *(f"{k} {v}" for k, v in self.bounds.items())])
