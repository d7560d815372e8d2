"""Many reports at once, with the results that ``ping_pong`` and ``shard`` give for each of them.

``BatchVerifier`` and ``BatchProver`` use the kernels where there are some and pure Python where there are none. A
report that needs an exact second look (a drawn element was not below the modulus; a share has a wrong length) goes
through pure Python alone; its neighbours are not affected. No report is counted or refused on the word of a kernel
that was not sure.

A Client can search for seeds that need the second look (about 2^27 trials for a Field64 circuit). ``REDO_SHARE`` bounds
what that costs an Aggregator: reports beyond it in one batch are refused. By chance it happens to one report in 2^27.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tacit.errors import DecodeError
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
from tacit.vdaf.ping_pong import Continued, FinishedWithOutbound, MessageType
from tacit.vdaf.prio3 import Prio3, VerifyError, VerifyState
from tacit.vdaf.shares import SEED_SIZE

MIN_REDO = 8
REDO_SHARE = 64
"""Of a batch of n reports, at most max(MIN_REDO, n / REDO_SHARE) are verified again in pure Python."""

Result = TypeVar("Result")


class BatchVerifier:
    """One Aggregator's verification of one task's reports. ``redone`` counts reports verified again, exactly."""

    def __init__(self, vdaf: Prio3[Any], verify_key: bytes, ctx: bytes, level: int | None = None) -> None:
        """``level`` indexes ``native.LEVELS``; None takes the path of this process. Raises ``ValueError`` for a key of
        the wrong size."""
        if len(verify_key) != vdaf.VERIFY_KEY_SIZE:
            raise ValueError(f"verify_key has {len(verify_key)} bytes, not {vdaf.VERIFY_KEY_SIZE}")
        self._vdaf = vdaf
        self._verify_key = verify_key
        self._ctx = ctx
        self._kernels = kernels_for(vdaf, ctx, level)
        self.redone = 0

    def __repr__(self) -> str:
        return f"<BatchVerifier for {self._vdaf!r}>"

    @property
    def is_native(self) -> bool:
        """Whether kernels run, rather than pure Python."""
        return self._kernels is not None

    def leader_init(
        self, nonces: Sequence[bytes], public_shares: Sequence[bytes], input_shares: Sequence[bytes]
    ) -> list[Continued | VerifyError | DecodeError]:
        """``ping_pong.leader_initialized`` of every report: its result, or what it raises.

        Raises ``ValueError`` for sequences of different lengths and for a nonce of the wrong size.
        """

        def alone(at: int) -> Continued:
            return ping_pong.leader_initialized(
                self._vdaf, self._verify_key, self._ctx, None, nonces[at], public_shares[at], input_shares[at]
            )

        _require_one_per_report(nonces, public_shares, input_shares)
        if self._kernels is None:
            return [_attempt(alone, at) for at in range(len(nonces))]
        rows = [nonces, public_shares, input_shares]
        fits = self._fitting(rows, self._kernels.sizes.leader_share)
        chosen = [b"".join(row[at] for at in fits) for row in rows]
        verified = self._kernels.verify_init(ping_pong.LEADER, self._verify_key, *chosen)

        def finish(row: int) -> Continued | VerifyError | DecodeError:
            share = _row(verified.verifier_shares, row, len(fits))
            return Continued(self._state(verified, row), ping_pong.message(MessageType.INITIALIZE, share))

        return self._results(len(nonces), fits, verified.flags, finish, alone)

    def helper_init(
        self,
        nonces: Sequence[bytes],
        public_shares: Sequence[bytes],
        input_shares: Sequence[bytes],
        inbounds: Sequence[bytes],
    ) -> list[FinishedWithOutbound | VerifyError | DecodeError]:
        """``ping_pong.helper_initialized`` of every report: its result, or what it raises.

        Raises ``ValueError`` for sequences of different lengths and for a nonce of the wrong size.
        """

        def alone(at: int) -> FinishedWithOutbound:
            report = (nonces[at], public_shares[at], input_shares[at], inbounds[at])
            return ping_pong.helper_initialized(self._vdaf, self._verify_key, self._ctx, None, *report)

        _require_one_per_report(nonces, public_shares, input_shares, inbounds)
        kernels = self._kernels
        if kernels is None:
            return [_attempt(alone, at) for at in range(len(nonces))]
        rows = [nonces, public_shares, input_shares]
        fits = self._fitting(rows, kernels.helper_share_size)
        payloads = [_initialize_payload(inbound, kernels.sizes.verifier_share) for inbound in inbounds]
        fits = [at for at in fits if payloads[at]]
        chosen = [b"".join(row[at] for at in fits) for row in rows]
        verified = kernels.verify_init(ping_pong.HELPER, self._verify_key, *chosen)
        leader_shares = b"".join(payloads[at] for at in fits)
        messages, verdicts = kernels.decide(leader_shares, verified.verifier_shares, verified.seeds)

        def finish(row: int) -> FinishedWithOutbound | VerifyError | DecodeError:
            if verdicts[row]:
                return self._refusal(verdicts[row])
            message = ping_pong.message(MessageType.FINISH, _row(messages, row, len(fits)))
            return FinishedWithOutbound(self._state(verified, row).out_share, message)

        return self._results(len(nonces), fits, verified.flags, finish, alone)

    def _fitting(self, rows: Sequence[Sequence[bytes]], input_share_size: int) -> list[int]:
        """Indices of the reports whose encodings have the lengths that the kernels need."""
        public_size = self._vdaf.SHARES * SEED_SIZE if self._vdaf.flp.JOINT_RAND_LEN else 0
        sizes = (self._vdaf.NONCE_SIZE, public_size, input_share_size)
        return [at for at, report in enumerate(zip(*rows, strict=True)) if tuple(map(len, report)) == sizes]

    def _results(
        self,
        reports: int,
        fits: Sequence[int],
        flags: bytes,
        finish: Callable[[int], Result | VerifyError | DecodeError],
        alone: Callable[[int], Result],
    ) -> list[Result | VerifyError | DecodeError]:
        """Results in the order of the reports. Those that no kernel could take fail in pure Python, and soon."""
        allowed = max(MIN_REDO, reports // REDO_SHARE)
        row_of = {at: row for row, at in enumerate(fits)}
        results: list[Result | VerifyError | DecodeError] = []
        for at in range(reports):
            row = row_of.get(at)
            if row is None:
                results.append(_attempt(alone, at))
            elif flags[row] & MALFORMED:
                results.append(self._out_of_range())
            elif flags[row] & REDO and allowed:
                allowed -= 1
                self.redone += 1
                results.append(_attempt(alone, at))
            elif flags[row] & REDO:
                results.append(VerifyError("too many reports of a batch need verifying again"))
            else:
                results.append(finish(row))
        return results

    def _state(self, verified: VerifiedRows, row: int) -> VerifyState:
        out_share = self._vdaf.field.unpack(_row(verified.out_shares, row, len(verified.flags)))
        return VerifyState(out_share, _row(verified.seeds, row, len(verified.flags)) or None)

    def _refusal(self, verdict: int) -> VerifyError | DecodeError:
        if verdict & BAD_SHARE:
            return self._out_of_range()
        return VerifyError("a proof does not hold" if verdict & BAD_PROOF else "the joint randomness does not match")

    def _out_of_range(self) -> DecodeError:
        return DecodeError(f"a {self._vdaf.field.__name__} element is not below the modulus")


class BatchProver:
    """The Client's ``shard`` for many measurements, each with its own nonce and randomness."""

    def __init__(self, vdaf: Prio3[Any], ctx: bytes, level: int | None = None) -> None:
        self._vdaf = vdaf
        self._ctx = ctx
        self._kernels = kernels_for(vdaf, ctx, level)

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
        if kernels is None or sizes - {(vdaf.NONCE_SIZE, vdaf.RAND_SIZE)}:
            return [self._alone(*report) for report in zip(measurements, nonces, rands, strict=True)]
        packed = pack_measurements(vdaf, measurements)
        made = kernels.shard(packed, b"".join(nonces), b"".join(rands))
        reports = []
        for row, flag in enumerate(made.flags):
            if flag:
                reports.append(self._alone(measurements[row], nonces[row], rands[row]))
                continue
            public_share = _row(made.public_shares, row, len(nonces))
            leader = _row(made.leader_shares, row, len(nonces))
            reports.append((public_share, leader, rands[row][: kernels.helper_share_size]))
        return reports

    def _alone(self, measurement: Any, nonce: bytes, rand: bytes) -> tuple[bytes, bytes, bytes]:
        vdaf = self._vdaf
        public_share, (leader, helper) = vdaf.shard(self._ctx, measurement, nonce, rand)
        encoded = vdaf.encode_input_share(leader), vdaf.encode_input_share(helper)
        return vdaf.encode_public_share(public_share), *encoded


def _attempt(alone: Callable[[int], Result], at: int) -> Result | VerifyError | DecodeError:
    try:
        return alone(at)
    except (VerifyError, DecodeError) as error:
        return error


def _initialize_payload(inbound: bytes, size: int) -> bytes:
    """The verifier share of an ``initialize`` message, or nothing where that has not the right form."""
    head = ping_pong.message(MessageType.INITIALIZE, bytes(size))[:-size]
    return inbound[len(head) :] if len(inbound) == len(head) + size and inbound.startswith(head) else b""


def _row(data: bytes, row: int, rows: int) -> bytes:
    size = len(data) // rows
    return data[row * size : (row + 1) * size]


def _require_one_per_report(first: Sequence[Any], *others: Sequence[Any]) -> None:
    if any(len(other) != len(first) for other in others):
        raise ValueError("a batch needs one of everything per report")
