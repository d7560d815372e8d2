"""The local model, the analyzer: it reads single reports; those about a large domain it keeps until it can search
them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tacit.methods.affine import PUBLIC_SIZE, AffineHashing
from tacit.models.faces.server import ServerSide
from tacit.models.local.task import Packing, local_task, packing_of
from tacit.panprivate.elgamal import PrivateKey
from tacit.recipe.derive import randomizer_of
from tacit.recipe.model import Recipe
from tacit.roles.analyzer import Counting, Read, Reading
from tacit.succinct.tree import MAX_TOP, Collected, search
from tacit.task.one_server import OneServerTask


@dataclass(frozen=True, slots=True)
class PackedNumbers(Counting):
    """Reports that are added up."""

    packing: Packing

    def numbers(self, payload: bytes) -> tuple[int, ...]:
        """See ``Packing.unpack``."""
        return self.packing.unpack(payload)


@dataclass(frozen=True, slots=True)
class HashedReports(Reading):
    """Reports that are kept: public bytes and value, 17 bytes each."""

    method: AffineHashing
    packing: Packing

    @property
    def record_size(self) -> int:  # type: ignore[override]
        """Bytes of a kept report: its payload."""
        return self.packing.size

    def read(self, report_id: bytes, payload: bytes) -> Read:
        """The payload is the record of a report."""
        del report_id
        return Read(self.packing.unpack(payload), payload)

    def search(self, records: Iterable[bytes]) -> dict[str, Any]:
        """The most frequent items, and the levels of the search (``tacit.succinct.tree.Found``)."""
        collected = Collected(self.method)
        for several in records:
            for at in range(0, len(several), self.packing.size):
                collected.add(several[at : at + PUBLIC_SIZE], several[at + PUBLIC_SIZE])
        return search(collected, MAX_TOP).document()


class LocalServer(ServerSide):
    """The server side of model ``local``."""

    def task(self, recipe: Recipe, slot_key: bytes) -> OneServerTask:
        """See ``local_task``."""
        return local_task(recipe, slot_key)

    def reading(self, recipe: Recipe, key: PrivateKey | None) -> Reading:
        """Numbers that are added up, or records of hashed reports."""
        del key
        method = randomizer_of(recipe)
        packing = packing_of(method)
        return HashedReports(method, packing) if isinstance(method, AffineHashing) else PackedNumbers(packing)
