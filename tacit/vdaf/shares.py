"""Shares and messages of Prio3 and their encodings (draft-irtf-cfrg-vdaf, section 7.2).

Encodings have no length prefixes: every size follows from the parameters of the instance. Whatever is secret
is kept out of ``repr``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tacit.errors import DecodeError
from tacit.vdaf.circuits import Circuit
from tacit.vdaf.flp import FlpBBCGGI19
from tacit.vdaf.xof import XofTurboShake128

M = TypeVar("M")

SEED_SIZE = XofTurboShake128.SEED_SIZE


@dataclass(frozen=True, slots=True)
class LeaderInputShare:
    """The first Aggregator's share, in full."""

    meas_share: list[int] = field(repr=False)
    proofs_share: list[int] = field(repr=False)
    blind: bytes | None = field(repr=False)
    """``SEED_SIZE`` bytes, None for circuits without joint randomness."""


@dataclass(frozen=True, slots=True)
class HelperInputShare:
    """Any other Aggregator's share: the seed from which it is expanded."""

    share_seed: bytes = field(repr=False)
    blind: bytes | None = field(repr=False)


InputShare = LeaderInputShare | HelperInputShare


@dataclass(frozen=True, slots=True)
class VerifyState:
    """What an Aggregator keeps of a report between ``verify_init`` and ``verify_next``."""

    out_share: list[int] = field(repr=False)
    corrected_joint_rand_seed: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class VerifierShare:
    """What an Aggregator sends to the others about a report."""

    verifiers_share: list[int] = field(repr=False)
    joint_rand_part: bytes | None = field(repr=False)


class ShareCodec(Generic[M]):
    """Sizes and encodings of one instance: a circuit, a number of shares, a number of proofs."""

    def __init__(self, circuit: Circuit[M], shares: int, proofs: int) -> None:
        self.flp = FlpBBCGGI19(circuit)
        self.field = circuit.field
        self.SHARES = shares
        self.PROOFS = proofs
        self._has_joint_rand = circuit.JOINT_RAND_LEN > 0
        self._blind_size = SEED_SIZE if self._has_joint_rand else 0

    def encode_public_share(self, public_share: list[bytes] | None) -> bytes:
        """32 bytes per Aggregator, or nothing."""
        return b"".join(public_share or [])

    def decode_public_share(self, encoded: bytes) -> list[bytes] | None:
        """Inverse of ``encode_public_share``. Raises ``DecodeError``."""
        _expect(encoded, self._blind_size * self.SHARES, "public share")
        return [encoded[at : at + SEED_SIZE] for at in range(0, len(encoded), SEED_SIZE)] or None

    def encode_input_share(self, input_share: InputShare) -> bytes:
        """Leader: measurement share, proof shares, blind. Others: seed, blind. No blind without joint rand."""
        blind = input_share.blind or b""
        if isinstance(input_share, HelperInputShare):
            return input_share.share_seed + blind
        return self.field.encode_vec([*input_share.meas_share, *input_share.proofs_share]) + blind

    @property
    def leader_share_size(self) -> int:
        """Bytes of the Leader's encoded input share, the longest one."""
        elements = self.flp.MEAS_LEN + self.flp.PROOF_LEN * self.PROOFS
        return self.field.ENCODED_SIZE * elements + self._blind_size

    @property
    def public_share_size(self) -> int:
        """Bytes of the encoded public share."""
        return self._blind_size * self.SHARES

    def input_share_size(self, agg_id: int) -> int:
        """Bytes of the encoded input share of Aggregator ``agg_id``."""
        self._require_agg_id(agg_id)
        return SEED_SIZE + self._blind_size if agg_id else self.leader_share_size

    def decode_input_share(self, agg_id: int, encoded: bytes) -> InputShare:
        """Inverse of ``encode_input_share`` for Aggregator ``agg_id``. Raises ``DecodeError``."""
        self._require_agg_id(agg_id)
        _expect(encoded, self.input_share_size(agg_id), "input share")
        size = len(encoded) - self._blind_size
        blind = encoded[size:] or None
        if agg_id:
            return HelperInputShare(encoded[:size], blind)
        vec = self.field.decode_vec(encoded[:size])
        return LeaderInputShare(vec[: self.flp.MEAS_LEN], vec[self.flp.MEAS_LEN :], blind)

    def encode_verifier_share(self, verifier_share: VerifierShare) -> bytes:
        """Verifiers, then the joint randomness part if there is one."""
        return self.field.encode_vec(verifier_share.verifiers_share) + (verifier_share.joint_rand_part or b"")

    def decode_verifier_share(self, verify_state: VerifyState, encoded: bytes) -> VerifierShare:
        """Inverse of ``encode_verifier_share``. Raises ``DecodeError``. The state is the draft's argument;
        the sizes of Prio3 do not depend on it.
        """
        size = self.field.ENCODED_SIZE * self.flp.VERIFIER_LEN * self.PROOFS
        _expect(encoded, size + self._blind_size, "verifier share")
        return VerifierShare(self.field.decode_vec(encoded[:size]), encoded[size:] or None)

    def encode_verifier_message(self, verifier_message: bytes | None) -> bytes:
        """The joint randomness seed, or nothing."""
        return verifier_message or b""

    def decode_verifier_message(self, verify_state: VerifyState, encoded: bytes) -> bytes | None:
        """Inverse of ``encode_verifier_message``. Raises ``DecodeError``."""
        _expect(encoded, self._blind_size, "verifier message")
        return encoded or None

    def encode_out_share(self, out_share: list[int]) -> bytes:
        """Encode an out share: ``OUTPUT_LEN`` field elements."""
        return self.field.encode_vec(out_share)

    def encode_agg_share(self, agg_share: list[int]) -> bytes:
        """Encode an aggregate share: ``OUTPUT_LEN`` field elements."""
        return self.field.encode_vec(agg_share)

    def decode_agg_share(self, encoded: bytes) -> list[int]:
        """Inverse of ``encode_agg_share``. Raises ``DecodeError``."""
        return self._decode_output(encoded, "aggregate share")

    def _decode_output(self, encoded: bytes, what: str) -> list[int]:
        _expect(encoded, self.field.ENCODED_SIZE * self.flp.OUTPUT_LEN, what)
        return self.field.decode_vec(encoded)

    def _require_agg_id(self, agg_id: int) -> None:
        if not 0 <= agg_id < self.SHARES:
            raise ValueError(f"there is no aggregator {agg_id} among {self.SHARES}")


def _expect(encoded: bytes, size: int, what: str) -> None:
    if len(encoded) != size:
        raise DecodeError(f"{what} has {len(encoded)} bytes, not {size}")
