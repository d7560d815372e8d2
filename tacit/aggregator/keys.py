"""The keys that an aggregator holds independently of recipes (P2, P4): HPKE keys, the peer file, its signing key,
bearer tokens.

Each file is readable by its owner only. A recipe names the HPKE key that its reports are sealed to, so an aggregator
keeps every key whose recipes still run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit.codec import b64url, unb64url
from tacit.curve25519 import checked_public_key
from tacit.errors import DecodeError, UsageError
from tacit.hpke import (
    DEFAULT_SUITE,
    PRIVATE_KEY_SIZE,
    KeyPair,
    generate_key_pair,
    key_pair_from_private,
)
from tacit.messages import HpkeConfig
from tacit.ports import Entropy, StateKey
from tacit.service.base.secret_files import read_secret, write_secret
from tacit.service.http.token_files import checked_tokens
from tacit.task import VERIFY_KEY_SEED_SIZE


@dataclass(frozen=True)
class HpkeKey:
    """A DAP HPKE configuration with its private key."""

    config: HpkeConfig
    key_pair: KeyPair = field(repr=False)


@dataclass(frozen=True)
class PeerSecrets:
    """The peer file of P4, shared by Leader and Helper. ``token`` is the Leader's bearer token at the Helper, which
    also accepts ``further`` ones while the token is being replaced."""

    seed_id: str
    verify_key_seed: bytes = field(repr=False)
    token: str = field(repr=False)
    further: tuple[str, ...] = field(default=(), repr=False)

    @property
    def tokens(self) -> tuple[str, ...]:
        """All tokens that the Helper accepts: the one that the Leader sends, then the ``further`` ones."""
        return (self.token, *self.further)


def generate_hpke_key(config_id: int, entropy: Entropy) -> HpkeKey:
    """A fresh key of the mandatory suite under ``config_id`` (0 to 255)."""
    pair = generate_key_pair(entropy)
    suite = DEFAULT_SUITE
    return HpkeKey(HpkeConfig(config_id, suite.kem_id, suite.kdf_id, suite.aead_id, pair.public), pair)


def write_hpke_key(path: Path, key: HpkeKey) -> None:
    """Write ``{config, private_key}`` as JSON, mode 0600."""
    _write(path, {"config": b64url(key.config.encode()), "private_key": b64url(key.key_pair.private)})


def read_hpke_key(path: Path) -> HpkeKey:
    """Inverse of ``write_hpke_key``; raises ``UsageError``."""
    members = _read(path, ("config", "private_key"))
    try:
        config = HpkeConfig.decode(unb64url(members["config"]))
        checked_public_key(config.public_key)
        pair = key_pair_from_private(unb64url(members["private_key"], length=PRIVATE_KEY_SIZE))
    except DecodeError as error:
        raise UsageError(f"{path}: {error}") from error
    if pair.public != config.public_key:
        raise UsageError(f"{path}: the private key does not belong to the configuration")
    return HpkeKey(config, pair)


def read_hpke_keys(paths: Iterable[Path]) -> tuple[HpkeKey, ...]:
    """Read every key, the preferred one first; ids must differ."""
    keys = tuple(read_hpke_key(path) for path in paths)
    if len({key.config.id for key in keys}) != len(keys) or not keys:
        raise UsageError("hpke_keys: at least one key is needed, with distinct ids")
    return keys


def find_key(keys: Sequence[HpkeKey], config: HpkeConfig) -> HpkeKey | None:
    """The private key for a recipe's configuration, compared in full; None where it is not held."""
    return next((key for key in keys if key.config == config), None)


def state_key_text(key: StateKey) -> str:
    """The public key to which devices encrypt their state, as recipes write it."""
    return b64url(key.public)


def find_state_key(keys: Sequence[StateKey], text: str) -> StateKey | None:
    """The private key for the state key that a recipe names; None where it is not held."""
    return next((key for key in keys if state_key_text(key) == text), None)


def generate_peer_secrets(seed_id: str, entropy: Entropy) -> PeerSecrets:
    """A fresh peer file's content."""
    return PeerSecrets(seed_id, entropy(VERIFY_KEY_SEED_SIZE), b64url(entropy(32)))


def write_peer_file(path: Path, secrets: PeerSecrets) -> None:
    """Write ``{seed_id, verify_key_seed, credentials}`` as JSON, mode 0600. ``credentials`` is the token, or a list of
    several."""
    _write(
        path,
        {
            "seed_id": secrets.seed_id,
            "verify_key_seed": b64url(secrets.verify_key_seed),
            "credentials": list(secrets.tokens) if secrets.further else secrets.token,
        },
    )


def read_peer_file(path: Path) -> PeerSecrets:
    """Inverse of ``write_peer_file``; raises ``UsageError``."""
    members = _members(path, ("seed_id", "verify_key_seed", "credentials"))
    credentials = members["credentials"]
    listed = credentials if isinstance(credentials, list) else [credentials]
    _require_texts(path, [members["seed_id"], members["verify_key_seed"], *listed])
    token, *further = checked_tokens(path, listed)
    try:
        seed = unb64url(members["verify_key_seed"], length=VERIFY_KEY_SEED_SIZE, what="verify_key_seed")
    except DecodeError as error:
        raise UsageError(f"{path}: {error}") from error
    return PeerSecrets(members["seed_id"], seed, token, tuple(further))


def read_peer_tokens(path: Path) -> tuple[str, ...]:
    """The Leader's tokens at the Helper, from a complete peer file. Raises ``UsageError``."""
    return read_peer_file(path).tokens


def _write(path: Path, members: dict[str, Any]) -> None:
    write_secret(path, json.dumps(members, indent=1).encode())


def _read(path: Path, members: Sequence[str]) -> dict[str, str]:
    texts = _members(path, members)
    _require_texts(path, texts.values())
    return texts


def _members(path: Path, members: Sequence[str]) -> dict[str, Any]:
    try:
        document: Any = json.loads(read_secret(path))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not a JSON file") from error
    if not isinstance(document, dict) or set(document) != set(members):
        raise UsageError(f"{path}: must have exactly the members {', '.join(members)}")
    return document


def _require_texts(path: Path, values: Iterable[Any]) -> None:
    if not all(isinstance(value, str) and value for value in values):
        raise UsageError(f"{path}: every member must be a non-empty string")
