"""Many devices at once: populations, and the reports of affine hashing, drawn with numpy.

From the same random bytes a device (``tacit.methods.base.affine``) and this module draw the same report, bit for bit.
The one exception has a probability below 2^-120 a report: a device draws a uniform number again where its bytes fall
into the incomplete last part of all values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from tacit.methods.base.affine import PUBLIC_SIZE, WORD_BITS, AffineHashing
from tacit.methods.base.draws import BYTES
from tacit.methods.randomisers.affine import AffineRandomiser
from tacit.succinct.tree import Collected

REPORT_SIZE = PUBLIC_SIZE + 2 * BYTES
"""Random bytes that a device draws for a report."""
CHUNK = 100_000
"""Devices that are drawn together: 5 MB of random bytes."""
Words = NDArray[np.uint64]
"""Numbers of 64 bits. Items of more bits are rows of such words, the lowest one first."""
_ALL = (1 << WORD_BITS) - 1
_STEP, _FIRST, _SECOND = (np.uint64(one) for one in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def zipf_shares(items: int, exponent: float) -> NDArray[np.float64]:
    """The probabilities of ``items`` items, which fall with their rank r as ``r^-exponent``."""
    weights: NDArray[np.float64] = np.arange(1, items + 1, dtype=np.float64) ** -exponent
    return weights / float(weights.sum())


def zipf_items(random: np.random.Generator, devices: int, items: int, exponent: float, bits: int) -> Words:
    """One item for each device, drawn with ``zipf_shares`` from ``items`` random items of ``bits`` bits, which are
    distinct, from 64 bits on but for chance. Shape (devices,) below 64 bits, else (devices, words)."""
    if bits < WORD_BITS:
        names = random.choice(1 << bits, items, replace=False).astype(np.uint64)
    else:  # so many bits are different by chance
        full = np.uint64(_ALL >> -bits % WORD_BITS)
        names = random.integers(0, _ALL, (items, -(-bits // WORD_BITS)), np.uint64, endpoint=True)
        names[:, -1] &= full
    ranks = random.choice(items, devices, p=zipf_shares(items, exponent))
    return names[ranks]


def numbers_of(items: Words) -> list[int]:
    """Each item as one integer: its words, the lowest first, joined."""
    size = 8 * items.reshape(len(items), -1).shape[1]
    data = np.ascontiguousarray(items).astype("<u8").tobytes()
    return [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]


def most_frequent(items: Words, top: int) -> list[int]:
    """The ``top`` most frequent items as integers, the most frequent first; of equals, the one seen first."""
    return [item for item, _ in Counter(numbers_of(items)).most_common(top)]


def collected(method: AffineHashing, items: Words, entropy: Callable[[int], bytes]) -> Collected:
    """The reports of devices with these items, as a server keeps them by level. ``entropy`` is asked for
    ``REPORT_SIZE`` bytes a device, in the order in which the devices would draw them one after the other."""
    kept = Collected(method)
    for words, values in _drawn(method, items, entropy):
        seeds, levels = words[:, 0], _levels(words[:, 1], len(method.levels))
        for at, reports in enumerate(kept.levels):
            mine = levels == at
            reports.seeds.frombytes(seeds[mine].tobytes())
            reports.values += values[mine].tobytes()
    return kept


def records(method: AffineHashing, items: Words, entropy: Callable[[int], bytes]) -> bytes:
    """The same reports as the payloads that devices seal: public bytes and value, one after the other."""
    found = []
    for words, values in _drawn(method, items, entropy):
        public = words[:, :2].astype(">u8").view(np.uint8)
        found.append(np.concatenate([public, values[:, np.newaxis]], axis=1).tobytes())
    return b"".join(found)


def _drawn(
    method: AffineHashing, items: Words, entropy: Callable[[int], bytes]
) -> Iterator[tuple[Words, NDArray[np.uint8]]]:
    """For some devices after the other: the words of their random bytes, a row each, and the values they report."""
    for start in range(0, len(items), CHUNK):
        some = items[start : start + CHUNK]
        drawn = np.frombuffer(entropy(REPORT_SIZE * len(some)), ">u8")
        words = drawn.reshape(len(some), REPORT_SIZE // 8).astype(np.uint64)
        yield words, _values(method, some, words).astype(np.uint8)


def _values(method: AffineHashing, items: Words, words: Words) -> Words:
    seeds, level_word, keep_high, keep_low, other_high, other_low = words.T
    levels, hashed = _levels(level_word, len(method.levels)), np.empty(len(words), np.uint64)
    for at, length in enumerate(method.levels):
        mine = levels == at
        prefixes = _shifted(items.reshape(len(items), -1)[mine], method.bits - length)
        hashed[mine] = _hashes(seeds[mine], prefixes, method.hash_bits)
    keep = int(AffineRandomiser(method).thresholds()["keep_threshold"], 16)
    high, low = np.uint64(keep >> 64), np.uint64(keep & _ALL)
    kept = (keep_high < high) | ((keep_high == high) & (keep_low < low))
    bound, rest = np.uint64(method.values - 1), np.uint64((1 << 64) % (method.values - 1))
    other = ((other_high % bound) * rest + other_low % bound) % bound
    return np.where(kept, hashed, other + (other >= hashed))


def _levels(words: Words, levels: int) -> Words:
    """As ``tacit.methods.base.affine.level_of``, for each word."""
    found: Words = np.minimum(_scaled(words, 2 * levels + 1) // np.uint64(2), np.uint64(levels - 1))
    return found


def _shifted(items: Words, bits: int) -> Words:
    """Rows of words as they are with their lowest ``bits`` bits left out."""
    whole, rest = divmod(bits, WORD_BITS)
    found = items[:, whole:]
    if not rest:
        return found
    above = np.zeros_like(found)
    above[:, :-1] = found[:, 1:]
    return (found >> np.uint64(rest)) | (above << np.uint64(WORD_BITS - rest))


def _scaled(words: Words, count: int) -> Words:
    """``words * count / 2^64``, rounded down, for a count below 2^32."""
    half, factor = np.uint64(32), np.uint64(count)
    low = (words & np.uint64((1 << 32) - 1)) * factor >> half
    return ((words >> half) * factor + low) >> half


def _hashes(seeds: Words, prefixes: Words, hash_bits: int) -> Words:
    """As ``tacit.methods.base.affine.hash_of``, for each seed and prefix, a row of words."""
    found = _word(seeds, hash_bits + 1) & np.uint64((1 << hash_bits) - 1)
    for place in range(prefixes.shape[1]):
        for at in range(hash_bits):
            row = _word(seeds, place * (hash_bits + 1) + at + 1)
            parity = np.bitwise_count(row & prefixes[:, place]).astype(np.uint64) & np.uint64(1)
            found ^= parity << np.uint64(at)
    return found


def _word(seeds: Words, at: int) -> Words:
    """The word number ``at``, from 1, that follows from each seed (``tacit.methods.base.affine.words``)."""
    word = seeds + np.uint64(at * int(_STEP) & _ALL)
    word = (word ^ (word >> np.uint64(30))) * _FIRST
    word = (word ^ (word >> np.uint64(27))) * _SECOND
    return word ^ (word >> np.uint64(31))
