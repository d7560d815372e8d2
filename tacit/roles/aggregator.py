"""The common handling of report shares by leader and helper (DAP-18 sections 4.5.3.3 and 4.5.3.4).

Which secrets are used, which times and extensions are valid, under which batch bucket a report counts, and how buckets
are merged. Pure: no clock, no storage, no randomness. Whether a report id, a nullifier or a batch was used before is
decided by the store, in the transaction that commits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from tacit.dap_errors import ReportError, ReportRejected
from tacit.errors import Fatal
from tacit.extension_points import STATE_KEYS
from tacit.hpke import KeyPair
from tacit.messages import (
    CHECKSUM_SIZE,
    BatchMode,
    Extension,
    Role,
    check_report_extensions,
)
from tacit.ports import StateKey
from tacit.roles.crypto import JobCrypto
from tacit.task import BatchClose, Task
from tacit.tokens import binding
from tacit.tokens.slots import TokenVerifier
from tacit.vdaf.native.batch import BatchVerifier


@dataclass(frozen=True)
class Party:
    """One aggregator's view of one task: its role and the secrets that it holds for the task. ``closes``: the POSIX
    time from which on it no longer counts or releases anything.

    A report counts once, and only with a token of the task's slot. Its *evidence* is the token's extension; the token's
    nullifier marks it as spent. Where other evidence is needed (``tacit serve interop``, for DAP tasks without tokens),
    a separate party class is used; this one accepts nothing without its ``verifier``.
    """

    task: Task
    role: Role
    verify_key: bytes = field(repr=False)
    key_pair: KeyPair = field(repr=False)
    verifier: TokenVerifier | None = field(repr=False)
    closes: float
    state_key: StateKey | None = field(default=None, repr=False)
    """Opens input shares that were encrypted on the device; set exactly where the task has a state key for the role."""

    EXTENSION_TYPE: ClassVar[int | None] = binding.TOKEN_EXTENSION_TYPE
    """Type of the single private extension that holds the evidence; ``None``: a report has none."""

    def __post_init__(self) -> None:
        """Raises ``Fatal`` for a missing or wrong private key to the task's state key."""
        held = None if self.state_key is None else self.state_key.public
        if held != self.task.state_key(self.role):
            raise Fatal("the state key is not the one that the task names")

    @cached_property
    def batch(self) -> BatchVerifier:
        """Verifies many of the task's reports at once; made on first use, usable from any thread."""
        return BatchVerifier(self.task.vdaf, self.verify_key, self.task.ctx)

    @property
    def tokens(self) -> TokenVerifier:
        """The token verifier. Raises ``Fatal`` without one: then nothing is accepted."""
        if self.verifier is None:
            raise Fatal("a task's tokens cannot be checked")
        return self.verifier

    def evidence(self, public: Sequence[Extension], private: Sequence[Extension]) -> bytes:
        """The evidence in a report's extensions; raises ``ReportRejected``."""
        return token_extension(public, private)

    def nullifiers(
        self, _report_ids: Sequence[bytes], evidence: Sequence[bytes], crypto: JobCrypto
    ) -> list[bytes | ReportRejected]:
        """Check the evidence of reports: return the nullifier of each, or why it does not count."""
        verifier = self.tokens
        return binding.check_all(evidence, self.role, verifier, lambda chosen: crypto.verify_tokens(verifier, chosen))

    def input_share(self, payload: bytes) -> bytes:
        """The VDAF's encoded input share in an HPKE plaintext. Raises ``DecodeError`` for bytes that are not
        ciphertexts or carry no share."""
        if self.state_key is None:
            return payload
        cells = self.task.vdaf.flp.OUTPUT_LEN
        share: bytes = STATE_KEYS["open-share"](self.state_key, int(self.role is Role.HELPER), cells, payload)
        return share


@dataclass(frozen=True)
class Rejection:
    """One report that does not count. ``nullifier`` is set when the token was good: it stays spent (P10).

    ``final`` is False only for a report that the same aggregator may accept later. ``error`` is an error on our own
    side (cause "internal").
    """

    report_id: bytes
    code: ReportError
    cause: str
    nullifier: bytes | None = field(default=None, repr=False)
    final: bool = True
    error: Exception | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Tally:
    """The content of a batch bucket: encoded aggregate share, count, checksum, and first and last report time."""

    count: int
    checksum: bytes
    first_time: int
    last_time: int
    agg_share: bytes = field(repr=False)


def check_report_time(task: Task, time: int, now: float) -> None:
    """Validate the time of an input share; raises ``ReportRejected``."""
    if task.too_early(time, now):
        raise ReportRejected(ReportError.REPORT_TOO_EARLY, "too-early")
    if time < task.interval.start:
        raise ReportRejected(ReportError.TASK_NOT_STARTED, "before-interval")
    if time >= task.interval.end:
        raise ReportRejected(ReportError.TASK_EXPIRED, "after-interval")


def token_extension(public: Sequence[Extension], private: Sequence[Extension]) -> bytes:
    """The data of the only extension of a Tacit report, which is private; raises ``ReportRejected``."""
    check_report_extensions(public, private, (binding.TOKEN_EXTENSION_TYPE,))
    if public:
        # both aggregators see public extensions, while the nonce is made of one secret for each of them (P10)
        raise ReportRejected(ReportError.INVALID_MESSAGE, "token-public")
    if not private:
        raise ReportRejected(ReportError.INVALID_MESSAGE, "token-missing")
    return private[0].extension_data


def bucket_of(task: Task, batch_id: bytes | None, time: int) -> bytes:
    """The key of the bucket in which a report of ``time`` counts: its batch id, or the start of the task's interval as
    8 bytes. A query names the whole interval (P13), so nothing finer is needed, and one sum over all contributions so
    far reveals less than one per minute. Where queries name parts of the interval, it is the report's time as 8 bytes.
    Raises ``ValueError`` where a leader-selected task has no batch."""
    if task.batch_mode is BatchMode.LEADER_SELECTED:
        if batch_id is None:
            raise ValueError("a leader-selected report needs a batch id")
        return batch_id
    return bucket_key(time if task.batch_close is BatchClose.ON_QUERY else task.interval.start)


def bucket_key(time: int) -> bytes:
    """The key of a bucket of reports by their time; keys sort in the order of times."""
    return time.to_bytes(8, "big")


def checksum_of(report_ids: Iterable[bytes]) -> bytes:
    """XOR of the SHA-256 of each report id (DAP-18 section 4.5.3.5)."""
    total = 0
    for report_id in report_ids:
        # XOR: the order in which the two aggregators commit their jobs does not matter
        total ^= int.from_bytes(hashlib.sha256(report_id).digest(), "big")
    return total.to_bytes(CHECKSUM_SIZE, "big")


def merge(task: Task, tallies: Iterable[Tally]) -> Tally | None:
    """One tally for several buckets, ``None`` for none."""
    parts = list(tallies)
    if not parts:
        return None
    vdaf = task.vdaf
    checksum = 0
    for tally in parts:
        checksum ^= int.from_bytes(tally.checksum, "big")
    merged = vdaf.merge(None, [vdaf.decode_agg_share(tally.agg_share) for tally in parts])
    return Tally(
        count=sum(tally.count for tally in parts),
        checksum=checksum.to_bytes(CHECKSUM_SIZE, "big"),
        first_time=min(tally.first_time for tally in parts),
        last_time=max(tally.last_time for tally in parts),
        agg_share=vdaf.encode_agg_share(merged),
    )
