"""The devices of a training run as a fleet simulates them: each trains on its own digits when its coin has said yes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from infra.lab.devices.population import Data
from infra.lab.learning.population import Population, population
from infra.lab.learning.rounds import encoded, vectors_of
from tacit.learning import model_file
from tacit.learning.clipping import Clip
from tacit.methods.base.method import Answer
from tacit.recipe.encoder_specs import Update


@dataclass(frozen=True)
class Learners:
    """The devices of ``people_of(devices, seed)`` in a round that trains the model in ``file`` with this ``clip``. Few
    bytes say who they are, so that worker processes make them for themselves."""

    spec: Update
    clip: Clip
    file: bytes = field(repr=False)
    devices: int
    seed: int
    width: int = 1

    @property
    def label(self) -> str:
        """Name of the data set, as a report prints it."""
        return "handwritten digits"

    def of(self, first: int, count: int, _generator: np.random.Generator) -> Data:
        """The numbers of the devices, which say what each knows."""
        return np.arange(first, first + count, dtype=np.int64)

    def answers(self, data: Data) -> list[Answer | None]:
        """Train, clip and round; a vector of units above the low end for each of the devices in ``data``."""
        people, spec = people_of(self.devices, self.seed), self.spec
        vectors = vectors_of(people, data, model_file.decode(self.file), spec, self.clip)
        units = encoded(vectors, spec) - int(spec.least // spec.step)
        return [tuple(row) for row in units.tolist()]

    def numbers(self, _data: Data) -> None:
        """None: what a device knows are examples."""


@lru_cache(maxsize=1)
def people_of(devices: int, seed: int) -> Population:
    """The same as ``population``, made once in a process."""
    return population(devices, seed)
