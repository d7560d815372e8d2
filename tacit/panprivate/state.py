"""One step on encrypted state: the same work, whatever happened.

Every cell of the next state is chosen between the previous cell and a new one, and rerandomised once. Where the new one
is a publicly known value (an encryption with r = 0), the rerandomisation turns it into a fresh encryption. The choice
is made by masks over whole ciphertexts, not by a branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tacit.panprivate.elgamal import Ciphertext, PublicKey
from tacit.panprivate.group import Group
from tacit.panprivate.ristretto import RISTRETTO255
from tacit.ports import Entropy


def encrypt_publicly(element: bytes, group: Group = RISTRETTO255) -> Ciphertext:
    """The encryption of ``element`` with r = 0, which everybody can read; never kept or sent unchanged."""
    return Ciphertext(group.identity, element)


def known_bit(bit: int, group: Group = RISTRETTO255) -> Ciphertext:
    """``encrypt_publicly`` of 0 (the identity) or 1 (the generator)."""
    return encrypt_publicly(group.times_base(group.scalar(bit)), group)


def chosen(bit: int, one: Ciphertext, zero: Ciphertext) -> Ciphertext:
    """``one`` where ``bit`` is 1, ``zero`` where it is 0; both are read and mixed by a mask. ``ValueError`` for another
    ``bit``."""
    return Ciphertext(_mask(bit, one.ephemeral, zero.ephemeral), _mask(bit, one.masked, zero.masked))


def _mask(bit: int, one: bytes, zero: bytes) -> bytes:
    # ``bit`` is used only as an index: Python's 0 has no digits, so arithmetic with it, a comparison by value and a
    # hash take other branches, and some nanoseconds less, than with 1.
    try:
        keep_one, keep_zero, meant = _masks(len(zero))[bit]
    except IndexError as error:
        raise ValueError("bit must be 0 or 1") from error
    if meant is not bit:
        raise ValueError("bit must be 0 or 1")
    # All numbers have a leading 1, so that neither choice makes a number, and thereby an operation, shorter.
    first, second = int.from_bytes(b"\1" + one, "big"), int.from_bytes(b"\1" + zero, "big")
    mixed = (first & keep_one) | (second & keep_zero)
    return mixed.to_bytes(len(zero) + 1, "big")[1:]


@cache
def _masks(size: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """For each bit, the masks for one and for zero: either the leading 1 alone, or everything below it as well; and the
    bit."""
    top = 1 << 8 * size
    everything = 2 * top - 1
    return (top, everything, 0), (everything, top, 1)


def next_cells(
    event: int,
    cells: Sequence[Ciphertext],
    after_event: Sequence[Ciphertext],
    key: PublicKey,
    entropy: Entropy,
) -> tuple[Ciphertext, ...]:
    """The cells of the next state: ``after_event`` where ``event`` is 1, else ``cells``, each rerandomised.

    Both must have the same length; whether a cell has r = 0 makes no difference to the result.
    """
    if len(cells) != len(after_event):
        raise ValueError("the state must have as many cells after an event as before")
    pairs = zip(after_event, cells, strict=True)
    return tuple(key.rerandomise(chosen(event, one, zero), entropy) for one, zero in pairs)
