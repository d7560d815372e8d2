"""The local model, the analyzer: it reads single reports; those about a large domain it keeps until it can search
them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tacit.methods.packing import Packing, packing_of
from tacit.models.interfaces.server import ServerSide
from tacit.models.local.task import local_task
from tacit.ports import StateKey
from tacit.recipe.candidates import TextPrefixes
from tacit.recipe.derive import randomizer_of
from tacit.recipe.encoder_specs import Domain
from tacit.recipe.model import Recipe
from tacit.roles.analyzer import Counting, Read, Reading
from tacit.succinct.engines import Engine, engine_of
from tacit.task.one_server import OneServerTask


@dataclass(frozen=True, slots=True)
class PackedNumbers(Counting):
    """Reports that are added up; none is kept."""

    packing: Packing

    def numbers(self, payload: bytes) -> tuple[int, ...]:
        """Decode a payload as ``Packing.unpack`` does, with its errors."""
        return self.packing.unpack(payload)


@dataclass(frozen=True, slots=True)
class HashedReports(Reading):
    """Reports that are kept: public bytes and value, 17 bytes each."""

    engine: Engine[Any]
    packing: Packing

    @property
    def record_size(self) -> int:  # type: ignore[override]
        """Bytes of a kept report: its payload."""
        return self.packing.size

    def read(self, report_id: bytes, payload: bytes) -> Read:
        """What ``Packing.unpack`` reads, with its errors; the payload is kept as the record."""
        del report_id
        return Read(self.packing.unpack(payload), payload)

    def search(self, records: Iterable[bytes]) -> dict[str, Any]:
        """What the method's engine finds in the records, as JSON (``Engine.search``)."""
        return self.engine.search(records)


class LocalServer(ServerSide):
    def task(self, recipe: Recipe, slot_key: bytes) -> OneServerTask:
        """Derive the task of a recipe. Raises the refusals of ``local_task``."""
        return local_task(recipe, slot_key)

    def reading(self, recipe: Recipe, key: StateKey | None) -> Reading:
        """Numbers that are added up, or records of hashed reports."""
        del key
        method = randomizer_of(recipe)
        packing = packing_of(method)
        spec = recipe.question.encoder
        engine = engine_of(method, TextPrefixes(spec)) if isinstance(spec, Domain) else engine_of(method)
        return PackedNumbers(packing) if engine is None else HashedReports(engine, packing)
