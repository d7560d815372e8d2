"""The gateway's keys: OHTTP keys (one active, one previous) and the Ed25519 key that signs its leaves.

A key is active for one lifetime and accepted as the previous one for another, so that a client that holds the
last published configuration is never locked out by a rotation. Both files are made on the first start, mode 0600.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationError

from tacit import ohttp
from tacit.codec import b64url, unb64url
from tacit.errors import UsageError
from tacit.hpke import KeyPair, key_pair_from_private
from tacit.ohttp import KeyConfig
from tacit.ports import Entropy
from tacit.service.config import Frozen, read_secret, write_secret
from tacit.signing import KEY_SIZE


def _check_private(text: str) -> str:
    unb64url(text, length=KEY_SIZE)
    return text


class _StoredKey(Frozen):
    key_id: int = Field(ge=0, le=255)
    private: Annotated[str, AfterValidator(_check_private)] = Field(repr=False)
    not_before: int = Field(ge=0)
    not_after: int = Field(ge=0)


class _StoredRing(Frozen):
    version: int = Field(default=1, ge=1, le=1)
    keys: tuple[_StoredKey, ...] = Field(min_length=1, max_length=2)


@dataclass(frozen=True, slots=True)
class GatewayKey:
    """One OHTTP key and when it is accepted (POSIX seconds)."""

    config: KeyConfig
    pair: KeyPair
    not_before: int
    not_after: int


class KeyRing:
    """The OHTTP keys in one file, the active one first."""

    def __init__(self, path: Path, lifetime: int, keys: Sequence[GatewayKey]) -> None:
        self._path = path
        self._lifetime = lifetime
        self.keys = tuple(keys)

    @classmethod
    def open(cls, path: Path, lifetime: int, entropy: Entropy, now: float) -> KeyRing:
        """Load the file, or make it with a first key. Raises ``UsageError`` for a file that is not ours."""
        ring = cls(path, lifetime, _load(path) if path.exists() else ())
        ring.rotate_if_due(entropy, now)
        return ring

    @property
    def active(self) -> GatewayKey:
        """The key that clients should use."""
        return self.keys[0]

    def configs(self) -> list[KeyConfig]:
        """Configurations to offer, the active one first."""
        return [key.config for key in self.keys]

    def gateway(self) -> ohttp.Gateway:
        """The opener for these keys."""
        return ohttp.Gateway([(key.config, key.pair) for key in self.keys])

    def rotate(self, entropy: Entropy, now: float) -> None:
        """Make a new active key; the active one becomes the previous one, and that one is gone for good."""
        key_id = (self.active.config.key_id + 1) % 256 if self.keys else entropy(1)[0]
        config, pair = ohttp.generate_key_config(key_id, entropy)
        start = int(now)
        fresh = GatewayKey(config, pair, start, start + 2 * self._lifetime)
        self._save((fresh, *(key for key in self.keys[:1] if key.not_after > now)))

    def rotate_if_due(self, entropy: Entropy, now: float) -> bool:
        """Rotate an active key past its lifetime, drop a previous key past its end; whether anything changed."""
        if not self.keys or now >= self.active.not_before + self._lifetime:
            self.rotate(entropy, now)
            return True
        live = (self.active, *(key for key in self.keys[1:] if key.not_after > now))
        if live == self.keys:
            return False
        self._save(live)
        return True

    def _save(self, keys: tuple[GatewayKey, ...]) -> None:
        stored = [
            {
                "key_id": key.config.key_id,
                "private": b64url(key.pair.private),
                "not_before": key.not_before,
                "not_after": key.not_after,
            }
            for key in keys
        ]
        write_secret(self._path, json.dumps({"version": 1, "keys": stored}, indent=1).encode())
        self.keys = keys


def _load(path: Path) -> list[GatewayKey]:
    try:
        ring = _StoredRing.model_validate_json(read_secret(path))
    except ValidationError as error:
        raise UsageError(f"{path}: not a file of gateway keys") from error
    found: list[GatewayKey] = []
    if len({stored.key_id for stored in ring.keys}) != len(ring.keys):
        raise UsageError(f"{path}: two keys have the same identifier")
    for stored in ring.keys:
        pair = key_pair_from_private(unb64url(stored.private))
        config, _ = ohttp.key_config_for(stored.key_id, pair)
        found.append(GatewayKey(config, pair, stored.not_before, stored.not_after))
    return found
