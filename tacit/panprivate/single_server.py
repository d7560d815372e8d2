"""State and answer of a device whose one server holds the private key (Local Pan-Privacy, sections 4.1 to 4.3, B).

Three departures from the paper's text are needed for correctness:

* Algorithm 5 overwrites the first counter before it shifts the others, so that every device that saw an event ends in
  the last bucket. Here all of the next state is made from the old one.
* Its neighbours differ in *two* cells of a one-hot vector, so a bit that is wrong with probability 1/(e^epsilon0 + 1)
  is 2 epsilon0 private by replacement. Here every bit of a histogram gets half of epsilon0.
* Its two ladders (exactly i, at least i) become one: the last cell absorbs what is shifted onto it, by an addition of
  ciphertexts. So there are k + 1 cells, and the mean counts a device with more than k events as k, where Algorithm 4
  counts it as none.

An answer is randomised without decrypting it (Observation 5): with probability ``2 Pr[wrong]`` a cell is replaced by a
uniform bit. The probabilities are exactly those of ``tacit.methods``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from tacit.methods.base.draws import BYTES, ONE, epsilon0_from, fair_flips, keep_threshold
from tacit.methods.base.statistics import MAX_OCCURRENCES
from tacit.panprivate.elgamal import Ciphertext, PublicKey, add
from tacit.panprivate.state import chosen, encrypt_publicly, known_bit, next_cells
from tacit.ports import Entropy

Cells = tuple[Ciphertext, ...]


@dataclass(frozen=True, slots=True)
class NonZero:
    """Whether the event happened at all (Algorithm 3): one ciphertext of 0 or 1."""

    key: PublicKey

    @property
    def cells(self) -> int:
        """Number of ciphertexts in a state."""
        return 1

    def initial(self, entropy: Entropy) -> Cells:
        """The state before the first step: nothing happened."""
        return (self.key.rerandomise(known_bit(0), entropy),)

    def step(self, event: int, state: Sequence[Ciphertext], entropy: Entropy) -> Cells:
        """The state after one more step, in which the event happened (1) or did not (0)."""
        return next_cells(event, state, (known_bit(1),), self.key, entropy)

    def answer(self, state: Sequence[Ciphertext], epsilon0: Decimal, entropy: Entropy) -> Cells:
        """The answer to send: epsilon0-private by replacement towards the server."""
        (cell,) = state
        return (randomised_bit(cell, keep_threshold(epsilon0_from(epsilon0), 1), self.key, entropy),)


@dataclass(frozen=True, slots=True)
class Occurrences:
    """How often the event happened (Algorithms 5 and 4): cell i < k is 1 if it happened i times, cell k if it happened
    k times or more. ``ValueError`` unless k is from 1 to ``MAX_OCCURRENCES``."""

    key: PublicKey
    k: int

    def __post_init__(self) -> None:
        if not 1 <= self.k <= MAX_OCCURRENCES:
            raise ValueError(f"k must be from 1 to {MAX_OCCURRENCES}")

    @property
    def cells(self) -> int:
        """Number of ciphertexts in a state."""
        return self.k + 1

    def initial(self, entropy: Entropy) -> Cells:
        """The state before the first step: no occurrence."""
        return tuple(self.key.rerandomise(known_bit(int(cell == 0)), entropy) for cell in range(self.cells))

    def step(self, event: int, state: Sequence[Ciphertext], entropy: Entropy) -> Cells:
        """The state after one more step, in which the event happened (1) or did not (0)."""
        last = add(state[-2], state[-1])
        return next_cells(event, state, (known_bit(0), *state[:-2], last), self.key, entropy)

    def histogram(self, state: Sequence[Ciphertext], epsilon0: Decimal, entropy: Entropy) -> Cells:
        """Every cell randomised with half of epsilon0: epsilon0-private by replacement towards the server."""
        keep = keep_threshold(epsilon0_from(epsilon0) / 2, 1)
        return tuple(randomised_bit(cell, keep, self.key, entropy) for cell in state)

    def mean(self, state: Sequence[Ciphertext], scale: int, flips: int, entropy: Entropy) -> Ciphertext:
        """``scale min(count, k) + Bin(flips, 1/2)`` in the exponent: a noise share of ``tacit.dp.binomial_noise`` for
        one honest device and a step of k, whose privacy that module computes exactly. Unlike a discrete Gaussian of
        small variance, a binomial cannot collapse to zero on the integer grid."""
        group = self.key.group
        total = at_least = state[-1]
        for cell in reversed(state[1:-1]):
            at_least = add(at_least, cell)
            total = add(total, at_least)
        scaled = Ciphertext(
            group.times(group.scalar(scale), total.ephemeral), group.times(group.scalar(scale), total.masked)
        )
        noise = encrypt_publicly(group.times_base(group.scalar(fair_flips(flips, entropy))))
        return self.key.rerandomise(add(scaled, noise), entropy)


def randomised_bit(cell: Ciphertext, keep: int, key: PublicKey, entropy: Entropy) -> Ciphertext:
    """The bit in ``cell``, wrong with probability ``1 - keep / 2^128``, in a ciphertext that is unlinkable to it."""
    drawn = int.from_bytes(entropy(BYTES), "big")
    replaced = int(drawn >= 2 * keep - ONE)
    coin = chosen(fair_flips(1, entropy), known_bit(1), known_bit(0))
    return key.rerandomise(chosen(replaced, coin, cell), entropy)
