"""What the shuffler and the analyzer do with messages (P25): permute those of all devices, and open and count them.

Pure functions. The shuffler has no key to a message, and the analyzer never sees which of them came together. Devices
must not import this module, because it can decrypt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tacit.errors import CryptoError
from tacit.hpke import ENC_SIZE, KeyPair
from tacit.methods.draws import permutation
from tacit.ports import Entropy
from tacit.roles.crypto import OPENSSL, JobCrypto
from tacit.task.shuffled import MESSAGE_SIZE, NUMBER_SIZE, Bundling, split


class Tally(NamedTuple):
    """Opened messages: how many there are about each cell, how many fillers, and how many that do not open or hold no
    number of the recipe."""

    numbers: tuple[int, ...]
    fillers: int
    malformed: int

    @property
    def messages(self) -> int:
        """All messages, malformed ones too."""
        return sum(self.numbers) + self.fillers + self.malformed

    def plus(self, other: Tally) -> Tally:
        """Both together, of the same recipe."""
        numbers = tuple(one + another for one, another in zip(self.numbers, other.numbers, strict=True))
        return Tally(numbers, self.fillers + other.fillers, self.malformed + other.malformed)


@dataclass(frozen=True, slots=True)
class MessageCounter:
    """The analyzer's part for one recipe: it opens shuffled messages."""

    bundling: Bundling
    key_pair: KeyPair = field(repr=False)

    def count(self, messages: bytes, crypto: JobCrypto = OPENSSL) -> Tally:
        """Open and count messages, one after another in ``messages``. ``ValueError`` for a part of a message."""
        task, recipe_hash = self.bundling.task, self.bundling.task.recipe_hash
        sealed = [(one[:ENC_SIZE], recipe_hash, one[ENC_SIZE:]) for one in split(messages)]
        numbers, malformed = [0] * (task.cells + 1), 0
        for plaintext in crypto.open_all(self.key_pair, task.suite, task.info, sealed):
            number = -1 if isinstance(plaintext, CryptoError) else int.from_bytes(plaintext, "big")
            if isinstance(plaintext, CryptoError) or len(plaintext) != NUMBER_SIZE or number > self.bundling.filler:
                malformed += 1
            else:
                numbers[number] += 1
        return Tally(tuple(numbers[:-1]), numbers[-1], malformed)


def shuffled(bundles: Iterable[bytes], entropy: Entropy, size: int = MESSAGE_SIZE) -> list[bytes]:
    """The messages of all bundles, of ``size`` bytes each, in a random order, every order being equally likely.
    ``ValueError`` for a part of a message."""
    messages = split(b"".join(bundles), size)
    return [messages[at] for at in permutation(len(messages), entropy)]


def complete(tallies: Sequence[Tally], messages: int) -> tuple[int, Tally]:
    """How many bundles of ``messages`` messages the tallies of all chunks hold, and the tallies together.
    ``ValueError`` if they do not hold whole bundles."""
    total = tallies[0]
    for one in tallies[1:]:
        total = total.plus(one)
    bundles, rest = divmod(total.messages, messages)
    if rest:
        raise ValueError(f"{total.messages} messages are not whole bundles of {messages}")
    return bundles, total
