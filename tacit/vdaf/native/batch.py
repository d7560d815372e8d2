"""Many reports at once, with the results that ``ping_pong`` and ``shard`` give for each of them.

``BatchVerifier`` and ``BatchProver`` use the kernels where they are available and pure Python elsewhere. A report that
needs an exact second verification (a drawn element was not below the modulus; a share has a wrong length) is verified
in pure Python alone; its neighbours are not affected. No report is counted or refused because of a kernel that was not
certain.

A Client can search for seeds that need the second verification (about 2^27 trials for a Field64 circuit).
``REDO_SHARE`` bounds what that costs an Aggregator: reports beyond it in one batch are refused. By chance it happens to
one report in 2^27.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tacit.errors import DecodeError
from tacit.fast_paths import AGGREGATED, SHARDED, VERIFIED
from tacit.vdaf import ping_pong
from tacit.vdaf.native.kernels import (
    BAD_PROOF,
    BAD_SHARE,
    MALFORMED,
    REDO,
    VerifiedRows,
    kernels_for,
    pack_measurements,
)
from tacit.vdaf.ping_pong import MessageType
from tacit.vdaf.prio3 import Prio3, VerifyError
from tacit.vdaf.shares import SEED_SIZE

MIN_REDO = 8
REDO_SHARE = 64
"""Of a batch of n reports, at most max(MIN_REDO, n / REDO_SHARE) are verified again in pure Python."""

Row = tuple[bytes, bytes, bytes]
"""The results for one valid report: ping-pong message, encoded out share, joint randomness seed."""


@dataclass(frozen=True, slots=True)
class VerifiedBatch:
    """The outcome of a batch. ``errors`` has an entry per report: why it is refused, or None. Everything else concerns
    only the other reports, in order: the ping-pong message of each, and rows of bytes of equal size."""

    errors: list[VerifyError | DecodeError | None]
    outbounds: list[bytes] = field(repr=False)
    out_shares: bytes = field(repr=False)
    """The encoded out shares of all verified reports, one after another."""
    seeds: bytes = field(repr=False)
    """Joint randomness seeds, which the Leader compares with the Helper's answer; empty for a VDAF that has none."""


