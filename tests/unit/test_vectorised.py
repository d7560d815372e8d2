"""Devices that are drawn many at once report what each would report by itself."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from infra.lab.devices.vectorised import (
    CHUNK,
    REPORT_SIZE,
    collected,
    most_frequent,
    numbers_of,
    records,
    zipf_items,
    zipf_shares,
)
from infra.lab.kit.entropy import SeededEntropy
from tacit.methods.base.affine import AffineHashing
from tacit.methods.packing import HashPacking
from tacit.methods.randomisers.affine import AffineRandomiser
from tacit.succinct.tree import Collected

DEVICES = 300


class Bytes:
    """Gives the bytes of one text, in order."""

    def __init__(self, text: bytes) -> None:
        self._text, self._at = text, 0

    def __call__(self, size: int) -> bytes:
        self._at += size
        return self._text[self._at - size : self._at]


@pytest.mark.parametrize(
    ("epsilon", "hash_bits", "bits"),
    [("1", 2, 32), ("0.1", 1, 64), ("4", 6, 33), ("8", 8, 7), ("2", 3, 129), ("4", 6, 512)],
)
def test_from_the_same_bytes_come_the_same_reports(epsilon: str, hash_bits: int, bits: int) -> None:
    method = AffineHashing(Decimal(epsilon), hash_bits, bits)
    random = np.random.default_rng(bits)
    items = zipf_items(random, DEVICES, min(DEVICES, 1 << bits), 0.1, bits)
    drawn = SeededEntropy(b"devices")(REPORT_SIZE * DEVICES)
    together, entropy, one_by_one = collected(method, items, Bytes(drawn)), Bytes(drawn), Collected(method)
    packing, payloads = HashPacking(method.cells), b""
    for item in numbers_of(items):
        assert item >> bits == 0
        public, value = AffineRandomiser(method).randomise(item, entropy)
        one_by_one.add(packing.pack([public, value]))
        payloads += packing.pack([public, value])
    assert records(method, items, Bytes(drawn)) == payloads
    assert len(together) == DEVICES
    assert together.levels == one_by_one.levels


def test_more_devices_than_are_drawn_together_all_report() -> None:
    method = AffineHashing(Decimal(1), 2, 32)
    items = np.zeros(CHUNK + 1, dtype=np.uint64)
    assert len(collected(method, items, np.random.default_rng(1).bytes)) == CHUNK + 1


def test_a_population_has_as_many_items_as_asked_and_the_shares_fall_as_a_power() -> None:
    shares = zipf_shares(4, 2.0)
    assert shares * 205 / 144 == pytest.approx([1, 1 / 4, 1 / 9, 1 / 16])
    long = zipf_items(np.random.default_rng(2), 10_000, 5, 1.0, 512)
    assert len({item for item in numbers_of(long) if item >> 500}) == 5
    assert most_frequent(long, 1) == [max(numbers_of(long), key=numbers_of(long[:500]).count)]
    items = zipf_items(np.random.default_rng(2), 10_000, 5, 1.0, 40)
    assert len(set(items.tolist())) == 5
    assert max(items.tolist()) < 1 << 40
    first, *_ = most_frequent(items, 3)
    assert (items == np.uint64(first)).sum() == max(np.unique(items, return_counts=True)[1])
