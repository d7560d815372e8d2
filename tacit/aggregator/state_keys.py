"""Key files of servers to which devices encrypt their pan-private state: ElGamal keys in ristretto255, mode 0600.

A recipe names the public key that devices encrypt to, so a server keeps every key whose recipes still run.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable
from pathlib import Path

from tacit.aggregator.keys import state_key_text
from tacit.codec import b64url, unb64url
from tacit.errors import DecodeError, UsageError
from tacit.panprivate.elgamal import PrivateKey
from tacit.ports import Entropy
from tacit.service.base.secret_files import read_secret, write_secret

_MEMBERS = {"state_key", "private_key"}


def generate_state_key(entropy: Entropy) -> PrivateKey:
    """Generate a new key for the state that devices keep encrypted."""
    return PrivateKey.generate(entropy)


def write_state_key(path: Path, key: PrivateKey) -> None:
    """Write ``{state_key, private_key}`` as JSON, mode 0600; ``state_key`` is the public key that recipes name."""
    members = {"state_key": state_key_text(key), "private_key": b64url(key.scalar)}
    write_secret(path, json.dumps(members, indent=1).encode())


def read_state_key(path: Path) -> PrivateKey:
    """Inverse of ``write_state_key``; raises ``UsageError``."""
    try:
        document = json.loads(read_secret(path))
    except ValueError as error:
        raise UsageError(f"{path}: not a JSON file") from error
    if (
        not isinstance(document, dict)
        or set(document) != _MEMBERS
        or not all(isinstance(one, str) for one in document.values())
    ):
        raise UsageError(f"{path}: must have exactly the members {' and '.join(sorted(_MEMBERS))}, both strings")
    try:
        key = PrivateKey(unb64url(document["private_key"], what="private_key"))
        public = unb64url(document["state_key"], what="state_key")
    except DecodeError as error:
        raise UsageError(f"{path}: {error}") from error
    if not hmac.compare_digest(key.public, public):
        raise UsageError(f"{path}: the private key does not belong to the state key")
    return key


def read_state_keys(paths: Iterable[Path]) -> tuple[PrivateKey, ...]:
    """Read every key; they must differ. Raises ``UsageError``."""
    keys = tuple(read_state_key(path) for path in paths)
    if len({key.public for key in keys}) != len(keys):
        raise UsageError("state_keys: two files hold the same key")
    return keys
