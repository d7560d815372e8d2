"""State and answer of a device whose two servers share what it measures (Local Pan-Privacy, section 5).

Every cell is a sharing of one bit with its proof (``tacit.vdaf.count_vec``): the Leader's part is encrypted to the
Leader, the Helper's to the Helper, both split over group elements (``tacit.panprivate.embedding``). A step replaces a
cell by another one, or by a new sharing, and rerandomises it; sharing, proving and embedding are done in every step,
whether or not their results are used.

Algorithm 6 as printed rerandomises once more where the answer was replaced; here every path does it once. For
histograms (section 5.2) there are two ladders of k cells, exactly i for i < k and at least i for 1 <= i <= k: proofs
cannot be added as ciphertexts can, so the one ladder of the single server is not possible. k + 1 of these cells are
sent, each randomised with half of epsilon0.

The protection is against an intruder who works with neither server. Each server can decrypt its part of every state
that the intruder copies, and a changed part shows it that something was replaced, though not what.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from tacit.errors import DecodeError
from tacit.methods.base.draws import BYTES, ONE, epsilon0_from, fair_flips, keep_threshold
from tacit.methods.base.statistics import MAX_OCCURRENCES
from tacit.panprivate.elgamal import Ciphertext, PrivateKey, PublicKey, ciphertext_size
from tacit.panprivate.embedding import elements_for, embed, extract
from tacit.panprivate.state import chosen, encrypt_publicly
from tacit.ports import Entropy
from tacit.vdaf.count_vec import Prio3CountVec


@dataclass(frozen=True, slots=True)
class SharedCell:
    """One cell: the Leader's part of a sharing encrypted to it, and the Helper's part encrypted to that."""

    leader: tuple[Ciphertext, ...] = field(repr=False)
    helper: tuple[Ciphertext, ...] = field(repr=False)


SharedCells = tuple[SharedCell, ...]


@dataclass(frozen=True, slots=True)
class Sharing:
    """The two servers' keys, and the context (of the task) to which every sharing is bound."""

    leader: PublicKey
    helper: PublicKey
    context: bytes

    def made(self, bit: int, entropy: Entropy) -> SharedCell:
        """A new sharing of ``bit``, embedded but not encrypted yet (r = 0): rerandomise it before it is kept."""
        vdaf = Prio3CountVec(2, 1)
        chunk, seed = vdaf.shard_cell(self.context, bit, entropy(vdaf.CELL_RAND_SIZE))
        return SharedCell(tuple(map(encrypt_publicly, embed(chunk))), tuple(map(encrypt_publicly, embed(seed))))

    def rerandomised(self, cell: SharedCell, entropy: Entropy) -> SharedCell:
        """The same sharing in ciphertexts distributed like fresh ones."""
        return SharedCell(
            tuple(self.leader.rerandomise(part, entropy) for part in cell.leader),
            tuple(self.helper.rerandomise(part, entropy) for part in cell.helper),
        )

    def next_cells(
        self, event: int, cells: Sequence[SharedCell], after_event: Sequence[SharedCell], entropy: Entropy
    ) -> SharedCells:
        """``after_event`` where ``event`` is 1, else ``cells``, rerandomised."""
        pairs = zip(after_event, cells, strict=True)
        return tuple(self.rerandomised(_chosen_cell(event, one, zero), entropy) for one, zero in pairs)

    def randomised_bit(self, cell: SharedCell, keep: int, entropy: Entropy) -> SharedCell:
        """The bit in ``cell``, wrong with probability ``1 - keep / 2^128`` (Observation 5)."""
        drawn = int.from_bytes(entropy(BYTES), "big")
        replaced = int(drawn >= 2 * keep - ONE)
        coin = self.made(fair_flips(1, entropy), entropy)
        return self.rerandomised(_chosen_cell(replaced, coin, cell), entropy)


def _chosen_cell(bit: int, one: SharedCell, zero: SharedCell) -> SharedCell:
    return SharedCell(
        tuple(chosen(bit, first, second) for first, second in zip(one.leader, zero.leader, strict=True)),
        tuple(chosen(bit, first, second) for first, second in zip(one.helper, zero.helper, strict=True)),
    )


