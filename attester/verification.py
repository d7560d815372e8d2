"""The plug-in interface for attestation formats.

The service owns challenges (single use, with expiry) and quotas; a verifier only judges evidence. Each format
is one class that satisfies ``AttestationVerifier``; the service picks it by ``Evidence.fmt``.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Protocol

from tacit.errors import TacitError
from tacit.tokens.attestation import Evidence

_STABLE_LABEL = b"tacit stable id v1\0"


@dataclass(frozen=True, slots=True)
class AttestedDevice:
    """A device that proved its identity. ``stable_id`` (32 bytes) is the same for the same device and tells nobody
    without the attester's secret which device it is; ``assurance`` names the strength of the proof; ``expires`` is when
    the basis of the proof ends (POSIX seconds); ``counter`` is the format's own use counter, if it has one."""

    stable_id: bytes = field(repr=False)
    assurance: str
    expires: float
    counter: int | None = None


class EvidenceError(TacitError):
    """The evidence is not valid. ``reason`` is a short fixed word for the attester's own counters; the client is told
    no reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class AttestationVerifier(Protocol):
    """Judges evidence of one format. Called by the service once the challenge is known to be unused."""

    @property
    def fmt(self) -> str:
        """The format's name, as clients write it."""
        ...

    def verify(self, evidence: Evidence, binding: bytes, now: float) -> AttestedDevice:
        """The device behind ``evidence``, which must cover ``binding`` (32 bytes) at POSIX time ``now``.

        Raises ``EvidenceError``.
        """
        ...


def stable_id(secret: bytes, fmt: str, raw_id: bytes) -> bytes:
    """HMAC-SHA-256 (32 bytes) of a device's raw id. The raw id goes no further than this call."""
    return hmac.digest(secret, _STABLE_LABEL + fmt.encode() + b"\0" + raw_id, hashlib.sha256)