class BatchVerifier:
    """One Aggregator's verification of one task's reports; safe to share between threads.

    ``redone`` counts reports verified again, exactly.
    """

    def __init__(self, vdaf: Prio3[Any], verify_key: bytes, ctx: bytes, level: int | None = None) -> None:
        """``level`` indexes ``native.LEVELS``; None chooses the path of this process. Raises ``ValueError`` for a key
        of the wrong size."""
        if len(verify_key) != vdaf.VERIFY_KEY_SIZE:
            raise ValueError(f"verify_key has {len(verify_key)} bytes, not {vdaf.VERIFY_KEY_SIZE}")
        self._vdaf = vdaf
        self._verify_key = verify_key
        self._ctx = ctx
        self._kernels = kernels_for(vdaf, ctx, level)
        self.redone = 0

    def __repr__(self) -> str:
        return f"<BatchVerifier for {self._vdaf!r}>"

    def leader(
        self,
        nonces: Sequence[bytes],
        public_shares: Sequence[bytes],
        input_shares: Sequence[bytes],
        *,
        bounded: bool = True,
    ) -> VerifiedBatch:
        """``ping_pong.leader_initialized`` of every report. ``bounded`` False: every report that needs a second
        verification gets it (for reports that got it before, in another batch).

        Raises ``ValueError`` for sequences of different lengths and for a nonce of the wrong size.
        """

        def alone(at: int) -> Row:
            report = (nonces[at], public_shares[at], input_shares[at])
            made = ping_pong.leader_initialized(self._vdaf, self._verify_key, self._ctx, None, *report)
            out_share = self._vdaf.encode_out_share(made.state.out_share)
            return made.outbound, out_share, made.state.corrected_joint_rand_seed or b""

        _require_one_per_report(nonces, public_shares, input_shares)
        kernels = self._kernels
        VERIFIED.items += len(nonces)
        if kernels is None:
            VERIFIED.fallbacks += len(nonces)
            return _pack([_attempt(alone, at) for at in range(len(nonces))])
        rows = [nonces, public_shares, input_shares]
        fits = self._fitting(rows, kernels.sizes.leader_share)
        verified = kernels.verify_init(ping_pong.LEADER, self._verify_key, *_chosen(rows, fits))
        head = ping_pong.head(MessageType.INITIALIZE, kernels.sizes.verifier_share)
        outbounds = [head + share for share in _rows(verified.verifier_shares, len(fits))]
        allowed = _most_redone(len(nonces)) if bounded else len(nonces)
        # no verdicts: the Helper decides, who has both verifier shares
        return self._batch(len(nonces), fits, verified, outbounds, bytes(len(fits)), alone, allowed)

    def helper(
        self,
        nonces: Sequence[bytes],
        public_shares: Sequence[bytes],
        input_shares: Sequence[bytes],
        inbounds: Sequence[bytes],
    ) -> VerifiedBatch:
        """``ping_pong.helper_initialized`` of every report.

        Raises ``ValueError`` for sequences of different lengths and for a nonce of the wrong size.
        """

        def alone(at: int) -> Row:
            report = (nonces[at], public_shares[at], input_shares[at], inbounds[at])
            made = ping_pong.helper_initialized(self._vdaf, self._verify_key, self._ctx, None, *report)
            return made.outbound, self._vdaf.encode_out_share(made.out_share), b""

        _require_one_per_report(nonces, public_shares, input_shares, inbounds)
        kernels = self._kernels
        VERIFIED.items += len(nonces)
        if kernels is None:
            VERIFIED.fallbacks += len(nonces)
            return _pack([_attempt(alone, at) for at in range(len(nonces))])
        rows = [nonces, public_shares, input_shares]
        head = ping_pong.head(MessageType.INITIALIZE, kernels.sizes.verifier_share)
        size = len(head) + kernels.sizes.verifier_share
        fits = self._fitting(rows, kernels.helper_share_size)
        fits = [at for at in fits if len(inbounds[at]) == size and inbounds[at].startswith(head)]
        verified = kernels.verify_init(ping_pong.HELPER, self._verify_key, *_chosen(rows, fits))
        leader_shares = b"".join([inbounds[at][len(head) :] for at in fits])
        messages, verdicts = kernels.decide(leader_shares, verified.verifier_shares, verified.seeds)
        finish = ping_pong.head(MessageType.FINISH, kernels.sizes.seed)
        outbounds = [finish + message for message in _rows(messages, len(fits))]
        # reports whose message has another form are in no row: they fail in Python, each with its own error
        verified_batch = self._batch(len(nonces), fits, verified, outbounds, verdicts, alone, _most_redone(len(nonces)))
        # `decide` has compared the Helper's seeds; only the Leader's are compared later
        return replace(verified_batch, seeds=b"")

    def aggregate(self, out_shares: bytes) -> bytes:
        """The encoded aggregate share of rows of out shares. Raises ``ValueError`` for a row that is not whole."""
        size = self._vdaf.field.ENCODED_SIZE * self._vdaf.flp.OUTPUT_LEN
        count, rest = divmod(len(out_shares), size)
        if rest:
            raise ValueError(f"{len(out_shares)} bytes do not hold whole out shares of {size}")
        AGGREGATED.items += count
        if self._kernels is not None:
            # the kernel takes reduced elements only; rows that this class returned are, and are not checked again
            return self._kernels.aggregate(out_shares, b"\x01" * count)
        AGGREGATED.fallbacks += count
        share = self._vdaf.agg_init(None)
        for row in _rows(out_shares, count):
            share = self._vdaf.agg_update(None, share, self._vdaf.field.decode_vec(row))
        return self._vdaf.encode_agg_share(share)

    def _fitting(self, rows: Sequence[Sequence[bytes]], input_share_size: int) -> list[int]:
        """Indices of the reports whose encodings have the lengths that the kernels need."""
        public_size = self._vdaf.SHARES * SEED_SIZE if self._vdaf.flp.JOINT_RAND_LEN else 0
        sizes = (self._vdaf.NONCE_SIZE, public_size, input_share_size)
        return [at for at, report in enumerate(zip(*rows, strict=True)) if tuple(map(len, report)) == sizes]

    def _batch(
        self,
        reports: int,
        fits: Sequence[int],
        verified: VerifiedRows,
        outbounds: list[bytes],
        verdicts: bytes,
        alone: Callable[[int], Row],
        allowed: int,
    ) -> VerifiedBatch:
        """Results in the order of the reports, with at most ``allowed`` second verifications. Reports that no kernel
        could process fail in pure Python, and quickly."""
        if len(fits) == reports and not any(verified.flags) and not any(verdicts):
            return VerifiedBatch([None] * reports, outbounds, verified.out_shares, verified.seeds)
        rows = list(
            zip(outbounds, *(_rows(kind, len(fits)) for kind in (verified.out_shares, verified.seeds)), strict=True)
        )
        row_of = {at: row for row, at in enumerate(fits)}
        results: list[Row | VerifyError | DecodeError] = []
        for at in range(reports):
            row = row_of.get(at)
            if row is None:
                VERIFIED.fallbacks += 1
                results.append(_attempt(alone, at))
            elif verified.flags[row] & MALFORMED:
                # before REDO: this is certain, and must not spend a second verification
                results.append(self._out_of_range())
            elif verified.flags[row] & REDO and allowed:
                allowed -= 1
                self.redone += 1
                VERIFIED.fallbacks += 1
                results.append(_attempt(alone, at))
            elif verified.flags[row] & REDO:
                results.append(VerifyError("too many reports of a batch need verifying again"))
            else:
                results.append(self._refusal(verdicts[row]) if verdicts[row] else rows[row])
        return _pack(results)

    def _refusal(self, verdict: int) -> VerifyError | DecodeError:
        if verdict & BAD_SHARE:
            return self._out_of_range()
        return VerifyError("a proof does not hold" if verdict & BAD_PROOF else "the joint randomness does not match")

    def _out_of_range(self) -> DecodeError:
        return DecodeError(f"a {self._vdaf.field.__name__} element is not below the modulus")


