"""Validate, decrypt and check the tokens of many report shares, stage by stage instead of report by report.

The stages: time and configuration of each, all ciphertexts, each plaintext, all tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

from tacit.dap_errors import ReportError, ReportRejected
from tacit.errors import CryptoError, DecodeError
from tacit.fast_paths import PLAINTEXTS
from tacit.hpke import Suite
from tacit.messages import PlaintextInputShare
from tacit.messages.slices import ReportSlices, only_extension
from tacit.roles.aggregator import Party, Rejection, check_report_time
from tacit.roles.crypto import JobCrypto

Opened = tuple[bytes, bytes]
"""The VDAF's bytes, and the nullifier of the token."""


def open_reports(
    party: Party, reports: Sequence[ReportSlices], now: float, leeway: float, crypto: JobCrypto
) -> list[Opened | Rejection]:
    """Each report's opened share, or why it does not count. ``leeway``: seconds that a report may be ahead of our
    clock."""
    refused: dict[int, ReportRejected] = {}
    due = _on_time(party, reports, now, leeway, refused)
    plaintexts = _plaintexts(party, reports, due, crypto, refused)
    parts = _parts(party, reports, plaintexts, refused)
    nullifiers = party.nullifiers(
        [reports[at].report_id for at in parts], [evidence for evidence, _ in parts.values()], crypto
    )
    opened: dict[int, Opened] = {}
    for (at, (_, payload)), nullifier in zip(parts.items(), nullifiers, strict=True):
        if isinstance(nullifier, bytes):
            opened[at] = (payload, nullifier)
        else:
            refused[at] = nullifier
    return [opened[at] if at in opened else _rejection(report, refused[at]) for at, report in enumerate(reports)]


def _rejection(report: ReportSlices, rejected: ReportRejected) -> Rejection:
    # no nullifier: the token was not good, or not looked at yet, so it stays unspent and the report gets no row (P31)
    final = rejected.code is not ReportError.REPORT_TOO_EARLY
    return Rejection(report.report_id, rejected.code, rejected.cause, final=final)


def _on_time(
    party: Party, reports: Sequence[ReportSlices], now: float, leeway: float, refused: dict[int, ReportRejected]
) -> list[int]:
    """Positions of the reports whose time and HPKE configuration are right; why the others are not, in ``refused``."""
    task = party.task
    start, end, precision, horizon = task.interval.start, task.interval.end, task.time_precision, now + leeway
    config_id = task.hpke_config(party.role).id
    due: list[int] = []
    for at, report in enumerate(reports):
        time = report.time
        # the usual report costs a few comparisons; what is wrong with another one the functions for one report find
        if not (start <= time < end and time * precision <= horizon):
            refused[at] = _why_not_now(party, time, now, leeway)
        elif report.config_id != config_id:
            refused[at] = ReportRejected(task.version.aggregation_unknown_config, "hpke-config")
        else:
            due.append(at)
    return due


def _why_not_now(party: Party, time: int, now: float, leeway: float) -> ReportRejected:
    # first with our own leeway: the Leader's is 0, and `check_report_time` has that for a Client's clock
    if party.task.too_early(time, now, leeway):
        return ReportRejected(ReportError.REPORT_TOO_EARLY, "too-early")
    try:
        check_report_time(party.task, time, now)
    except ReportRejected as rejected:
        return rejected
    raise ValueError("the time is one that the task takes")


def _plaintexts(
    party: Party,
    reports: Sequence[ReportSlices],
    due: list[int],
    crypto: JobCrypto,
    refused: dict[int, ReportRejected],
) -> dict[int, bytes]:
    task = party.task
    config = task.hpke_config(party.role)
    prefix = task.aad_prefix
    opened = crypto.open_all(
        party.key_pair,
        Suite(config.kem_id, config.kdf_id, config.aead_id),
        task.version.input_share_info(party.role),
        [(reports[at].enc, prefix + reports[at].head, reports[at].payload) for at in due],
    )
    plaintexts: dict[int, bytes] = {}
    for at, plaintext in zip(due, opened, strict=True):
        if isinstance(plaintext, CryptoError):
            refused[at] = ReportRejected(ReportError.HPKE_DECRYPT_ERROR, "hpke-decrypt")
        else:
            plaintexts[at] = plaintext
    return plaintexts


def _parts(
    party: Party, reports: Sequence[ReportSlices], plaintexts: dict[int, bytes], refused: dict[int, ReportRejected]
) -> dict[int, tuple[bytes, bytes]]:
    """Evidence (the token's extension) and VDAF share of every plaintext."""
    parts: dict[int, tuple[bytes, bytes]] = {}
    usual = party.EXTENSION_TYPE
    PLAINTEXTS.items += len(plaintexts)
    for at, plaintext in plaintexts.items():
        part = None if usual is None else only_extension(plaintext, usual)
        if part is not None and not reports[at].public_extensions:
            parts[at] = part
            continue
        PLAINTEXTS.fallbacks += 1
        try:
            share = PlaintextInputShare.decode(plaintext)
            parts[at] = (party.evidence(reports[at].public_extensions, share.private_extensions), share.payload)
        except DecodeError:
            refused[at] = ReportRejected(ReportError.INVALID_MESSAGE, "share-malformed")
        except ReportRejected as rejected:
            refused[at] = rejected
    return parts
