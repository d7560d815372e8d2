"""What the single server of a model does with reports (design rule P24): open, check, read, add up. Pure.

A report counts once, with a token of the recipe's slot that is bound to it by both secrets behind its nonce; the model
defines how its payload is read (``Reading``). Whether a report id or a token was used before is decided by the store,
in the transaction that counts. Devices must not import this module, because it can decrypt.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tacit.dap_errors import ReportError, ReportRejected
from tacit.errors import CryptoError, DecodeError
from tacit.hpke import KeyPair
from tacit.messages.one_server import OneServerReport
from tacit.roles.aggregator import Rejection
from tacit.roles.crypto import OPENSSL, JobCrypto
from tacit.task import CLOCK_LEEWAY
from tacit.task.one_server import Contents, OneServerTask
from tacit.task.onward import Onward
from tacit.task.shuffled import Bundling
from tacit.tokens import binding
from tacit.tokens.binding import Holder
from tacit.tokens.slots import TokenVerifier


class Read(NamedTuple):
    """What a report adds: ``numbers`` to the running sums, cell by cell, and a ``record`` that is kept until the
    release."""

    numbers: tuple[int, ...]
    record: bytes = b""


class Reading(ABC):
    """Reads the payloads of one recipe's reports. ``record_size``: bytes of the record that is kept of each report; 0
    if reports are only added up."""

    record_size: int = 0

    @abstractmethod
    def read(self, report_id: bytes, payload: bytes) -> Read:
        """The randomised answer. Raises ``ReportRejected``."""

    def shown(self, numbers: tuple[int, ...], record: bytes) -> dict[str, str | int]:
        """What the server could read of one report, for an observer."""
        return {"randomised_answer": record.hex() or " ".join(map(str, numbers))}

    def search(self, records: Iterable[bytes]) -> dict[str, Any]:
        """What is released beside the sums: found in the ``records`` of all reports, several in one entry. Empty if
        reports are only added up. ``ValueError`` if there is nothing to find."""
        del records
        return {}


class Counting(Reading):
    """A reading that keeps no records: reports are only added up, and nothing is searched for."""

    def read(self, report_id: bytes, payload: bytes) -> Read:
        """What ``numbers`` finds in the payload, without a record. Raises ``ReportRejected``."""
        del report_id
        return Read(self.numbers(payload))

    @abstractmethod
    def numbers(self, payload: bytes) -> tuple[int, ...]:
        """The randomised answer, cell by cell. Raises ``ReportRejected``."""


@dataclass(frozen=True)
class AnalyzerParty:
    """The server's view of one recipe: the secrets that it holds for it. ``closes``: the POSIX time from which on it no
    longer counts or releases anything."""

    task: OneServerTask
    key_pair: KeyPair = field(repr=False)
    verifier: TokenVerifier = field(repr=False)
    reading: Reading = field(repr=False)
    closes: float
    bundling: Bundling | None = field(default=None, repr=False)
    """How devices make the messages that a shuffler forwards to the analyzer; None in a model without a shuffler."""
    onward: Onward | None = field(default=None, repr=False)
    """What this server, a shuffler, forwards, and to whom; None for any other server."""

    def check_time(self, now: float, grace: float) -> None:
        """Check that ``now`` lies between the interval's start, less the tolerated difference of clocks, and its end
        plus ``grace`` seconds. Raises ``ReportRejected``: ``REPORT_TOO_EARLY``, ``TASK_EXPIRED``."""
        # these reports state no time (P24): what counts is when they arrive
        if now + CLOCK_LEEWAY < self.task.start_seconds:
            raise ReportRejected(ReportError.REPORT_TOO_EARLY, "too-early")
        if now >= self.task.end_seconds + grace:
            raise ReportRejected(ReportError.TASK_EXPIRED, "after-interval")


class Counted(NamedTuple):
    """A report that counts unless it was counted before: its token's nullifier, and what it adds."""

    nullifier: bytes
    numbers: tuple[int, ...]
    record: bytes = b""


def open_reports(
    party: AnalyzerParty, reports: Sequence[OneServerReport], crypto: JobCrypto = OPENSSL
) -> list[Counted | Rejection]:
    """What each report adds, or why it does not count: all ciphertexts are opened first, then all tokens checked, then
    each payload read. A rejection after a good token includes its nullifier: it stays spent (P10)."""
    verdicts: dict[int, Counted | ReportRejected] = {}
    spent: dict[int, bytes] = {}
    contents = _open_reports(party, reports, crypto, verdicts)
    nullifiers = _nullifiers(party.verifier, list(contents.values()), crypto)
    for (at, one), nullifier in zip(contents.items(), nullifiers, strict=True):
        if isinstance(nullifier, ReportRejected):
            verdicts[at] = nullifier
            continue
        spent[at] = nullifier
        try:
            verdicts[at] = Counted(nullifier, *party.reading.read(reports[at].report_id, one.payload))
        except ReportRejected as rejected:
            verdicts[at] = rejected
    return [_verdict(report, verdicts[at], spent.get(at)) for at, report in enumerate(reports)]


def _nullifiers(
    verifier: TokenVerifier, contents: Sequence[Contents], crypto: JobCrypto
) -> list[bytes | ReportRejected]:
    """The nullifier of each token, or why it is rejected. All come with the secrets behind them, or none does."""

    def verify(chosen: Sequence[bytes]) -> Sequence[bool]:
        return crypto.verify_tokens(verifier, chosen)

    # with both secrets at hand the check is the same for either holder
    evidence = [one.preimages.extension(one.token, Holder.LEADER) for one in contents if one.preimages is not None]
    if evidence:
        return binding.check_all(evidence, Holder.LEADER, verifier, verify)
    return binding.check_tokens([one.token for one in contents], verifier, verify)


def _open_reports(
    party: AnalyzerParty,
    reports: Sequence[OneServerReport],
    crypto: JobCrypto,
    found: dict[int, Counted | ReportRejected],
) -> dict[int, Contents]:
    task = party.task
    due = [at for at, report in enumerate(reports) if report.sealed.config_id == task.hpke_config.id]
    for at in set(range(len(reports))).difference(due):
        found[at] = ReportRejected(ReportError.HPKE_UNKNOWN_CONFIG_ID, "hpke-config")
    sealed = [(reports[at].sealed.enc, task.aad(reports[at].report_id), reports[at].sealed.payload) for at in due]
    contents: dict[int, Contents] = {}
    for at, plaintext in zip(due, crypto.open_all(party.key_pair, task.suite, task.info, sealed), strict=True):
        if isinstance(plaintext, CryptoError):
            found[at] = ReportRejected(ReportError.HPKE_DECRYPT_ERROR, "hpke-decrypt")
            continue
        try:
            contents[at] = task.contents(plaintext)
        except DecodeError:
            found[at] = ReportRejected(ReportError.INVALID_MESSAGE, "report-malformed")
    return contents


def _verdict(report: OneServerReport, found: Counted | ReportRejected, nullifier: bytes | None) -> Counted | Rejection:
    if isinstance(found, Counted):
        return found
    return Rejection(report.report_id, found.code, found.cause, nullifier)


def add_up(cells: int, rows: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The sum of opened reports, cell by cell: ``cells`` numbers, also of no reports."""
    return tuple(sum(row[cell] for row in rows) for cell in range(cells))
