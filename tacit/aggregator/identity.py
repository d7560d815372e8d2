"""Who an aggregator is, and the secrets that it holds independently of recipes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from tacit.aggregator.keys import HpkeKey, PeerSecrets
from tacit.messages import Role
from tacit.panprivate.elgamal import PrivateKey
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
    state_keys: Sequence[PrivateKey] = field(default=(), repr=False)

    @property
    def role_name(self) -> RoleName:
        """The role as opt-ins write it."""
        return "leader" if self.role is Role.LEADER else "helper"

    def seed(self, seed_id: str | None) -> bytes | None:
        """The verify key seed with this id; None where this aggregator does not hold it."""
        return next((peer.verify_key_seed for peer in self.peers if peer.seed_id == seed_id), None)
