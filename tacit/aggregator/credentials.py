"""The secrets of a configured aggregator, read at start; HPKE keys and bearer tokens are read again when their files
change."""

from __future__ import annotations

from dataclasses import dataclass, field

from tacit.aggregator.config import AggregatorConfig
from tacit.aggregator.identity import Identity
from tacit.aggregator.keys import read_peer_file
from tacit.aggregator.live_keys import LiveHpkeKeys
from tacit.aggregator.state_keys import read_state_keys
from tacit.errors import UsageError
from tacit.messages import Role
from tacit.service.callers import tokens_of
from tacit.service.keys import read_signing_key
from tacit.service.live_tokens import Accepted


@dataclass(frozen=True)
class Credentials:
    """Keys, and bearer tokens by role: the collector's and the operator's, where they are configured."""

    identity: Identity
    hpke_keys: LiveHpkeKeys = field(repr=False)
    tokens: dict[str, Accepted | None] = field(repr=False)


def read_credentials(config: AggregatorConfig, role: Role) -> Credentials:
    """Read every secret file that ``config`` names. Raises ``UsageError``, also where the policy does not name the
    parties to which a credential may be sent."""
    config.policy.require_aggregators()
    hpke_keys = LiveHpkeKeys(config.hpke_keys)
    peers = tuple(read_peer_file(path) for path in (config.peer_file, *config.old_peer_files))
    if len({peer.seed_id for peer in peers}) != len(peers):
        raise UsageError("old_peer_files: two peer files have the same seed_id")
    tokens = tokens_of({"collector": config.collector_token, "operator": config.operator_token})
    state_keys = read_state_keys(config.state_keys)
    identity = Identity(role, config.operator, read_signing_key(config.signing_key), hpke_keys, peers, state_keys)
    return Credentials(identity, hpke_keys, tokens)
