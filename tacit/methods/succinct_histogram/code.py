"""A binary code for items of up to 64 bits: a constant rate, any eighth of the signs may be wrong.

Theory. The bytes of an item are encoded by a Reed-Solomon code, and each of its bytes by 20 bits of the extended Golay
code, shortened to 8 bits of message and distance 8 (a concatenated code: G. D. Forney, "Concatenated Codes", 1966). The
distance is at least the product of both. The Reed-Solomon code has the least length with which that is a quarter of all
bits; the rate of whole bytes, up to eight, is then more than a sixth.

Decoding corrects every error of less than half that distance: each 20 bits are decoded to the nearest word, then the
bytes with the most corrections are erased, none at first and then more and more, and of the decoded items the nearest
one is taken (generalised minimum distance decoding, Forney 1966).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from itertools import combinations

from tacit.methods.succinct_histogram.reed_solomon import ReedSolomon

MAX_BITS = 64
INNER_BITS = 20
INNER_DISTANCE = 8
_GENERATOR = 0xC75
"""The polynomial of the Golay code of 23 bits, of degree 11."""
_CHECKS = 11


@dataclass(frozen=True, slots=True)
class ItemCode:
    """The code for items of ``bits`` bits, 1 to 64. A codeword is an integer of ``length`` bits, and a vector of signs
    (``signs``)."""

    bits: int
    outer: ReedSolomon = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= MAX_BITS:
            raise ValueError(f"an item must have 1 to {MAX_BITS} bits")
        size = -(-self.bits // 8)
        symbols = -(-4 * INNER_DISTANCE * (size - 1) // (4 * INNER_DISTANCE - INNER_BITS))
        object.__setattr__(self, "outer", ReedSolomon(max(symbols, size), size))

    @property
    def length(self) -> int:
        """Number of bits of a codeword."""
        return INNER_BITS * self.outer.symbols

    @property
    def distance(self) -> int:
        """In how many bits two codewords differ at least."""
        return INNER_DISTANCE * self.outer.distance

    @property
    def correctable(self) -> int:
        """How many wrong bits are corrected, wherever they are."""
        return (self.distance - 1) // 2

    def bit(self, item: int, index: int) -> int:
        """One bit of the codeword of ``item``. ``ValueError`` for an item or an index out of range."""
        block, at = divmod(index, INNER_BITS)
        if not 0 <= block < self.outer.symbols:
            raise ValueError(f"an index must be from 0 to {self.length - 1}")
        return _words()[self.outer.symbol(self._bytes(item), block)] >> at & 1

    def encode(self, item: int) -> int:
        """The codeword of ``item``. ``ValueError`` for an item that does not have ``bits`` bits."""
        message, words = self._bytes(item), _words()
        symbols = (words[self.outer.symbol(message, at)] for at in range(self.outer.symbols))
        return sum(word << (INNER_BITS * at) for at, word in enumerate(symbols))

    def decode(self, received: int) -> int | None:
        """The item of a codeword with up to ``correctable`` wrong bits; of others the nearest that was found, or
        None."""
        symbols, corrections = self._inner(received)
        doubtful = sorted(range(self.outer.symbols), key=lambda at: -corrections[at])
        best: tuple[int, int] | None = None
        for erased in range((self.outer.distance - 1) % 2, self.outer.distance, 2):
            message = self.outer.decode({at: symbols[at] for at in doubtful[erased:]})
            item = None if message is None else int.from_bytes(message, "big")
            if item is None or item >> self.bits:
                continue
            found = (self.encode(item) ^ received).bit_count(), item
            best = found if best is None else min(best, found)
            if best[0] <= self.correctable:
                break
        return None if best is None else best[1]

    def _bytes(self, item: int) -> bytes:
        if not 0 <= item < 1 << self.bits:
            raise ValueError(f"an item must have {self.bits} bits")
        return item.to_bytes(self.outer.message, "big")

    def _inner(self, received: int) -> tuple[list[int], list[int]]:
        """For each 20 bits the nearest word's byte, and how many bits had to be corrected."""
        leaders, symbols, corrections = _leaders(), [], []
        for at in range(self.outer.symbols):
            block = received >> (INNER_BITS * at) & ((1 << INNER_BITS) - 1)
            error = leaders[_syndrome(block)]
            symbols.append((block ^ error) >> (_CHECKS + 1))
            corrections.append(error.bit_count())
        return symbols, corrections


def _remainder(value: int) -> int:
    """The remainder by the generator, as polynomials over two elements."""
    while value.bit_length() > _CHECKS:
        value ^= _GENERATOR << (value.bit_length() - 1 - _CHECKS)
    return value


def _word(byte: int) -> int:
    """The byte, eleven bits that make a multiple of the generator, and the parity of both."""
    cyclic = byte << _CHECKS | _remainder(byte << _CHECKS)
    return cyclic << 1 | cyclic.bit_count() & 1


@cache
def _words() -> tuple[int, ...]:
    return tuple(map(_word, range(256)))


def _syndrome(block: int) -> int:
    """Twelve bits that are 0 for words, and the same for blocks that differ by a word."""
    return block ^ _words()[block >> (_CHECKS + 1)]


@cache
def _leaders() -> tuple[int, ...]:
    """For each syndrome an error of the least weight that gives it."""
    leaders, weight = {0: 0}, 0
    while len(leaders) < 1 << (_CHECKS + 1):
        weight += 1
        for places in combinations(range(INNER_BITS), weight):
            error = sum(1 << place for place in places)
            leaders.setdefault(_syndrome(error), error)
    return tuple(leaders[syndrome] for syndrome in range(1 << (_CHECKS + 1)))
