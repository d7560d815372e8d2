"""What the shuffler and the analyzer do with messages (P25): permute those of all devices, and open and count them.

Pure functions. The shuffler has no key to a message, and the analyzer never sees which of them came together. Devices
must not import this module, because it can decrypt.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tacit.errors import CryptoError
from tacit.hpke import ENC_SIZE, KeyPair
from tacit.methods.base.draws import permutation
from tacit.ports import Entropy
from tacit.roles.crypto import OPENSSL, JobCrypto
from tacit.task.shuffled import Bundling, number_size, split


class Tally(NamedTuple):
    """Opened messages of a recipe with ``cells`` cells: how many there are about each cell that has any, how many
    fillers, and how many that do not open or hold no number of the recipe."""

    cells: int
    held: Mapping[int, int]
    fillers: int
    malformed: int

    @property
    def numbers(self) -> tuple[int, ...]:
        """How many messages are about each of the ``cells`` cells."""
        held = self.held
        return tuple(held.get(cell, 0) for cell in range(self.cells))

    @property
    def messages(self) -> int:
        """All messages, malformed ones too."""
        return sum(self.held.values()) + self.fillers + self.malformed


class Total:
    """The sum of the tallies of a recipe, chunk by chunk; takes 8 bytes for each cell."""

    def __init__(self, cells: int) -> None:
        self._numbers = array("Q", bytes(8 * cells))
        self.messages = 0

    def add(self, tally: Tally) -> None:
        """Add a chunk's messages. ``ValueError`` for one of another recipe."""
        if tally.cells != len(self._numbers):
            raise ValueError("the messages are of a recipe with another number of cells")
        numbers = self._numbers
        for cell, count in tally.held.items():
            numbers[cell] += count
        self.messages += tally.messages

    @property
    def numbers(self) -> tuple[int, ...]:
        """How many messages are about each of the ``cells`` cells."""
        return tuple(self._numbers)

    def bundles(self, messages: int) -> int:
        """How many bundles of ``messages`` messages these are. ``ValueError`` if they are not whole bundles."""
        bundles, rest = divmod(self.messages, messages)
        if rest:
            raise ValueError(f"{self.messages} messages are not whole bundles of {messages}")
        return bundles


@dataclass(frozen=True, slots=True)
class MessageCounter:
    """The analyzer's part for one recipe: it opens shuffled messages."""

    bundling: Bundling
    key_pair: KeyPair = field(repr=False)

    def count(self, messages: bytes, crypto: JobCrypto = OPENSSL) -> Tally:
        """Open and count messages, one after another in ``messages``. ``ValueError`` for a part of a message."""
        task, recipe_hash = self.bundling.task, self.bundling.task.recipe_hash
        parts = split(messages, self.bundling.message_size)
        # bound to the recipe alone: an id of the device's report would tell which messages came together
        sealed = [(one[:ENC_SIZE], recipe_hash, one[ENC_SIZE:]) for one in parts]
        numbers: Counter[int] = Counter()
        size, malformed = number_size(task.cells), 0
        for plaintext in crypto.open_all(self.key_pair, task.suite, task.info, sealed):
            number = -1 if isinstance(plaintext, CryptoError) else int.from_bytes(plaintext, "big")
            if isinstance(plaintext, CryptoError) or len(plaintext) != size or number > self.bundling.filler:
                # counted like the others: the number of devices follows from that of all messages (`Total.bundles`)
                malformed += 1
            else:
                numbers[number] += 1
        fillers = numbers.pop(self.bundling.filler, 0)
        return Tally(task.cells, numbers, fillers, malformed)


def shuffle(bundles: bytes | bytearray, size: int, most: int, entropy: Entropy) -> Iterator[bytes]:
    """The messages of all bundles, of ``size`` bytes each, in a random order, every order being equally likely: in
    groups of ``most``, the last one with the rest. The order is drawn at once, and takes 4 bytes for each message;
    groups are put together one by one. ``ValueError`` for a part of a message."""
    if len(bundles) % size:
        raise ValueError(f"messages must have {size} bytes each")
    order = permutation(len(bundles) // size, entropy)
    # the whole order first: groups that were shuffled one by one would keep together what came together
    return (_taken(bundles, size, order[at : at + most]) for at in range(0, len(order), most))


def _taken(bundles: bytes | bytearray, size: int, order: array[int]) -> bytes:
    """The messages at these places, in this order."""
    return b"".join([bundles[at * size : (at + 1) * size] for at in order])
