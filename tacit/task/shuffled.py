"""The messages of the shuffled model: each is a cell's number, sealed to the analyzer (P25).

All messages of a recipe have the same size, those that stand for no cell too. Nothing but its number is in a message,
and its associated data are the recipe's hash, so that messages of different devices differ in nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tacit import hpke
from tacit.methods.base.draws import permutation
from tacit.ports import Entropy
from tacit.task.one_server import OneServerTask

_AROUND = hpke.PUBLIC_KEY_SIZE + hpke.TAG_SIZE


def number_size(cells: int) -> int:
    """Bytes of a number in a recipe of so many cells: 2, or as many as the number that stands for no cell takes."""
    return max(2, (cells.bit_length() + 7) // 8)


def message_size(cells: int) -> int:
    """Bytes of a sealed message in a recipe of so many cells."""
    return _AROUND + number_size(cells)


@dataclass(frozen=True, slots=True)
class Bundling:
    """How the messages of one device are made. ``task``: the analyzer's; ``messages``: how many every device sends."""

    task: OneServerTask
    messages: int

    @property
    def filler(self) -> int:
        """The number in a message that counts for no cell: one more than the last cell's."""
        return self.task.cells

    @property
    def size(self) -> int:
        """Bytes of the messages of one device together."""
        return self.messages * self.message_size

    @property
    def message_size(self) -> int:
        """Length of one sealed message in bytes."""
        return message_size(self.task.cells)

    def bundle(self, counts: Sequence[int], entropy: Entropy) -> bytes:
        """The sealed messages of a device that sends so many about each cell, in random order. ``ValueError`` for more
        messages than fit, or another number of cells."""
        total = sum(counts)
        if len(counts) != self.task.cells or min(counts) < 0 or total > self.messages:
            raise ValueError(
                f"an answer must be {self.task.cells} numbers of messages, at most {self.messages} together"
            )
        numbers = [cell for cell, count in enumerate(counts) for _ in range(count)]
        numbers += [self.filler] * (self.messages - total)
        return b"".join(self._seal(numbers[at], entropy) for at in permutation(self.messages, entropy))

    def _seal(self, number: int, entropy: Entropy) -> bytes:
        task, plaintext = self.task, number.to_bytes(number_size(self.task.cells), "big")
        public_key = task.hpke_config.public_key
        enc, sealed = hpke.seal(task.suite, public_key, task.info, task.recipe_hash, plaintext, entropy)
        return enc + sealed


def split(messages: bytes, size: int) -> list[bytes]:
    """The single messages of one or more bundles, of ``size`` bytes each, in order. ``ValueError`` for a part of a
    message."""
    if len(messages) % size:
        raise ValueError(f"messages must have {size} bytes each")
    return [messages[at : at + size] for at in range(0, len(messages), size)]
