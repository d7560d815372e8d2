"""Prio3CountVec: bits, each proved separately (design rule P23; a private algorithm, not one of the draft's).

Every cell is a sharing of one bit with its own proof, as in Prio3Count: nothing binds it to the other cells, to its
place or to a nonce. A device that keeps encrypted shares can move a cell to another place long after it was made, and
the proof still holds. That needs a circuit without joint randomness, and it is why cells are bound to the context
alone, not to their index. The aggregators' query randomness still differs from cell to cell, and with the nonce.

What is not proved: how many cells are one. A device can be counted in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tacit.errors import DecodeError
from tacit.vdaf.circuits import Circuit, Count
from tacit.vdaf.field import Field64
from tacit.vdaf.flp import FlpBBCGGI19
from tacit.vdaf.gadgets import Mul
from tacit.vdaf.prio3 import Prio3
from tacit.vdaf.shares import SEED_SIZE, HelperInputShare, InputShare, LeaderInputShare

ALGORITHM_ID = 0xFFFF5443
"""From the range that the draft leaves for private use (section 10)."""
MAX_LENGTH = 1 << 12


class CountVec(Circuit[Sequence[int]]):
    """``length`` elements, each of them 0 or 1; the aggregate is how often each was 1."""

    def __init__(self, length: int) -> None:
        if not 1 <= length <= MAX_LENGTH:
            raise ValueError(f"length must be from 1 to {MAX_LENGTH}")
        super().__init__(Field64, Mul(), length)
        self.MEAS_LEN = self.OUTPUT_LEN = length

    def encode(self, measurement: Sequence[int]) -> list[int]:
        if len(measurement) != self.MEAS_LEN or any(bit not in (0, 1) for bit in measurement):
            raise ValueError(f"the measurement must be {self.MEAS_LEN} bits")
        return [int(bit) for bit in measurement]

    def truncate(self, meas: Sequence[int]) -> list[int]:
        return list(meas)

    def decode(self, output: Sequence[int], num_measurements: int) -> list[int]:
        return list(output)

    def wires(self, meas: Sequence[int], joint_rand: Sequence[int], num_shares: int) -> list[int]:
        return [element for element in meas for _ in range(2)]

    def outputs(self, meas: Sequence[int], gadget_outputs: Sequence[int], num_shares: int) -> list[int]:
        return [(out - element) % self.field.MODULUS for out, element in zip(gadget_outputs, meas, strict=True)]


class FlpPerCell(FlpBBCGGI19[Sequence[int]]):
    """One proof of ``Count`` per element, one after another; randomness and verifiers are laid out in the same way."""

    def __init__(self, circuit: CountVec) -> None:
        super().__init__(circuit)
        self.cell = FlpBBCGGI19(Count(Field64))
        length = circuit.MEAS_LEN
        self.PROVE_RAND_LEN = length * self.cell.PROVE_RAND_LEN
        self.QUERY_RAND_LEN = length * self.cell.QUERY_RAND_LEN
        self.PROOF_LEN = length * self.cell.PROOF_LEN
        self.VERIFIER_LEN = length * self.cell.VERIFIER_LEN

    def prove(self, meas: Sequence[int], prove_rand: Sequence[int], joint_rand: Sequence[int]) -> list[int]:
        """The proofs of all elements, one after another: ``PROOF_LEN`` numbers."""
        rands = _pieces(prove_rand, self.cell.PROVE_RAND_LEN)
        return [
            number
            for element, rand in zip(meas, rands, strict=True)
            for number in self.cell.prove([element], rand, joint_rand)
        ]

    def query(
        self,
        meas: Sequence[int],
        proof: Sequence[int],
        query_rand: Sequence[int],
        joint_rand: Sequence[int],
        num_shares: int,
    ) -> list[int]:
        """The verifier shares of all elements. Raises ``VerifyError`` as the proof of a single element does."""
        cells = zip(
            meas, _pieces(proof, self.cell.PROOF_LEN), _pieces(query_rand, self.cell.QUERY_RAND_LEN), strict=True
        )
        return [
            number
            for element, own, point in cells
            for number in self.cell.query([element], own, point, joint_rand, num_shares)
        ]

    def decide(self, verifier: Sequence[int]) -> bool:
        """Whether every element is a bit."""
        return all(map(self.cell.decide, _pieces(verifier, self.cell.VERIFIER_LEN)))


class Prio3CountVec(Prio3[Sequence[int]]):
    """How often each of ``length`` positions is set (measurement: bits, any number of them 1).

    The Leader's input share has a chunk of ``LEADER_CELL_SIZE`` bytes per cell (its element, then its proof), the
    others' a seed per cell; a cell's chunk and seeds may be moved to another position together.
    """

    LEADER_CELL_SIZE = 48
    HELPER_CELL_SIZE = SEED_SIZE
    CELL_RAND_SIZE = 2 * SEED_SIZE

    def __init__(self, shares: int, length: int) -> None:
        circuit = CountVec(length)
        super().__init__(circuit, ALGORITHM_ID, shares)
        if shares != 2:
            raise ValueError("Prio3CountVec has two shares")
        self.flp = FlpPerCell(circuit)
        self.length = length
        self._cell: Prio3[int] = Prio3(Count(Field64), ALGORITHM_ID, shares)
        self.RAND_SIZE = length * self.CELL_RAND_SIZE

    def shard_cell(self, ctx: bytes, bit: int, rand: bytes) -> tuple[bytes, bytes]:
        """The Leader's chunk and the Helper's seed for one bit, from ``CELL_RAND_SIZE`` uniform bytes, used once.

        Raises ``ValueError`` for anything but a bit.
        """
        # no nonce enters a sharding without joint randomness, and the device does not know the report's yet
        _, (leader, helper) = self._cell.shard(ctx, bit, bytes(self.NONCE_SIZE), rand)
        return self._cell.encode_input_share(leader), self._cell.encode_input_share(helper)

    def shard(
        self, ctx: bytes, measurement: Sequence[int], nonce: bytes, rand: bytes
    ) -> tuple[list[bytes] | None, list[InputShare]]:
        """As ``Prio3.shard``; there is no public share."""
        if len(nonce) != self.NONCE_SIZE or len(rand) != self.RAND_SIZE:
            raise ValueError(f"{self.NONCE_SIZE} bytes of nonce and {self.RAND_SIZE} of randomness are needed")
        meas = self.flp.encode(measurement)
        rands = _pieces(rand, self.CELL_RAND_SIZE)
        cells = [self.shard_cell(ctx, bit, own) for bit, own in zip(meas, rands, strict=True)]
        chunks, seeds = (b"".join(column) for column in zip(*cells, strict=True))
        return None, [self.decode_input_share(0, chunks), self.decode_input_share(1, seeds)]

    def encode_input_share(self, input_share: InputShare) -> bytes:
        """Encode the share with each element's proof split off, cell by cell."""
        if isinstance(input_share, HelperInputShare):
            return input_share.share_seed
        proofs = _pieces(input_share.proofs_share, len(input_share.proofs_share) // len(input_share.meas_share))
        cells = zip(input_share.meas_share, proofs, strict=True)
        return self.field.encode_vec([number for element, proof in cells for number in (element, *proof)])

    def input_share_size(self, agg_id: int) -> int:
        """Bytes of the encoded input share of Aggregator ``agg_id``: the same for every cell."""
        self._require_agg_id(agg_id)
        return self.length * (self.HELPER_CELL_SIZE if agg_id else self.LEADER_CELL_SIZE)

    def decode_input_share(self, agg_id: int, encoded: bytes) -> InputShare:
        """Inverse of ``encode_input_share``. Raises ``DecodeError``."""
        size = self.input_share_size(agg_id)
        if len(encoded) != size:
            raise DecodeError(f"input share has {len(encoded)} bytes, not {size}")
        if agg_id:
            return HelperInputShare(encoded, None)
        cells = _pieces(self.field.decode_vec(encoded), 1 + self._cell.flp.PROOF_LEN)
        return LeaderInputShare([cell[0] for cell in cells], [number for cell in cells for number in cell[1:]], None)

    def _expand_input_share(self, ctx: bytes, agg_id: int, input_share: InputShare) -> tuple[list[int], list[int]]:
        if not isinstance(input_share, HelperInputShare) or not agg_id:
            return super()._expand_input_share(ctx, agg_id, input_share)
        meas: list[int] = []
        proofs: list[int] = []
        # each seed as if it were the only one, without its index: the cell may have moved since then (P23)
        for seed in _pieces(input_share.share_seed, SEED_SIZE):
            own_meas, own_proof = self._cell._expand_input_share(ctx, agg_id, HelperInputShare(seed, None))
            meas += own_meas
            proofs += own_proof
        return meas, proofs


def _pieces(sequence: Any, size: int) -> list[Any]:
    return [sequence[at : at + size] for at in range(0, len(sequence), size)]
