"""Prio3 (draft-irtf-cfrg-vdaf, section 7.2; wire version 18): sums of secret-shared, proven measurements.

Flow of one report: the Client runs ``shard``; each Aggregator runs ``verify_init`` on its input share; the
verifier shares go through ``verifier_shares_to_message``; each Aggregator ends with ``verify_next`` and holds
an out share, which it aggregates. The Collector runs ``unshard``. Names are the draft's.

Errors: ``VerifyError`` when a report does not verify, ``DecodeError`` for bytes from outside, ``ValueError``
for arguments of the wrong size or range (the caller's mistake, or a measurement that the circuit does not
allow). Randomness is always an argument. ``agg_param`` is always None and encodes as no bytes.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from tacit.vdaf.circuits import Circuit, Count, Histogram, MultihotCountVec, Sum, SumVec
from tacit.vdaf.field import Field64, Field128
from tacit.vdaf.flp import VerifyError
from tacit.vdaf.shares import (
    SEED_SIZE,
    HelperInputShare,
    InputShare,
    LeaderInputShare,
    ShareCodec,
    VerifierShare,
    VerifyState,
)
from tacit.vdaf.xof import Xof, XofTurboShake128

__all__ = [
    "HelperInputShare",
    "InputShare",
    "LeaderInputShare",
    "Prio3",
    "Prio3Count",
    "Prio3Histogram",
    "Prio3MultihotCountVec",
    "Prio3Sum",
    "Prio3SumVec",
    "VerifierShare",
    "VerifyError",
    "VerifyState",
]

M = TypeVar("M")

VERSION = 18
ALGORITHM_CLASS = 0

USAGE_MEAS_SHARE = 1
USAGE_PROOF_SHARE = 2
USAGE_JOINT_RANDOMNESS = 3
USAGE_PROVE_RANDOMNESS = 4
USAGE_QUERY_RANDOMNESS = 5
USAGE_JOINT_RAND_SEED = 6
USAGE_JOINT_RAND_PART = 7

LEADER = 0


class Prio3(ShareCodec[M]):
    """Prio3 over any validity circuit; ``M`` is the type of a measurement.

    Public shares are ``list[bytes]`` (one joint randomness part per Aggregator) or None, verifier messages
    ``bytes`` or None, out shares and aggregate shares ``list[int]``.
    """

    VERIFY_KEY_SIZE = 32
    NONCE_SIZE = 16
    ROUNDS = 1
    XOF: ClassVar[type[Xof]] = XofTurboShake128
    LEAST_PROOFS: ClassVar[int] = 3
    """Of a circuit with joint randomness over Field64."""

    def __init__(self, circuit: Circuit[M], algorithm_id: int, shares: int, proofs: int = 1) -> None:
        """``shares`` in 2 ... 255, ``proofs`` in 1 ... 255 (at least ``LEAST_PROOFS`` for a joint-randomness
        circuit over Field64). Raises ``ValueError`` otherwise."""
        for name, value, least in (("shares", shares, 2), ("proofs", proofs, 1)):
            if not isinstance(value, int) or not least <= value <= 255:
                raise ValueError(f"{name} must be an integer between {least} and 255, not {value!r}")
        # A Client can try joint randomness by itself, unseen, until a false proof passes. Over Field64 that is too
        # little work for a single proof; the draft asks for three.
        if circuit.JOINT_RAND_LEN and circuit.field is Field64 and proofs < self.LEAST_PROOFS:
            raise ValueError(f"a circuit with joint randomness over Field64 needs at least {self.LEAST_PROOFS} proofs")
        super().__init__(circuit, shares, proofs)
        self.ID = algorithm_id
        self.RAND_SIZE = SEED_SIZE * shares * (2 if self._has_joint_rand else 1)
        self._dst_prefix = bytes((VERSION, ALGORITHM_CLASS)) + algorithm_id.to_bytes(4, "big")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {self.SHARES} shares of {self.flp.MEAS_LEN} elements>"

    # --- Client

    def shard(
        self, ctx: bytes, measurement: M, nonce: bytes, rand: bytes
    ) -> tuple[list[bytes] | None, list[InputShare]]:
        """Public share and one input share per Aggregator. Run by the Client.

        Preconditions: ``NONCE_SIZE`` bytes of nonce, ``RAND_SIZE`` uniform bytes, used once. Raises
        ``ValueError`` for a measurement out of range.
        """
        _require_size(nonce, self.NONCE_SIZE, "nonce")
        _require_size(rand, self.RAND_SIZE, "rand")
        seeds = [rand[at : at + SEED_SIZE] for at in range(0, len(rand), SEED_SIZE)]
        meas = self.flp.encode(measurement)
        if self._has_joint_rand:
            return self._shard_jointly(ctx, meas, nonce, seeds)
        return self._shard(ctx, meas, seeds)

    def _shard(self, ctx: bytes, meas: list[int], seeds: list[bytes]) -> tuple[list[bytes] | None, list[InputShare]]:
        *share_seeds, prove_seed = seeds
        leader_meas = meas
        for agg_id, share_seed in enumerate(share_seeds, 1):
            leader_meas = self.field.sub_vec(leader_meas, self._expand_meas_share(ctx, agg_id, share_seed))
        leader_proofs = self._leader_proofs_share(ctx, meas, prove_seed, [], share_seeds)
        leader = LeaderInputShare(leader_meas, leader_proofs, None)
        return None, [leader, *(HelperInputShare(share_seed, None) for share_seed in share_seeds)]

    def _shard_jointly(
        self, ctx: bytes, meas: list[int], nonce: bytes, seeds: list[bytes]
    ) -> tuple[list[bytes] | None, list[InputShare]]:
        # the draft's order: seed and blind of each helper, then the Leader's blind, then the prover's seed
        *helper_seeds, leader_blind, prove_seed = seeds
        share_seeds, blinds = helper_seeds[0::2], helper_seeds[1::2]
        leader_meas = meas
        parts = []
        for agg_id, (share_seed, blind) in enumerate(zip(share_seeds, blinds, strict=True), 1):
            share = self._expand_meas_share(ctx, agg_id, share_seed)
            leader_meas = self.field.sub_vec(leader_meas, share)
            parts.append(self._joint_rand_part(ctx, agg_id, blind, share, nonce))
        # the Leader's share is what all others leave, so that its part is made last and comes first
        parts.insert(LEADER, self._joint_rand_part(ctx, LEADER, leader_blind, leader_meas, nonce))
        joint_rands = self._joint_rands(ctx, self._joint_rand_seed(ctx, parts))
        leader_proofs = self._leader_proofs_share(ctx, meas, prove_seed, joint_rands, share_seeds)
        leader = LeaderInputShare(leader_meas, leader_proofs, leader_blind)
        return parts, [leader, *map(HelperInputShare, share_seeds, blinds)]

    def _leader_proofs_share(
        self,
        ctx: bytes,
        meas: list[int],
        prove_seed: bytes,
        joint_rands: list[int],
        share_seeds: list[bytes],
    ) -> list[int]:
        flp = self.flp
        prove_rands = self._expand_per_proof(ctx, USAGE_PROVE_RANDOMNESS, prove_seed, b"", flp.PROVE_RAND_LEN)
        proofs: list[int] = []
        for prove_rand, joint_rand in zip(self._split(prove_rands), self._split(joint_rands), strict=True):
            proofs += flp.prove(meas, prove_rand, joint_rand)
        for agg_id, share_seed in enumerate(share_seeds, 1):
            proofs = self.field.sub_vec(proofs, self._expand_proofs_share(ctx, agg_id, share_seed))
        return proofs

    # --- Aggregators

    def is_valid(self, agg_param: None, previous_agg_params: Sequence[None]) -> bool:
        """Whether a report may be aggregated (again): it may be aggregated only once."""
        return agg_param is None and not previous_agg_params

    def verify_init(
        self,
        verify_key: bytes,
        ctx: bytes,
        agg_id: int,
        agg_param: None,
        nonce: bytes,
        public_share: list[bytes] | None,
        input_share: InputShare,
    ) -> tuple[VerifyState, VerifierShare]:
        """Begin verification of one report. Run by Aggregator ``agg_id`` (0 is the Leader).

        Preconditions: ``VERIFY_KEY_SIZE`` bytes of key, known to the Aggregators only; ``NONCE_SIZE`` bytes
        of nonce; shares as ``decode_public_share`` and ``decode_input_share(agg_id, ...)`` return them.
        """
        _require_size(verify_key, self.VERIFY_KEY_SIZE, "verify_key")
        _require_size(nonce, self.NONCE_SIZE, "nonce")
        self._require_agg_param(agg_param)
        meas_share, proofs_share = self._expand_input_share(ctx, agg_id, input_share)
        joint_rands: list[int] = []
        joint_rand_part = corrected_seed = None
        if self._has_joint_rand:
            if input_share.blind is None or public_share is None or len(public_share) != self.SHARES:
                raise ValueError("a share lacks its blind or joint randomness parts")
            joint_rand_part = self._joint_rand_part(ctx, agg_id, input_share.blind, meas_share, nonce)
            # the own part is computed, not believed: if the Client stated another, `verify_next` finds other seeds
            parts = [*public_share[:agg_id], joint_rand_part, *public_share[agg_id + 1 :]]
            corrected_seed = self._joint_rand_seed(ctx, parts)
            joint_rands = self._joint_rands(ctx, corrected_seed)
        # from a key that no Client knows: a proof that is false can be made to hold at a point that is known
        query_rands = self._expand_per_proof(ctx, USAGE_QUERY_RANDOMNESS, verify_key, nonce, self.flp.QUERY_RAND_LEN)
        verifiers_share: list[int] = []
        for proof_share, query_rand, joint_rand in zip(
            self._split(proofs_share), self._split(query_rands), self._split(joint_rands), strict=True
        ):
            verifiers_share += self.flp.query(meas_share, proof_share, query_rand, joint_rand, self.SHARES)
        state = VerifyState(self.flp.truncate(meas_share), corrected_seed)
        return state, VerifierShare(verifiers_share, joint_rand_part)

    def verifier_shares_to_message(
        self, ctx: bytes, agg_param: None, verifier_shares: Sequence[VerifierShare]
    ) -> bytes | None:
        """Combine the verifier shares, Leader's first. Raises ``VerifyError`` if a proof does not hold."""
        self._require_agg_param(agg_param)
        if len(verifier_shares) != self.SHARES:
            raise ValueError(f"{len(verifier_shares)} verifier shares instead of {self.SHARES}")
        verifiers = [0] * (self.flp.VERIFIER_LEN * self.PROOFS)
        for share in verifier_shares:
            verifiers = self.field.add_vec(verifiers, share.verifiers_share)
        # every proof has to hold: each is another chance to find a false measurement out
        for verifier in self._split(verifiers):
            if not self.flp.decide(verifier):
                raise VerifyError("a proof does not hold")
        if not self._has_joint_rand:
            return None
        parts = [share.joint_rand_part for share in verifier_shares if share.joint_rand_part is not None]
        if len(parts) != self.SHARES:
            raise ValueError("a verifier share lacks its joint randomness part")
        return self._joint_rand_seed(ctx, parts)

    def verify_next(self, ctx: bytes, verify_state: VerifyState, verifier_message: bytes | None) -> list[int]:
        """The out share of a report that verified. Raises ``VerifyError`` if the Client used other joint
        randomness than the shares imply."""
        if self._has_joint_rand:
            seed = verify_state.corrected_joint_rand_seed
            if seed is None or verifier_message is None:
                raise ValueError("the joint randomness seed is missing")
            if not hmac.compare_digest(seed, verifier_message):
                raise VerifyError("the joint randomness does not match")
        return verify_state.out_share

    def agg_init(self, agg_param: None) -> list[int]:
        """The aggregate share of no reports: ``OUTPUT_LEN`` zeros."""
        self._require_agg_param(agg_param)
        return [0] * self.flp.OUTPUT_LEN

    def agg_update(self, agg_param: None, agg_share: list[int], out_share: list[int]) -> list[int]:
        """The aggregate share with one more out share."""
        self._require_agg_param(agg_param)
        return self.field.add_vec(agg_share, out_share)

    def merge(self, agg_param: None, agg_shares: Sequence[list[int]]) -> list[int]:
        """The sum of aggregate shares over disjoint sets of reports, held by one Aggregator."""
        self._require_agg_param(agg_param)
        columns = zip(*agg_shares, strict=True)
        merged = [sum(column) % self.field.MODULUS for column in columns]
        return merged or self.agg_init(agg_param)

    # --- Collector

    def unshard(self, agg_param: None, agg_shares: Sequence[list[int]], num_measurements: int) -> Any:
        """The aggregate result over ``num_measurements`` reports: an int for Count and Sum, else a list of them.

        Precondition: one aggregate share per Aggregator, over the same reports.
        """
        if len(agg_shares) != self.SHARES:
            raise ValueError(f"{len(agg_shares)} aggregate shares instead of {self.SHARES}")
        if any(len(share) != self.flp.OUTPUT_LEN for share in agg_shares):
            raise ValueError(f"an aggregate share does not have {self.flp.OUTPUT_LEN} elements")
        return self.flp.decode(self.merge(agg_param, agg_shares), num_measurements)

    # --- Expansion of seeds; binders as the draft lists them per usage

    def _dst(self, usage: int, ctx: bytes) -> bytes:
        return self._dst_prefix + usage.to_bytes(2, "big") + ctx

    def _expand(self, ctx: bytes, usage: int, seed: bytes, binder: bytes, length: int) -> list[int]:
        return self.XOF.expand_into_vec(self.field, seed, self._dst(usage, ctx), binder, length)

    def _expand_per_proof(self, ctx: bytes, usage: int, seed: bytes, binder: bytes, length: int) -> list[int]:
        binder = bytes((self.PROOFS,)) + binder
        return self._expand(ctx, usage, seed, binder, length * self.PROOFS)

    def _expand_meas_share(self, ctx: bytes, agg_id: int, share_seed: bytes) -> list[int]:
        return self._expand(ctx, USAGE_MEAS_SHARE, share_seed, bytes((agg_id,)), self.flp.MEAS_LEN)

    def _expand_proofs_share(self, ctx: bytes, agg_id: int, share_seed: bytes) -> list[int]:
        binder = bytes((agg_id,))
        return self._expand_per_proof(ctx, USAGE_PROOF_SHARE, share_seed, binder, self.flp.PROOF_LEN)

    def _expand_input_share(self, ctx: bytes, agg_id: int, input_share: InputShare) -> tuple[list[int], list[int]]:
        self._require_agg_id(agg_id)
        if isinstance(input_share, HelperInputShare) != (agg_id != LEADER):
            raise ValueError(f"the input share does not belong to aggregator {agg_id}")
        if isinstance(input_share, LeaderInputShare):
            return input_share.meas_share, input_share.proofs_share
        seed = input_share.share_seed
        # one seed, two streams: the usage in the domain separation tag keeps them independent
        return self._expand_meas_share(ctx, agg_id, seed), self._expand_proofs_share(ctx, agg_id, seed)

    def _joint_rand_part(self, ctx: bytes, agg_id: int, blind: bytes, meas_share: list[int], nonce: bytes) -> bytes:
        binder = bytes((agg_id,)) + nonce + self.field.encode_vec(meas_share)
        return self.XOF.derive_seed(blind, self._dst(USAGE_JOINT_RAND_PART, ctx), binder)

    def _joint_rand_seed(self, ctx: bytes, parts: Sequence[bytes]) -> bytes:
        dst = self._dst(USAGE_JOINT_RAND_SEED, ctx)
        return self.XOF.derive_seed(bytes(SEED_SIZE), dst, b"".join(parts))

    def _joint_rands(self, ctx: bytes, seed: bytes) -> list[int]:
        return self._expand_per_proof(ctx, USAGE_JOINT_RANDOMNESS, seed, b"", self.flp.JOINT_RAND_LEN)

    def _split(self, vec: list[int]) -> list[list[int]]:
        """One piece per proof, all of equal length (0 if ``vec`` is empty)."""
        size = len(vec) // self.PROOFS
        return [vec[proof * size : (proof + 1) * size] for proof in range(self.PROOFS)]

    def _require_agg_param(self, agg_param: None) -> None:
        if agg_param is not None:
            raise ValueError("Prio3 has no aggregation parameter")


