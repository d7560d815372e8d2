"""What one step does to encrypted state: the same work, whatever happened.

Every cell of the next state is chosen between what stood in the last one and something new, and rerandomised once.
Where the new thing is a value that everybody knows (an encryption with r = 0), the rerandomisation makes a fresh
encryption of it. Choosing is done by masks over whole ciphertexts, not by a branch.
"""

from __future__ import annotations

from collections.abc import Sequence

from tacit.panprivate.elgamal import Ciphertext, PublicKey
from tacit.panprivate.group import Group
from tacit.panprivate.ristretto import RISTRETTO255
from tacit.ports import Entropy


def known(element: bytes, group: Group = RISTRETTO255) -> Ciphertext:
    """The encryption of ``element`` with r = 0, which everybody can read; never kept or sent as it is."""
    return Ciphertext(group.identity, element)


def known_bit(bit: int, group: Group = RISTRETTO255) -> Ciphertext:
    """``known`` of 0 (the identity) or 1 (the generator)."""
    return known(group.times_base(group.scalar(bit)), group)


def chosen(bit: int, one: Ciphertext, zero: Ciphertext) -> Ciphertext:
    """``one`` where ``bit`` is 1, ``zero`` where it is 0; both are read and mixed by a mask. ``ValueError`` for another
    ``bit``."""
    if bit not in (0, 1):
        raise ValueError("bit must be 0 or 1")
    return Ciphertext(_masked(bit, one.ephemeral, zero.ephemeral), _masked(bit, one.masked, zero.masked))


def _masked(bit: int, one: bytes, zero: bytes) -> bytes:
    size = len(zero)
    first, second = int.from_bytes(one, "big"), int.from_bytes(zero, "big")
    # The top bit is always set in what is computed, so that no intermediate number is shorter for one choice.
    top = 1 << 8 * size
    mask = (top - bit) & (top - 1)
    mixed = (first & mask) | (second & (mask ^ (top - 1))) | top
    return mixed.to_bytes(size + 1, "big")[1:]


def next_cells(
    event: int,
    cells: Sequence[Ciphertext],
    after_event: Sequence[Ciphertext],
    key: PublicKey,
    entropy: Entropy,
) -> tuple[Ciphertext, ...]:
    """The cells of the next state: ``after_event`` where ``event`` is 1, else ``cells``, rerandomised one by one.

    Both have the same length; whether a cell has r = 0 makes no difference to what comes out.
    """
    if len(cells) != len(after_event):
        raise ValueError("the state must have as many cells after an event as before")
    pairs = zip(after_event, cells, strict=True)
    return tuple(key.rerandomise(chosen(event, one, zero), entropy) for one, zero in pairs)
