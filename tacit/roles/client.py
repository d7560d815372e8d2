"""The Client's part (DAP-18, upload): one randomised measurement becomes one sealed report.

Pure: report id, time, token and randomness are arguments. A report is made once and its bytes are kept; every retry
sends the same bytes (rule P11).
"""

from __future__ import annotations

from typing import Any

from tacit.extension_points import PAN_PRIVACY
from tacit.hpke import ENC_SIZE, TAG_SIZE
from tacit.messages import (
    REPORT_ID_SIZE,
    Extension,
    HpkeCiphertext,
    PlaintextInputShare,
    Report,
    ReportMetadata,
    Role,
)
from tacit.ports import Entropy
from tacit.task import Task, seal_input_share
from tacit.tokens.binding import EXTENSION_SIZE, TOKEN_EXTENSION_TYPE, Preimages
from tacit.tokens.structures import Token
from tacit.vdaf.native.batch import BatchProver

AGGREGATORS = (Role.LEADER, Role.HELPER)
"""The aggregators' roles, in the order of their VDAF ids."""

Sharing = tuple[bytes, dict[Role, bytes]]
"""Encoded public share, and per aggregator the payload of its plaintext: the encoded input share."""


def make_report(
    task: Task,
    measurement: Any,
    token: bytes,
    preimages: Preimages,
    report_id: bytes,
    time: int,
    entropy: Entropy,
) -> Report:
    """Make the whole report: shard, bind the token into both private extensions, seal.

    ``measurement`` is the input of the task's VDAF, already randomised; ``token`` (354 bytes) carries the nonce of
    ``preimages``; ``report_id`` is 16 fresh random bytes; ``time`` in units of the task's precision. Raises
    ``ValueError`` for a measurement that the VDAF does not allow or a token with another nonce or form.
    """
    sharing = shard(task, measurement, report_id, entropy)
    return bound_report(task, sharing, token, preimages, ReportMetadata(report_id, time), entropy)


def bound_report(
    task: Task,
    sharing: Sharing,
    token: bytes,
    preimages: Preimages,
    metadata: ReportMetadata,
    entropy: Entropy,
) -> Report:
    """Make the report of an existing sharing: bind the token into both private extensions, seal. ``ValueError`` for a
    token with another nonce or form."""
    public_share, payloads = sharing
    shares = {
        role: PlaintextInputShare((token_extension(token, preimages, role),), payload)
        for role, payload in payloads.items()
    }
    return seal_report(task, metadata, public_share, shares, entropy)


def shard(task: Task, measurement: Any, report_id: bytes, entropy: Entropy) -> Sharing:
    """Encoded public share and encoded input share per aggregator: by the kernels where they are built, with the same
    bytes. Raises ``ValueError`` for a measurement that the VDAF does not allow."""
    # the report id is the VDAF's nonce (DAP-18, upload): the sharing is of no use under another id
    prover = BatchProver(task.vdaf, task.ctx, alone=True)
    ((public_share, *shares),) = prover.shard([measurement], [report_id], [entropy(task.vdaf.RAND_SIZE)])
    return public_share, dict(zip(AGGREGATORS, shares, strict=True))


def report_size(task: Task) -> int:
    """Bytes of every encoded report of the task that ``make_report`` makes."""
    # the time, and the lengths of the public extensions, of which there are none, and of the public share
    envelope = REPORT_ID_SIZE + 8 + 2 + 4 + task.vdaf.public_share_size
    return envelope + sum(_sealed_share_size(task, role) for role in AGGREGATORS)


def _sealed_share_size(task: Task, role: Role) -> int:
    """Bytes of the ciphertext for one aggregator, of which the configuration's id, the encapsulated key, the lengths,
    the token's extension and the tag are the same in all tasks."""
    agg_id, cells = AGGREGATORS.index(role), task.vdaf.flp.OUTPUT_LEN
    if task.state_key(role) is None:
        share = task.vdaf.input_share_size(agg_id)
    else:
        share = PAN_PRIVACY["sealed-share-size"](agg_id, cells)
    return 1 + 2 + ENC_SIZE + 4 + (2 + 2 + 2 + EXTENSION_SIZE) + 4 + share + TAG_SIZE


def token_extension(token: bytes, preimages: Preimages, role: Role) -> Extension:
    """The private extension that shows the token, bound to this report, to aggregator ``role`` (rule P10)."""
    if Token.decode(token).nonce != preimages.nonce:
        raise ValueError("the token was not issued for these preimages")
    return Extension(TOKEN_EXTENSION_TYPE, preimages.extension(token, role))


def seal_report(
    task: Task,
    metadata: ReportMetadata,
    public_share: bytes,
    shares: dict[Role, PlaintextInputShare],
    entropy: Entropy,
) -> Report:
    """Seal each aggregator's share to that aggregator's key, bound to task, metadata and public share."""
    sealed: dict[Role, HpkeCiphertext] = {
        role: seal_input_share(task, role, metadata, public_share, shares[role], entropy) for role in AGGREGATORS
    }
    return Report(metadata, public_share, sealed[Role.LEADER], sealed[Role.HELPER])