class Prio3Count(Prio3[int]):
    """How many measurements are 1 (measurement: 0 or 1)."""

    def __init__(self, shares: int) -> None:
        super().__init__(Count(Field64), 0x00000001, shares)


class Prio3Sum(Prio3[int]):
    """The sum of integers in [0, ``max_measurement``]."""

    def __init__(self, shares: int, max_measurement: int) -> None:
        super().__init__(Sum(Field64, max_measurement), 0x00000002, shares)
        self.max_measurement = max_measurement


class Prio3SumVec(Prio3[Sequence[int]]):
    """The element-wise sum of vectors of ``length`` integers in [0, ``max_measurement``]."""

    def __init__(self, shares: int, length: int, max_measurement: int, chunk_length: int) -> None:
        super().__init__(SumVec(Field128, length, max_measurement, chunk_length), 0x00000003, shares)
        self.length = length
        self.max_measurement = max_measurement
        self.chunk_length = chunk_length


class Prio3Histogram(Prio3[int]):
    """How many measurements fall in each of ``length`` buckets (measurement: the bucket's index)."""

    def __init__(self, shares: int, length: int, chunk_length: int) -> None:
        super().__init__(Histogram(Field128, length, chunk_length), 0x00000004, shares)
        self.length = length
        self.chunk_length = chunk_length


class Prio3MultihotCountVec(Prio3[Sequence[int]]):
    """How often each of ``length`` positions is set (measurement: bits, at most ``max_weight`` of them 1)."""

    def __init__(self, shares: int, length: int, max_weight: int, chunk_length: int) -> None:
        super().__init__(MultihotCountVec(Field128, length, max_weight, chunk_length), 0x00000005, shares)
        self.length = length
        self.max_weight = max_weight
        self.chunk_length = chunk_length


def _require_size(value: bytes, size: int, what: str) -> None:
    if len(value) != size:
        raise ValueError(f"{what} has {len(value)} bytes, not {size}")
