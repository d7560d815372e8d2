"""The secrets of a configured aggregator, read once at start."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tacit.aggregator.config import AggregatorConfig
from tacit.aggregator.identity import Identity
from tacit.aggregator.keys import HpkeKey, PeerSecrets, read_hpke_keys, read_peer_file
from tacit.errors import UsageError
from tacit.messages import Role
from tacit.service.auth import token_digest
from tacit.service.config import read_secret
from tacit.service.keys import read_signing_key


@dataclass(frozen=True)
class Credentials:
    """Keys and token digests. ``readers`` may see status: the collector and the operator, where there are such."""

    identity: Identity
    hpke_keys: tuple[HpkeKey, ...] = field(repr=False)
    peer: PeerSecrets = field(repr=False)
    collector: tuple[bytes, ...] = field(repr=False)
    readers: tuple[bytes, ...] = field(repr=False)


def read_credentials(config: AggregatorConfig, role: Role) -> Credentials:
    """Read every secret file that ``config`` names; raises ``UsageError``, also where its policy does not say whom a
    credential may go to."""
    config.policy.require_aggregators()
    hpke_keys = read_hpke_keys(config.hpke_keys)
    peers = tuple(read_peer_file(path) for path in (config.peer_file, *config.old_peer_files))
    if len({peer.seed_id for peer in peers}) != len(peers):
        raise UsageError("old_peer_files: two peer files have one seed_id")
    collector, operator = _digests(config.collector_token), _digests(config.operator_token)
    identity = Identity(role, config.operator, read_signing_key(config.signing_key), hpke_keys, peers)
    return Credentials(identity, hpke_keys, peers[0], collector, collector + operator)


def _digests(path: Path | None) -> tuple[bytes, ...]:
    return () if path is None else (token_digest(read_secret(path)),)