@dataclass(frozen=True, slots=True)
class SharedNonZero:
    """Whether the event happened at all (Algorithm 6)."""

    sharing: Sharing

    @property
    def cells(self) -> int:
        """Shared cells in a state: one."""
        return 1

    def initial(self, entropy: Entropy) -> SharedCells:
        """The state before the first step: nothing happened."""
        return (self.sharing.rerandomised(self.sharing.made(0, entropy), entropy),)

    def step(self, event: int, state: Sequence[SharedCell], entropy: Entropy) -> SharedCells:
        """The state after one more step, in which the event happened (1) or did not (0)."""
        return self.sharing.next_cells(event, state, (self.sharing.made(1, entropy),), entropy)

    def answer(self, state: Sequence[SharedCell], epsilon0: Decimal, entropy: Entropy) -> SharedCells:
        """The answer to send: epsilon0-private by replacement towards both servers together."""
        (cell,) = state
        return (self.sharing.randomised_bit(cell, keep_threshold(epsilon0_from(epsilon0), 1), entropy),)


@dataclass(frozen=True, slots=True)
class SharedOccurrences:
    """How often the event happened (section 5.2): cells 0 ... k-1 for exactly i, then k for at least 1 ... k.
    ``ValueError`` unless k is from 1 to ``MAX_OCCURRENCES``."""

    sharing: Sharing
    k: int

    def __post_init__(self) -> None:
        if not 1 <= self.k <= MAX_OCCURRENCES:
            raise ValueError(f"k must be from 1 to {MAX_OCCURRENCES}")

    @property
    def cells(self) -> int:
        """Shared cells in a state: both ladders, of k each."""
        return 2 * self.k

    def initial(self, entropy: Entropy) -> SharedCells:
        """The state before the first step: no occurrence."""
        made = (self.sharing.made(int(cell == 0), entropy) for cell in range(self.cells))
        return tuple(self.sharing.rerandomised(cell, entropy) for cell in made)

    def step(self, event: int, state: Sequence[SharedCell], entropy: Entropy) -> SharedCells:
        """The state after one more step, in which the event happened (1) or did not (0)."""
        exactly, at_least = state[: self.k], state[self.k :]
        none, one = self.sharing.made(0, entropy), self.sharing.made(1, entropy)
        after = (none, *exactly[:-1], one, *at_least[:-1])
        return self.sharing.next_cells(event, state, after, entropy)

    def answer(self, state: Sequence[SharedCell], epsilon0: Decimal, entropy: Entropy) -> SharedCells:
        """k + 1 cells, each randomised with half of epsilon0: epsilon0-private by replacement."""
        keep = keep_threshold(epsilon0_from(epsilon0) / 2, 1)
        return tuple(self.sharing.randomised_bit(cell, keep, entropy) for cell in (*state[: self.k], state[-1]))


def sealed_shares(cells: Sequence[SharedCell]) -> tuple[bytes, bytes]:
    """The contents of the Leader's and of the Helper's input share: the ciphertexts of its parts, cell by cell."""
    leader = b"".join(part.encode() for cell in cells for part in cell.leader)
    return leader, b"".join(part.encode() for cell in cells for part in cell.helper)


def opened_share(key: PrivateKey, agg_id: int, cells: int, sealed: bytes) -> bytes:
    """Aggregator ``agg_id``'s input share of ``Prio3CountVec``, decrypted from its ciphertexts.

    Raises ``DecodeError`` for a wrong size, for bytes that are not ciphertexts, and for ciphertexts that carry no
    share.
    """
    size, width = _cell_size(agg_id), ciphertext_size(key.group)
    if len(sealed) != sealed_size(agg_id, cells):
        raise DecodeError(f"{len(sealed)} bytes are not the ciphertexts of {cells} cells")
    elements = [key.open(sealed[at : at + width]) for at in range(0, len(sealed), width)]
    per_cell = elements_for(size)
    return b"".join(extract(elements[at : at + per_cell], size) for at in range(0, len(elements), per_cell))


def sealed_size(agg_id: int, cells: int) -> int:
    """Length in bytes of the ciphertexts that aggregator ``agg_id`` gets for ``cells`` cells."""
    return cells * elements_for(_cell_size(agg_id)) * ciphertext_size()


def _cell_size(agg_id: int) -> int:
    return Prio3CountVec.HELPER_CELL_SIZE if agg_id else Prio3CountVec.LEADER_CELL_SIZE