class BatchProver:
    """The Client's ``shard`` for many measurements, each with its own nonce and randomness."""

    def __init__(self, vdaf: Prio3[Any], ctx: bytes, level: int | None = None, *, alone: bool = False) -> None:
        """``level`` as for ``BatchVerifier``, ``alone`` as for ``kernels_for``."""
        self._vdaf = vdaf
        self._ctx = ctx
        self._kernels = kernels_for(vdaf, ctx, level, alone=alone)

    def shard(
        self, measurements: Sequence[Any], nonces: Sequence[bytes], rands: Sequence[bytes]
    ) -> list[tuple[bytes, bytes, bytes]]:
        """Encoded public share, Leader's and Helper's input share per report.

        Raises ``ValueError`` for sequences of different lengths, for a nonce or rand of the wrong size and for a
        measurement out of range.
        """
        _require_one_per_report(measurements, nonces, rands)
        vdaf, kernels = self._vdaf, self._kernels
        sizes = {(len(nonce), len(rand)) for nonce, rand in zip(nonces, rands, strict=True)}
        SHARDED.items += len(nonces)
        if kernels is None or sizes - {(vdaf.NONCE_SIZE, vdaf.RAND_SIZE)}:
            return [self._alone(*report) for report in zip(measurements, nonces, rands, strict=True)]
        packed = pack_measurements(vdaf, measurements)
        made = kernels.shard(packed, b"".join(nonces), b"".join(rands))
        reports = []
        for row, flag in enumerate(made.flags):
            # a drawn element was not certain, or the measurement is out of range: that raises here, with its reason
            if flag:
                reports.append(self._alone(measurements[row], nonces[row], rands[row]))
                continue
            public_share = _row(made.public_shares, row, len(nonces))
            leader = _row(made.leader_shares, row, len(nonces))
            reports.append((public_share, leader, rands[row][: kernels.helper_share_size]))
        return reports

    def _alone(self, measurement: Any, nonce: bytes, rand: bytes) -> tuple[bytes, bytes, bytes]:
        SHARDED.fallbacks += 1
        vdaf = self._vdaf
        public_share, (leader, helper) = vdaf.shard(self._ctx, measurement, nonce, rand)
        encoded = vdaf.encode_input_share(leader), vdaf.encode_input_share(helper)
        return vdaf.encode_public_share(public_share), *encoded


def _most_redone(reports: int) -> int:
    return max(MIN_REDO, reports // REDO_SHARE)


def _attempt(alone: Callable[[int], Row], at: int) -> Row | VerifyError | DecodeError:
    try:
        return alone(at)
    except (VerifyError, DecodeError) as error:
        return error


def _pack(results: Sequence[Row | VerifyError | DecodeError]) -> VerifiedBatch:
    good = [result for result in results if isinstance(result, tuple)]
    return VerifiedBatch(
        [None if isinstance(result, tuple) else result for result in results],
        [outbound for outbound, _, _ in good],
        b"".join([out_share for _, out_share, _ in good]),
        b"".join([seed for _, _, seed in good]),
    )


def _chosen(columns: Sequence[Sequence[bytes]], fits: Sequence[int]) -> list[bytes]:
    if all(len(fits) == len(column) for column in columns):
        return [b"".join(column) for column in columns]
    return [b"".join([column[at] for at in fits]) for column in columns]


def _rows(data: bytes, rows: int) -> list[bytes]:
    """``data`` cut into ``rows`` pieces of equal size."""
    size = len(data) // rows if rows else 0
    return [data[at * size : (at + 1) * size] for at in range(rows)]


def _row(data: bytes, row: int, rows: int) -> bytes:
    size = len(data) // rows
    return data[row * size : (row + 1) * size]


def _require_one_per_report(first: Sequence[Any], *others: Sequence[Any]) -> None:
    if any(len(other) != len(first) for other in others):
        raise ValueError("a batch needs one value of each kind per report")
