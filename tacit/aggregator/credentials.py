"""Who an aggregator is, the secrets that it holds independently of recipes, and the keys by which recipes name them.

The secrets of a configured aggregator are read at start; HPKE keys and bearer tokens are read again when their files
change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from tacit.aggregator.config import AggregatorConfig
from tacit.aggregator.keys import HpkeKey, PeerSecrets, read_peer_file, state_key_text
from tacit.aggregator.live_keys import LiveHpkeKeys
from tacit.codec import b64url
from tacit.errors import UsageError
from tacit.extension_points import STATE_KEYS
from tacit.messages import Role
from tacit.ports import StateKey
from tacit.service.base.keys import read_signing_key
from tacit.service.http.callers import tokens_of
from tacit.service.http.live_tokens import Accepted
from tacit.service.operated import HeldKey
from tacit.signing import SigningKey

RoleName = Literal["leader", "helper"]


@dataclass(frozen=True)
class Identity:
    """Who this aggregator is, and the secrets that it holds independently of recipes."""

    role: Role
    operator: str
    signing_key: SigningKey = field(repr=False)
    hpke_keys: Sequence[HpkeKey] = field(repr=False)
    peers: Sequence[PeerSecrets] = field(repr=False)
    state_keys: Sequence[StateKey] = field(default=(), repr=False)

    @property
    def role_name(self) -> RoleName:
        """The role as opt-ins write it."""
        return "leader" if self.role is Role.LEADER else "helper"

    def seed(self, seed_id: str | None) -> bytes | None:
        """The verify key seed with this id; None where this aggregator does not hold it."""
        return next((peer.verify_key_seed for peer in self.peers if peer.seed_id == seed_id), None)


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
    state_keys = STATE_KEYS["read-state-keys"](config.state_keys) if config.state_keys else ()
    identity = Identity(role, config.operator, read_signing_key(config.signing_key), hpke_keys, peers, state_keys)
    return Credentials(identity, hpke_keys, tokens)


def report_keys(hpke_keys: Sequence[HpkeKey]) -> tuple[HeldKey, ...]:
    """The keys to which reports or aggregate shares are sealed. Recipes name them, so each is needed until no recipe
    names it."""
    configs = [one.config for one in hpke_keys]
    return tuple(HeldKey("hpke", f"{one.id}:{b64url(one.public_key)}") for one in configs)


def held_keys(signing: SigningKey, hpke_keys: Sequence[HpkeKey], state_keys: Sequence[StateKey]) -> tuple[HeldKey, ...]:
    """All keys of an aggregator, or of the analyzer: for opt-ins, those of ``report_keys``, and for devices' states."""
    states = (HeldKey("state", state_key_text(one)) for one in state_keys)
    return (HeldKey("opt-ins", b64url(signing.public)), *report_keys(hpke_keys), *states)
