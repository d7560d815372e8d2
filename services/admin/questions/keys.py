"""The keys that the organisation's questions depend on, and when they end: the analyst's signing key that the parties
name, the key sets of gateways and issuers in the log, and this service's certificates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from services.admin.base.config import AdminConfig
from tacit.codec import b64url
from tacit.logview.live import LiveLog
from tacit.models.parties import Parties
from tacit.service.documents.admin_log import AnalystKeyDocument, CertificateDocument, KeysDocument, KeySetDocument
from tacit.service.metrics_listener import certificate_end

MOST_OVER = 20
"""How many key sets that are over are shown, of gateways and of issuers each."""


def keys_of(
    live: LiveLog, config: AdminConfig, parties: Mapping[str, Parties], held: bytes | None, now: int
) -> KeysDocument:
    """List all keys at ``now`` (POSIX seconds). ``parties``: by model; ``held``: the public half of the key with which
    this service signs, or None."""
    public = None if held is None else b64url(held)
    return KeysDocument(
        at=now,
        analyst=[
            AnalystKeyDocument(
                model=model,
                operator=found.analyst.operator,
                signing_key=found.analyst.signing_key,
                held=found.analyst.signing_key == public,
            )
            for model, found in sorted(parties.items())
        ],
        gateway=_sets((_set(one.gateway, one.period, 1, one.start, one.end, now) for one in live.ohttp_configs), now),
        issuer=_sets(
            (_set(one.issuer, one.epoch, len(one.keys), one.start, one.end, now) for one in live.directories), now
        ),
        certificates=[
            CertificateDocument(use=use, end=_end_of(path))
            for use, path in (("listen", config.listen.tls_cert), ("client", config.client_cert))
            if path is not None
        ],
    )


def _set(owner: str, number: int, keys: int, start: int, end: int, now: int) -> KeySetDocument:
    state = "over" if end <= now else "current" if start <= now else "next"
    return KeySetDocument(owner=owner, number=number, keys=keys, start=start, end=end, state=state)


def _sets(found: Iterable[KeySetDocument], now: int) -> list[KeySetDocument]:
    ordered = sorted(found, key=lambda one: (-one.start, one.owner))
    over = [one for one in ordered if one.end <= now]
    return [one for one in ordered if one.end > now] + over[:MOST_OVER]


def _end_of(path: Path) -> int | None:
    try:
        return int(certificate_end(path))
    except (OSError, ValueError):
        return None
