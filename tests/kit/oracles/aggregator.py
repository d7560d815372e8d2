"""The work on one report share that leader and helper share (DAP-18 sections 4.5.3.3 and 4.5.3.4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tacit.messages import HpkeCiphertext, ReportMetadata
from tacit.roles.aggregator import Party, Tally, bucket_of, check_report_time, checksum_of
from tacit.roles.crypto import OPENSSL
from tacit.task import Task
from tacit.tokens import binding
from tests.kit.oracles.sealing import open_input_share


@dataclass(frozen=True)
class OpenedShare:
    """A decrypted, validated input share: the VDAF's bytes and the spend-once tag of its token."""

    payload: bytes = field(repr=False)
    nullifier: bytes = field(repr=False)


@dataclass(frozen=True)
class Accepted:
    """One verified report, ready to be committed. ``time`` in units of the task's precision."""

    report_id: bytes
    time: int
    nullifier: bytes = field(repr=False)
    out_share: list[int] = field(repr=False)


def open_report_share(
    party: Party, metadata: ReportMetadata, public_share: bytes, ciphertext: HpkeCiphertext, now: float
) -> OpenedShare:
    """Validate, decrypt and check the token of one report share; raises ``ReportRejected``."""
    check_report_time(party.task, metadata.time, now)
    share = open_input_share(party.task, party.role, party.key_pair, metadata, public_share, ciphertext)
    evidence = party.evidence(metadata.public_extensions, share.private_extensions)
    return OpenedShare(share.payload, _nullifier(party, metadata.report_id, evidence))


def _nullifier(party: Party, report_id: bytes, evidence: bytes) -> bytes:
    """Check one report's evidence; raises ``ReportRejected``."""
    if party.EXTENSION_TYPE is not None:
        return binding.check(binding.open_extension(evidence, party.role), party.role, party.tokens)
    (found,) = party.nullifiers([report_id], [evidence], OPENSSL)
    assert isinstance(found, bytes)
    return found


def fold(task: Task, accepted: Iterable[Accepted], batch_id: bytes | None) -> dict[bytes, Tally]:
    """The tallies of accepted reports, by bucket."""
    groups: dict[bytes, list[Accepted]] = {}
    for report in accepted:
        groups.setdefault(bucket_of(task, batch_id, report.time), []).append(report)
    return {bucket: _tally(task, reports) for bucket, reports in groups.items()}


def _tally(task: Task, reports: list[Accepted]) -> Tally:
    vdaf = task.vdaf
    share = vdaf.agg_init(None)
    for report in reports:
        share = vdaf.agg_update(None, share, report.out_share)
    times = [report.time for report in reports]
    return Tally(
        count=len(reports),
        checksum=checksum_of(report.report_id for report in reports),
        first_time=min(times),
        last_time=max(times),
        agg_share=vdaf.encode_agg_share(share),
    )
